"""What comes of an attempt that is over: its job ends, or waits again.

Who found out that it is over (an agent, a hello, silence) decides that it is; here only what follows is decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gsched.base.coded_text import AnyText, coded, has_code
from gsched.base.ids import show_job
from gsched.core.attempts.attempt_failure import retry_of, with_gpu_errors
from gsched.core.attempts.restarts import (
    NO_PAUSE,
    RestartPause,
    asks_for_another_run,
    ended_as_asked,
    has_reached_run_limit,
    is_success,
    most_requeues,
    most_restarts,
    preexec_retries,
    restart_cause,
    restart_pause,
    save_request,
)
from gsched.core.command import AttemptEnded
from gsched.core.decision import Decision
from gsched.core.instruction import TerminateAttempt
from gsched.core.records.host_allocations import others, together
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observation
from gsched.model.event import (
    JobFinished,
    JobGpuCurves,
    JobNoted,
    JobRequeued,
    JobSuspended,
)
from gsched.model.gpus.gpu_idle import GPU_IDLE
from gsched.model.jobs.job import EXIT_SAVED, PREEMPTED, RESIZING, AttemptResult, JobState, Usage
from gsched.model.jobs.requeue_exits import RestartCause, requeue_values
from gsched.model.ledgers.devices import devices_of
from gsched.model.texts_of_before import start_failure

SYSTEM = "_system_"
"""Who acts when nobody asked."""
GPU_FAILED = "TERM_GPU"
"""Keyword (ours; LSF has none) for attempts that end because a GPU of theirs has failed."""
DRAINED = "requeue.drained"
"""The code of why a job is requeued whose host somebody drains."""
RETRY_FIRST_S = 1.0
RETRY_MOST_S = 60.0


def within(job: JobRecord, at: float, now: float) -> float:
    """An agent's time, no earlier than the job's dispatch and no later than now: clocks of hosts may be wrong."""
    return min(max(at, job.dispatched_at or 0.0), max(now, job.dispatched_at or 0.0))


def start_failed(
    job: JobRecord,
    report: AttemptEnded,
    seen: Observation,
    decision: Decision,
    *,
    is_part: bool = False,
) -> None:
    """The command was never executed: the job waits for another start, unless what runs before it has failed as often
    as it may. `is_part`: the host is not the job's first.
    """
    most, ends = preexec_retries(job, decision.config)
    if not report.result.pre_failed or most is None or job.failed_starts + 1 < most:
        requeue_unstarted(job, report, seen, decision, is_part=is_part)
    elif ends:
        finish(job, report.result, decision.now, decision)
    else:
        suspend_for_good(job, report, decision)


def requeue_unstarted(
    job: JobRecord, report: AttemptEnded, seen: Observation, decision: Decision, *, is_part: bool = False
) -> None:
    """The command was never executed: back to pending, a little later each time; suspended if it was.

    At once where its GPUs were at fault and are closed: no cycle can choose them again. `is_part`: the host is not the
    job's first.
    """
    now, stopped_by = decision.now, _stopped_by(job)
    delay = min(RETRY_MOST_S, RETRY_FIRST_S * 2.0 ** min(job.failed_starts, 10))
    failure = _start_failure(report.result)
    at_once = report.result.gpus_unfit and _is_closed(job, report.host, seen)
    decision.record(
        JobRequeued(
            at=now,
            job_id=job.job_id,
            attempt=job.attempt,
            reason=coded("start.failed_on", report.host, failure) if is_part else failure,
            avoid_host="" if at_once else report.host,
            not_before=0.0 if at_once else now + delay,
            exclude_host=report.host if _keeps_off(report.result, decision.config.params.preexec_excludes) else "",
        )
    )
    if stopped_by:
        decision.record(JobSuspended(at=now, job_id=job.job_id, by=stopped_by))


def _keeps_off(result: AttemptResult, codes: str) -> bool:
    """Whether a pre-execution command has said by its exit code that the job is not for the host."""
    return result.pre_failed and result.pre_exec_code in requeue_values(codes).codes


def _stopped_by(job: JobRecord) -> str:
    """Who has stopped the started job (gstop), which stays so in its next attempt; empty: nobody."""
    return job.stopped_by if JobState.USUSP in (job.state, job.known_state) else ""


def _start_failure(result: AttemptResult) -> AnyText:
    if result.pre_exec:
        return coded("start.pre_exec_failed", result.pre_exec, result.pre_exec_code, result.problem)
    failure = start_failure(result.problem) if result.pre_failed else result.problem
    return failure or coded("start.failed")


def _is_closed(job: JobRecord, host: str, seen: Observation) -> bool:
    """Whether the same GPUs of the host cannot be given out now."""
    parts = job.allocation.hosts if job.allocation is not None else ()
    held = {gpu.uuid for part in parts if part.host == host for gpu in part.gpus}
    return bool(held - {uuid for uuid, gpu in devices_of(seen.gpus).items() if not gpu.problem})


def suspend_for_good(job: JobRecord, report: AttemptEnded, decision: Decision) -> None:
    """Its pre-execution command has failed as often as it may: pending and suspended until its owner resumes it."""
    reason = coded("start.given_up", _start_failure(report.result), job.failed_starts + 1)
    decision.record(
        JobRequeued(
            at=decision.now,
            job_id=job.job_id,
            attempt=job.attempt,
            reason=reason,
            by="",
            avoid_host=report.host,
            hold=True,
        )
    )


def end(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> None:
    """The attempt is over: the job is too, or it waits again because somebody, or its exit code, wants it to."""
    result = with_gpu_errors(job, _counted_as_done(job, result, decision))
    if job.kill_by:
        if not (job.kill_by == SYSTEM and job.gpu_fault and _retried(job, result, at, decision)):
            finish(job, result, at, decision)
    elif _is_done_meanwhile(job, result, at):
        finish(job, msgspec.structs.replace(result, term_reason=""), at, decision)
    elif job.is_resizing:
        _resized(job, result, at, job.requeue_reason, decision)
    elif job.requeue_by and not (job.gpu_fault and result.succeeded):  # what is done need not be done again
        by = job.requeue_by
        reason = job.gpu_fault or job.requeue_reason or coded("requeue.asked")
        if job.preempted_by and not has_code(reason, DRAINED):
            reason = coded("requeue.preempted", show_job(job.preempted_by))
        again = AnotherRun(reason, by="" if by == SYSTEM else by, hold=job.requeue_hold, restart=_cause_of_end(job))
        run_again(job, result, at, again, decision)
    elif not any(
        requeued(job, result, at, decision)
        for requeued in (_saved_as_asked, _requeued_by_code, _put_back, _past_run_limit, _retried)
    ):
        finish(job, result, at, decision)


def _counted_as_done(job: JobRecord, result: AttemptResult, decision: Decision) -> AttemptResult:
    """The result of a job that SUCCESS_EXIT_VALUES counts as done, which has failed for no reason. Its agent, which did
    not know all of this, may have counted otherwise for its report.
    """
    is_ended = bool(job.kill_by or job.requeue_by or result.term_reason)
    if is_ended or not result.started or not is_success(job, result.exit_code, decision.config):
        return msgspec.structs.replace(result, counts_as_done=False) if result.counts_as_done else result
    return msgspec.structs.replace(result, counts_as_done=True, failure=None)


def _is_done_meanwhile(job: JobRecord, result: AttemptResult, at: float) -> bool:
    """Whether the job, which was asked to save its state, has ended by itself in its time for that, and with 0.

    One that has saved its state says so by EXIT_SAVED, or has asked for another run before; who is ended at that time
    may well answer TERM with 0.
    """
    is_asked = job.save_by is not None and at < job.save_by and result.started and result.exit_code == 0
    return (
        is_asked
        and not result.wants_requeue
        and (not job.requeue_by or job.requeue_by == SYSTEM or has_code(job.requeue_reason, DRAINED))
    )


def _resized(job: JobRecord, result: AttemptResult, at: float, reason: AnyText, decision: Decision) -> None:
    """It goes on with another number of GPUs."""
    stopped = AnotherRun(coded("requeue.stopped"))
    run_again(job, result, at, stopped if _stopped_by(job) else AnotherRun(reason, is_resized=True), decision)


def _cause_of_end(job: JobRecord) -> str:
    """For which cause the system, or who drains its host, has had it end."""
    if has_code(job.requeue_reason, DRAINED):
        return restart_cause(job, RestartCause.DRAIN)
    if job.requeue_by != SYSTEM:
        return ""
    if job.gpu_fault:
        return restart_cause(job, RestartCause.GPU)
    return restart_cause(job, RestartCause.PREEMPT if job.preempted_by else RestartCause.IDLE)


def _saved_as_asked(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> bool:
    """For a job that needs its place, or the GPUs that were lent to it, no more."""
    if not ended_as_asked(job, result, at):
        return False
    if job.resize is not None:
        _resized(job, result, at, coded("requeue.asked_to_give_back"), decision)
        return True
    cause = restart_cause(job, RestartCause.PREEMPT)
    run_again(job, result, at, AnotherRun(coded("requeue.asked_to_save"), restart=cause), decision)
    return True


def _requeued_by_code(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> bool:
    """REQUEUE_EXIT_VALUES; a job that died by a signal is never requeued by it."""
    code = result.exit_code
    if code is None or result.term_reason or not job.spec.requeue_exit_values:
        return False
    values = requeue_values(job.spec.requeue_exit_values)
    if code not in values.codes and code not in values.elsewhere:
        return False
    most_often = most_requeues(job, decision.config)
    if most_often is not None and job.code_requeues >= most_often:
        text = coded("note.most_requeues", code, job.code_requeues)
        decision.record(JobNoted(at=at, job_id=job.job_id, text=text))
        return False
    host = job.allocation.first_host if job.allocation is not None else ""
    exclude = host if code in values.elsewhere and job.allocation and len(job.allocation.hosts) == 1 else ""
    reason = coded("requeue.exit_code", code)
    run_again(job, result, at, AnotherRun(reason, at_head=True, exclude=exclude), decision)
    return True


def _put_back(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> bool:
    """It has saved its state and asked for another run: it keeps its place, which is that of its submission."""
    if not asks_for_another_run(job, result):
        return False
    asked = coded("restart.asked") if result.wants_requeue else coded("restart.exit_code", EXIT_SAVED)
    return _restarted(job, result, at, RestartCause.SAVED, asked, decision)


def _past_run_limit(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> bool:
    """--restart-on timelimit."""
    if RestartCause.TIMELIMIT not in job.spec.restart_on or not has_reached_run_limit(job, result):
        return False
    return _restarted(job, result, at, RestartCause.TIMELIMIT, coded("restart.timelimit"), decision)


def _restarted(
    job: JobRecord, result: AttemptResult, at: float, cause: RestartCause, why: AnyText, decision: Decision
) -> bool:
    """Whether it is run again; one that has no restart left is told so."""
    most = most_restarts(job, decision.config)
    if job.restarts >= most:
        decision.record(JobNoted(at=at, job_id=job.job_id, text=coded("note.most_restarts", why, most)))
        return False
    reason = coded("requeue.saved", why, job.restarts + 1, most)
    pause = restart_pause(result.run_s, job.short_runs)
    run_again(job, result, at, AnotherRun(reason, restart=cause, pause=pause), decision)
    return True


def _retried(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> bool:
    """RETRY."""
    retry = retry_of(job, result, decision.config)
    if retry is None:
        return False
    if retry.is_over:
        decision.record(JobNoted(at=at, job_id=job.job_id, text=coded("note.most_retries", retry.kind, retry.tried)))
        return False
    reason = coded("requeue.failure", retry.kind, retry.tried + 1, retry.rule.times)
    again = AnotherRun(reason, at_head=True, exclude=retry.exclude, retry=retry.kind)
    run_again(job, result, at, again, decision)
    return True


@dataclass(frozen=True, slots=True)
class AnotherRun:
    """Why a job that has started is to wait and run again, and how it waits."""

    reason: AnyText
    by: str = ""
    hold: bool = False
    at_head: bool = False
    exclude: str = ""
    """A host that it is not to run on."""
    retry: str = ""
    """The class of its failure, if its queue's RETRY wants it."""
    restart: str = ""
    """What it is run again after, if that counts as a restart."""
    is_resized: bool = False
    """It goes on with another number of GPUs, as it was told."""
    pause: RestartPause = NO_PAUSE


def run_again(job: JobRecord, result: AttemptResult, at: float, again: AnotherRun, decision: Decision) -> None:
    """It waits again; one that somebody has stopped until that is resumed, unless he has had it requeued."""
    stays_stopped = not again.hold and (not again.by or has_code(job.requeue_reason, DRAINED))
    stopped_by = _stopped_by(job) if stays_stopped else ""
    result = with_gpu_errors(job, result)
    result, _ = _on_all_hosts(job, result, decision)
    decision.record(
        JobRequeued(
            at=at,
            job_id=job.job_id,
            attempt=job.attempt,
            reason=again.reason,
            not_before=at + again.pause.seconds if again.pause.seconds else 0.0,
            short_runs=again.pause.short_runs,
            failed_start=False,
            result=result,
            by=again.by,
            hold=again.hold,
            at_head=again.at_head,
            exclude_host=again.exclude,
            retry=again.retry,
            restart=again.restart,
            resized=again.is_resized,
        )
    )
    if stopped_by:
        decision.record(JobSuspended(at=at, job_id=job.job_id, by=stopped_by))


def finish(job: JobRecord, result: AttemptResult, at: float, decision: Decision) -> None:
    if job.ends_done and result.started:
        result = msgspec.structs.replace(result, exit_code=0, signal=None, core_dumped=False, term_reason="")
    elif job.kill_by and not result.succeeded and (not result.term_reason or result.is_interrupted):
        result = msgspec.structs.replace(result, term_reason=_killed(job))
    result = with_gpu_errors(job, result)
    if result.problem:
        decision.record(JobNoted(at=at, job_id=job.job_id, text=result.problem))
    result, parts_cpu_s = _on_all_hosts(job, result, decision)
    is_gone = not any(job.left_parts())
    decision.record(
        JobFinished(
            at=at,
            job_id=job.job_id,
            attempt=job.attempt,
            result=result,
            parts_cpu_s=parts_cpu_s,
            post_processed=is_gone,
        )
    )


def _on_all_hosts(job: JobRecord, result: AttemptResult, decision: Decision) -> tuple[AttemptResult, dict[str, float]]:
    """The result with what the job has used on its other hosts, those that it has released before among them, and how
    much CPU time that was: of parts that are still there, as they told last.
    """
    used: dict[str, Usage] = {}
    for host in (*(part.host for part in others(job)), *job.released_parts):
        told = job.part_usage.get(host) or decision.observed(host).usage.get(job.key)
        if told is not None:
            used[host] = told
    if not used:
        return result, {}
    usage = together(result.usage, used.values())
    assert usage is not None
    return msgspec.structs.replace(result, usage=usage), {host: each.cpu_s for host, each in used.items()}


def keep_curves(report: AttemptEnded, decision: Decision) -> None:
    """What it made of its GPUs over time goes into the history, in the same commit as its end: once, as that."""
    if report.gpu_curves:
        job_id, attempt, host = report.job_id, report.attempt, report.host
        decision.record(
            JobGpuCurves(at=decision.now, job_id=job_id, attempt=attempt, host=host, data=report.gpu_curves)
        )


def ending_reason(job: JobRecord) -> str:
    """LSF's keyword for why a started job is being ended; empty for one that is not, and for one that is DONE then."""
    if job.ends_done:
        return ""
    if job.kill_by:
        return _killed(job)
    if job.is_resizing:
        return RESIZING
    if job.preempted_by and job.requeue_by:
        return PREEMPTED
    if job.gpu_fault and job.requeue_by:
        return GPU_FAILED
    if job.requeue_reason and job.requeue_by == SYSTEM:
        return GPU_IDLE
    if job.requeue_by:
        return "TERM_REQUEUE_OWNER" if job.requeue_by == job.spec.user else "TERM_REQUEUE_ADMIN"
    return ""


def requeue_order(job: JobRecord, host: str) -> TerminateAttempt:
    """To the host, for a job that the system has end; asked again of one that may have missed it."""
    return TerminateAttempt(host, job.job_id, job.attempt, ending_reason(job), save=save_request(job, host))


def _killed(job: JobRecord) -> str:
    if job.kill_by == SYSTEM and job.kill_keyword:
        return job.kill_keyword
    if job.kill_by == SYSTEM:
        return GPU_FAILED if job.gpu_fault else "TERM_DEADLINE"
    return "TERM_OWNER" if job.kill_by == job.spec.user else "TERM_ADMIN"
