"""Ctrl-C and other signals, at any moment of a command, through the door and without."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from app_installation import BOTH, KINDS, PATIENCE_S, Installation, finish, write_launcher

pytestmark = pytest.mark.slow


@BOTH
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["int", "term", "hup"]
)
def test_signals_cancel_the_command(
    house: Installation, tmp_path: Path, door: bool, number: signal.Signals, code: int
) -> None:
    # Whoever runs the tests by nohup has SIGHUP ignored, and what is started inherits that.
    heard = {"preexec_fn": lambda: signal.signal(number, signal.SIG_DFL)}
    process = house.start("hold", str(tmp_path / "end"), door=door, **heard)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert finish(process) == (b"", b"", code)
    deadline = time.monotonic() + PATIENCE_S
    end = tmp_path / "end"
    while not (end.exists() and end.read_text() == "Cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.002)


@BOTH
def test_a_second_ctrl_c_ends_a_command_that_does_not_listen(house: Installation, door: bool) -> None:
    process = house.start("deaf", door=door)
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"cancelled\n"
    process.send_signal(signal.SIGINT)
    assert finish(process)[1:] == (b"", 130)


def test_ctrl_c_ends_a_command_that_reads_the_keyboard(house: Installation) -> None:
    process = house.start("slurp")
    assert process.stdin is not None
    process.stdin.write(b"some")
    process.stdin.flush()
    # The launcher has taken the bytes when the pipe is empty: then it waits in read.
    deadline = time.monotonic() + PATIENCE_S
    while fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130


@BOTH
def test_what_nohup_ignores_stays_ignored(house: Installation, door: bool) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = house.start("hold", door=door, preexec_fn=ignore)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (b"", b"", 130)


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_while_the_script_begins_leaves_no_traceback(folder: Path, kind: str) -> None:
    """The package's very first line finds that Ctrl-C was pressed."""
    package = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "gsched" / "app"
    package.mkdir(parents=True)
    (package / "launch.py").write_text(
        f"import posix\nposix.kill(posix.getpid(), {signal.SIGINT})\ndef start(*_): pass\n"
    )
    for each in (package.parent, package):
        (each / "__init__.py").touch()
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    script = folder / "bin" / "gjobs"
    write_launcher(script, kind)
    nowhere = {"PATH": "/usr/bin:/bin", "GSCHED_ENVDIR": str(folder)}
    done = subprocess.run([script], env=nowhere, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


BEGINS = """
import os, signal, sys
class Press:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from gsched.app.entry import {0}
sys.argv = ["{0}", "--help"]
{0}()
"""


@pytest.mark.parametrize("name", ["gsched", "gadmin", "lsadmin", "lsfstartup"])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_ctrl_c_while_a_command_for_administrators_begins_leaves_no_traceback(name: str, is_ignored: bool) -> None:
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if is_ignored else ""
    done = subprocess.run(
        [sys.executable, "-c", ignore + BEGINS.format(name)], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr == b""
    assert done.returncode == (0 if is_ignored else -signal.SIGINT)


MISSED = """
import os, signal, socket, sys, threading, time
from gsched.app import launch

mine, doors = socket.socketpair()
relay = launch.DoorConnection(mine)
relay._is_started = True
signal.signal(signal.SIGINT, relay.on_signal)
main = threading.get_native_id()

def asleep():
    with open(f"/proc/self/task/{main}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"

def press():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while relay._wait is None or not asleep():
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    doors.settimeout(60)
    try:
        heard = doors.recv(5)
    except TimeoutError:
        os._exit(1)
    assert heard == launch.CANCEL + bytes(4)
    doors.sendall(launch.EXIT + (3).to_bytes(4, "big") + b"130")

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
threading.Thread(target=press, daemon=True).start()
sys.exit(relay.run())
"""


def test_ctrl_c_just_before_a_read_is_not_missed() -> None:
    """Another thread takes the signal here, so that the read is not interrupted: as by one that comes before it."""
    done = subprocess.run([sys.executable, "-c", MISSED], capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert (done.returncode, done.stderr) == (130, "")
