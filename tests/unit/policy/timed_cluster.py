"""A small cluster in time: whole cycles one after the other, whose jobs start and end as they are decided."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from placing_cluster import Cluster, Line

from gsched.model.jobs.reason import PlannedStart
from gsched.model.ledgers.allocation import Allocation
from gsched.model.ledgers.ledger import miscounts
from gsched.model.queues.window import is_open
from gsched.model.scheduling.snapshot import Bucket, Plan, RequirementClass, Running, Snapshot
from gsched.policy.cycle import schedule
from gsched.policy.limits.limit_members import groups_above
from gsched.policy.match.host_fit import misfit

SUNDAY_MIN = 7 * 24 * 60
DUST_S = 1e-6
"""A promise is kept by a job that starts so much later: one that is to start as soon as another has ended does so in
the next moment that a clock can show, and those that wait for its end move by as much.
"""


class TimedCluster(Cluster):
    """See the module. Times are seconds, and at 0 it is Sunday 00:00; a job ends by its run limit, or before."""

    def __init__(self, *hosts: Any, terminate_s: float = 0.0, **more: Any) -> None:
        super().__init__(*hosts, **more)
        self.terminate_s = terminate_s
        self.planned: dict[int, PlannedStart] = {}
        self.first_promise: dict[int, float] = {}
        """Job -> the first time that it was planned for while nobody came before it."""
        self.started: dict[int, float] = {}
        self.arrived: dict[int, float] = {}
        self.lasts: dict[int, float] = {}
        self._ends: list[tuple[float, int]] = []
        self._stopped: dict[int, tuple[float, float]] = {}
        """Preempted job -> since when, and when it would have ended."""

    def hold_until(self, ends_at: float, bucket: Bucket, allocation: Allocation) -> int:
        """A job that runs from the beginning."""
        self.last += 1
        self.ledger.take((self.last, 1), allocation)
        self._run(self.last, bucket, allocation, 0.0, ends_at)
        return self.last

    def _run(self, job_id: int, bucket: Bucket, allocation: Allocation, now: float, ends_at: float) -> None:
        self.running[job_id] = Running(job_id, 1, bucket, allocation, "RUN", now, ends_at)
        heapq.heappush(self._ends, (min(ends_at, now + self.lasts.get(job_id, math.inf)), job_id))

    def snapshot(self, now: float = 0.0) -> Snapshot:
        pending: dict[RequirementClass, dict[Bucket, Line]] = {}
        for bucket, ids in self.pending.items():
            if ids:
                pending.setdefault(bucket.requirement, {})[bucket] = Line(ids, self.priorities)
        queues: Counter[str] = Counter()
        owners: Counter[tuple[str, str]] = Counter()
        arrays: Counter[int] = Counter()
        groups: Counter[str] = Counter()
        for each in self.running.values():
            queues[each.bucket.queue] += each.allocation.slots
            owners[each.bucket.queue, each.bucket.user] += each.allocation.slots
            arrays[each.bucket.array] += 1
            groups.update(groups_above(each.bucket.job_group) if each.bucket.job_group else ())
        return Snapshot(
            queues=self.queues,
            hosts=self.hosts,
            ledger=self.ledger.fork(),
            pending=pending,
            running=self.running,
            local_type="LINUX",
            planned=self.planned,
            queue_slots=queues,
            queue_user_slots=owners,
            array_jobs=arrays,
            job_group_jobs=groups,
            minute_of_week=int(now // 60) % SUNDAY_MIN,
            inactive_queues=self._closed(int(now // 60) % SUNDAY_MIN),
            terminate_s=self.terminate_s,
            **self.options,
        )

    def _closed(self, minute: int) -> dict[str, str]:
        return {
            name: "The queue is inactivated by its time windows"
            for name, queue in self.queues.items()
            if not is_open(queue.dispatch_window, minute)
        }

    def _openings(self) -> list[float]:
        """When windows of queues open on the first day."""
        return [60.0 * each.start for queue in self.queues.values() for each in queue.dispatch_window]

    def step(self, now: float) -> Plan:
        """End what ends by now, then one cycle, carried out."""
        while self._ends and self._ends[0][0] <= now:
            _, job_id = heapq.heappop(self._ends)
            ended = self.running.pop(job_id)
            self.ledger.give(ended.key, ended.allocation)
        plan = self.plan_at(now)
        buckets = {job_id: bucket for bucket, ids in self.pending.items() for job_id in ids}
        for each in plan.preempted:
            self._suspend(each.job_id, now)
        for placement in plan.placements:
            bucket, job_id = buckets[placement.job_id], placement.job_id
            assert not misfit(self.ledger, (job_id, 1), placement.allocation)
            self.ledger.take((job_id, 1), placement.allocation)
            self.pending[bucket].remove(job_id)
            self._pass_on(job_id, bucket)
            self.started[job_id] = now
            run_s = bucket.requirement.run_s
            self._run(job_id, bucket, placement.allocation, now, math.inf if run_s is None else now + run_s)
        for job_id in plan.resumed:
            self._resume(job_id, now)
        self.planned = {job_id: each for job_id, each in plan.planned.items() if job_id not in self.started}
        self._audit(now)
        return plan

    def plan_at(self, now: float) -> Plan:
        """A cycle of which nothing has come yet."""
        return schedule(self.snapshot(now), now, 10_000)

    def _suspend(self, job_id: int, now: float) -> None:
        victim = self.running[job_id]
        self.ledger.suspend(victim.key, victim.allocation)
        self.running[job_id] = victim._replace(state="SSUSP", preempted=victim.preempted + 1)
        (end,) = (end for end, other in self._ends if other == job_id)
        self._stopped[job_id] = (now, end)
        self._ends.remove((end, job_id))
        heapq.heapify(self._ends)

    def _resume(self, job_id: int, now: float) -> None:
        victim = self.running[job_id]
        self.ledger.resume(victim.key, victim.allocation)
        since, end = self._stopped.pop(job_id)
        later = now - since
        self.running[job_id] = victim._replace(state="RUN", ends_at=victim.ends_at + later, resumed_at=now)
        heapq.heappush(self._ends, (end + later, job_id))

    def _pass_on(self, job_id: int, bucket: Bucket) -> None:
        """Among jobs of one kind the turn decides who has the place: one that a limit kept back takes it again."""
        for other, ids in self.pending.items():
            if (other.queue, other.requirement) == (bucket.queue, bucket.requirement):
                for later in ids:
                    if later > job_id:
                        self.first_promise.pop(later, None)

    def _priority(self, bucket: Bucket) -> int:
        return self.queues[bucket.queue].priority

    def play(self, jobs: Iterable[tuple[float, Bucket, float]]) -> None:
        """`jobs`: arrival, what, how long it lasts. Plays until all have ended that can, and keeps to every promise."""
        coming = sorted(jobs, key=lambda each: each[0])
        now = -math.inf
        while True:
            planned = [each.at for each in self.planned.values() if each.at is not None and each.at > now]
            edges = [edge for each in self.options.get("reservations", ()) for edge in (each.start, each.end)]
            times = [
                *(each[0] for each in coming),
                *(end for end, _ in self._ends),
                *planned,
                *edges,
                *self._openings(),
            ]
            now = min((each for each in times if each > now), default=math.inf)
            if math.isinf(now):
                return
            while coming and coming[0][0] <= now:
                at, bucket, lasts = coming.pop(0)
                (job_id,) = self.add(bucket)
                self.arrived[job_id], self.lasts[job_id] = at, lasts
            self.step(now)

    def _audit(self, now: float) -> None:
        for host_ledger in self.ledger.hosts.values():
            assert not list(miscounts(host_ledger))
        waiting = {job_id: bucket for bucket, ids in self.pending.items() for job_id in ids}
        head = min(waiting, key=lambda job_id: (-self._priority(waiting[job_id]), job_id), default=0)
        plan = self.planned.get(head)
        if plan is not None and plan.at is not None:
            first = self.first_promise.setdefault(head, plan.at)
            assert plan.at <= first + DUST_S, f"job {head} was planned for {first}, at {now} for {plan.at}"
        for job_id, first in self.first_promise.items():
            assert job_id not in waiting or now < first + DUST_S, (
                f"job {job_id} was planned for {first} and waits at {now}"
            )
