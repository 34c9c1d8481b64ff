"""Killing, signalling, stopping and resuming jobs; opening and closing hosts. Texts are LSF's."""

from __future__ import annotations

import signal
from collections.abc import Callable

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core import attempts
from gsched.core.cluster import ClusterState
from gsched.core.command import ControlHosts, ControlJobs
from gsched.core.decision import Decision
from gsched.core.instruction import ResumeAttempt, SignalAttempt, SuspendAttempt, TerminateAttempt
from gsched.core.job import Job
from gsched.core.observed import Observation
from gsched.core.select_jobs import admits
from gsched.model.config import ClusterConfig
from gsched.model.event import (
    HostClosed,
    HostOpened,
    JobFinished,
    JobPostProcessed,
    JobResumed,
    JobSignalRequested,
    JobSuspended,
)
from gsched.model.job import FINISHED, PENDING, AttemptResult, JobState
from gsched.model.view import Control, JobFilter

FINISHED_TEXT = "Job has already finished"
UNREACHABLE_TEXT = "Host of the job does not answer"
NOT_STARTED_TEXT = "Job has not started yet"
UNREACHABLE = (JobState.UNKWN, JobState.ZOMBI)
PENDING_ENDS = (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
"""Signals that end a job that has not started."""


def control_jobs(
    state: ClusterState, command: ControlJobs, observed: Callable[[str], Observation], now: float, decision: Decision
) -> None:
    """Reply: a Control for each job, in order."""
    act = _ACTIONS.get(command.action)
    if act is None:
        raise BadRequest(f"'{command.action}' is not something that can be done to a job")
    if command.action == "signal" and not 1 <= command.signal <= signal.SIGRTMAX:
        raise BadRequest(f"{command.signal}: Signal not supported")
    results = []
    for job_id in command.job_ids or _mine(state, command):
        job = state.jobs.get(job_id)
        if job is None:
            error = state.quarantined.get(job_id) and f"the job is set aside: {state.quarantined[job_id]}"
            results.append(Control(job_id=job_id, error=error or "No matching job found"))
        elif not command.is_admin and command.user != job.spec.user:
            results.append(Control(job_id=job_id, error="User permission denied"))
        elif job.state in FINISHED:
            results.append(Control(job_id=job_id, error=FINISHED_TEXT))
        elif job.state in UNREACHABLE and command.action == "signal" and command.signal == signal.SIGKILL:
            _remove(state, job, command, observed, now, decision)
            results.append(Control(job_id=job_id))
        else:
            results.append(Control(job_id=job_id, error=act(job, command, now, decision)))
    decision.reply = results


def _mine(state: ClusterState, command: ControlJobs) -> list[int]:
    wanted = command.wanted or JobFilter()
    user = wanted.user or command.user
    return [
        job.job_id
        for job in state.jobs.values()
        if job.state not in FINISHED and (user == "all" or job.spec.user == user) and admits(wanted, job, any_user=True)
    ]


def _kill(job: Job, command: ControlJobs, now: float, decision: Decision) -> str:
    if not job.kill_by or job.state is JobState.UNKWN:
        decision.record(JobSignalRequested(at=now, job_id=job.job_id, by=command.user, signal=0))
    if job.state in PENDING:
        _finish(job, AttemptResult(started=False, ended_at=now, term_reason=_ended_by("TERM", command, job)), decision)
        decision.record(JobPostProcessed(at=now, job_id=job.job_id, attempt=job.attempt))
        return ""
    assert job.allocation is not None
    for part in job.allocation.hosts:
        decision.instruct(TerminateAttempt(part.host, job.job_id, job.attempt))
    return ""


def _ended_by(kind: str, command: ControlJobs, job: Job) -> str:
    """TERM_OWNER, TERM_FORCE_ADMIN …"""
    return f"{kind}_{'OWNER' if command.user == job.spec.user else 'ADMIN'}"


def _finish(job: Job, result: AttemptResult, decision: Decision) -> None:
    decision.record(JobFinished(at=result.ended_at, job_id=job.job_id, attempt=job.attempt, result=result))


def _signal(job: Job, command: ControlJobs, now: float, decision: Decision) -> str:
    # Stopping and continuing change a job's state, so they are not merely passed on.
    if command.signal in (signal.SIGSTOP, signal.SIGTSTP):
        return _stop(job, command, now, decision)
    if command.signal == signal.SIGCONT:
        return _resume(job, command, now, decision)
    if job.state in PENDING:
        return _kill(job, command, now, decision) if command.signal in PENDING_ENDS else NOT_STARTED_TEXT
    assert job.allocation is not None
    decision.record(JobSignalRequested(at=now, job_id=job.job_id, by=command.user, signal=command.signal))
    for part in job.allocation.hosts:
        decision.instruct(SignalAttempt(part.host, job.job_id, job.attempt, command.signal))
    return ""


def _remove(
    state: ClusterState,
    job: Job,
    command: ControlJobs,
    observed: Callable[[str], Observation],
    now: float,
    decision: Decision,
) -> None:
    """End a job whose host does not answer. It may still run there, so what it holds there stays reserved."""
    allocation, key = job.allocation, job.key
    assert allocation is not None
    decision.record(JobSignalRequested(at=now, job_id=job.job_id, by=command.user, signal=command.signal))
    result = AttemptResult(
        started=job.started_at is not None,
        ended_at=now,
        term_reason=_ended_by("TERM_FORCE", command, job),
        problem=f"removed while {allocation.first_host} did not answer; how the job ended is not known",
    )
    _finish(job, result, decision)
    for part in allocation.hosts:
        attempts.keep_stray(state, observed(part.host), part.host, key, part)
        decision.instruct(SignalAttempt(part.host, *key, command.signal))


def _stop(job: Job, command: ControlJobs, now: float, decision: Decision) -> str:
    if job.state in (JobState.PSUSP, JobState.USUSP):
        return ""
    if job.state not in (JobState.PEND, JobState.RUN, JobState.SSUSP):
        return UNREACHABLE_TEXT
    running = job.state is not JobState.PEND
    decision.record(JobSuspended(at=now, job_id=job.job_id, by=command.user))
    if running and job.allocation is not None:
        for part in job.allocation.hosts:
            decision.instruct(SuspendAttempt(part.host, job.job_id, job.attempt))
    return ""


def _resume(job: Job, command: ControlJobs, now: float, decision: Decision) -> str:
    if job.state not in (JobState.PSUSP, JobState.USUSP):
        return "" if job.state in (JobState.RUN, JobState.PEND) else UNREACHABLE_TEXT
    running = job.state is JobState.USUSP
    decision.record(JobResumed(at=now, job_id=job.job_id, by=command.user))
    if running and job.allocation is not None:
        for part in job.allocation.hosts:
            decision.instruct(ResumeAttempt(part.host, job.job_id, job.attempt))
    return ""


_ACTIONS = {"kill": _kill, "signal": _signal, "stop": _stop, "resume": _resume}


def control_hosts(
    state: ClusterState, config: ClusterConfig, command: ControlHosts, now: float, decision: Decision
) -> None:
    """Reply: the hosts that were named."""
    if not command.is_admin:
        raise PermissionDenied("User permission denied")
    if command.action not in ("open", "close"):
        raise BadRequest(f"'{command.action}' is not something that can be done to a host")
    for host in command.hosts:
        if host not in config.hosts:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    for host in command.hosts:
        if command.action == "close":
            decision.record(HostClosed(at=now, host=host, by=command.user, comment=command.comment))
        elif host in state.closed_hosts:
            decision.record(HostOpened(at=now, host=host, by=command.user))
        state.touched_hosts.add(host)
    decision.reply = list(command.hosts)
