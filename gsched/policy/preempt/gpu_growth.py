"""Idle GPUs are lent to jobs with a range (num=2..8): to those that start in the cycle, and to those that run.

It comes after all waiting jobs were served, and gives away only what no waiting job could use on that host, however
much were free there, and where nothing is planned for others. A job that starts simply gets more; one that runs ends
first, so it is left alone for a while after its start. It ends nothing itself: the plan says who is to go on with more.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial

from msgspec import structs

from gsched.base.errors import RequirementError
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation, with_gpus
from gsched.model.ledgers.devices import held_of
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.snapshot import Bucket, Placement, Resize, Running, Snapshot
from gsched.policy.backfill.asks_fit import AsksFit
from gsched.policy.backfill.reservations import Reservations
from gsched.policy.devices.gpu_choice import candidates
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.demand_cache import Demands
from gsched.policy.requirement.gpu_range import claim_rank, devices_of_range, resizable_part
from gsched.policy.requirement.reasons import Reason

MOST_KINDS = 512
"""Where more kinds of jobs wait, nothing is lent: to look at all of them would take too long."""


class GpuGrowth:
    """For one cycle, at its end."""

    def __init__(
        self,
        snapshot: Snapshot,
        now: float,
        trial: AsksFit,
        limits: LimitUse,
        reservations: Reservations,
        demands: Demands,
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        self._trial = trial
        self._limits = limits
        self._reservations = reservations
        self._demands = demands
        self._wanted: dict[str, bool] = {}
        """Host -> whether jobs that wait could use GPUs there."""
        self._lent: dict[str, set[str]] = {}
        """Host -> UUIDs of what was lent here."""

    def lend(
        self, placements: Sequence[Placement], elastic: Sequence[tuple[int, Bucket]], gone: Container[int]
    ) -> tuple[list[Placement], list[Resize]]:
        """The cycle's placements, with more GPUs where they are idle, and the started jobs that get more.

        `elastic`: places in `placements` of jobs with a range, each with its bucket; `gone`: jobs that make room for
        others.
        """
        found = list(placements)
        if not self._snapshot.shows_all_waiting:
            return found, []
        placed = {each.job_id for each in placements} if elastic or self._snapshot.elastic else set()
        for number, bucket in elastic:
            placement = found[number]
            more = self._more(bucket, placement.allocation, placed)
            if more is not None:
                found[number] = structs.replace(placement, allocation=more)
        return found, self._growing(placed, gone)

    def _growing(self, placed: Container[int], gone: Container[int]) -> list[Resize]:
        snapshot, grown = self._snapshot, []
        started = [snapshot.running[job_id] for job_id in snapshot.elastic if job_id in snapshot.running]
        for each in sorted(started, key=partial(claim_rank, snapshot.queues)):
            if each.state != "RUN" or each.is_ending or each.job_id in gone or not self._has_run_long_enough(each):
                continue
            more = self._more(each.bucket, each.allocation, placed)
            if more is not None:
                grown.append(Resize(each.job_id, more))
        return grown

    def _has_run_long_enough(self, running: Running) -> bool:
        return self._now - running.started_at >= self._snapshot.gpu_grow_interval_s

    # -- one job --------------------------------------------------------------------------------------------------

    def _more(self, bucket: Bucket, allocation: Allocation, placed: Container[int]) -> Allocation | None:
        """The allocation with as many more of the host's GPUs as the job may have; None where that is none."""
        part, demand = resizable_part(allocation), self._demands.of(bucket.requirement)
        if part is None or isinstance(demand, RequirementError) or len(part.gpus) >= demand.most_gpus:
            return None
        if not self._may_lend(bucket, part.host, placed):
            return None
        idle = self._idle(part.host, demand)[: demand.most_gpus - len(part.gpus)]
        while idle and not self._is_allowed(bucket, HostAllocation(host=part.host, slots=0, gpus=tuple(idle))):
            idle.pop()
        if not idle:
            return None
        self._lent.setdefault(part.host, set()).update(each.uuid for each in idle)
        extra = HostAllocation(host=part.host, slots=0, gpus=tuple(idle))
        self._limits.guarantees.hand_out(extra)
        self._limits.count(bucket, Allocation(hosts=(extra,)))
        return with_gpus(allocation, tuple(sorted((*part.gpus, *idle), key=lambda gpu: gpu.index)))

    def _idle(self, host: str, demand: Demand) -> list[HeldGpu]:
        """GPUs of the host that the job could have and nobody holds."""
        wanted = devices_of_range(demand)
        if wanted is None:
            return []
        ledger, lent = self._snapshot.ledger.host(host), self._lent.get(host, ())
        free = candidates(ledger, wanted.kind) if ledger.gpus_known else []
        idle = [gpu for gpu in free if gpu.uuid not in ledger.holders and gpu.uuid not in lent]
        return [held_of(gpu, wanted.kind.claim, gmem_mib=wanted.kind.gmem_mib) for gpu in idle]

    def _is_allowed(self, bucket: Bucket, extra: HostAllocation) -> bool:
        """Whether limits of GPUs let the job have these beside what it has; it is no other job by that."""
        if self._limits.guarantees.refusal(bucket, (extra,)) is not None:
            return False
        minute = self._snapshot.minute_of_week
        for claim in self._limits.claims(bucket, (extra,), minute):
            counts_gpus = claim.counter.section is not None and claim.counter.resource.startswith("ngpus")
            if counts_gpus and claim.used + claim.take > claim.allowed:
                return False
        ends_at = self._now + self._reservations.future.run_s(bucket)
        return self._reservations.keeps_limits((extra,), ends_at, bucket) is None

    # -- one host -------------------------------------------------------------------------------------------------

    def _may_lend(self, bucket: Bucket, host: str, placed: Container[int]) -> bool:
        """Whether the host is open and nobody else could want its GPUs."""
        seen = self._snapshot.hosts.get(host)
        if seen is None or seen.closed or host in self._reservations.hosts() or self._limits.is_stopped(bucket):
            return False
        if host not in self._wanted:
            self._wanted[host] = self._is_wanted(host, placed)
        return not self._wanted[host]

    def _is_wanted(self, host: str, placed: Container[int]) -> bool:
        """Whether a job waits that could ever run there with GPUs; one that a limit keeps waiting does not count."""
        emptied: HostLedger | None = None
        for number, (requirement, buckets) in enumerate(self._snapshot.pending.items()):
            if number >= MOST_KINDS:
                return True
            demand = self._demands.of(requirement)
            if isinstance(demand, RequirementError) or not (demand.least().get("ngpus") or requirement.auto_gpu):
                continue
            for bucket, line in buckets.items():
                if self._limits.reason(bucket) is not None or all(job_id in placed for _, job_id in line):
                    continue
                if emptied is None:
                    emptied = self._snapshot.ledger.host(host).emptied()
                if self._could_run(bucket, demand, host, emptied):
                    return True
        return False

    def _could_run(self, bucket: Bucket, demand: Demand, host: str, emptied: HostLedger) -> bool:
        if host not in self._trial.candidates(bucket, demand):
            return False
        if not all(need.on_one for need in self._trial.needs(bucket, demand)):
            return True
        return not isinstance(self._trial.place(bucket, demand, [host], lambda _: emptied), Reason)
