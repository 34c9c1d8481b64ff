"""The spool folder of one agent: who holds it, what tells it from all others, and that it is there.

No two agents may ever hold one. What lies in it belongs to those who write it; nothing here looks at it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import Conflict, GschedError
from gsched.base.machine.atomic_write import replace_file

log = logging.getLogger(__name__)

_LOCK, _MARK, _ATTEMPTS = "agent.lock", "mark", "attempts"


@contextlib.contextmanager
def only_one(spool: Path, host: str) -> Iterator[None]:
    """Hold the folder, for two agents on one spool would both adopt its jobs. Raises Conflict when it is held."""
    descriptor = os.open(spool / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(f"an agent of {host} already runs on {spool}") from None
    try:
        yield
    finally:
        os.close(descriptor)


def mark_of(spool: Path) -> str:
    """What tells this spool folder, and the agent that holds its lock, from all others; made at the first call."""
    path = spool / _MARK
    with contextlib.suppress(FileNotFoundError):
        if mark := path.read_text("ascii", "replace").strip():
            return mark
    mark = secrets.token_hex(16)
    _write_mark(spool, mark)
    return mark


def _write_mark(spool: Path, mark: str) -> None:
    replace_file(str(spool / _MARK), f"{mark}\n".encode(), durable=True)


class SpoolFolder:
    """The folder while its agent lives: made again when somebody has removed it, and what is wrong is said.

    `running()`: attempts that have not ended; `rewrite()`: has what the agent remembers written anew; `put_back()`:
    makes the folders again of attempts that have none, and names those (may raise OSError or GschedError).
    """

    def __init__(
        self,
        spool: Path,
        mark: str,
        running: Callable[[], Collection[str]],
        rewrite: Callable[[], None],
        put_back: Callable[[], Collection[str]],
    ) -> None:
        self._spool = spool
        self._mark = mark
        self._running = running
        self._rewrite = rewrite
        self._put_back = put_back
        self._problem: AnyText = ""
        self._unrecorded: set[str] = set()
        """Attempts that ran when their records were removed, and whose records nobody has."""
        self._recorded: set[str] = set()
        """Those whose records were written again."""
        self._descriptor = -1

    def look(self) -> None:
        """Make again what is missing; never fails."""
        try:
            is_gone = not ((self._spool / _MARK).exists() and (self._spool / _ATTEMPTS).is_dir())
            if is_gone:
                self._make()
                log.error("the spool folder %s was removed: it is made again", self._spool)
            found = set(self._put_back())
        except (OSError, GschedError) as error:
            why = error.said if isinstance(error, GschedError) else str(error.strerror or error)
            problem = coded("remark.spool_gone", str(self._spool), why)
            if problem != self._problem:
                log.error("%s", problem)
            self._problem = problem
            return
        self._problem = ""
        if found:
            log.error("folders of runs in %s were removed: %s are made again", self._spool, ", ".join(sorted(found)))
        self._recorded |= found
        if is_gone:
            self._unrecorded |= set(self._running()) - found

    def _make(self) -> None:
        self._spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self._spool / _LOCK).exists():
            self._lock()
        _write_mark(self._spool, self._mark)
        (self._spool / _ATTEMPTS).mkdir(mode=0o700, exist_ok=True)
        self._rewrite()

    def _lock(self) -> None:
        """As long as this process lives, like the lock that was removed."""
        descriptor = os.open(self._spool / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise OSError(0, "another agent holds it") from None
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor

    def remarks(self) -> tuple[AnyText, ...]:
        """For the notes about the host."""
        if self._problem:
            return (self._problem,)
        running = set(self._running())
        self._unrecorded &= running
        self._recorded &= running
        return tuple(
            coded(code, str(self._spool), ", ".join(sorted(names)))
            for code, names in (("remark.spool_made", self._unrecorded), ("remark.spool_mended", self._recorded))
            if names
        )
