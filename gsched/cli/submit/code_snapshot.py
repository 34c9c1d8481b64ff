"""`gsub --snapshot`: what the caller's directory and Python hold when a job is submitted, kept with the job.

Git and Python are run as the caller, in the caller's directory; a door that serves others never runs them. What they
tell goes into the last message box of the job, whose attachment its owner and administrators alone may read. It must
never hold the address of a remote repository, which may have a password in it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.session import Session
from gsched.model.views.message_boxes import SNAPSHOT_BOX
from gsched.wire.messages.control_action import ControlAction

MOST_BYTES = 8 << 20
"""Of what is kept; a longer text is cut, and says so."""
LONGEST_S = 60.0
"""How long one of the programs may take."""
WORDS = ("--snapshot", "-snapshot")

_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "color.ui=false")
_STATUS = ("status", "--porcelain", "--no-ahead-behind")
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-relative", "HEAD")
_PACKAGES = """\
import sys
sys.path = [each for each in sys.path if each]
from importlib.metadata import distributions
found = set()
for each in distributions():
    name = each.metadata["Name"]
    if name:
        found.add(f"{name}=={each.version}")
print(sys.executable, sys.version.split()[0])
print("\\n".join(sorted(found, key=str.lower)))
"""
"""What `pip freeze` lists, also where there is no pip. Whose modules lie in the current directory nobody knows."""


@dataclass(frozen=True, slots=True)
class CodeSnapshot:
    """A line that says what it is, and the whole of it."""

    line: str
    content: bytes


def take_snapshot(call: Call, now: float) -> CodeSnapshot:
    """Look at the caller's directory and Python. `now`: UTC seconds. Raises BadRequest where there is nothing to keep,
    or a program that looks does not come to its end.
    """
    commit = _output(call, [*_GIT, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
    python = next((path for name in ("python3", "python") if (path := _which(call, name))), None)
    if commit is None and python is None:
        raise BadRequest(
            f"--snapshot: {call.cwd} is in no git repository with a commit, and there is no python3 in PATH: "
            "nothing can be kept. Job not submitted."
        )
    said, parts = [], [f"{call.cwd} at {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC\n"]
    if commit is not None:
        said.append(_repository(call, commit.decode("ascii", "replace").strip(), parts))
    if python is not None:
        said.append(_python(call, python, parts))
    content = "".join(parts).encode("utf-8", "surrogateescape")
    if len(content) > MOST_BYTES:
        content = content[:MOST_BYTES] + f"\n[cut: {len(content)} bytes are too many to keep]\n".encode()
    return CodeSnapshot("; ".join(said), content)


def keep_snapshot(session: Session, job_id: int, snapshot: CodeSnapshot) -> str:
    """Attach it to the job; returns why that cannot be done, empty when it is. Raises GschedError."""
    what = ControlAction(action="post", text=snapshot.line, box=SNAPSHOT_BOX, attachment=snapshot.content)
    return next((each.error for each in session.client.control(what, [job_id]) if each.error), "")


def _repository(call: Call, commit: str, parts: list[str]) -> str:
    branch = _text(_output(call, [*_GIT, "branch", "--show-current"])).strip()
    changed, differences = _output(call, [*_GIT, *_STATUS]), _output(call, [*_GIT, *_DIFF])
    parts.append(f"commit {commit}{f' of {branch}' if branch else ''}\n\n")
    for name, told in (("git status", changed), ("git diff HEAD", differences)):
        parts.append(f"== {name}\n{f'[{name} fails here]' if told is None else _text(told)}\n")
    if changed is None or differences is None:
        state = "changes unknown"
    else:
        count = len(_text(changed).splitlines())
        state = "nothing changed" if not count else f"{count} file{'s' if count > 1 else ''} changed"
    # What differs first: lists show the beginning alone.
    return f"commit {commit[:10]}, {state}" + (f", branch {branch[:40]}" if branch else "")


def _python(call: Call, python: str, parts: list[str]) -> str:
    told = _output(call, [python, "-c", _PACKAGES])
    if told is None:
        parts.append(f"== packages\n{python} does not tell which it has\n")
        return f"{python} does not tell which packages it has"
    first, _, packages = _text(told).partition("\n")
    version = first.rpartition(" ")[2]
    parts.append(f"== packages of {first}\n{packages}")
    return f"Python {version}, {len(packages.splitlines())} packages"


def _which(call: Call, name: str) -> str | None:
    return shutil.which(name, path=call.env.get("PATH", os.defpath))


def _output(call: Call, words: Sequence[str]) -> bytes | None:
    """What the program prints; None where there is none, or it fails. Raises BadRequest when it takes too long."""
    path = _which(call, words[0])
    if path is None:
        return None
    environment = {_bytes(name): _bytes(value) for name, value in call.env.items()}
    try:
        process = subprocess.Popen(
            [path, *words[1:]],
            cwd=call.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    end = partial(_end, process)
    call.on_cancel(end)
    output, is_over = _read(process)
    if not is_over:
        end()
    try:
        process.wait(LONGEST_S)
    except subprocess.TimeoutExpired:  # it has closed what is read, and goes on
        end()
        process.wait()
    call.raise_if_cancelled()
    if not is_over and len(output) <= MOST_BYTES:
        raise BadRequest(f"--snapshot: {words[0]} has not ended after {LONGEST_S:g} s. Job not submitted.")
    return None if is_over and process.returncode else output


def _read(process: subprocess.Popen[bytes]) -> tuple[bytes, bool]:
    """What the program prints, and whether that was all of it: no more than is kept is read, and not for ever."""
    assert process.stdout is not None
    output, deadline = bytearray(), time.monotonic() + LONGEST_S
    with process.stdout as stream, selectors.DefaultSelector() as ready:
        ready.register(stream, selectors.EVENT_READ)
        while len(output) <= MOST_BYTES and ready.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                return bytes(output), True
            output += piece
    return bytes(output), False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it has started, which may hold on to what is read."""
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:  # once it has been waited for its number is anybody's
            os.killpg(process.pid, signal.SIGKILL)


def _text(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
