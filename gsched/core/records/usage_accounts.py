"""Accounts: what users have used of queues (for fairshare) and of GPUs (for budgets). Kept by events, read at any time.

It decides nothing, holds no clock, and reading changes nothing, so that replaying the same events gives the same
accounts to the last bit. Reading costs what there are users, never running jobs. Source of the decay: lsb.params(5),
HIST_HOURS; which use counts: LSF's fairshare scheduling.

GPU hours are kept as a curve for each (user, queue, project): GPU seconds used up to a time, with a point wherever
the rate changed. Points that lie close together for their age are thinned out, so a window of W seconds is answered
to within W / 30 at its far end, and a curve has some hundred points however long it goes back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import SHARING, Allocation
from gsched.model.queues.limit import Limit
from gsched.model.scheduling.snapshot import FairshareUse
from gsched.policy.limits.limit_counts import budget_key, concerns
from gsched.policy.order.fairshare import member_name

DEFAULT_HIST_HOURS = 5.0
_HOUR_S = 3600.0
_FINENESS = 30.0
_FINEST_S = 60.0
_LONGEST_S = 400 * 24 * _HOUR_S
"""What was used longer ago is forgotten: no budget looks back so far."""
_FEW = 32
"""Points that are kept without a thought."""


def decay(value: float, elapsed_s: float, hist_hours: float) -> float:
    """What is left of a use after so many seconds: a tenth after HIST_HOURS; all of it when that is 0."""
    if hist_hours <= 0 or elapsed_s <= 0:
        return value
    return float(value * 10.0 ** (-elapsed_s / (hist_hours * _HOUR_S)))


class Charge(msgspec.Struct, frozen=True, array_like=True):
    """A started job, as it was when it started."""

    queue: str
    user: str
    project: str
    member: str
    slots: int
    gpus: int
    """Held alone."""
    gpu_rate: float
    """GPUs it is charged for; one that it holds in part counts by its share."""
    started_at: float
    committed_s: float


class UseTally(msgspec.Struct, array_like=True):
    """What one user (or one of a group's users) has used of a queue.

    The first four are as of `decayed_at`, the sums over running jobs as of `settled_at`.
    """

    decayed_at: float
    cpu_s: float = 0.0
    hist_run_s: float = 0.0
    hist_gpu_s: float = 0.0
    settled_at: float = 0.0
    jobs: int = 0
    slots: int = 0
    gpus: int = 0
    run_s: float = 0.0
    gpu_s: float = 0.0
    committed_s: float = 0.0

    def settle(self, at: float, hist_hours: float) -> None:
        """Bring everything to the time."""
        elapsed = max(0.0, at - self.settled_at) if self.jobs else 0.0
        self.run_s += self.jobs * elapsed
        self.gpu_s += self.gpus * elapsed
        self.settled_at = max(at, self.settled_at)
        past = max(0.0, at - self.decayed_at)
        self.cpu_s = decay(self.cpu_s, past, hist_hours)
        self.hist_run_s = decay(self.hist_run_s, past, hist_hours)
        self.hist_gpu_s = decay(self.hist_gpu_s, past, hist_hours)
        self.decayed_at = max(at, self.decayed_at)

    def use(self, now: float, hist_hours: float) -> FairshareUse:
        """As of `now`."""
        elapsed = max(0.0, now - self.settled_at)
        past = max(0.0, now - self.decayed_at)
        return FairshareUse(
            cpu_s=decay(self.cpu_s, past, hist_hours),
            hist_run_s=decay(self.hist_run_s, past, hist_hours),
            run_s=self.run_s + self.jobs * elapsed,
            slots=self.slots,
            jobs=self.jobs,
            hist_gpu_s=decay(self.hist_gpu_s, past, hist_hours),
            gpu_s=self.gpu_s + self.gpus * elapsed,
            gpus=self.gpus,
            committed_s=self.committed_s,
        )


class Meter(msgspec.Struct, array_like=True):
    """The GPU seconds of one (user, queue, project): a curve of totals over time, and the rate since its last point."""

    user: str
    queue: str
    project: str
    times: list[float] = []
    totals: list[float] = []
    jobs: int = 0
    rate: float = 0.0
    thin_at: int = _FEW

    def change(self, at: float, rate: float, jobs: int) -> None:
        """From `at` on so many GPUs and jobs more, or fewer."""
        if not self.times or at > self.times[-1]:
            self.totals.append(self._total(at))
            self.times.append(at)
            if len(self.times) > self.thin_at:
                self._thin(at)
        self.jobs += jobs
        # Shares such as 0.1 leave crumbs when they are added and taken away again.
        self.rate = self.rate + rate if self.jobs else 0.0

    def used(self, now: float, window_s: float) -> float:
        """GPU seconds within the last `window_s` seconds."""
        return self._total(now) - self._total(now - window_s)

    def _total(self, at: float) -> float:
        times, totals = self.times, self.totals
        if not times or at <= times[0]:
            return totals[0] if totals else 0.0
        if at >= times[-1]:
            return totals[-1] + self.rate * (at - times[-1])
        right = bisect_left(times, at)
        begin, end = times[right - 1], times[right]
        return totals[right - 1] + (totals[right] - totals[right - 1]) * (at - begin) / (end - begin)

    def _thin(self, now: float) -> None:
        """Drop points whose neighbours lie close enough for their age."""
        times, totals = self.times, self.totals
        kept = [len(times) - 1]
        for place in range(len(times) - 2, -1, -1):
            after = times[kept[-1]]
            before = times[place - 1] if place else times[0]
            if now - after > _LONGEST_S:
                break
            if place == 0 or after - before > max(_FINEST_S, (now - after) / _FINENESS):
                kept.append(place)
        kept.reverse()
        self.times = [times[place] for place in kept]
        self.totals = [totals[place] for place in kept]
        self.thin_at = 2 * len(kept) + _FEW


class _Stored(msgspec.Struct):
    """The form of `dump`."""

    hist_hours: float
    charges: dict[int, Charge]
    tallies: dict[str, dict[str, UseTally]]
    meters: list[Meter]
    queue_hours: dict[str, float] = {}


class UsageAccounts:
    """All accounts. `hist_hours`: HIST_HOURS, `queue_hours` that of queues which have their own; past use is decayed by
    what holds when time passes.
    """

    def __init__(self, hist_hours: float = DEFAULT_HIST_HOURS) -> None:
        self.hist_hours = hist_hours
        self.queue_hours: dict[str, float] = {}
        self._charges: dict[int, Charge] = {}
        self._tallies: dict[str, dict[str, UseTally]] = {}
        self._meters: dict[tuple[str, str, str], Meter] = {}

    def configure(self, hist_hours: float, at: float, queue_hours: Mapping[str, float] | None = None) -> None:
        """HIST_HOURS is so much from `at` on: to be called after a replay and at every reconfig."""
        changed = dict(queue_hours or {})
        if (hist_hours, changed) == (self.hist_hours, self.queue_hours):
            return
        for queue, members in self._tallies.items():
            for tally in members.values():
                tally.settle(at, self._hours(queue))
        self.hist_hours, self.queue_hours = hist_hours, changed

    def _hours(self, queue: str) -> float:
        return self.queue_hours.get(queue, self.hist_hours)

    def started(self, job_id: int, spec: JobSpec, allocation: Allocation, at: float) -> None:
        """The job has been given the allocation."""
        self.ended(job_id, at, 0.0)  # nobody holds two allocations
        gpus = [gpu for part in allocation.hosts for gpu in part.gpus]
        self._begin(
            job_id,
            Charge(
                queue=spec.queue,
                user=spec.user,
                project=spec.project,
                member=member_name(spec.user, spec.user_group),
                slots=allocation.slots,
                gpus=sum(gpu.claim not in SHARING for gpu in gpus),
                gpu_rate=float(sum(gpu.share for gpu in gpus)),
                started_at=at,
                committed_s=float(spec.run_limit_s or 0.0),
            ),
            at,
        )

    def ended(self, job_id: int, at: float, cpu_s: float) -> None:
        """The job holds nothing any more, after `cpu_s` seconds of CPU time. One that held nothing is passed over."""
        charge = self._charges.pop(job_id, None)
        if charge is None:
            return
        tally = self._leave(charge, at)
        ran_s = max(0.0, at - charge.started_at)
        tally.cpu_s += max(0.0, cpu_s)
        tally.hist_run_s += ran_s
        tally.hist_gpu_s += ran_s * charge.gpus

    def used_late(self, spec: JobSpec, at: float, cpu_s: float) -> None:
        """CPU seconds of a job that has ended, which were not known then."""
        self._tally(spec.queue, member_name(spec.user, spec.user_group), at).cpu_s += cpu_s

    def drop(self, job_id: int) -> None:
        """The job is known no longer; nobody can say for how long it went on."""
        charge = self._charges.pop(job_id, None)
        if charge is not None:
            self._leave(charge, self._tally(charge.queue, charge.member, charge.started_at).settled_at)

    def switched(self, job_id: int, queue: str, at: float) -> None:
        """A started job has been moved to another queue: what it has run so far moves with it."""
        charge = self._charges.get(job_id)
        if charge is not None and charge.queue != queue:
            self._leave(charge, at)
            self._begin(job_id, msgspec.structs.replace(charge, queue=queue), at)

    def resized(self, job_id: int, slots: int, at: float) -> None:
        """A started job has so many slots from now on."""
        charge = self._charges.get(job_id)
        if charge is not None and charge.slots != slots:
            self._leave(charge, at)
            self._begin(job_id, msgspec.structs.replace(charge, slots=slots), at)

    def shares(self, queue: str, now: float) -> dict[str, FairshareUse]:
        """Member (gsched.policy.order.fairshare.member_name) -> what he has used of the queue, decayed to `now`."""
        hist_hours = self._hours(queue)
        return {member: tally.use(now, hist_hours) for member, tally in self._tallies.get(queue, {}).items()}

    def shares_without(self, queue: str, job_id: int, now: float) -> dict[str, FairshareUse]:
        """The same as if this job, which has been started, had not been."""
        found, charge = self.shares(queue, now), self._charges.get(job_id)
        if charge is not None and charge.queue == queue and charge.member in found:
            use, ran_s = found[charge.member], max(0.0, now - charge.started_at)
            found[charge.member] = replace(
                use,
                slots=use.slots - charge.slots,
                jobs=use.jobs - 1,
                gpus=use.gpus - charge.gpus,
                run_s=max(0.0, use.run_s - ran_s),
                gpu_s=max(0.0, use.gpu_s - ran_s * charge.gpus),
                committed_s=max(0.0, use.committed_s - charge.committed_s),
            )
        return found

    def gpu_seconds(self, limits: Iterable[Limit], now: float) -> dict[str, float]:
        """GPU seconds within each budget's window up to `now`, by gsched.policy.limits.limit_counts.budget_key."""
        used: dict[str, float] = {}
        for limit in limits:
            if limit.gpu_hours is None:
                continue
            for who, meter in self._meters.items():
                if concerns(limit, *who):
                    key = budget_key(limit, *who)
                    used[key] = used.get(key, 0.0) + meter.used(now, limit.budget_window_s)
        return used

    def dump(self) -> bytes:
        """Everything, as JSON for a checkpoint."""
        stored = _Stored(self.hist_hours, self._charges, self._tallies, list(self._meters.values()), self.queue_hours)
        return msgspec.json.encode(stored)

    @classmethod
    def load(cls, data: bytes) -> UsageAccounts:
        """What `dump` gave; empty accounts for JSON's null. Raises msgspec.DecodeError for anything else."""
        accounts = cls()
        stored = msgspec.json.decode(data, type=_Stored | None)
        if stored is not None:
            accounts.hist_hours = stored.hist_hours
            accounts.queue_hours = stored.queue_hours
            accounts._charges = stored.charges
            accounts._tallies = stored.tallies
            accounts._meters = {(meter.user, meter.queue, meter.project): meter for meter in stored.meters}
        return accounts

    def _begin(self, job_id: int, charge: Charge, at: float) -> None:
        self._charges[job_id] = charge
        tally = self._tally(charge.queue, charge.member, at)
        ran_s = max(0.0, at - charge.started_at)
        tally.jobs += 1
        tally.slots += charge.slots
        tally.gpus += charge.gpus
        tally.run_s += ran_s
        tally.gpu_s += ran_s * charge.gpus
        tally.committed_s += charge.committed_s
        if charge.gpu_rate:
            who = (charge.user, charge.queue, charge.project)
            meter = self._meters.get(who)
            if meter is None:
                meter = self._meters[who] = Meter(*who)
            meter.change(at, charge.gpu_rate, 1)

    def _leave(self, charge: Charge, at: float) -> UseTally:
        tally = self._tally(charge.queue, charge.member, at)
        ran_s = max(0.0, at - charge.started_at)
        tally.jobs -= 1
        tally.slots -= charge.slots
        tally.gpus -= charge.gpus
        # What rounding leaves behind goes with the last job.
        tally.run_s = max(0.0, tally.run_s - ran_s) if tally.jobs else 0.0
        tally.gpu_s = max(0.0, tally.gpu_s - ran_s * charge.gpus) if tally.gpus else 0.0
        tally.committed_s = max(0.0, tally.committed_s - charge.committed_s) if tally.jobs else 0.0
        if charge.gpu_rate:
            self._meters[charge.user, charge.queue, charge.project].change(at, -charge.gpu_rate, -1)
        return tally

    def _tally(self, queue: str, member: str, at: float) -> UseTally:
        members = self._tallies.setdefault(queue, {})
        tally = members.get(member)
        if tally is None:
            tally = members[member] = UseTally(decayed_at=at, settled_at=at)
        tally.settle(at, self._hours(queue))
        return tally
