"""Samples what running attempts make of the GPUs that they hold, and tells their summaries.

Soon after an attempt's start it is looked at often, later at the usual interval; one look serves all attempts. A device
that does not answer leaves a hole. Nothing here holds up the start of an attempt, and its end waits END_PATIENCE_S for
the driver at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path

from gsched.agent.gpu_use import use_files
from gsched.agent.gpu_use.job_share import HiddenProcesses, share_of
from gsched.agent.gpu_use.use_sample import UseSample
from gsched.agent.gpu_use.use_totals import DeviceTotals, begun
from gsched.base.clock import Clock
from gsched.base.ids import attempt_name
from gsched.base.machine.program_name import program_name
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleLimits
from gsched.model.gpus.gpu_use import DeviceUse, GpuUsage
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 1.0
"""To the first sample of an attempt; each one doubles it, up to the usual interval."""
TOGETHER_S = 0.2
"""Attempts that start within this time share a look."""
END_PATIENCE_S = 2.0
DEFAULT_INTERVAL_S = 10.0

ReadGpus = Callable[[Collection[str]], Awaitable[Mapping[str, DeviceUse]]]
"""UUIDs of whole GPUs -> what is made of each of them, and of its parts, now; by UUID."""
Parts = Mapping[AttemptKey, HostAllocation]


async def no_gpus(uuids: Collection[str]) -> Mapping[str, DeviceUse]:
    """Nothing is known of any GPU."""
    return {}


class GpuUseRecorder:
    """Samples and sums the use of GPUs by the attempts of one host. `running()`: what attempts hold that have started
    and not ended; `holding()`: what all hold; `folder(key)`: where an attempt's files lie; `is_suspended(key)`: whether
    it is.
    """

    def __init__(
        self,
        host: str,
        clock: Clock,
        *,
        read: ReadGpus,
        running: Callable[[], Parts],
        holding: Callable[[], Parts],
        owners: Callable[[Iterable[int]], Mapping[int, str]],
        folder: Callable[[AttemptKey], Path],
        is_suspended: Callable[[AttemptKey], bool] = lambda key: False,
    ) -> None:
        self._host = host
        self._clock = clock
        self._read = read
        self._running = running
        self._holding = holding
        self._owners = owners
        self._folder = folder
        self._is_suspended = is_suspended
        self._limits: dict[AttemptKey, IdleLimits] = {}
        """Of attempts that the master has told how to judge them, and that have no totals yet."""
        self._totals: dict[AttemptKey, list[DeviceTotals]] = {}
        self._due: dict[AttemptKey, tuple[float, float]] = {}
        """Attempt -> when its next sample is due (monotonic), and the pause after that."""
        self._hidden = HiddenProcesses()
        self._begun = asyncio.Event()
        self.interval_s = DEFAULT_INTERVAL_S

    def begin(self) -> None:
        """An attempt has started: look soon."""
        self._begun.set()

    async def keep(self) -> None:
        """Sample until this is cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._begun.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(TOGETHER_S)
                self._begun.clear()
            try:
                await self.sample()
            except Exception:  # the next one may succeed; meanwhile there is a hole
                log.exception("the use of GPUs cannot be sampled")
                await asyncio.sleep(self.interval_s)

    def _pause_s(self) -> float | None:
        """Until the next sample is due; None: none is."""
        if not self._due:
            return None
        return max(0.0, min(at for at, _ in self._due.values()) - self._clock.monotonic())

    async def sample(self) -> None:
        """Look once, for all attempts that are due."""
        parts = {key: part for key, part in self._running().items() if part.gpus}
        self._forget_others(parts)
        now = self._clock.monotonic()
        due = [key for key in parts if key not in self._due or self._due[key][0] <= now + TOGETHER_S]
        if not due:
            return
        seen = await self._read({gpu.board for key in due for gpu in parts[key].gpus})
        owners = self._owners({each.pid for use in seen.values() for each in use.processes or ()}) if seen else {}
        hidden = {uuid for uuid, use in seen.items() if self._hidden.are_on(use)}
        alone = self._held_by_one()
        still = self._running()
        for key in due:
            if key in still:  # else it has ended meanwhile, and has been summed up
                self._add(key, parts[key], seen, owners, hidden=hidden, alone=alone)
                self._set_due(key)
        self._account(seen, owners)

    def _held_by_one(self) -> Collection[str]:
        """Devices that one attempt has for itself."""
        holders = Counter(gpu.uuid for part in self._holding().values() for gpu in part.gpus)
        return {uuid for uuid, count in holders.items() if count == 1}

    def _set_due(self, key: AttemptKey) -> None:
        pause_s = self._due[key][1] if key in self._due else min(FIRST_PAUSE_S, self.interval_s)
        self._due[key] = self._clock.monotonic() + pause_s, min(pause_s * 2, self.interval_s)

    def _forget_others(self, parts: Parts) -> None:
        for key in self._due.keys() - parts.keys():
            del self._due[key]

    def _add(
        self,
        key: AttemptKey,
        part: HostAllocation,
        seen: Mapping[str, DeviceUse],
        owners: Mapping[int, str],
        *,
        hidden: Collection[str],
        alone: Collection[str],
    ) -> None:
        now, name = self._clock.now(), attempt_name(*key)
        own = {pid for pid, owner in owners.items() if owner == name}
        samples = {
            gpu.uuid: share_of(use, own, is_alone=gpu.uuid in alone, are_hidden=gpu.uuid in hidden)
            for gpu in part.gpus
            if (use := seen.get(gpu.uuid)) is not None
        }
        if key not in self._totals:
            kept = use_files.read(self._folder(key))
            self._totals[key] = kept or self._first(part, samples, now)
            self.judge_by(key, self._limits.pop(key, None))
            if not kept:
                _name_processes(self._totals[key])
                use_files.write(self._folder(key), self._totals[key])
                return
        is_suspended = self._is_suspended(key)
        for totals in self._totals[key]:
            if totals.uuid in samples:
                totals.add(samples[totals.uuid], now, self.interval_s, is_suspended=is_suspended)
            else:
                totals.idle.is_known = False
        _name_processes(self._totals[key])
        use_files.write(self._folder(key), self._totals[key])

    def _account(self, seen: Mapping[str, DeviceUse], owners: Mapping[int, str]) -> None:
        """Tell all attempts, not those alone that are due, what the driver says of processes that have ended: it is
        told once.
        """
        if not any(use.ended for use in seen.values()):
            return
        alone = self._held_by_one()
        for key, totals in self._totals.items():
            name = attempt_name(*key)
            for each in totals:
                use = seen.get(each.uuid)
                if use is not None and use.ended:
                    is_among_others = any(owners.get(one.pid) != name for one in use.processes or ())
                    each.account(use.ended, are_own=each.uuid in alone and not is_among_others)
            use_files.write(self._folder(key), totals)

    def _first(self, part: HostAllocation, samples: Mapping[str, UseSample], now: float) -> list[DeviceTotals]:
        """From now on; the first look tells where the counters stand, and nothing of a time before it."""
        nothing = UseSample()
        return [begun(gpu.uuid, gpu.index, now, self.interval_s, samples.get(gpu.uuid, nothing)) for gpu in part.gpus]

    def judge_by(self, key: AttemptKey, limits: IdleLimits | None) -> None:
        """From now on its GPUs count as idle below these limits; None: as before."""
        if limits is not None and key in self._totals:
            for totals in self._totals[key]:
                totals.idle.judge_by(limits)
        elif limits is not None and key in self._running():
            self._limits[key] = limits

    def limits(self, key: AttemptKey) -> IdleLimits:
        """The limits by which an attempt counts as idle."""
        totals = self._totals.get(key)
        return totals[0].idle.limits if totals else self._limits.get(key, IdleLimits())

    def idleness(self, key: AttemptKey) -> tuple[GpuIdleness, ...]:
        """How idle its GPUs are; empty when nobody has looked yet."""
        found = [each.idle.told(self._host, each.index, each.uuid) for each in self._totals.get(key, ())]
        return tuple(found) if any(each.samples for each in self._totals.get(key, ())) else ()

    def summary(self, key: AttemptKey) -> tuple[GpuUsage, ...]:
        """What is known of the attempt so far; empty when nothing is."""
        found = [totals.summary(self._host) for totals in self._totals.get(key, ())]
        return tuple(found) if any(use.is_known for use in found) else ()

    async def end(self, key: AttemptKey, part: HostAllocation) -> tuple[GpuUsage, ...]:
        """What it has used, as it ends; of one that has ended while no agent was there, what was kept. Never raises:
        its GPUs are given back after this.
        """
        try:
            return await self._end(key, part)
        except Exception:
            log.exception("what attempt %s has made of its GPUs cannot be told", attempt_name(*key))
            return ()
        finally:
            self._totals.pop(key, None)
            self._limits.pop(key, None)

    async def _end(self, key: AttemptKey, part: HostAllocation) -> tuple[GpuUsage, ...]:
        if key not in self._totals:
            self._totals[key] = use_files.read(self._folder(key))
        else:
            await self._last_look(key, part)
        for totals in self._totals[key]:
            totals.processes.all_ended()
        if self._totals[key]:
            use_files.pack_curves(self._folder(key), self._totals[key])
        return self.summary(key)

    async def _last_look(self, key: AttemptKey, part: HostAllocation) -> None:
        """How far the counters have come. Its processes are gone: nothing else is its own any more."""
        totals = self._totals[key]
        if not any(each.is_counting for each in totals):
            return
        reading = asyncio.ensure_future(self._read({gpu.board for gpu in part.gpus}))
        # Not cancelled: that would cost the process that reads.
        await asyncio.wait([reading], timeout=END_PATIENCE_S)
        if not reading.done():
            return
        try:
            seen = reading.result()
        except Exception:
            log.exception("the use of GPUs by attempt %s cannot be completed", attempt_name(*key))
            return
        self._account(seen, {})
        for each in totals:
            if each.uuid in seen:
                use = seen[each.uuid]
                last = UseSample(energy_j=use.energy_j, counters=use.counters)
                each.end(last, self._clock.now(), self.interval_s)
        use_files.write(self._folder(key), totals)


def _name_processes(totals: Iterable[DeviceTotals]) -> None:
    """Ask what the programs of processes are called, once, as long as they run."""
    for each in totals:
        for process in each.processes.unnamed():
            process.name = program_name(process.pid)
