"""Output of finished jobs that had no -o file: kept for a while, so that nobody loses what was printed.

Only non-empty output is kept, by attempt. It goes after KEEP_S; and the oldest goes first where a user, or the host,
has more than the limits say. What takes no more than two blocks frees nothing and stays. In the place of what went a
line says so (`removed_outputs`). Files are looked at and removed in a thread, as there may be very many; all of them
are looked at once in LOOK_S. Never raises for a missing file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gsched.agent.output.output_quota import BLOCK
from gsched.agent.output.output_tail import STREAMS
from gsched.agent.output.removed_outputs import RemovedOutputs
from gsched.base.clock import Clock
from gsched.model.hosts.kept_output import MIB, KeptOutput, RemovedOutput

log = logging.getLogger(__name__)

KEEP_S = 7 * 24 * 3600.0
LOOK_S = 3600.0
"""Between two looks at all that is kept."""
PAUSE_S = 1.0
"""At least, between two removals."""
LEFT = 0.9
"""Of a limit is left where it was reached: else there would be something to remove at every job's end."""
_SMALL = 2 * 4096
"""What takes no more room than this is not removed for a limit's sake, and does not count."""
_FILE = re.compile(r"([1-9][0-9]*\.[1-9][0-9]*)\.(?:stdout|stderr)", re.ASCII)


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What is kept of one run. `arrived` by the agent's clock, UTC seconds, as a user can change the times of a file;
    of what is small, or was kept by an earlier agent, nothing but these tells.
    """

    uid: int
    size: int
    """Bytes of the disk. A file that has grown since the end of its job counts with no more than a run may have: nobody
    else's output goes for it.
    """
    arrived: float


class KeptOutputs:
    """A folder of `JOB.ATTEMPT.stdout` and `.stderr` files, and of what went."""

    def __init__(self, folder: Path, clock: Clock, limits: KeptOutput | None = None) -> None:
        self._folder = folder
        self._clock = clock
        self._limits = limits or KeptOutput()
        self._removed = RemovedOutputs(folder)
        self.untold: dict[str, RemovedOutput] = {}
        """What went, and is not yet known to be in the history, by attempt."""
        self._just_told: set[str] = set()
        """Since the last look at the files began."""
        self._runs: dict[str, KeptRun] = {}
        """Those that are not small."""
        self._of_user: Counter[int] = Counter()
        self._old: frozenset[str] = frozenset()
        """What the last look at all has found too old."""
        self._is_full = asyncio.Event()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, name: str, attempt_folder: Path) -> None:
        """Move the attempt's own output files here before its folder goes."""
        found: KeptRun | None = None
        for stream in STREAMS:
            source = f"{attempt_folder}/{stream}"
            with contextlib.suppress(OSError):
                status = os.stat(source, follow_symlinks=False)
                if status.st_size:
                    self._folder.mkdir(mode=0o700, exist_ok=True)  # somebody may have removed it
                    os.rename(source, self._folder / f"{name}.{stream}")
                    found = self._with(found, status, self._clock.now())
        if found is not None:
            self._take_in({name: found})

    def read(self, name: str, stream: str, offset: int, limit: int) -> bytes:
        """Bytes of a kept stream; empty when there is none. Raises OutputRemoved for one that went meanwhile."""
        try:
            # The job's user may have taken a lease on it (fcntl(2)): nobody waits for that here.
            fd = os.open(self._folder / f"{name}.{stream}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return self._removed.read(name, stream, offset, limit)
        try:
            data = os.pread(fd, limit, offset)
            is_there = data or os.fstat(fd).st_nlink
        except OSError:
            return b""
        finally:
            os.close(fd)
        return data if is_there else self._removed.read(name, stream, offset, limit)

    def are_told(self, names: Iterable[str]) -> None:
        """The history has it."""
        for name in names:
            self.untold.pop(name, None)
            self._just_told.add(name)
            self._removed.is_told(name)

    async def watch(self, tell: Callable[[], None]) -> None:
        """For ever: let go what is old, and what is too much; then `tell`."""
        while True:
            try:
                await self.look()
                tell()
                await self._watch_for(LOOK_S, tell)
            except Exception:  # it is tried again: what is kept would grow until the agent is started anew
                log.exception("the output that is kept of finished jobs cannot be looked after")
                await asyncio.sleep(LOOK_S)

    async def _watch_for(self, seconds: float, tell: Callable[[], None]) -> None:
        clock = asyncio.get_running_loop()
        until = clock.time() + seconds
        while (left := until - clock.time()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self._is_full.wait()
            except TimeoutError:
                return
            await self.make_room()
            tell()
            await asyncio.sleep(PAUSE_S)

    async def look(self) -> None:
        """Look at all that is kept, and let go what has to. Never raises OSError."""
        self._just_told.clear()
        now, known, old = self._clock.now(), dict(self._runs), self._old
        try:
            found, self._old, untold = await asyncio.to_thread(self._look, now, known, old)
        except OSError as error:
            log.warning("what is kept of the output of finished jobs cannot be looked at: %s", error)
            return
        self.untold = {name: gone for name, gone in untold.items() if name not in self._just_told}
        arrived = {name: run for name, run in self._runs.items() if name not in known}
        self._runs, self._of_user = {}, Counter()
        self._take_in({**found, **arrived})
        if self._is_full.is_set():
            await self.make_room()

    async def make_room(self) -> None:
        """Let the oldest go of whoever has too much."""
        self._is_full.clear()
        gone = too_much(self._runs, self._limits)
        went = await asyncio.to_thread(self._remove, gone, {name: self._runs[name] for name in gone}, self._clock.now())
        for name, removed in went.items():
            run = self._runs.pop(name, None)
            if run is not None:
                self._of_user[run.uid] -= run.size
            self.untold[name] = removed

    def _take_in(self, runs: Mapping[str, KeptRun]) -> None:
        users = set()
        for name, run in runs.items():
            if run.size > _SMALL:
                self._runs[name] = run
                self._of_user[run.uid] += run.size
                users.add(run.uid)
        most = max((self._of_user[uid] for uid in users), default=0)
        if most > self._limits.user_mib * MIB or self._of_user.total() > self._limits.host_mib * MIB:
            self._is_full.set()

    def _with(self, run: KeptRun | None, status: os.stat_result, arrived: float) -> KeptRun:
        """The run with another file of its own."""
        before = run or KeptRun(status.st_uid, 0, arrived)
        size = min(before.size + status.st_blocks * BLOCK, self._limits.run_mib * MIB)
        return KeptRun(before.uid, size, max(before.arrived, arrived))

    # -- in a thread ------------------------------------------------------------------------------------------------

    def _look(
        self, now: float, known: Mapping[str, KeptRun], old: frozenset[str]
    ) -> tuple[dict[str, KeptRun], frozenset[str], dict[str, RemovedOutput]]:
        """What is left, what is too old by this clock, and what the master is to be told of. Raises OSError.

        What is too old goes if the last look has found so as well, an hour ago: a clock may be wrong for a while.
        """
        runs: dict[str, KeptRun] = {}
        for name, status in self._files():
            before = known.get(name)
            arrived = before.arrived if before is not None else min(status.st_ctime, now)
            runs[name] = self._with(runs.get(name), status, arrived)
        noted = self._removed.names()
        for name in runs.keys() & noted:  # an agent was killed while it removed it
            self._unlink(name)
        too_old = {name for name, run in runs.items() if now - run.arrived > KEEP_S}
        for name in too_old & old:
            self._unlink(name)
        self._removed.prune(now - KEEP_S)
        left = {name: run for name, run in runs.items() if name not in noted and not (name in too_old and name in old)}
        return left, frozenset(too_old - old), self._removed.untold()

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if found := _FILE.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # it has gone
                        yield found[1], entry.stat(follow_symlinks=False)

    def _remove(
        self, gone: Mapping[str, tuple[int, bool]], runs: Mapping[str, KeptRun], now: float
    ) -> dict[str, RemovedOutput]:
        """What went; a note first, so that it never looks as if nothing had been printed."""
        went = {}
        for name, (limit_mib, of_user) in gone.items():
            job_id, _, attempt = name.partition(".")
            removed = RemovedOutput(
                job_id=int(job_id),
                attempt=int(attempt),
                at=now,
                size=runs[name].size,
                limit_mib=limit_mib,
                of_user=of_user,
            )
            try:
                self._removed.note(name, removed)
            except OSError:  # a full disk, say: then there is room after it
                self._unlink(name)
                try:
                    self._removed.note(name, removed)
                except OSError as error:
                    log.warning("the output of %s was removed, and no line says so: %s", name, error)
            self._unlink(name)
            went[name] = removed
        return went

    def _unlink(self, name: str) -> None:
        for stream in STREAMS:
            try:
                _unlink(f"{self._folder}/{name}.{stream}")
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("the output of %s cannot be removed: %s", name, error)


def _unlink(path: str) -> None:
    """The file, with its room, though a process of the job may still have it open; what else is linked to it stays.
    Raises OSError.
    """
    fd = -1
    with contextlib.suppress(OSError):  # a directory, say, or a file with a lease
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        os.unlink(path)
        if fd >= 0 and os.fstat(fd).st_nlink == 0:
            os.ftruncate(fd, 0)
    finally:
        if fd >= 0:
            os.close(fd)


def too_much(runs: Mapping[str, KeptRun], limits: KeptOutput) -> dict[str, tuple[int, bool]]:
    """The oldest that have to go, never the newest; with each the limit in MiB, and whether it is that of its user."""
    of_user: Counter[int] = Counter()
    for run in runs.values():
        of_user[run.uid] += run.size
    full = {uid for uid, size in of_user.items() if size > limits.user_mib * MIB}
    gone: dict[str, tuple[int, bool]] = {}
    oldest = sorted(runs, key=lambda name: runs[name].arrived)
    newest = {runs[name].uid: name for name in oldest}
    for name in oldest:
        run = runs[name]
        if run.uid in full and name != newest[run.uid] and of_user[run.uid] > limits.user_mib * MIB * LEFT:
            of_user[run.uid] -= run.size
            gone[name] = (limits.user_mib, True)
    total = of_user.total()
    if total > limits.host_mib * MIB:
        for name in oldest[:-1]:
            if total <= limits.host_mib * MIB * LEFT:
                break
            if name not in gone:
                total -= runs[name].size
                gone[name] = (limits.host_mib, False)
    return gone
