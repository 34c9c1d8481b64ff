"""Turns a plan into facts: checks each placement on the truth, records dispatches, preemptions and resumptions.

The ledger has the last word: a placement that does not fit any more leaves its job pending, and says so.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import array_of, index_of, show_job
from gsched.base.node_lists import node_order
from gsched.core.attempts.attempt_results import requeue_order
from gsched.core.attempts.gpu_moves import may_go_on
from gsched.core.attempts.preemption_withdrawal import shares_of, why_resized
from gsched.core.attempts.restarts import save_by
from gsched.core.decision import Decision
from gsched.core.dispatch.load_control import SYSTEM, terminate_instead
from gsched.core.instruction import ResumeAttempt, StartJob, SuspendAttempt
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobDispatched, JobModified, JobNoted, JobRequeueRequested, JobResumed, JobSuspended
from gsched.model.jobs.job import PREEMPTED, SLURM, JobSpec, JobState
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.ledgers.allocation import Allocation, with_gpus
from gsched.model.queues.queue import PREEMPT
from gsched.model.scheduling.snapshot import Growth, Placement, Plan, Preempted, Resize
from gsched.policy.match.host_fit import misfit
from gsched.policy.match.room_conditions import slots_missing


class Dispatcher:
    """Carries plans out."""

    def __init__(self, state: ClusterState, observations: Observations, forget: Callable[[str], None]) -> None:
        self._state = state
        self._observations = observations
        self._forget = forget
        """Called with a host that looks different from now on."""

    def carry_out(self, plan: Plan, decision: Decision, most: int | None = None) -> list[tuple[JobRecord, AnyText]]:
        """Record all of the plan (of its placements the first `most`) that still fits.

        Returns the jobs whose places were gone, with the reason.
        """
        for preempted in plan.preempted:
            self._preempt(preempted, decision)
        for resize in plan.resized:
            self._resize(resize, decision)
        refused = []
        for placement in plan.placements[:most]:
            job = self.waiting(placement.job_id)
            if job is None:
                continue
            why = self._dispatch(job, placement, decision)
            if why:
                refused.append((job, why))
        for job_id in plan.resumed:
            self._resume(job_id, decision)
        for growth in plan.grown:  # what is left then
            self._grow(growth, decision)
        return refused

    def waiting(self, job_id: int) -> JobRecord | None:
        """The pending job; an element that is not a job of its own yet as the one it would be."""
        job = self._state.jobs.get(job_id)
        if job is not None:
            return job if job.state is JobState.PEND else None
        array = self._state.arrays.get(array_of(job_id))
        if array is None or array.stopped_by or not array.has_waiting(index_of(job_id)):
            return None
        return array.element(index_of(job_id))

    def _dispatch(self, job: JobRecord, placement: Placement, decision: Decision) -> AnyText:
        refused = misfit(self._state.ledger, (job.job_id, job.attempt + 1), placement.allocation)
        if refused:
            return refused
        self.start(job, placement.allocation, placement.effective, decision)
        return ""

    def start(self, job: JobRecord, allocation: Allocation, effective: str, decision: Decision) -> None:
        """Record the dispatch and have it started."""
        attempt = job.attempt + 1
        allocation = _in_order(job, allocation)
        decision.record(
            JobDispatched(
                at=decision.now,
                job_id=job.job_id,
                attempt=attempt,
                allocation=allocation,
                effective_req=effective or effective_of(job.spec, allocation),
            )
        )
        for part in allocation.hosts:
            self._observations.dispatched(part.host, decision.now)
            self._forget(part.host)
        # Of several hosts the first one starts when the parts on all others are open.
        for part in allocation.hosts[1:] or allocation.hosts:
            decision.instruct(StartJob(part.host, job.job_id, attempt))

    def _preempt(self, preempted: Preempted, decision: Decision) -> None:
        job = self._state.jobs.get(preempted.job_id)
        if job is None or job.allocation is None or job.kill_by or job.requeue_by:
            return
        queue = decision.config.queues.get(job.spec.queue)
        if preempted.requeue and queue is not None and PREEMPT in queue.terminate_when:
            terminate_instead(job, coded("suspend.preempted", show_job(preempted.by)), PREEMPTED, decision)
        elif preempted.requeue:
            self._preempt_by_requeue(job, job.allocation, preempted.by, decision)
        elif job.state is JobState.RUN:
            reason = coded(_why_suspended(job, decision.config.params.preempt_requeue), show_job(preempted.by))
            decision.record(
                JobSuspended(
                    at=decision.now,
                    job_id=job.job_id,
                    by=SYSTEM,
                    by_system=True,
                    reason=reason,
                    preempted_by=preempted.by,
                    moves_gpus=preempted.moves,
                )
            )
            for part in job.allocation.hosts:
                decision.instruct(SuspendAttempt(part.host, job.job_id, job.attempt, preempted.moves))

    def _preempt_by_requeue(self, job: JobRecord, allocation: Allocation, by: int, decision: Decision) -> None:
        """Its attempt ends, at once or when it has had time to save its state; who is to get its place is told."""
        now, until = decision.now, save_by(job, decision.now)
        decision.record(JobRequeueRequested(at=now, job_id=job.job_id, by=SYSTEM, preempted_by=by, save_by=until))
        if until is not None and by in self._state.jobs:
            text = coded("note.waits_for_save", show_job(job.job_id), round(until - now))
            decision.record(JobNoted(at=now, job_id=by, text=text, is_warning=False))
        for part in allocation.hosts:
            decision.instruct(requeue_order(job, part.host))

    def _resize(self, resize: Resize, decision: Decision) -> None:
        """Its attempt ends when it has had time to save its state, and the next one begins at once, where it was."""
        now, job = decision.now, self._state.jobs.get(resize.job_id)
        if job is None or job.allocation is None or job.state is not JobState.RUN or job.kill_by:
            return
        if job.started_at is None or (job.requeue_by and not job.is_resizing):
            return
        before = job.resize if job.is_resizing else None  # then it gives back more by the time that it was told
        has, until = _gpus(job.allocation), save_by(job, now) if before is None else job.save_by
        # All else as it was given, what it has given back since included.
        allocation = with_gpus(job.allocation, resize.allocation.hosts[0].gpus)
        reason = why_resized(has, resize.gpus, resize.by)
        gives_to = {**(shares_of(job) if before is not None else {}), **resize.gives_to}
        decision.record(
            JobRequeueRequested(
                at=now,
                job_id=job.job_id,
                by=SYSTEM,
                reason=reason,
                save_by=until,
                resize=allocation,
                gives_to=tuple(gives_to),
                gives=tuple(gives_to.values()),
            )
        )
        given = resize.gives_to.get(resize.by, 0) or min(has, _gpus(before or job.allocation)) - resize.gpus
        if until is not None and given > 0 and resize.by in self._state.jobs:
            text = coded("note.waits_for_lent", show_job(job.job_id), given, max(0, round(until - now)))
            decision.record(JobNoted(at=now, job_id=resize.by, text=text, is_warning=False))
        for part in job.allocation.hosts if before is None else ():
            decision.instruct(requeue_order(job, part.host))

    def _grow(self, growth: Growth, decision: Decision) -> None:
        """It gets more slots, where they are still free."""
        job = self._state.jobs.get(growth.job_id)
        if job is None or job.allocation is None or job.state is not JobState.RUN or job.kill_by or job.requeue_by:
            return
        has = {part.host: part.slots for part in job.allocation.hosts}
        more = {part.host: part.slots - has.get(part.host, 0) for part in growth.allocation.hosts}
        if any(slots_missing(slots, self._state.ledger.host(host)) for host, slots in more.items()):
            return
        text = " ".join(f"{slots}*{host}" for host, slots in more.items() if slots)
        decision.record(
            JobModified(
                at=decision.now,
                job_id=job.job_id,
                by=SYSTEM,
                spec=job.spec,
                changes=(coded("resize.added", text),),
                allocation=growth.allocation,
                effective_req=job.effective_req,
            )
        )

    def _resume(self, job_id: int, decision: Decision) -> None:
        job = self._state.jobs.get(job_id)
        if job is None or job.state is not JobState.SSUSP or not job.gave_slots or job.allocation is None:
            return
        if not slots_are_free(self._state, job.allocation) or not may_go_on(self._state, job):
            return
        decision.record(JobResumed(at=decision.now, job_id=job_id, by=SYSTEM, by_system=True))
        for part in job.allocation.hosts:
            decision.instruct(ResumeAttempt(part.host, job_id, job.attempt))


def _gpus(allocation: Allocation) -> int:
    return sum(len(part.gpus) for part in allocation.hosts)


def _why_suspended(job: JobRecord, requeues: bool) -> str:
    """The code for a job that was preempted; `requeues`: PREEMPT_ACTION=requeue."""
    if not requeues:
        return "suspend.preempted"
    return "suspend.not_requeued" if job.runs_again_after(RestartCause.PREEMPT) else "suspend.not_rerunnable"


def slots_are_free(state: ClusterState, allocation: Allocation) -> bool:
    """Whether the slots that a preempted job gave up are free again."""
    return not any(slots_missing(part.slots, state.ledger.host(part.host)) for part in allocation.hosts)


def effective_of(spec: JobSpec, allocation: Allocation) -> str:
    """The requirement the job starts with; a GPU that it did not ask for (auto=1) is said there."""
    claims = {gpu.claim for part in allocation.hosts for gpu in part.gpus} if spec.auto_gpu else set()
    return spec.combined_req + "".join(f" rusage[{claim}=1.00]" for claim in sorted(claims))


def _in_order(job: JobRecord, allocation: Allocation) -> Allocation:
    """Hosts of a job of Slurm's commands stand in the order of their names: SLURM_JOB_NODELIST lists them so, and the
    first of that list is where the script runs.
    """
    if job.spec.front_end != SLURM or len(allocation.hosts) < 2 or "{" in job.spec.res_req:
        return allocation
    hosts = tuple(sorted(allocation.hosts, key=lambda part: node_order(part.host)))
    return msgspec.structs.replace(allocation, hosts=hosts)
