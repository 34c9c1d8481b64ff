"""gadmin drain --requeue: hosts are closed, and their jobs run again elsewhere, those that can.

It ends no job that could not be run again, and none that is suspended or being ended already. One that saves its state
for others leaves by the time that it was told then, whether or not they still need its place.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import BadRequest
from gsched.core.attempts.attempt_results import DRAINED, requeue_order
from gsched.core.attempts.restarts import save_by
from gsched.core.authorization import Caller, job_denied
from gsched.core.command import ControlHosts, DrainHosts
from gsched.core.control.administration import control_hosts
from gsched.core.decision import Decision
from gsched.core.records.job import JobRecord
from gsched.model.event import JobRequeueRequested
from gsched.model.jobs.job import STARTED, JobState
from gsched.model.jobs.job_signal import MOST_SAVE_S
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.views.drained_job import DrainedJob

_ABLE = (JobState.RUN, JobState.SSUSP)


def drain_hosts(command: DrainHosts, decision: Decision) -> tuple[str, ...]:
    """Reply: a DrainedJob for each job that has started there. Returns the hosts. Raises BadRequest, PermissionDenied;
    then none is closed.
    """
    if command.grace_s is not None and not 1 <= command.grace_s <= MOST_SAVE_S:
        raise BadRequest(f"{command.grace_s} is no time for saving, in seconds from 1 to {MOST_SAVE_S}")
    control_hosts(ControlHosts(command.user, command.is_admin, "close", command.hosts, command.comment), decision)
    hosts = tuple(decision.reply)
    decision.reply = [_drain(job, host, command, decision) for job, host in _jobs_on(hosts, decision)]
    return hosts


def _jobs_on(hosts: tuple[str, ...], decision: Decision) -> list[tuple[JobRecord, str]]:
    """Jobs that hold something there, each once, with the first of these hosts that they have."""
    state, found = decision.state, dict[int, tuple[JobRecord, str]]()
    for host in hosts:
        for job_id, attempt in sorted(state.ledger.host(host).held):
            job = state.jobs.get(job_id)
            if job is not None and job.attempt == attempt and job.state in STARTED:
                found.setdefault(job_id, (job, host))
    return list(found.values())


def _drain(job: JobRecord, host: str, command: DrainHosts, decision: Decision) -> DrainedJob:
    why = _why_not(job, command, decision)
    if why or job.allocation is None:
        return DrainedJob(job_id=job.job_id, host=host, why=why)
    until = save_by(job, decision.now, command.grace_s)
    reason = coded(DRAINED, host, command.user)
    decision.record(
        JobRequeueRequested(at=decision.now, job_id=job.job_id, by=command.user, reason=reason, save_by=until)
    )
    for part in job.allocation.hosts:
        decision.instruct(requeue_order(job, part.host))
    return DrainedJob(job_id=job.job_id, host=host, is_requeued=True, save_by=until)


def _why_not(job: JobRecord, command: DrainHosts, decision: Decision) -> AnyText:
    """Why the job is left as it is; empty: it is requeued."""
    if job.kill_by or (job.requeue_by and not _saves_for_others(job, decision.now)):
        return coded("drain.ending")
    if job.state in (JobState.UNKWN, JobState.ZOMBI):
        return coded("drain.unreachable")
    if job.state not in _ABLE:
        return coded("drain.suspended")
    if not Caller(command.user, command.is_admin).administers(job.spec, decision.config):
        return str(job_denied(job.spec, decision.config))
    if job.spec.interactive or not (job.spec.saves_on_signal or job.spec.rerunnable or _asks_for_it(job)):
        return coded("drain.not_rerunnable")
    return "" if job.has_restart_left else coded("drain.no_restart_left")


def _saves_for_others(job: JobRecord, now: float) -> bool:
    """Whether it is only asked to save its state, for a job that is to get its place or to go on with other GPUs."""
    return (job.saves_for_another or job.is_resizing) and job.save_by is not None and now < job.save_by


def _asks_for_it(job: JobRecord) -> bool:
    return RestartCause.DRAIN in job.spec.restart_on
