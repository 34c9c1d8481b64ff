"""The limits with which a session of a user begins on this host, as PAM gives them (pam_limits(8), limits.conf(5)).

Not read from PAM's files but asked of the system: a process of root opens a session (gsched.run.pam_session) and its
limits are read from /proc, by this one. No process of the user has a part in it. Once for each user and some minutes,
and anew when the files have changed. Waits for a bounded time, beside everything else; a session that cannot be had
keeps no job from starting, which then begins with the limits that were known before.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import resource
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path

from gsched.run import pam_session

log = logging.getLogger(__name__)

Granted = tuple[tuple[int, int, int], ...]
"""(kind, soft, hard) as for setrlimit(2)."""

KEEP_S = 300.0
PATIENCE_S = 5.0
FILES = ("/etc/security/limits.conf", "/etc/security/limits.d", f"/etc/pam.d/{pam_session.SERVICE}")
_MOST_SAID = 4096
_SEARCHED = "/usr/sbin:/sbin:/usr/bin:/bin"
_KEPT = ("LD_LIBRARY_PATH",)
"""What the interpreter may need to start."""
_KINDS = {
    "cpu time": resource.RLIMIT_CPU,
    "file size": resource.RLIMIT_FSIZE,
    "data size": resource.RLIMIT_DATA,
    "stack size": resource.RLIMIT_STACK,
    "core file size": resource.RLIMIT_CORE,
    "resident set": resource.RLIMIT_RSS,
    "processes": resource.RLIMIT_NPROC,
    "open files": resource.RLIMIT_NOFILE,
    "locked memory": resource.RLIMIT_MEMLOCK,
    "address space": resource.RLIMIT_AS,
    "pending signals": resource.RLIMIT_SIGPENDING,
    "msgqueue size": resource.RLIMIT_MSGQUEUE,
    "nice priority": resource.RLIMIT_NICE,
    "realtime priority": resource.RLIMIT_RTPRIO,
    "realtime timeout": resource.RLIMIT_RTTIME,
}
"""Names in /proc/PID/limits."""
_LINE = re.compile(r"Max ([a-z ]+?) {2,}(unlimited|\d+) +(unlimited|\d+)")


def session_words() -> tuple[str, ...]:
    """The command that opens a session for the user named behind it; empty where PAM has no such service."""
    if not any(os.path.exists(f"{folder}/{pam_session.SERVICE}") for folder in pam_session.SERVICE_FOLDERS):
        return ()
    root = str(Path(pam_session.__file__).parents[2])
    return (sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", pam_session.PRELUDE, root)


def parse_limits(text: str) -> Granted:
    """What /proc/PID/limits holds; kinds that are not known are left out."""
    lines = (_LINE.match(line) for line in text.splitlines())
    return tuple(
        (_KINDS[found[1]], _amount(found[2]), _amount(found[3])) for found in lines if found and found[1] in _KINDS
    )


def _amount(text: str) -> int:
    return resource.RLIM_INFINITY if text == "unlimited" else int(text)


class PamLimits:
    """The resource limits that PAM sets for each user of this host. `words` open a session as session_words() do;
    `files` decide what it says.
    """

    def __init__(self, words: Sequence[str], files: Sequence[str] = FILES) -> None:
        self._words = tuple(words)
        self._files = files
        self._asked: dict[str, tuple[float, object, asyncio.Task[Granted]]] = {}

    async def of(self, user: str) -> Granted:
        """Nothing where it cannot be told: jobs then begin with the agent's own limits, and the log says so."""
        now, stamp = time.monotonic(), self._stamp()
        at, before, known = self._asked.get(user, (0.0, None, None))
        if known is not None and before == stamp and now - at < KEEP_S:
            return await asyncio.shield(known)
        last = known.result() if known is not None and known.done() and not known.cancelled() else ()
        asking = asyncio.get_running_loop().create_task(self._ask_or(user, last))
        self._asked[user] = (now, stamp, asking)
        if known is not None and before == stamp and known.done():
            return known.result()  # nothing has changed that shows: no job waits for the answer
        return await asyncio.shield(asking)

    def _stamp(self) -> object:
        """Another one when a file has changed, has come or gone."""
        return tuple(_changed_at(path) for file in self._files for path in (file, *_inside(file)))

    async def _ask_or(self, user: str, last: Granted) -> Granted:
        """`last`: what it was before; a user who keeps the machine busy has no wider limits for that."""
        try:
            return await self._ask(user)
        except OSError as error:
            those = "that it had before" if last else "of the agent"
            why = error.strerror or str(error)
            log.warning("no PAM session for the limits of %s (%s): jobs begin with those %s", user, why, those)
            return last

    async def _ask(self, user: str) -> Granted:
        """Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *(*self._words, user),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={"PATH": _SEARCHED, **{name: os.environ[name] for name in _KEPT if name in os.environ}},
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._read(user, process)
        except TimeoutError:
            raise OSError(f"it takes longer than {PATIENCE_S:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await process.wait()

    async def _read(self, user: str, process: Process) -> Granted:
        """Its limits, while it waits. Where PAM refuses the session those stand that were set until then: nobody has
        wider ones for being refused. Raises OSError.
        """
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        told = (await process.stdout.readline()).decode(errors="replace").strip()
        text = _read_limits(process.pid) if told else ""
        process.stdin.close()
        left, problem = await asyncio.gather(_rest(process.stdout), _rest(process.stderr))
        code = await process.wait()
        found = parse_limits(text)
        if left.decode(errors="replace").strip() != pam_session.END or not found:  # whose limits were these?
            said = problem.decode(errors="replace").strip().rsplit("\n", 1)[-1][:200]
            raise OSError(said or f"exit code {code}")
        if told != pam_session.OPENED:
            log.warning(
                "PAM refuses a session of %s (%s): jobs begin with the limits that it had set", user, told[:200]
            )
        return found


async def _rest(stream: asyncio.StreamReader) -> bytes:
    """All that comes until its end, or until it is more than a session says: a single read may have a part of it."""
    found = b""
    while len(found) < _MOST_SAID and (more := await stream.read(_MOST_SAID - len(found))):
        found += more
    return found


def _read_limits(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/limits").read_text("ascii", "replace")
    except OSError:
        return ""


def _inside(folder: str) -> list[str]:
    try:
        return sorted(f"{folder}/{name}" for name in os.listdir(folder))
    except OSError:
        return []


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1
