"""What single processes of an attempt have made of one device, added up; the driver's own accounts where it has some.

Pure: time comes as an argument. However many processes a job runs, few are remembered one by one: of the others only
their number is. A process id that comes again is taken for the same process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gsched.agent.gpu_use.timed_measure import TimedMeasure
from gsched.model.gpus.gpu_use import MOST_SHARES, ProcessAccount, ProcessShare, ProcessUse

MOST_KEPT = 64
"""Of one attempt on one device. Of those that have ended the ones that used it least are forgotten first."""

MOST_TOLD = 0.95
"""Of its time: what a process did in less of it is not taken for the whole."""


class OneProcess(msgspec.Struct, kw_only=True):
    """As long as it is there, and after its end."""

    pid: int
    name: str = ""
    seconds: float = 0.0
    """That samples with it stand for."""
    sm: TimedMeasure = msgspec.field(default_factory=TimedMeasure)
    peak: float | None = None
    mem_mib: float | None = None
    """The most that was seen."""
    account: ProcessAccount | None = None
    is_there: bool = True

    def add(self, use: ProcessUse, seconds: float) -> None:
        self.seconds += seconds
        self.account = use.account or self.account
        if use.sm_percent is not None:
            self.sm.add(use.sm_percent, seconds)
        self.peak = max((each for each in (self.peak, use.sm_percent, use.sm_peak) if each is not None), default=None)
        self.mem_mib = max((each for each in (self.mem_mib, use.used_mib) if each is not None), default=None)

    def life_s(self) -> float:
        """How long it has been there, by its account where that says so."""
        told = None if self.account is None else self.account.life_s
        return self.seconds if told is None else told

    def busy_s(self) -> float | None:
        """Seconds in which the device computed for it; None: unknown."""
        percent = self.account.sm_percent if self.account is not None else None
        if percent is None:
            percent = self.sm.mean
        return None if percent is None else percent / 100.0 * self.life_s()

    def peak_mib(self) -> float | None:
        told = None if self.account is None else self.account.peak_mib
        return max((each for each in (self.mem_mib, told) if each is not None), default=None)

    def told(self) -> ProcessShare:
        percent = self.account.sm_percent if self.account is not None else None
        return ProcessShare(
            pid=self.pid,
            name=self.name,
            seconds=self.life_s(),
            sm_mean=self.sm.mean if percent is None else percent,
            sm_max=self.peak,
            mem_max_mib=self.peak_mib(),
            is_accounted=self.account is not None,
            has_ended=not self.is_there,
        )


def _weight(process: OneProcess) -> tuple[float, float, float]:
    """The more a process has used, the more it weighs."""
    return process.busy_s() or 0.0, process.peak_mib() or 0.0, process.life_s()


class ProcessTotals(msgspec.Struct, kw_only=True):
    """Those of one attempt on one device, as they are kept in the attempt's folder."""

    known: list[OneProcess] = []
    forgotten: int = 0
    crowd: int = 0
    """Processes at the last look for which there was no room."""

    def add(self, own: Iterable[ProcessUse], seconds: float) -> None:
        """Its processes on the device at a look that stands for so many seconds."""
        found = {each.pid: each for each in self.known}
        uses = {each.pid: each for each in own}
        for process in self.known:
            process.is_there = process.pid in uses
        new = [pid for pid in uses if pid not in found]
        self._make_room(len(new))
        room = MOST_KEPT - len(self.known)
        self.crowd = max(0, len(new) - room)
        self.known += [OneProcess(pid=pid) for pid in new[:room]]
        for process in self.known:
            if process.pid in uses:
                process.add(uses[process.pid], seconds)

    def end(self, ended: Iterable[ProcessUse], since: float | None) -> None:
        """What the driver says of processes that have ended. Those that nobody has seen were the attempt's, too, if
        they began at `since` (UTC seconds) or later; None: they may have been anybody's.
        """
        found = {each.pid: each for each in self.known}
        for use in ended:
            process, account = found.get(use.pid), use.account
            if account is None:
                continue
            if process is None and since is not None and account.began_at >= since:
                self._make_room(1)
                process = OneProcess(pid=use.pid)
                self.known.append(process)
            if process is not None:
                process.account, process.is_there = account, False

    def all_ended(self) -> None:
        """The attempt is over."""
        for process in self.known:
            process.is_there = False

    def unnamed(self) -> Iterator[OneProcess]:
        """Those that are there and whose program nobody has asked for."""
        return (each for each in self.known if each.is_there and not each.name)

    def _make_room(self, places: int) -> None:
        """Forget those that have ended and used the device least, until there is room for so many, or as many as can
        be had.
        """
        ended = sorted((each for each in self.known if not each.is_there), key=_weight)
        excess = max(0, len(self.known) + places - MOST_KEPT)
        leaving = {each.pid for each in ended[:excess]}
        self.known = [each for each in self.known if each.pid not in leaving]
        self.forgotten += len(leaving)

    @property
    def is_accounted(self) -> bool:
        """Whether the device keeps accounts of any."""
        return any(each.account is not None for each in self.known)

    @property
    def peak_mib(self) -> float | None:
        """The most memory that one of them had at any time; None: unknown."""
        return max((peak for each in self.known if (peak := each.peak_mib()) is not None), default=None)

    @property
    def is_unmeasured(self) -> bool:
        """Whether samples have not told of some of them how much they computed, at least not of all of their time."""
        return any(each.sm.seconds < MOST_TOLD * each.seconds for each in self.known) or bool(self.crowd)

    def accounted_busy_s(self) -> float | None:
        """Seconds in which the device computed for them, by accounts; None where these do not tell of all of them."""
        if self.forgotten or self.crowd or not self.known:
            return None
        parts = [each.busy_s() if each.account is not None else None for each in self.known]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def told(self) -> tuple[tuple[ProcessShare, ...], int]:
        """Those that used it most, and how many others there were."""
        seen = [each for each in self.known if each.seconds > 0.0 or each.account is not None]
        chosen = sorted(seen, key=_weight, reverse=True)[:MOST_SHARES]
        return tuple(each.told() for each in chosen), len(self.known) - len(chosen) + self.forgotten + self.crowd
