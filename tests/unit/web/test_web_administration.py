"""Parts of the administration by themselves: files, their marks, lines of the audit log; and who is let in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from fake_master import FakeMaster
from served_pages import Pages

from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied
from gsched.web.administration.audit_page import AuditLine, read_line
from gsched.web.administration.configuration_files import (
    MOST_BYTES,
    names_in,
    read_configuration,
    replace_configuration,
    written_text,
)

PATHS = ("", "/files", "/files/lsf.conf", "/log")


@pytest.mark.parametrize("path", PATHS)
def test_nobody_else_sees_it(pages: Pages, master: FakeMaster, path: str) -> None:
    answer = pages.get(f"/administration{path}")
    assert answer.status == 403 and "for administrators of the cluster" in answer.text
    assert "/administration" not in pages.get("/").text


@pytest.mark.parametrize("path", ["hosts", "queues", "apply", "files/lsf.conf"])
def test_nobody_else_does_it(pages: Pages, master: FakeMaster, path: str) -> None:
    fields = {"csrf": pages.csrf, "action": "close", "host": "h1", "queue": "normal", "text": "x", "mark": "y"}
    assert pages.post(f"/administration/{path}", fields).status == 403
    assert master.controls == []


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "lsf.conf").write_text("A=1\n")
    (tmp_path / "lsf.conf").chmod(0o640)
    (tmp_path / "lsb.params").write_bytes(b"\xff\n")
    (tmp_path / "secret").write_text("hush")
    (tmp_path / "lsb.hosts").symlink_to("/dev/zero")
    (tmp_path / "lsb.users").mkdir()
    return tmp_path


def test_only_files_of_the_configuration_are_there(conf: Path) -> None:
    assert names_in(str(conf)) == ["lsb.hosts", "lsb.params", "lsb.users", "lsf.conf"]
    for name in ("secret", "../lsf.conf", "", ".", "lsf.conf/"):
        with pytest.raises(NotFound):
            read_configuration(str(conf), name)
    with pytest.raises(BadRequest, match="not in UTF-8"):
        read_configuration(str(conf), "lsb.params")
    for name in ("lsb.hosts", "lsb.users"):
        with pytest.raises(BadRequest, match="not a regular file"):
            read_configuration(str(conf), name)
    with pytest.raises(PermissionDenied):
        names_in(str(conf / "nowhere"))


def test_a_file_is_replaced_whole_with_its_mode(conf: Path) -> None:
    found = read_configuration(str(conf), "lsf.conf")
    assert found.may_write and found.text == "A=1\n"
    assert replace_configuration(str(conf), "lsf.conf", b"A=2\n", found.mark) == b"A=1\n"
    status = (conf / "lsf.conf").stat()
    assert (conf / "lsf.conf").read_bytes() == b"A=2\n" and stat.S_IMODE(status.st_mode) == 0o640
    with pytest.raises(Conflict, match="changed meanwhile"):
        replace_configuration(str(conf), "lsf.conf", b"A=3\n", found.mark)
    assert sorted(os.listdir(conf)) == ["lsb.hosts", "lsb.params", "lsb.users", "lsf.conf", "secret"]


def test_what_a_form_sends_is_a_text() -> None:
    assert written_text("a\r\nb") == b"a\nb\n"
    for text in ("\0", "x" * (MOST_BYTES + 1)):
        with pytest.raises(BadRequest):
            written_text(text)


def test_a_line_of_the_log_becomes_fields() -> None:
    line = (
        "2026-11-21T18:50:00.123Z user=ann host=gpu1 way=door action=kill on=17-19 outcome=partly "
        'why="User permission denied: \\"<b>\\" user=root"'
    )
    assert read_line(line) == AuditLine(
        at="2026-11-21T18:50:00.123Z",
        user="ann",
        host="gpu1",
        way="door",
        action="kill",
        outcome="partly",
        why='User permission denied: "<b>" user=root',
        rest="on=17-19",
    )
    assert read_line("# 3 lines are lost") == AuditLine(at="", rest="# 3 lines are lost")
