"""When a pending job is expected to start, and whose ends that waits for.

What a cycle has reserved for it is told as it is, unless jobs of higher queues wait that nothing is reserved for: they
come before it. Otherwise the starts of all that wait are planned for this answer,
each in serving order, as if its queue reserved for them all; where too many wait, as if the job were the only one. It
changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from gsched.base.coded_text import coded, has_code
from gsched.base.ids import show_job
from gsched.core.dispatch.start_forecast import MOST_WAITING, PlanCycle, waiting_jobs
from gsched.core.explaining.hosts_in_way import expected_end
from gsched.core.records.job import JobRecord
from gsched.core.scheduling_cycles import SeeAnew
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.pending_jobs import PendingJobs
from gsched.model.jobs.reason import NEVER, UNKNOWN, PlannedStart
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Plan, Running, Snapshot
from gsched.model.views.explanation import AwaitedEnd
from gsched.policy.backfill.planned_reasons import OTHER_PLANNED
from gsched.policy.backfill.reserved_start import NOT_LOOKED_AT, ReservedStart
from gsched.policy.backfill.start_planner import OTHERS_FIRST
from gsched.policy.future.bookings import NEVER_ENDS
from gsched.policy.future.future_ledgers import Future

BUDGET = 1_000
"""Steps of the plan."""
MOST_AWAITED = 4
"""Ends that are told."""
SLACK_S = 1.0
"""An end counts as what a start waits for if it comes no later than this after it."""
ALIKE_S = 60.0
"""An end that comes longer before the start than this is not what the start waits for."""


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """What is known of the start; see JobExplanation for the fields."""

    starts_now: bool = False
    planned: PlannedStart | None = None
    is_reserved: bool = False
    is_alone: bool = False
    awaits: tuple[AwaitedEnd, ...] = ()


def expected_start(
    state: ClusterState,
    job: JobRecord,
    now: float,
    told: Mapping[int, PlannedStart],
    seen: SeeAnew,
    plan: PlanCycle,
    *,
    is_new: bool = False,
) -> Generator[None, None, ExpectedStart]:
    """`told`: what the last cycle planned. `job` waits for a place, or would if it were submitted (`is_new`). Yields
    where a turn is over.
    """
    known = told.get(job.job_id)
    if known is not None and _is_told(known) and (known.at is None or not _others_first(state, job, told, seen())):
        snapshot = seen()
        return ExpectedStart(
            planned=_plain(known), is_reserved=known.at is not None, awaits=_awaits(snapshot, now, job, known, told)
        )
    others = waiting_jobs(state)
    is_alone = others is None
    if others is None:
        others = PendingJobs()
        others.add(job)
    elif is_new:
        others.add(job)
    snapshot = _with_room(replace(seen(), pending=others, planned={} if is_alone else told))
    found: Plan = yield from plan(snapshot, BUDGET)
    if found.starts(job.job_id) and not is_alone:
        found = yield from plan(replace(seen(), pending=others), BUDGET)  # as the next cycle plans it
        return ExpectedStart(starts_now=found.starts(job.job_id))
    expected = found.planned.get(job.job_id)
    if expected is None:
        return ExpectedStart(is_alone=is_alone)
    snapshot = seen()
    awaits = _awaits(snapshot, now, job, expected, found.planned)
    named = _named(expected, found.planned, Future(snapshot, now))
    return ExpectedStart(planned=_plain(named), is_alone=is_alone, awaits=awaits)


def _named(expected: PlannedStart, others: Mapping[int, PlannedStart], future: Future) -> PlannedStart:
    """The same, naming the last planned job of which nobody knows how long it runs, where it was only said that others
    come first.
    """
    if expected.at is not None or expected.text not in (OTHERS_FIRST, OTHER_PLANNED):
        return expected
    endless = [
        (other.at, number)
        for number, other in others.items()
        if other.at is not None and isinstance(other, ReservedStart) and future.run_s(other.bucket) == NEVER_ENDS
    ]
    if not endless:
        return expected
    why = coded(UNKNOWN, coded("planned.no_run_limit_before", show_job(max(endless)[1])))
    return msgspec.structs.replace(expected, text=why)


def _is_told(known: PlannedStart) -> bool:
    """Whether the cycle has said more than that others come first."""
    return known.at is not None or bool(known.text and known.text not in (OTHERS_FIRST, OTHER_PLANNED, NOT_LOOKED_AT))


def _others_first(state: ClusterState, job: JobRecord, told: Mapping[int, PlannedStart], snapshot: Snapshot) -> bool:
    """Whether jobs of higher queues wait that nothing is reserved for yet: they come before it all the same."""
    above = {queue.name for queue in higher_queues(snapshot, job.spec.queue)}
    if not above:
        return False
    lines = (line for bucket, line in state.pending.lines() if bucket.queue in above)
    return any(told[number].at is None if number in told else True for line in lines for number in line.entries())


def higher_queues(snapshot: Snapshot, name: str) -> list[Queue]:
    """Active queues whose jobs come before those of this one, the highest first."""
    own = snapshot.queues.get(name)
    if own is None:
        return []
    found = (each for each in snapshot.queues.values() if each.priority > own.priority)
    active = [each for each in found if each.name not in snapshot.inactive_queues]
    return sorted(active, key=lambda each: (-each.priority, each.name))


def _plain(planned: PlannedStart) -> PlannedStart:
    return PlannedStart(at=planned.at, hosts=planned.hosts, text=planned.text)


def _with_room(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which each queue reserves for all its jobs."""
    queues = {
        name: msgspec.structs.replace(queue, reserved_jobs=max(queue.reserved_jobs, MOST_WAITING))
        for name, queue in snapshot.queues.items()
    }
    return replace(snapshot, queues=queues)


def _awaits(
    snapshot: Snapshot, now: float, job: JobRecord, planned: PlannedStart, others: Mapping[int, PlannedStart]
) -> tuple[AwaitedEnd, ...]:
    """The last ends before the start, on its hosts if there are some; none where it waits for something else."""
    at = planned.at
    if at is None or at <= now or has_code(planned.text, NEVER):
        return ()
    future = Future(snapshot, now)
    ends = [*_running(snapshot, future, at), *_planned_before(future, job.job_id, planned, others)]
    near = [each for each in ends if each.at >= at - ALIKE_S]
    there = [each for each in near if each.host in planned.hosts] or near
    there.sort(key=lambda each: (-each.at, not each.is_started, each.job_id))
    return tuple(there[:MOST_AWAITED])


def _running(snapshot: Snapshot, future: Future, at: float) -> Iterator[AwaitedEnd]:
    for running in snapshot.running.values():
        hosts = dict.fromkeys(part.host for part in running.allocation.parts)
        yield from (end for end in awaited_end(running, future, *hosts) if end.at <= at + SLACK_S)


def awaited_end(running: Running, future: Future, *hosts: str) -> list[AwaitedEnd]:
    """The started job's expected end, on each of these hosts; empty where nobody knows when that is."""
    end = expected_end(running, future)
    if end.at is None:
        return []
    found = AwaitedEnd(
        job_id=running.job_id,
        user=running.bucket.user,
        host="",
        at=end.at,
        is_limit=end.is_limit,
        is_ending=end.is_ending,
        gives_gpus=end.gives_gpus,
    )
    return [msgspec.structs.replace(found, host=host) for host in hosts]


def _planned_before(
    future: Future, own: int, planned: PlannedStart, others: Mapping[int, PlannedStart]
) -> Iterator[AwaitedEnd]:
    """Jobs that wait too, and are expected to have ended before."""
    for job_id, other in others.items():
        bucket = other.bucket if isinstance(other, ReservedStart) else None
        if job_id == own or other.at is None or bucket is None or planned.at is None:
            continue
        end = other.at + future.run_s(bucket)
        if end <= planned.at + SLACK_S:
            for host in other.hosts:
                is_limit = bucket.requirement.run_s is not None
                yield AwaitedEnd(
                    job_id=job_id, user=bucket.user, host=host, at=end, is_limit=is_limit, is_started=False
                )
