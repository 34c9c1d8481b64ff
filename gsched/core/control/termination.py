"""Killing and signalling jobs, and what ends without having been started. Texts are LSF's.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

import signal

from msgspec.structs import replace

from gsched.base.coded_text import AnyText, coded
from gsched.core.attempts import attempt_results
from gsched.core.attempts.orphaned_attempts import keep_orphaned
from gsched.core.attempts.signal_delivery import is_kept_for, order_of
from gsched.core.command import JobCommand, KillJobs, SignalJobs
from gsched.core.control.control_context import MOST_OWED, NOT_STARTED_TEXT, UNREACHABLE, ControlContext
from gsched.core.decision import Decision
from gsched.core.instruction import SignalAttempt, TerminateAttempt
from gsched.core.records.array import JobArray
from gsched.core.records.host_allocations import is_ordered
from gsched.core.records.job import JobRecord
from gsched.model.event import (
    ArrayElementsFinished,
    JobFinished,
    JobNoted,
    JobSignalRequested,
)
from gsched.model.jobs.job import PENDING, SLURM, AttemptResult, JobState
from gsched.model.jobs.job_signal import OwedSignal, SignalEffect, effect_of
from gsched.model.ledgers.allocation import Allocation


def kill(context: ControlContext[KillJobs], job: JobRecord) -> str:
    command = context.command
    if command.text:
        text = coded("note.termination_reason", command.text)
        context.decision.record(JobNoted(at=context.now, job_id=job.job_id, text=text, is_warning=False))
    return _end(context, job, reason=command.text, as_done=command.as_done, how=command)


def _end(
    context: ControlContext[JobCommand],
    job: JobRecord,
    reason: str = "",
    *,
    as_done: bool = False,
    how: KillJobs | None = None,
) -> str:
    if not job.kill_by or job.state is JobState.UNKWN:
        as_done = as_done and job.state not in PENDING
        by = context.command.user
        context.decision.record(
            JobSignalRequested(at=context.now, job_id=job.job_id, by=by, signal=0, as_done=as_done, reason=reason)
        )
    if job.state in PENDING:
        end_pending(job, _ended_by("TERM", context.command, job.spec.user), context.decision)
        return ""
    assert job.allocation is not None
    for part in job.allocation.hosts:
        ending = attempt_results.ending_reason(job)
        order = TerminateAttempt(part.host, job.job_id, job.attempt, ending)
        if how is not None:
            order = replace(order, hangup=how.hangup, kill_delay_s=how.kill_delay_s)
        context.decision.instruct(order)
    return ""


def end_pending(job: JobRecord, term_reason: str, decision: Decision, problem: AnyText = "") -> None:
    """A job that has not started is over."""
    now = decision.now
    result = AttemptResult(started=False, ended_at=now, term_reason=term_reason, problem=problem)
    decision.record(JobFinished(at=now, job_id=job.job_id, attempt=job.attempt, result=result, post_processed=True))


def end_waiting(array: JobArray, term_reason: str, decision: Decision, problem: AnyText = "") -> None:
    """The elements of the array that have not started are over."""
    result = AttemptResult(started=False, ended_at=decision.now, term_reason=term_reason, problem=problem)
    indices = str(array.remaining())
    decision.record(ArrayElementsFinished(at=decision.now, job_id=array.array_id, indices=indices, result=result))


def kill_waiting(context: ControlContext[JobCommand], array: JobArray) -> str:
    context.decision.record(
        JobSignalRequested(at=context.now, job_id=array.array_id, by=context.command.user, signal=0)
    )
    end_waiting(array, _ended_by("TERM", context.command, array.spec.user), context.decision)
    return ""


def _ended_by(kind: str, command: JobCommand, owner: str) -> str:
    """TERM_OWNER, TERM_FORCE_ADMIN …"""
    return f"{kind}_{'OWNER' if command.user == owner else 'ADMIN'}"


def send_signal(context: ControlContext[SignalJobs], job: JobRecord) -> str:
    number = context.command.signal
    if context.command.step is not None:
        return _signal_step(context, job, context.command.step)
    if number == signal.SIGKILL and job.state in UNREACHABLE:
        _remove(context, job)
        return ""
    if job.state in PENDING or not is_ordered(job):
        return _end(context, job) if effect_of(number) is SignalEffect.END else NOT_STARTED_TEXT
    target = _target_of(job, context.command)
    if target:  # its steps are on record at its first host; what it ends by was no end of the job that was asked for
        return _forward(context, job, target=target)
    return _forward(
        context, job, attempt_results.ending_reason(job) or _ended_by("TERM", context.command, job.spec.user)
    )


def _forward(
    context: ControlContext[SignalJobs], job: JobRecord, reason: str = "", *, target: str = "", step: int | None = None
) -> str:
    """Have it sent on all hosts of the job, or on the first alone where it is for a target or a step. It is kept for
    those that may miss it.
    """
    assert job.allocation is not None
    all_hosts = [part.host for part in job.allocation.hosts]
    hosts = all_hosts[:1] if target or step is not None else all_hosts
    kept = tuple(host for host in hosts if is_kept_for(job, host, context.decision))
    full = next((host for host in kept if sum(host in owed.hosts for owed in job.owed_signals) >= MOST_OWED), "")
    if full:
        return f"{MOST_OWED} signals wait for host {full} already"
    command, number = context.command, job.last_signal + 1
    owed = OwedSignal(number=number, signal=command.signal, hosts=kept, reason=reason, target=target, step=step)
    context.decision.record(
        JobSignalRequested(
            at=context.now,
            job_id=job.job_id,
            by=command.user,
            signal=command.signal,
            step=step,
            owed=owed if kept else None,
        )
    )
    for host in hosts:
        context.decision.instruct(order_of(job, host, owed))
    return ""


def _target_of(job: JobRecord, command: SignalJobs) -> str:
    """Of a job that Slurm's commands have submitted and that has a program beside its steps. SIGKILL is for all."""
    spec = job.spec
    has_steps = spec.front_end == SLURM and not (spec.interactive == "Is" and spec.script_words)
    return command.target if has_steps and command.signal != signal.SIGKILL else ""


def _signal_step(context: ControlContext[SignalJobs], job: JobRecord, step: int) -> str:
    """Its job goes on. Which steps there are is known where they run."""
    if job.state in PENDING or not is_ordered(job):
        return NOT_STARTED_TEXT
    return _forward(context, job, step=step)


def signal_waiting(context: ControlContext[SignalJobs], array: JobArray) -> str:
    is_end = context.command.step is None and effect_of(context.command.signal) is SignalEffect.END
    return kill_waiting(context, array) if is_end else NOT_STARTED_TEXT


def _silent(context: ControlContext[JobCommand], allocation: Allocation) -> str:
    """The hosts that do not answer; the first one where it is not known which."""
    lost = [part.host for part in allocation.hosts if context.observed(part.host).lost]
    return ", ".join(lost or [allocation.first_host])


def _remove(context: ControlContext[SignalJobs], job: JobRecord) -> None:
    """End a job whose host does not answer. It may still run there, so what it holds there stays reserved."""
    allocation, key = job.allocation, job.key
    assert allocation is not None
    number = context.command.signal
    context.decision.record(
        JobSignalRequested(at=context.now, job_id=job.job_id, by=context.command.user, signal=number)
    )
    result = AttemptResult(
        started=job.started_at is not None,
        ended_at=context.now,
        term_reason=_ended_by("TERM_FORCE", context.command, job.spec.user),
        problem=coded("attempt.removed", _silent(context, allocation)),
    )
    context.decision.record(JobFinished(at=context.now, job_id=job.job_id, attempt=job.attempt, result=result))
    for part in allocation.hosts:
        if len(allocation.hosts) == 1:  # of several hosts: see job_part_reports.settle
            keep_orphaned(context.state, context.observed(part.host), part.host, key, part)
        context.decision.instruct(SignalAttempt(part.host, *key, number))
