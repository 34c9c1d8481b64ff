"""The limits with which a session of a user begins on this host, as PAM gives them (pam_limits(8), limits.conf(5)).

Not read from PAM's files but asked of the system: runuser(1) opens a session for the user; a program in it prints its
limits (proc(5), /proc/PID/limits). Once for each user and some minutes, and anew when the files have changed. Waits for
a bounded time, beside everything else; a session that cannot be had keeps no job from starting.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import resource
import shutil
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence

log = logging.getLogger(__name__)

Granted = tuple[tuple[int, int, int], ...]
"""(kind, soft, hard) as for setrlimit(2)."""

KEEP_S = 300.0
PATIENCE_S = 5.0
PROGRAM = "runuser"
SEARCHED = "/usr/sbin:/sbin:/usr/bin:/bin"
FILES = ("/etc/security/limits.conf", "/etc/security/limits.d", f"/etc/pam.d/{PROGRAM}")
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


def find_program() -> str | None:
    """Path of runuser; None where there is none."""
    return shutil.which(PROGRAM, path=SEARCHED)


def parse_limits(text: str) -> Granted:
    """What /proc/PID/limits holds; kinds that are not known are left out."""
    lines = (_LINE.match(line) for line in text.splitlines())
    return tuple(
        (_KINDS[found[1]], _amount(found[2]), _amount(found[3])) for found in lines if found and found[1] in _KINDS
    )


def _amount(text: str) -> int:
    return resource.RLIM_INFINITY if text == "unlimited" else int(text)


class PamLimits:
    """Of all users of this host. `program` is called as runuser is; `files` decide what it says."""

    def __init__(self, program: str, files: Sequence[str] = FILES) -> None:
        self._program = program
        self._files = files
        self._asked: dict[str, tuple[float, object, asyncio.Task[Granted]]] = {}

    async def of(self, user: str) -> Granted:
        """Nothing where it cannot be told: jobs then begin with the agent's own limits, and the log says so."""
        now, stamp = time.monotonic(), self._stamp()
        at, before, known = self._asked.get(user, (0.0, None, None))
        if known is not None and before == stamp and now - at < KEEP_S:
            return await asyncio.shield(known)
        asking = asyncio.get_running_loop().create_task(self._ask(user))
        self._asked[user] = (now, stamp, asking)
        if known is not None and before == stamp and known.done():
            return known.result()  # nothing has changed that shows: no job waits for the answer
        return await asyncio.shield(asking)

    def _stamp(self) -> object:
        """Another one when a file has changed, has come or gone."""
        return tuple(_changed_at(path) for file in self._files for path in (file, *_inside(file)))

    async def _ask(self, user: str) -> Granted:
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._program, "-u", user, "--", "cat", "/proc/self/limits"),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                env={"PATH": SEARCHED},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            return _none(user, error.strerror or str(error))
        try:
            async with asyncio.timeout(PATIENCE_S):
                text, problem = await process.communicate()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await process.wait()
            return _none(user, f"it takes longer than {PATIENCE_S:g} s")
        found = parse_limits(text.decode(errors="replace"))
        if process.returncode or not found:
            said = problem.decode(errors="replace").strip().rsplit("\n", 1)[-1][:200]
            return _none(user, said or f"exit code {process.returncode}")
        return found


def _none(user: str, why: str) -> Granted:
    log.warning("no PAM session for the limits of %s (%s): jobs begin with those of the agent", user, why)
    return ()


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
