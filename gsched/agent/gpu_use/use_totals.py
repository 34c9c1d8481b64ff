"""Samples of what an attempt does with one device, added up. Pure: time comes as an argument, and memory is bounded.

A sample stands for the time since the one before it, but for no more than the usual interval when that was long ago:
what nobody has looked at is a hole. A clock that was set back makes a sample that stands for no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from gsched.agent.gpu_use.idle_clock import IdleClock
from gsched.agent.gpu_use.process_totals import ProcessTotals
from gsched.agent.gpu_use.timed_measure import TimedMeasure
from gsched.agent.gpu_use.use_curve import UseCurve
from gsched.agent.gpu_use.use_sample import UseSample
from gsched.model.gpus import clock_reasons
from gsched.model.gpus.gpu_use import ERRORS, PROFILE, TRAFFIC, GpuUsage, ProcessUse

MOST_W = 10_000.0
"""No device takes more: a counter that says so is wrong."""
MOST_MIB_S = 4e6
"""No device sends or receives more over its links."""
MOST_SEEN = 0.95
"""Of the time: what was seen less is not taken for the whole."""
GAP = 3.0
"""From so many usual intervals on nobody has looked in between."""


class CounterSum(msgspec.Struct, array_like=True):
    """How far a counter of the device has come."""

    last: float | None = None
    total: float | None = None

    def add(self, value: float | None, otherwise: float | None, most: float) -> None:
        """Where it stands now. `otherwise`: how much it was where the counter does not tell; `most`: no more than that
        can it have been. One that stands lower than before has begun anew, when the driver was loaded.
        """
        before, self.last = self.last, value
        more = otherwise
        if before is not None and value is not None:
            grown = value - before if value >= before else value
            more = grown if grown <= most else otherwise
        if more is not None:
            self.total = (self.total or 0.0) + more


class DeviceTotals(msgspec.Struct, kw_only=True):
    """All that was seen of one attempt on one device, as it is kept in the attempt's folder."""

    uuid: str
    index: int
    curve: UseCurve
    samples: int = 0
    covered_s: float = 0.0
    last_at: float
    last_energy_j: float | None = None
    measures: dict[str, TimedMeasure] = {}
    sm_seconds: dict[int, float] = {}
    """Percent -> seconds at it."""
    idle_s: float = 0.0
    no_process_s: float = 0.0
    listed_s: float = 0.0
    """Seconds in which the driver told which processes there are."""
    throttled_s: float = 0.0
    throttled_power_s: float = 0.0
    throttled_heat_s: float = 0.0
    clocked_s: float = 0.0
    """Seconds in which the driver told why clocks were low."""
    counters: dict[str, CounterSum] = {}
    counted_j: float | None = None
    by_power_j: float | None = None
    idle: IdleClock = msgspec.field(default_factory=IdleClock)
    processes: ProcessTotals = msgspec.field(default_factory=ProcessTotals)

    def add(self, sample: UseSample, at: float, interval_s: float, *, is_suspended: bool = False) -> None:
        """A sample at `at` (UTC seconds); `interval_s`: the usual time between two. `is_suspended`: the attempt is, so
        that it cannot be blamed for being idle.
        """
        passed_s = at - self.last_at
        seconds = max(0.0, passed_s if passed_s <= GAP * interval_s else interval_s)
        if not is_suspended:
            self.idle.add(sample, at, seconds, unseen_w=self._unseen_w(sample, passed_s, seconds))
        self._add_energy(sample, passed_s, seconds, interval_s)
        self._add_counters(sample, passed_s, seconds, interval_s)
        self.last_at = at
        self.samples += 1
        self.covered_s += seconds
        values = {
            "sm": sample.sm_percent,
            "traffic": sample.traffic_percent,
            "mem": sample.mem_mib,
            "power": sample.power_w,
            **sample.profile,
        }
        known = {name: value for name, value in values.items() if value is not None}
        for name, value in known.items():
            self.measures.setdefault(name, TimedMeasure()).add(value, seconds)
        self.curve.add(at, seconds, known)
        if sample.sm_percent is not None:
            percent = round(sample.sm_percent)
            self.sm_seconds[percent] = self.sm_seconds.get(percent, 0.0) + seconds
            self.idle_s += seconds if sample.sm_percent <= 0.0 else 0.0
        if sample.own is not None:
            self.listed_s += seconds
            self.no_process_s += 0.0 if sample.own else seconds
            self.processes.add(sample.own, seconds)
        if sample.throttle is not None:
            self._add_throttling(sample.throttle, seconds)

    def _unseen_w(self, sample: UseSample, passed_s: float, seconds: float) -> float | None:
        """Mean power since the last sample, by the counter, where that is longer ago than this one stands for, or this
        one does not tell how busy the device was.
        """
        before, now = self.last_energy_j, sample.energy_j
        if before is None or now is None or now < before or passed_s <= 0.0:
            return None
        return (now - before) / passed_s if passed_s > seconds or sample.sm_percent is None else None

    def _add_throttling(self, reasons: int, seconds: float) -> None:
        self.clocked_s += seconds
        self.throttled_s += seconds if reasons & clock_reasons.THROTTLING else 0.0
        self.throttled_power_s += seconds if reasons & clock_reasons.POWER else 0.0
        self.throttled_heat_s += seconds if reasons & clock_reasons.HEAT else 0.0

    @property
    def is_counting(self) -> bool:
        """Whether the next look can find how far a counter of the device has come, or what it says of processes that
        have ended.
        """
        is_metered = self.last_energy_j is not None or any(each.last is not None for each in self.counters.values())
        return is_metered or self.processes.is_accounted

    def end(self, last: UseSample, at: float, interval_s: float) -> None:
        """The attempt is over: only the counters still tell of it."""
        passed_s = at - self.last_at
        counters = UseSample(energy_j=last.energy_j, counters=last.counters)
        if last.energy_j is not None and self.last_energy_j is not None:
            self._add_energy(counters, passed_s, 0.0, interval_s)
        self._add_counters(counters, passed_s, 0.0, interval_s)

    def account(self, ended: Iterable[ProcessUse], *, are_own: bool) -> None:
        """What the driver says of processes that have ended. `are_own`: nobody else has been on the device; otherwise
        those alone are the attempt's that were seen before.
        """
        self.processes.end(ended, self.curve.since if are_own else None)

    def _add_counters(self, sample: UseSample, passed_s: float, seconds: float, interval_s: float) -> None:
        for name in {**self.counters, **sample.counters, **sample.rates}:
            rate = sample.rates.get(name)
            most = math.inf if name in ERRORS else MOST_MIB_S * max(passed_s, interval_s)
            counter = self.counters.setdefault(name, CounterSum())
            counter.add(sample.counters.get(name), None if rate is None else rate * seconds, most)

    def _add_energy(self, sample: UseSample, passed_s: float, seconds: float, interval_s: float) -> None:
        """By the counter, also over a hole; by power where there is no counter, or one that went astray."""
        before, self.last_energy_j = self.last_energy_j, sample.energy_j
        if before is not None and sample.energy_j is not None:
            consumed_j = sample.energy_j - before
            if 0.0 <= consumed_j <= MOST_W * max(passed_s, interval_s):
                self.counted_j = (self.counted_j or 0.0) + consumed_j
                return
        if sample.power_w is not None and seconds > 0.0:
            self.by_power_j = (self.by_power_j or 0.0) + sample.power_w * seconds

    def summary(self, host: str) -> GpuUsage:
        """What is told of it."""
        sm, traffic = self._sm(), self._measure("traffic")
        mem, power = self._measure("mem"), self._measure("power")
        processes, more = self.processes.told()
        known_j = [part for part in (self.counted_j, self.by_power_j) if part is not None]
        return GpuUsage(
            host=host,
            index=self.index,
            uuid=self.uuid,
            samples=self.samples,
            covered_s=self.covered_s,
            sm_mean=self._accounted_mean() if sm.mean is None else sm.mean,
            sm_median=self._percentile(sm, 0.5),
            sm_p95=self._percentile(sm, 0.95),
            sm_min=sm.low,
            sm_max=sm.high,
            mem_mean_mib=mem.mean,
            mem_max_mib=_most(mem.high, self.processes.peak_mib),
            traffic_mean=traffic.mean,
            traffic_min=traffic.low,
            traffic_max=traffic.high,
            power_mean_w=power.mean,
            energy_j=sum(known_j) if known_j else None,
            energy_counted=self.counted_j is not None and self.by_power_j is None,
            idle_s=self.idle_s if sm.seconds > 0.0 else None,
            no_process_s=self.no_process_s if self.listed_s > 0.0 else None,
            throttled_s=self.throttled_s if self.clocked_s > 0.0 else None,
            throttled_power_s=self.throttled_power_s if self.clocked_s > 0.0 else None,
            throttled_heat_s=self.throttled_heat_s if self.clocked_s > 0.0 else None,
            **{name: counter.total for name in (*TRAFFIC, *ERRORS) if (counter := self.counters.get(name))},
            **{f"{name}_mean": self._measure(name).mean for name in PROFILE},
            processes=processes,
            more_processes=more,
        )

    def _sm(self) -> TimedMeasure:
        """How much it computed. Samples that tell only of the time without a process tell nothing: that was not all."""
        sm = self._measure("sm")
        is_partial = self.processes.is_unmeasured and sm.seconds < MOST_SEEN * self.covered_s
        return TimedMeasure() if is_partial else sm

    def _accounted_mean(self) -> float | None:
        """Percent of the time, by the driver's accounts of its processes."""
        busy_s = self.processes.accounted_busy_s()
        return None if busy_s is None or self.covered_s <= 0.0 else min(100.0, 100.0 * busy_s / self.covered_s)

    def _measure(self, name: str) -> TimedMeasure:
        return self.measures.get(name) or TimedMeasure()

    def _percentile(self, sm: TimedMeasure, part: float) -> float | None:
        """The use that was not exceeded in this part of the time, to a percent."""
        whole_s = sum(self.sm_seconds.values())
        if whole_s <= 0.0 or sm.low is None or sm.high is None:
            return None
        seen_s = 0.0
        for percent in sorted(self.sm_seconds):
            seen_s += self.sm_seconds[percent]
            if seen_s >= part * whole_s:
                return min(max(float(percent), sm.low), sm.high)
        return sm.high


def _most(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def begun(uuid: str, index: int, at: float, interval_s: float, first: UseSample) -> DeviceTotals:
    """Nothing seen yet, from `at` on. `first`: where the counters stand then, and which processes there are."""
    curve = UseCurve(since=at, step_s=interval_s)
    counters = {name: CounterSum(last=value) for name, value in first.counters.items()}
    found = DeviceTotals(
        uuid=uuid, index=index, curve=curve, last_at=at, last_energy_j=first.energy_j, counters=counters
    )
    found.processes.add(first.own or (), 0.0)
    return found
