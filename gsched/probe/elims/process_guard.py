"""A guard that ends process groups when the process that asked for it is gone, however it went.

An elim must not outlive its agent, not even one that was killed with SIGKILL. The guard is one small `sh` per agent
that reads a pipe whose other end only the agent holds: `+GROUP` and `-GROUP` lines tell it what runs, and the end of
the pipe tells it that the agent is gone. Compared with the ways around it: a parent-death signal set by a wrapper
program (setpriv) needs that program and dies with the thread that started the child; setting it before exec from
Python (preexec_fn) is slow and unsafe beside threads; waiting for the elim's next write to fail takes as long as the
elim is silent. The guard costs one sh for all of them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess

# `kill` is a builtin of every sh, so the guard forks nothing but the one sleep.
_SCRIPT = """
trap '' HUP INT TERM
groups=
while read -r line; do
  case $line in
    +*) groups="$groups ${line#+}" ;;
    -*) kept=
        for group in $groups; do [ "$group" = "${line#-}" ] || kept="$kept $group"; done
        groups=$kept ;;
  esac
done
[ -n "$groups" ] || exit 0
for group in $groups; do kill -s TERM -- "-$group"; done
sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class ProcessGroupGuard:
    """Ends the groups that were added and not removed, SIGTERM first, when this process ends or `close` is called."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the guard; None before there was anything to guard."""
        return None if self._process is None else self._process.pid

    def add(self, group: int) -> None:
        """Watch over a process group. Raises OSError when no guard can be started."""
        self._groups.add(group)
        if not self._tell(f"+{group}\n"):
            self._start()

    def remove(self, group: int) -> None:
        """The group has ended, its number may be given to others."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def close(self) -> None:
        """Let the guard go; groups that are still there are ended by it, which takes a second. May be called twice."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()
        self._groups.clear()

    def _start(self) -> None:
        """A guard that knows all groups; also when the one before was killed."""
        self._reap()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        self._tell("".join(f"+{group}\n" for group in sorted(self._groups)))

    def _reap(self) -> None:
        """Reap a guard that has died."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _tell(self, text: str) -> bool:
        if self._process is None or self._process.stdin is None:
            return False
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except OSError:
            return False
        return True
