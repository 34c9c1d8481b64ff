"""Output of finished jobs that had no -o file: kept for a while, so that nobody loses what was printed.

Only non-empty output is kept, by attempt. It goes after KEEP_S; and the oldest goes first where a user, or the host,
has more than the limits say. What takes no more than two blocks frees nothing and stays. In the place of what went a
line says so (`removed_outputs`). Files are looked at in a thread, as there may be very many. Never raises for a missing
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gsched.agent.output.removed_outputs import RemovedOutputs
from gsched.base.clock import Clock
from gsched.model.hosts.kept_output import MIB, KeptOutput, RemovedOutput

log = logging.getLogger(__name__)

KEEP_S = 7 * 24 * 3600.0
LOOK_S = 3600.0
"""Between two looks at all that is kept, where nothing grows too much."""
PAUSE_S = 1.0
"""At least, between two looks."""
_BLOCK = 512
"""Bytes that st_blocks counts in, on every file system."""
_SMALL = 2 * 4096
"""What takes no more room than this is not removed for a limit's sake, and does not count."""
_FILE = re.compile(r"([1-9][0-9]*\.[1-9][0-9]*)\.(stdout|stderr)", re.ASCII)


@dataclass(frozen=True)
class KeptRun:
    """What is kept of one run: `arrived` by the agent's clock, since a user can change the times of a file."""

    uid: int
    size: int
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
        self._of_user: Counter[int] = Counter()
        self._is_full = asyncio.Event()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def keep(self, name: str, attempt_folder: Path) -> None:
        """Move the attempt's own output files here before its folder goes."""
        found: list[os.stat_result] = []
        for stream in ("stdout", "stderr"):
            source = f"{attempt_folder}/{stream}"
            with contextlib.suppress(OSError):
                status = os.stat(source, follow_symlinks=False)
                if status.st_size:
                    self._folder.mkdir(mode=0o700, exist_ok=True)  # somebody may have removed it
                    os.rename(source, self._folder / f"{name}.{stream}")
                    found.append(status)
        if found:
            self._take_in({name: self._run(found, self._clock.now())})

    def read(self, name: str, stream: str, offset: int, limit: int) -> bytes:
        """Bytes of a kept stream; empty when there is none. Raises OutputRemoved for one that went meanwhile."""
        try:
            # The job's user may have taken a lease on it (fcntl(2)): nobody waits for that here.
            fd = os.open(self._folder / f"{name}.{stream}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return self._removed.read(name, stream, offset, limit)
        try:
            data = os.pread(fd, limit, offset)
        except OSError:
            data = b""
        finally:
            os.close(fd)
        return data or self._removed.read(name, stream, offset, limit)  # it may have gone just now

    def are_told(self, names: Iterable[str]) -> None:
        """The history has it."""
        for name in names:
            self.untold.pop(name, None)
            self._just_told.add(name)
            self._removed.is_told(name)

    async def watch(self, tell: Callable[[], None]) -> None:
        """For ever: let go what is old, and what is too much; then `tell`."""
        while True:
            await self.tidy()
            tell()
            await asyncio.sleep(PAUSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._is_full.wait()

    async def tidy(self) -> None:
        """Look at all that is kept, once, and let go what has to. Never raises OSError."""
        self._is_full.clear()
        self._just_told.clear()
        now, known = self._clock.now(), dict(self._runs)
        try:
            left, untold = await asyncio.to_thread(self._tidy, now, known)
        except OSError as error:
            log.warning("what is kept of the output of finished jobs cannot be looked at: %s", error)
            return
        self.untold = {name: gone for name, gone in untold.items() if name not in self._just_told}
        arrived = {name: run for name, run in self._runs.items() if name not in known}
        self._runs, self._of_user = {}, Counter()
        self._take_in({**left, **arrived})

    def _take_in(self, runs: Mapping[str, KeptRun]) -> None:
        for name, run in runs.items():
            self._runs[name] = run
            if run.size > _SMALL:
                self._of_user[run.uid] += run.size
        most = max((self._of_user[uid] for uid in {run.uid for run in runs.values()}), default=0)
        if most > self._limits.user_mib * MIB or self._of_user.total() > self._limits.host_mib * MIB:
            self._is_full.set()

    def _run(self, files: Iterable[os.stat_result], arrived: float) -> KeptRun:
        """A file that has grown since the end of its job counts with no more than a run may have: nobody else's output
        goes for it.
        """
        there = list(files)
        size = sum(status.st_blocks * _BLOCK for status in there)
        return KeptRun(there[0].st_uid, min(size, self._limits.run_mib * MIB), arrived)

    # -- in a thread ------------------------------------------------------------------------------------------------

    def _tidy(self, now: float, known: Mapping[str, KeptRun]) -> tuple[dict[str, KeptRun], dict[str, RemovedOutput]]:
        """What is left, and what the master is to be told of. Raises OSError."""
        runs = self._scan(known)
        for name in [name for name, run in runs.items() if now - run.arrived > KEEP_S]:
            self._unlink(name)
            del runs[name]
        self._removed.prune(now - KEEP_S)
        for name, limit_mib, of_user in self._too_much(runs):
            job_id, _, attempt = name.partition(".")
            run = runs.pop(name)
            gone = RemovedOutput(
                job_id=int(job_id),
                attempt=int(attempt),
                at=now,
                size=run.size,
                limit_mib=limit_mib,
                of_user=of_user,
            )
            try:
                self._removed.note(name, gone)
            except OSError as error:  # a full disk, say: that it went is more than a line about it
                log.warning("the output of %s goes, and no line says so: %s", name, error)
            self._unlink(name)
        return runs, self._removed.untold()

    def _scan(self, known: Mapping[str, KeptRun]) -> dict[str, KeptRun]:
        files: defaultdict[str, list[os.stat_result]] = defaultdict(list)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if found := _FILE.fullmatch(entry.name):
                    with contextlib.suppress(OSError):  # it has gone
                        files[found[1]].append(entry.stat(follow_symlinks=False))
        return {
            name: self._run(there, known[name].arrived if name in known else max(each.st_ctime for each in there))
            for name, there in files.items()
        }

    def _too_much(self, runs: Mapping[str, KeptRun]) -> list[tuple[str, int, bool]]:
        """The oldest that have to go, with the limit in MiB, and whether it is that of their user."""
        large = sorted(
            ((name, run) for name, run in runs.items() if run.size > _SMALL), key=lambda each: each[1].arrived
        )
        of_user: Counter[int] = Counter()
        for _, run in large:
            of_user[run.uid] += run.size
        gone: list[tuple[str, int, bool]] = []
        left: list[tuple[str, KeptRun]] = []
        for name, run in large:
            if of_user[run.uid] > self._limits.user_mib * MIB:
                of_user[run.uid] -= run.size
                gone.append((name, self._limits.user_mib, True))
            else:
                left.append((name, run))
        total = of_user.total()
        for name, run in left:
            if total <= self._limits.host_mib * MIB:
                break
            total -= run.size
            gone.append((name, self._limits.host_mib, False))
        return gone

    def _unlink(self, name: str) -> None:
        for stream in ("stdout", "stderr"):
            path = self._folder / f"{name}.{stream}"
            with contextlib.suppress(OSError):
                # Emptied too: a process of the job may still have it open, or its user have linked it elsewhere.
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
                try:
                    os.unlink(path)
                    os.ftruncate(fd, 0)
                finally:
                    os.close(fd)
            with contextlib.suppress(OSError):  # what could not be opened goes as well
                os.unlink(path)
