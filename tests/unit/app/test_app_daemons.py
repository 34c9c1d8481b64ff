"""Why a daemon cannot start is told to who has started it, not looked for in a log that holds older lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gsched.app.clusters import daemons
from gsched.base.errors import Conflict, Unavailable

PATIENCE_S = 120.0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Conflict("the store is lost"), "the store is lost"),
        (OSError(28, "No space left on device", "/x/y"), "/x/y: No space left on device"),
        (ValueError("odd"), "ValueError: odd"),
    ],
)
def test_an_error_is_told_in_its_own_words(error: Exception, told: str) -> None:
    with daemons.hearing_failure() as failure:
        assert failure.text() == ""
        environment = {daemons.FAILURE_VARIABLE: str(os.dup(failure.write))}
        with pytest.raises(type(error)), daemons.telling_failure(environment):
            raise error
        assert environment == {}  # what the daemon starts does not tell there
        assert failure.text() == told


def test_where_nobody_listens_nothing_is_told() -> None:
    with pytest.raises(Conflict), daemons.telling_failure({}):
        raise Conflict("the store is lost")
    with daemons.telling_failure({}):
        pass


def ended(code: str, failure: daemons.Failure) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], pass_fds=(failure.write,))
    process.wait(PATIENCE_S)
    return process


def test_a_daemon_that_ends_is_reported_by_its_reason_or_by_its_log(tmp_path: Path) -> None:
    log = tmp_path / "master.log"
    log.write_text("an old line\nTraceback (most recent call last):\n")
    with daemons.hearing_failure() as failure:
        process = ended(f"import os, sys; os.write({failure.write}, b'the disk is full'); sys.exit(3)", failure)
        with pytest.raises(Unavailable, match=r"^the master cannot start: the disk is full$"):
            daemons.wait_until(lambda: False, process, "master", log, PATIENCE_S, failure)
    with daemons.hearing_failure() as failure:  # it was killed: nothing but what it has logged since is left
        since = log.stat().st_size
        with log.open("a") as file:
            file.write("a new line\n")
        process = ended("import sys; sys.exit(9)", failure)
        with pytest.raises(Unavailable, match=r"^the master ended with exit code 9: a new line$"):
            daemons.wait_until(lambda: False, process, "master", log, PATIENCE_S, failure, since)


def test_a_lock_is_taken_in_place(tmp_path: Path) -> None:
    lock = daemons.lock_path(str(tmp_path), "master")
    lock.write_text("123456789012\n")
    with daemons.holding_lock(str(tmp_path), "master"):
        assert lock.read_text() == f"{os.getpid()}\n"


def test_one_that_is_stopped_is_gone_when_that_is_said(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "from gsched.app.clusters import daemons\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
        "with daemons.holding_lock(sys.argv[1], 'master'):\n"
        "    try:\n"
        "        print(flush=True)\n"
        "        time.sleep(1000)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "time.sleep(0.3)\n"  # as a daemon that still has to close its files
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert daemons.stop(str(tmp_path), "master")
    assert process.poll() == 0
    assert not daemons.stop(str(tmp_path), "master")
