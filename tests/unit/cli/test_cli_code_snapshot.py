"""`gsub --snapshot`: what is looked at, and what does not come to an end or says nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fake_master import FakeCall

from gsched.base.errors import BadRequest
from gsched.cli.submit import code_snapshot
from gsched.cli.submit.code_snapshot import take_snapshot

HANGS = "#!/bin/sh\nsleep 1000 &\nwait\n"
"""As wrappers do it: what it has started holds what is read from it."""


def call_in(folder: Path, path: str) -> FakeCall:
    found = FakeCall(["gsub"], folder, PATH=path)
    found.cwd = str(folder)
    return found


def program(folder: Path, name: str, text: str) -> str:
    """A folder for PATH with it."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return str(folder)


def test_a_program_that_hangs_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_snapshot, "LONGEST_S", 0.2)
    call = call_in(tmp_path, program(tmp_path / "bin", "python3", HANGS) + ":/bin:/usr/bin")
    with pytest.raises(BadRequest, match=r"--snapshot: .*python3 has not ended after 0\.2 s"):
        take_snapshot(call, 0.0)


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", "python3", HANGS.replace("wait", f"echo > '{tmp_path}/begun'; wait"))
    call = call_in(tmp_path, path + ":/bin:/usr/bin")
    ended: list[BaseException] = []

    def take() -> None:
        try:
            take_snapshot(call, 0.0)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    while not (tmp_path / "begun").exists():
        assert thread.is_alive()
    call.cancel()
    thread.join(60)
    assert ended and not thread.is_alive()


def test_modules_of_the_directory_are_not_run(tmp_path: Path) -> None:
    for name in ("csv", "email", "importlib", "sys"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    found = take_snapshot(call_in(tmp_path, str(Path(sys.executable).parent)), 0.0)
    assert not (tmp_path / "ran").exists() and " packages" in found.line and b"== packages of " in found.content


def test_what_git_cannot_tell_is_not_called_unchanged(tmp_path: Path) -> None:
    git = shutil.which("git") or pytest.skip("there is no git")

    def run(*words: str) -> None:
        subprocess.run([git, "-C", str(tmp_path), *words], check=True, capture_output=True)

    run("init", "--quiet")
    (tmp_path / "file").touch()
    run("add", "file")
    run("-c", "user.name=ann", "-c", "user.email=ann@host", "commit", "--quiet", "-m", "first")
    call = call_in(tmp_path, str(Path(git).parent))
    assert ", nothing changed" in take_snapshot(call, 0.0).line
    (tmp_path / ".git" / "index").write_bytes(b"no index")
    found = take_snapshot(call, 0.0)
    assert ", changes unknown" in found.line and b"[git status fails here]" in found.content


def test_no_more_is_read_than_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_snapshot, "MOST_BYTES", 1 << 16)
    path = program(tmp_path / "bin", "python3", "#!/bin/sh\nwhile :; do echo garbage; done\n")
    found = take_snapshot(call_in(tmp_path, path), 0.0)
    assert found.content.endswith(b" bytes are too many to keep]\n") and len(found.content) < 1 << 17


def test_what_a_user_has_told_git_changes_nothing(tmp_path: Path) -> None:
    git = shutil.which("git") or pytest.skip("there is no git")

    def run(*words: str) -> None:
        subprocess.run([git, "-C", str(tmp_path), *words], check=True, capture_output=True)

    run("init", "--quiet")
    (tmp_path / "file").write_text("one\n")
    (tmp_path / "below").mkdir()
    run("add", "file")
    run("-c", "user.name=ann", "-c", "user.email=ann@host", "commit", "--quiet", "-m", "first")
    for name, value in (("diff.relative", "true"), ("status.branch", "true"), ("color.ui", "always")):
        run("config", name, value)
    call = call_in(tmp_path / "below", str(Path(git).parent))
    assert ", nothing changed" in take_snapshot(call, 0.0).line
    (tmp_path / "file").write_text("two\n")
    found = take_snapshot(call, 0.0)
    assert ", 1 file changed" in found.line and b"\n-one\n+two\n" in found.content and b"\x1b" not in found.content


def test_a_file_called_head_is_no_commit(tmp_path: Path) -> None:
    git = shutil.which("git") or pytest.skip("there is no git")
    subprocess.run([git, "-C", str(tmp_path), "init", "--quiet"], check=True)
    (tmp_path / "HEAD").touch()
    with pytest.raises(BadRequest, match="in no git repository with a commit"):
        take_snapshot(call_in(tmp_path, program(tmp_path / "bin", "git", f'#!/bin/sh\nexec {git} "$@"\n')), 0.0)
