"""The end of a job's output, as its host looks at it: the job's own file or none, and no more than was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from gsched.run import attempt_files
from gsched.run.account import look_up
from gsched.run.order import Order
from gsched.run.spool import REPORTED, Spool, Started, SupervisorClaim

NAME = "7.1"


def spool_with(folder: Path, stdout: Path, *, first: int = 0) -> Spool:
    spool = Spool(folder / "spool")
    assert spool.write_order(Order(job_id=7, attempt=1, command="true"))
    about = stdout.stat()
    started = Started(
        pid=1,
        start=1,
        started_at=1.0,
        supervisor=SupervisorClaim(pid=1, start=1, boot_id="b"),
        exec_home="/",
        exec_cwd="/",
        stdout=str(stdout),
        stdout_from=first,
        stdout_inode=(about.st_dev, about.st_ino),
        stderr=str(stdout),
        stderr_from=first,
        stderr_inode=(about.st_dev, about.st_ino),
    )
    (spool.folder(NAME) / attempt_files.STARTED).write_bytes(msgspec.json.encode(started))
    return spool


def test_only_the_end_is_read_and_nothing_of_before_or_of_the_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"an earlier job\n0123456789report")
    spool = spool_with(tmp_path, out, first=15)
    assert spool.read_tail(NAME, "stdout", 6) == b"report"
    assert spool.read_tail(NAME, "stdout", 1000) == b"0123456789report"
    (spool.folder(NAME) / REPORTED).write_text("25")
    assert spool.read_tail(NAME, "stdout", 4) == b"6789"
    assert spool.read_tail(NAME, "stderr", 4) == b"", "it is in the same file"
    out.write_bytes(b"short")
    assert spool.read_tail(NAME, "stdout", 4) == b""
    out.unlink()
    assert spool.read_tail(NAME, "stdout", 4) == b""


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    spool = spool_with(tmp_path, pipe)
    assert spool.read_tail(NAME, "stdout", 100) == b""


def test_a_link_in_the_attempts_folder_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    spool = Spool(tmp_path / "spool")
    own = spool.folder(NAME) / attempt_files.STDOUT
    (tmp_path / "empty").write_text("")
    spool = spool_with(tmp_path, tmp_path / "empty")
    started = spool.started(NAME)
    assert started is not None
    own.symlink_to(secret)
    started = msgspec.structs.replace(started, stdout=str(own))
    (spool.folder(NAME) / attempt_files.STARTED).write_bytes(msgspec.json.encode(started))
    assert spool.read_tail(NAME, "stdout", 100) == b""


@pytest.mark.needs_root
def test_of_another_users_job_it_is_the_file_that_was_opened_and_with_that_users_rights(tmp_path: Path) -> None:
    nobody = look_up("nobody")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    out, secret = tmp_path / "out", tmp_path / "secret"
    out.write_text("its output")
    out.chmod(0o644)
    secret.write_text("root's")
    secret.chmod(0o600)
    spool = spool_with(tmp_path, out)
    assert spool.read_tail(NAME, "stdout", 100, nobody) == b"its output"
    out.rename(tmp_path / "moved")
    out.symlink_to(secret)
    assert spool.read_tail(NAME, "stdout", 100, nobody) == b""
    out.unlink()
    os.link(secret, out)
    assert spool.read_tail(NAME, "stdout", 100, nobody) == b""


def test_a_line_is_put_to_the_end_of_what_a_job_prints(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"epoch 3 of")
    spool = spool_with(tmp_path, out)
    spool.say(NAME, "gsched: two\nlines")
    spool.say(NAME, "gsched: more")
    assert out.read_bytes() == b"epoch 3 of\ngsched: two lines\ngsched: more\n"
    spool.say("8.1", "nobody is there")


def test_a_line_goes_to_no_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    spool = spool_with(tmp_path, pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        spool.say(NAME, "gsched: idle")
        with pytest.raises(BlockingIOError):
            keeper = os.open(pipe, os.O_WRONLY)
            try:
                os.read(reader, 100)
            finally:
                os.close(keeper)
    finally:
        os.close(reader)
