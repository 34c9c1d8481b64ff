"""Commands for the tests of door and launcher; nothing of gsched's own commands is needed to test how they run."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from pathlib import Path

from gsched.base.errors import NotFound
from gsched.cli.session.call import TOKEN_VARIABLE, Call

NAMES = (
    *("noop", "show", "cat", "mode", "slurp", "stream", "code", "hold", "deaf", "refuse", "fault", "yes"),
    *("gsub", "gjobs", "gkill", "ghist"),
)
COMMANDS = {name: f"door_commands:{name}" for name in NAMES}

held = threading.Semaphore(0)
"""One release for each `hold` that has begun (when the door runs in the test's own process)."""
ended: list[str] = []
release = threading.Event()


def noop(call: Call) -> int:
    return 0


def show(call: Call) -> int:
    """Everything a call carries."""
    call.write(
        json.dumps(
            {
                "argv": call.argv,
                "cwd": call.cwd,
                "env": call.env,
                "uid": call.uid,
                "gid": call.gid,
                "user": call.user,
                "umask": call.umask,
                "terminals": [call.stdin_is_tty, call.stdout_is_tty, call.stderr_is_tty],
                "width": call.width,
                "pid": os.getpid(),
            }
        )
    )
    return 0


def cat(call: Call) -> int:
    for path in call.argv[1:]:
        try:
            call.write_bytes(call.read_file(path))
        except OSError as problem:
            call.error(f"{problem.filename}: {problem.strerror}\n")
            return 1
    return 0


def mode(call: Call) -> int:
    """What a file of the caller holds, and its permissions."""
    data, bits = call.read_file_and_mode(call.argv[1])
    call.write(f"{data.decode()} {bits if bits is None else format(bits, 'o')}")
    return 0


def slurp(call: Call) -> int:
    try:
        data = call.read_stdin()
    except OSError as problem:
        call.error(f"stdin: {problem.strerror}\n")
        return 1
    call.write(f"{len(data)} {hashlib.sha256(data).hexdigest()}\n")
    return 0


def stream(call: Call) -> int:
    """Output, error, output; then wait for a file to appear before the last line."""
    call.write("one\n")
    call.error("two\n")
    call.write("three\n")
    if len(call.argv) > 1:
        while not Path(call.argv[1]).exists():
            call.wait(0.01)
    call.write("four\n")
    return 0


def code(call: Call) -> int:
    return int(call.argv[1])


def hold(call: Call) -> int:
    """Wait until cancelled (or released by the test); says how it ended in the file that is named, too."""
    call.write("holding\n")
    call.flush()
    held.release()
    try:
        while not release.is_set():
            call.wait(0.02)
        ended.append("released")
        return 0
    except BaseException as end:
        ended.append(type(end).__name__)
        if len(call.argv) > 1:
            Path(call.argv[1]).write_text(type(end).__name__)
        raise


def deaf(call: Call) -> int:
    """Take no notice of being cancelled, but say that it happened."""
    call.write("holding\n")
    call.flush()
    call.cancelled.wait(60)
    call.write("cancelled\n")
    call.flush()
    while not release.wait(0.02):  # until nobody is there to read
        call.write(".")
        call.flush()
    return 0


def refuse(call: Call) -> int:
    call.write("before\n")
    raise NotFound("Job <7> is not found")


def fault(call: Call) -> int:
    raise KeyError("a\nb")


def yes(call: Call) -> int:
    """Endless output."""
    try:
        while True:
            call.write("y\n" * 10_000)
    except BrokenPipeError:
        ended.append("yes")
        raise


def gsub(call: Call) -> int:
    """Take the door down in the middle of a request, as a crash would; with `-` after it has said something."""
    is_door = "door" in sys.argv[0]
    if call.argv[1:] == ["-"]:
        typed, seen = len(call.read_stdin()), "yes" if TOKEN_VARIABLE in call.env else "no"
        call.error("Please wait ...\n")
        place = "door" if is_door else "caller"
        call.write(f"token={call.token} typed={typed} seen={seen} in={place}\nsubmitted\n")
        call.flush()
    if is_door:
        os._exit(9)
    if not call.argv[1:]:
        call.write("run here\n")
    return 0


gjobs = gkill = gsub


def ghist(call: Call) -> int:
    """As with a large answer: the caller's own process lays it out."""
    call.take_over()
    call.write(str(os.getpriority(os.PRIO_PROCESS, 0)))
    return 0
