"""The defragmentation advisor: rerunnable jobs that could be requeued so that a waiting job starts now, at least cost.

Cost is the work that they have to do again, in GPU seconds: gsched does not know what a job has saved in checkpoints of
its own. Each set is tried on a copy of what the scheduler sees, in which the jobs wait again with all others. It
changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from gsched.base.ids import array_of, index_of, show_job
from gsched.core.command_turns import UNLIMITED
from gsched.core.explaining.cheapest_moves import CheapestMoves, Chosen, MoveCost, cheapest, cost_of
from gsched.core.explaining.cluster_changes import usable_hosts
from gsched.core.explaining.start_suggestions import Check
from gsched.core.explaining.start_trial import TrialContext, exchanged, plan_changed, start_hosts
from gsched.core.records.job import JobRecord
from gsched.core.records.job_groups import groups_above
from gsched.model.jobs.job import JobState
from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Plan, Running, Snapshot
from gsched.model.views.explanation import AdminChange, AdminMeasure, MovedJob

FEW_JOBS = 10
"""Rerunnable jobs of which every set may be tried; of more, those of one host at a time."""
MOVABLE = frozenset({JobState.RUN, JobState.USUSP, JobState.SSUSP})


@dataclass(frozen=True, slots=True)
class FoundMoves:
    """The cheapest set; `is_cut`: there may be a cheaper one."""

    measure: AdminMeasure | None = None
    is_cut: bool = False


def moved_jobs(
    context: TrialContext, job: JobRecord, check: Check, most_tries: int
) -> Generator[None, None, FoundMoves]:
    """For a job that does not start as it is. Raises what `check` does between two turns."""
    trial = _MoveTrial(context, job, check, movable_jobs(context, job))
    groups = [range(len(trial.jobs))] if len(trial.jobs) <= FEW_JOBS else _by_host(context, trial)
    best: tuple[Chosen, Plan] | None = None
    is_cut = len(groups) > 1
    for group in groups:
        named = list(group)
        search = CheapestMoves(
            [trial.costs[each] for each in named],
            lambda chosen, named=named: trial.has_room([named[each] for each in chosen]),  # type: ignore[misc]
            lambda chosen, named=named: trial.plan_with([named[each] for each in chosen]),  # type: ignore[misc]
            most_tries,
        )
        found = yield from search.run()
        most_tries, is_cut = search.tries_left, is_cut or search.is_cut
        if found is not None:
            chosen = frozenset(named[each] for each in found[0])
            if best is None or cost_of(trial.costs, chosen) < cost_of(trial.costs, best[0]):
                best = (chosen, found[1])
        if most_tries <= 0:
            break
    if best is None:
        return FoundMoves(None, is_cut)
    plan = (yield from trial.plan_with(sorted(best[0]))) if trial.is_in_turns else best[1]
    return FoundMoves(None if plan is None else trial.measure(best[0], plan), is_cut)


def movable_jobs(context: TrialContext, job: JobRecord) -> list[JobRecord]:
    """Started jobs that are rerunnable, have no terminal and are not ending, by number."""
    state = context.state
    found = (state.jobs[job_id] for job_id, running in state.running.items() if _may_move(running))
    return sorted(
        (each for each in found if each.state in MOVABLE and not each.spec.interactive), key=lambda each: each.job_id
    )


def _may_move(running: Running) -> bool:
    return running.rerunnable and not running.is_ending


def _by_host(context: TrialContext, trial: _MoveTrial) -> list[list[int]]:
    """The jobs of each host that the job could use, the host where the least would be lost first."""
    usable = usable_hosts(context.turn.decision, trial.bucket)
    found: dict[str, list[int]] = {}
    for place, each in enumerate(trial.jobs):
        assert each.allocation is not None
        for host in {part.host for part in each.allocation.hosts} & usable:
            found.setdefault(host, []).append(place)
    groups = [(host, cheapest(trial.costs, places, FEW_JOBS)) for host, places in found.items()]
    return [places for _, places in sorted(groups, key=lambda each: (cost_of(trial.costs, each[1]), each[0]))]


class _MoveTrial:
    """What the scheduler does when some jobs wait again."""

    def __init__(self, context: TrialContext, job: JobRecord, check: Check, jobs: Sequence[JobRecord]) -> None:
        self._context = context
        self._job = job
        self._check = check
        self.is_in_turns = context.turn.left < UNLIMITED // 2
        self._is_alone = exchanged({}, None, job)
        self.bucket = job.bucket()
        self.jobs = jobs
        self._gpus = [_gpus(each) for each in jobs]
        ran_s = [_ran_s(each, context.turn.now) for each in jobs]
        self.costs: list[MoveCost] = [(gpus * ran, ran) for gpus, ran in zip(self._gpus, ran_s, strict=True)]

    def has_room(self, places: Sequence[int]) -> Generator[None, None, bool]:
        """Whether the job starts where these are gone and nobody else waits."""
        gone = yield from self._still_run(places)

        def change(seen: Snapshot) -> Snapshot:
            return replace(without_jobs(seen, gone), pending=self._is_alone, planned={})

        plan = yield from plan_changed(self._context, self._job.spec.combined_req, change)
        return plan.truncated or start_hosts(plan, self._job.job_id) is not None

    def plan_with(self, places: Sequence[int]) -> Generator[None, None, Plan | None]:
        """What a cycle does once these wait again; None where the job does not start."""
        gone = yield from self._still_run(places)

        def change(seen: Snapshot) -> Snapshot:
            pending = seen.pending
            for each in gone:
                pending = exchanged(pending, None, _waiting_again(each))
            return replace(without_jobs(seen, gone), pending=pending)

        plan = yield from plan_changed(self._context, self._job.spec.combined_req, change)
        return None if plan.truncated or start_hosts(plan, self._job.job_id) is None else plan

    def _still_run(self, places: Sequence[int]) -> Generator[None, None, list[JobRecord]]:
        """Those of them that have not ended in a turn between."""
        if self.is_in_turns:
            yield
            self._check()
        chosen = [self.jobs[each] for each in places]
        return [each for each in chosen if each.job_id in self._context.state.running]

    def measure(self, chosen: Chosen, plan: Plan) -> AdminMeasure:
        """As it is told."""
        names = [show_job(self.jobs[place].job_id) for place in sorted(chosen)]
        quoted = " ".join(f"'{name}'" if "[" in name else name for name in names)
        return AdminMeasure(
            changes=tuple(AdminChange(what="job", name=name) for name in names),
            commands=(f"grequeue {quoted}",),
            hosts=start_hosts(plan, self._job.job_id) or (),
            jobs=tuple(self._moved(place, plan) for place in sorted(chosen)),
        )

    def _moved(self, place: int, plan: Plan) -> MovedJob:
        job, (lost_gpu_s, lost_s) = self.jobs[place], self.costs[place]
        return MovedJob(
            job_id=job.job_id,
            user=job.spec.user,
            gpus=self._gpus[place],
            lost_gpu_s=lost_gpu_s,
            lost_s=lost_s,
            hosts=start_hosts(plan, job.job_id) or (),
        )


def _held(job: JobRecord) -> Allocation:
    assert job.allocation is not None
    return job.allocation


def _gpus(job: JobRecord) -> float:
    return sum(gpu.share for part in _held(job).hosts for gpu in part.gpus)


def _ran_s(job: JobRecord, now: float) -> float:
    return max(0.0, now - job.started_at) if job.started_at is not None else 0.0


def _waiting_again(job: JobRecord) -> JobRecord:
    """The job after grequeue: in its place of before."""
    made = copy.copy(job)
    made.course = copy.copy(job.course)
    made.state, made.allocation, made.avoid_host, made.not_before = JobState.PEND, None, "", 0.0
    return made


def without_jobs(seen: Snapshot, gone: Sequence[JobRecord]) -> Snapshot:
    """The snapshot without what these started jobs hold and are counted for; fairshare goes on counting them."""
    ids = {each.job_id for each in gone}
    queues, owners = dict(seen.queue_slots), dict(seen.queue_user_slots)
    groups, arrays = dict(seen.job_group_jobs), dict(seen.array_jobs)
    for each in gone:
        running, spec = seen.running[each.job_id], each.spec
        seen.ledger.give(running.key, running.allocation)
        slots = _held(each).slots
        queues[spec.queue] = queues.get(spec.queue, 0) - slots
        owner = (spec.queue, spec.user)
        owners[owner] = owners.get(owner, 0) - slots
        for group in groups_above(spec.group):
            groups[group] = groups.get(group, 0) - 1
        if index_of(each.job_id):
            arrays[array_of(each.job_id)] = arrays.get(array_of(each.job_id), 0) - 1
    return replace(
        seen,
        columns=None,
        held=None,
        running={job_id: running for job_id, running in seen.running.items() if job_id not in ids},
        queue_slots=queues,
        queue_user_slots=owners,
        job_group_jobs=groups,
        array_jobs=arrays,
    )
