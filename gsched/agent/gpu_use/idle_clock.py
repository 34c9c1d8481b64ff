"""How long a GPU has been idle, and in which way, by the samples of its use. Pure: time comes as an argument.

Two stretches of time are kept, however long they become: the one since the GPU last showed any use, and the one since
it last worked, in which it may have shown use that was none (see IdleKind.FAKED). One look that shows work ends both.
What a look cannot tell, a time in which nobody looked, and one in which the job was suspended neither count as idle nor
end a stretch, unless the counter of energy says that the GPU has worked meanwhile.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from gsched.agent.gpu_use.use_sample import UseSample
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleKind, IdleLimits

FAKED_FROM = 50.0
"""Percent: who keeps a GPU busy, or hangs in a kernel, shows no less. Small models show less, and no traffic either."""
FAKED_SHARE = 0.5
"""Of a stretch must have shown such use."""
UNSEEN_MORE = 1.25
UNSEEN_MORE_W = 15.0
"""A mean power so much above all that was seen while it was idle says that it has worked."""


class Look(Enum):
    """What one sample shows."""

    WORKS = "works"
    IDLE = "idle"
    FAKED = "faked"
    UNKNOWN = "unknown"


def look_at(sample: UseSample, limits: IdleLimits) -> Look:
    """What the sample shows. A limit that the driver tells nothing of is not kept."""
    if sample.has_no_process:
        return Look.IDLE
    used, traffic = sample.most_used, sample.traffic_percent
    if used is None or traffic is None:
        return Look.WORKS if used is not None and used >= limits.util else Look.UNKNOWN
    if traffic >= limits.traffic:
        return Look.WORKS
    if used < limits.util:
        return Look.IDLE
    return Look.FAKED if _is_faked(sample, limits) else Look.WORKS


def _is_faked(sample: UseSample, limits: IdleLimits) -> bool:
    if sample.sm_percent is None or sample.power_w is None or not sample.power_limit_w:
        return False
    return sample.sm_percent >= FAKED_FROM and sample.power_w < limits.power / 100.0 * sample.power_limit_w


class IdleStretch(msgspec.Struct, kw_only=True):
    """A time without work up to now."""

    since: float
    """UTC seconds."""
    seconds: float = 0.0
    faked_s: float = 0.0
    """Of these."""
    used_high: float | None = None
    """Percent; of looks that showed a process of the job, or did not tell."""
    faked_low: float | None = None
    traffic_high: float | None = None
    power_high: float | None = None
    without_process: bool = True
    """At no look was there a process of the job."""

    def add(self, sample: UseSample, seconds: float, *, faked: bool) -> None:
        self.seconds += seconds
        self.power_high = _more(self.power_high, sample.power_w)
        if sample.has_no_process:
            return
        self.without_process = False
        self.traffic_high = _more(self.traffic_high, sample.traffic_percent)
        if faked:
            self.faked_s += seconds
            if sample.sm_percent is not None:
                low = self.faked_low
                self.faked_low = sample.sm_percent if low is None else min(low, sample.sm_percent)
        else:
            self.used_high = _more(self.used_high, sample.most_used)

    def is_below(self, limits: IdleLimits) -> bool:
        """Whether all of it would be idle by these limits as well."""
        used, traffic = self.used_high, self.traffic_high
        return (used is None or used < limits.util) and (traffic is None or traffic < limits.traffic)

    def has_worked_unseen(self, mean_w: float | None) -> bool:
        """Whether so much power tells of work that no look has shown."""
        if mean_w is None or self.power_high is None:
            return False
        return mean_w > max(self.power_high * UNSEEN_MORE, self.power_high + UNSEEN_MORE_W)


class IdleClock(msgspec.Struct, kw_only=True):
    """How long one device of one attempt has been idle, as it is kept in the attempt's folder."""

    limits: IdleLimits = IdleLimits()
    has_worked: bool = False
    is_known: bool = False
    """The last look told enough."""
    mem_mib: float | None = None
    unused: IdleStretch | None = None
    """Without any use."""
    workless: IdleStretch | None = None
    """Without work. Begins no later than `unused`."""

    def judge_by(self, limits: IdleLimits) -> None:
        """Other limits hold from now on; what would not have been idle by them does not count any more."""
        if limits == self.limits:
            return
        self.limits = limits
        if self.unused is not None and not self.unused.is_below(limits):
            self.unused = None
        self.workless = None if self.unused is None else msgspec.structs.replace(self.unused)

    def add(self, sample: UseSample, at: float, seconds: float, *, unseen_w: float | None = None) -> None:
        """A look at `at` (UTC seconds) that stands for so many seconds before it. `unseen_w`: mean power since the look
        before, where that is longer ago than those, or this one tells nothing.
        """
        look = look_at(sample, self.limits)
        self.is_known = look is not Look.UNKNOWN
        if sample.mem_mib is not None:
            self.mem_mib = sample.mem_mib
        if look is Look.WORKS or (self.workless is not None and self.workless.has_worked_unseen(unseen_w)):
            self.has_worked = True
            self.unused = self.workless = None
        if look is Look.FAKED:
            self.unused = None
        if look in (Look.IDLE, Look.FAKED):
            self.workless = self.workless or IdleStretch(since=at - seconds)
            self.workless.add(sample, seconds, faked=look is Look.FAKED)
        if look is Look.IDLE:
            self.unused = self.unused or IdleStretch(since=at - seconds)
            self.unused.add(sample, seconds, faked=False)

    def told(self, host: str, index: int, uuid: str) -> GpuIdleness:
        """What is told of it."""
        stretch, kind = self._stretch()
        if stretch is None or not stretch.seconds:
            return GpuIdleness(host=host, index=index, uuid=uuid, is_known=self.is_known)
        is_faked = kind is IdleKind.FAKED
        return GpuIdleness(
            host=host,
            index=index,
            uuid=uuid,
            kind=kind,
            idle_s=stretch.seconds,
            since=stretch.since,
            is_known=self.is_known,
            util_max=stretch.faked_low if is_faked else stretch.used_high,
            traffic_max=stretch.traffic_high,
            power_max_w=stretch.power_high,
            mem_mib=self.mem_mib,
        )

    def _stretch(self) -> tuple[IdleStretch | None, IdleKind]:
        workless = self.workless
        if workless is not None and 0.0 < workless.faked_s >= FAKED_SHARE * workless.seconds:
            return workless, IdleKind.FAKED
        if self.unused is not None and self.unused.without_process:
            return self.unused, IdleKind.NO_PROCESS
        return self.unused, IdleKind.STOPPED if self.has_worked else IdleKind.HELD


def _more(before: float | None, value: float | None) -> float | None:
    return before if value is None else value if before is None else max(before, value)
