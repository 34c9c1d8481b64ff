"""A log file that was renamed is opened anew: on a signal, or when the next line comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

TOLD = """
import os, signal
from gsched.base.machine.log_file import REOPEN, reopen_when_told
reopen_when_told()
print("before", flush=True)
os.rename("log", "log.1")
if {create}:
    open("log", "w").close()
os.kill(os.getpid(), REOPEN)
print("after", flush=True)
"""
FOLLOWING = """
import logging, os
from gsched.base.machine.log_file import FollowingHandler
logging.basicConfig(format="%(message)s", handlers=[FollowingHandler()])
logging.error("before")
os.rename("log", "log.1")
logging.error("after")
"""


def run(folder: Path, code: str, mode: int = 0o640) -> subprocess.CompletedProcess[bytes]:
    log = folder / "log"
    log.touch()
    log.chmod(mode)
    with log.open("ab") as file:
        return subprocess.run(
            [sys.executable, "-c", code], stdout=file, stderr=file, cwd=folder, check=True, timeout=120
        )


@pytest.mark.parametrize("create", [True, False])
def test_a_signal_has_the_file_opened_anew(tmp_path: Path, create: bool) -> None:
    old = os.umask(0o077)
    try:
        run(tmp_path, TOLD.format(create=create))
    finally:
        os.umask(old)
    assert (tmp_path / "log.1").read_text() == "before\n"
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.endswith("the log file has been opened anew") and second == "after"
    if not create:
        assert (tmp_path / "log").stat().st_mode & 0o777 == 0o640, "as the old one, whatever the umask"


def test_a_file_that_cannot_be_opened_is_said_in_the_old_one(tmp_path: Path) -> None:
    run(tmp_path, TOLD.format(create=False).replace("os.kill", "os.mkdir('log'); os.kill"))
    lines = (tmp_path / "log.1").read_text().splitlines()
    assert "cannot be opened anew: Is a directory" in lines[1]
    assert lines[2] == "after"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("precious")
    run(tmp_path, TOLD.format(create=False).replace("os.kill", "os.symlink('other', 'log'); os.kill"))
    assert (tmp_path / "other").read_text() == "precious"


def test_a_stream_that_is_no_file_is_left_alone() -> None:
    code = (
        "import os; from gsched.base.machine.log_file import REOPEN, reopen_when_told; reopen_when_told(); "
        "os.kill(os.getpid(), REOPEN); print('on')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == ("on\n", "")


def test_what_a_daemon_starts_does_not_inherit_it(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; from gsched.base.machine.log_file import reopen_when_told; reopen_when_told(); "
        "sys.exit(subprocess.run([sys.executable, '-c', 'import os; os.kill(os.getpid(), 10)']).returncode + 10)"
    )
    assert signal.SIGUSR1 == 10
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_process_without_the_signal_follows_the_name(tmp_path: Path) -> None:
    run(tmp_path, FOLLOWING)
    assert (tmp_path / "log.1").read_text() == "before\n"
    assert (tmp_path / "log").read_text() == "after\n"
