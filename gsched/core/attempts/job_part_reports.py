"""What agents say about the parts of jobs on their other hosts, and what follows for the job; also that a silent host
answers again (`regain`).

The first host is told to start when the last part is open, in the same decision: nobody waits for a clock. A part that
ends unasked ends its job. What an attempt that was given up has left on any host is ended, and held until it has.
"""

from __future__ import annotations

from typing import NamedTuple

from gsched.base.coded_text import AnyText, coded, has_code
from gsched.core.attempts import attempt_results
from gsched.core.attempts.attempt_notes import note
from gsched.core.attempts.end_warnings import warn_part
from gsched.core.attempts.exit_rates import count_exit
from gsched.core.attempts.orphaned_attempts import keep_orphaned
from gsched.core.attempts.preemption_withdrawal import repeat_sparing
from gsched.core.attempts.restarts import restart_cause
from gsched.core.attempts.signal_delivery import repeat_signals
from gsched.core.command import AttemptEnded
from gsched.core.decision import Decision
from gsched.core.instruction import LimitAttempt, ResumeAttempt, StartJob, SuspendAttempt, TerminateAttempt
from gsched.core.records.host_allocations import has_released, is_ordered, is_part
from gsched.core.records.job import JobRecord
from gsched.model.event import (
    JobFinished,
    JobPartEnded,
    JobPartStarted,
    JobPostProcessed,
    JobRequeued,
    JobRequeueRequested,
    JobSignalRequested,
    JobStatusRegained,
)
from gsched.model.jobs.job import FINISHED, STARTED, AttemptResult, JobState, Usage
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.ledgers.host_ledger import AttemptKey

LOST_PART = "TERM_EXTERNAL_SIGNAL"
"""Why a job ends of which a part has ended unasked, where the part itself has no better word for it."""

BUSY = "gpu.device_busy"
"""Why the job of a part may have failed, though elsewhere."""


def part_started(job: JobRecord, host: str, decision: Decision) -> None:
    """A part is open; when it is the last one, the job is started."""
    if not is_part(job, host) or host in job.open_parts or host in job.ended_parts:
        return
    decision.record(JobPartStarted(at=decision.now, job_id=job.job_id, attempt=job.attempt, host=host))
    if is_ordered(job) and job.started_at is None and job.allocation is not None:
        decision.instruct(StartJob(job.allocation.first_host, *job.key))
        if job.state in (JobState.USUSP, JobState.SSUSP):
            decision.instruct(SuspendAttempt(job.allocation.first_host, *job.key))


def part_ended(job: JobRecord, report: AttemptEnded, decision: Decision) -> None:
    """A part of a job that has not ended has ended or failed to open, whether that was asked for or not."""
    host, result = report.host, report.result
    if host in job.ended_parts:
        return
    attempt_results.keep_curves(report, decision)
    decision.over.add((host, job.key))
    if not is_ordered(job):  # nothing of the job has run
        _not_opened(job, report, decision)
        return
    why = result.problem or result.term_reason or coded("attempt.part_over")
    if result.host_down and _runs_again(job, host, why, decision):
        return
    regain(job, host, decision)
    _record_end(job, host, result.usage, decision)
    _end_without(job, host, why, result.term_reason or LOST_PART, decision)


def _not_opened(job: JobRecord, report: AttemptEnded, decision: Decision) -> None:
    """Nothing of the job has run. What runs before it may have said that it is not to be tried again."""
    count_exit(job, report, decision.observed(report.host), decision)
    if report.result.exit_code and not report.result.pre_failed:
        attempt_results.finish(job, report.result, decision.now, decision)
    else:
        attempt_results.start_failed(job, report, decision.observed(report.host), decision, is_part=True)
    if job.state in FINISHED:
        _part_is_gone(job, report.host, report.result.usage, decision)


def _record_end(job: JobRecord, host: str, usage: Usage, decision: Decision) -> None:
    late_s = max(0.0, usage.cpu_s - job.parts_cpu_s.get(host, 0.0)) if job.state in FINISHED else 0.0
    decision.record(
        JobPartEnded(at=decision.now, job_id=job.job_id, attempt=job.attempt, host=host, usage=usage, late_cpu_s=late_s)
    )


def _end_without(job: JobRecord, host: str, why: AnyText, keyword: str, decision: Decision) -> None:
    """A part is over that the job still wants: the job ends, unless it is ending already."""
    if job.kill_by or job.requeue_by or job.allocation is None:
        return
    note(job, coded("note.lost_part", job.attempt, host, why), decision)
    decision.record(
        JobSignalRequested(
            at=decision.now, job_id=job.job_id, by=attempt_results.SYSTEM, signal=0, lost_part=host, keyword=keyword
        )
    )
    for part in job.allocation.hosts:
        if part.host not in job.ended_parts:
            decision.instruct(TerminateAttempt(part.host, *job.key, attempt_results.ending_reason(job)))


def part_ended_late(job: JobRecord | None, report: AttemptEnded, decision: Decision) -> None:
    """A part has ended whose job has ended before, or has gone on without it."""
    if job is not None and has_code(report.result.problem, BUSY):
        note(job, coded("note.on_host", report.attempt, report.host, report.result.problem), decision)
    if job is None or job.attempt != report.attempt:
        return
    if job.state in STARTED and has_released(job, report.host):
        attempt_results.keep_curves(report, decision)
        _record_end(job, report.host, report.result.usage, decision)
    if job.state not in FINISHED:
        return
    if any(part.host == report.host for part in job.left_parts()):
        attempt_results.keep_curves(report, decision)
        _part_is_gone(job, report.host, report.result.usage, decision)


def _part_is_gone(job: JobRecord, host: str, usage: Usage, decision: Decision) -> None:
    """The last one leaves nothing of a finished job."""
    _record_end(job, host, usage, decision)
    if not job.post_processed and not any(job.left_parts()):
        failed = job.result is not None and bool(job.result.post_code)
        decision.record(JobPostProcessed(at=decision.now, job_id=job.job_id, attempt=job.attempt, failed=failed))


class HeldHere(NamedTuple):
    """What a hello says of an attempt."""

    is_there: bool
    signalled: int
    """As in HeldAttempt."""


def reconcile_part(job: JobRecord, host: str, held: HeldHere, rebooted: bool, decision: Decision) -> None:
    """What a hello says about the part of a job that has not ended: still there, never arrived, or gone."""
    is_open = host in job.open_parts
    if host in job.ended_parts or (job.started_at is not None and not is_open):
        regain(job, host, decision)
    elif not held.is_there and is_open:
        _lost(job, host, rebooted, decision)
    elif job.kill_by or job.requeue_by:
        repeat_signals(job, host, held.signalled, decision)
        decision.instruct(attempt_results.requeue_order(job, host))
    else:
        regain(job, host, decision)
        _repeat_orders(job, host, is_open, held.signalled, decision)


def _repeat_orders(job: JobRecord, host: str, is_open: bool, signalled: int, decision: Decision) -> None:
    """Orders that the agent may have missed; all of them are idempotent."""
    if not is_open:
        decision.instruct(StartJob(host, *job.key))
    repeat_signals(job, host, signalled, decision)
    repeat_sparing(job, host, decision)
    warn_part(job, host, decision)
    if job.relimited:
        decision.instruct(LimitAttempt(host, *job.key))
    if job.state in (JobState.USUSP, JobState.SSUSP):
        decision.instruct(SuspendAttempt(host, *job.key))
    elif is_open:
        decision.instruct(ResumeAttempt(host, *job.key))


def _lost(job: JobRecord, host: str, rebooted: bool, decision: Decision) -> None:
    """It was open, and its agent knows nothing of it."""
    why = coded("attempt.host_restarted" if rebooted else "attempt.part_not_in_journal")
    decision.over.add((host, job.key))
    if not is_ordered(job):
        result = AttemptResult(started=False, ended_at=decision.now, problem=why)
        report = AttemptEnded(*job.key, host, result)
        attempt_results.requeue_unstarted(job, report, decision.observed(host), decision, is_part=True)
    elif not _runs_again(job, host, why, decision):
        regain(job, host, decision)
        _record_end(job, host, Usage(), decision)
        _end_without(job, host, why, LOST_PART, decision)


def _runs_again(job: JobRecord, host: str, why: AnyText, decision: Decision) -> bool:
    """A rerunnable job that has lost a host waits again; whether it is one, and nobody has it end."""
    if not job.runs_again_after(RestartCause.HOST) or job.kill_by or job.requeue_by:
        return False
    problem = coded("attempt.on_host", host, why)
    result = AttemptResult(ended_at=decision.now, problem=problem, started=job.started_at is not None)
    again = attempt_results.AnotherRun(
        coded("requeue.lost_part", host, why), restart=restart_cause(job, RestartCause.HOST)
    )
    attempt_results.run_again(job, result, decision.now, again, decision)
    return True


def regain(job: JobRecord, host: str, decision: Decision) -> None:
    """The host answers again: the job is what it was, unless another of its hosts is silent."""
    hosts = job.allocation.hosts if job.allocation is not None else ()
    if job.state is JobState.UNKWN and not any(decision.observed(part.host).lost for part in hosts):
        decision.record(JobStatusRegained(at=decision.now, job_id=job.job_id, host=host))


def reconcile_finished(host: str, known: set[tuple[int, int]], decision: Decision) -> None:
    """Parts of finished jobs that the host does not have any more, as its hello says."""
    for job_id in decision.state.leaving.on(host):
        job = decision.state.jobs.get(job_id)
        if job is not None and job.key not in known:
            _part_is_gone(job, host, Usage(), decision)


def settle(decision: Decision) -> None:
    """After all else has been decided: end what was to end before it began, and whatever was given up on any host."""
    state = decision.state
    for event in decision.events[:]:
        if isinstance(event, JobSignalRequested | JobRequeueRequested):
            _end_before_start(state.jobs.get(event.job_id), decision)
    failed = _failed_by_themselves(decision) if state.given_up else set()
    while state.given_up:
        key, part = state.given_up.pop(0)
        if (part.host, key) not in decision.over:
            keep_orphaned(state, decision.observed(part.host), part.host, key, part)
            decision.instruct(TerminateAttempt(part.host, *key, given_up=True, failed=key in failed))


def _failed_by_themselves(decision: Decision) -> set[AttemptKey]:
    """Attempts of which this decision says so: on hosts other than their first, something may have been in the way."""
    ends = (event for event in decision.events if isinstance(event, JobFinished | JobRequeued))
    told = ((event, event.result) for event in ends if event.result is not None)
    return {
        (event.job_id, event.attempt)
        for event, result in told
        if result.failed_by_itself and (result.exit_code is not None or result.signal is not None)
    }


def _end_before_start(job: JobRecord | None, decision: Decision) -> None:
    """A job is to end whose first host was not told to start: there is no end to be waited for."""
    if job is not None and job.state in STARTED and (job.kill_by or job.requeue_by) and not is_ordered(job):
        attempt_results.end(job, AttemptResult(started=False, ended_at=decision.now), decision.now, decision)
