"""What agents say about attempts: hello, started, ended, silence. The state decides what it means.

An old attempt's result is recorded and dropped. A start that never happened goes back to pending, a start that did is
never repeated unnoticed.
"""

from __future__ import annotations

import msgspec

from gsched.base.ids import show_job
from gsched.core.cluster import ClusterState
from gsched.core.command import AttemptEnded, AttemptStarted, HostHello
from gsched.core.decision import Decision
from gsched.core.instruction import (
    ConfigureAgent,
    ForgetAttempts,
    LimitAttempt,
    ResumeAttempt,
    StartJob,
    SuspendAttempt,
    TerminateAttempt,
)
from gsched.core.job import Job
from gsched.core.observed import Observation
from gsched.model.allocation import HostAllocation
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.devices import devices_of
from gsched.model.event import (
    JobFinished,
    JobMessagePosted,
    JobNoted,
    JobPostProcessed,
    JobRequeued,
    JobStarted,
    JobStatusLost,
    JobStatusRegained,
    JobSuspended,
    StaleResultRecorded,
)
from gsched.model.exits import requeue_values
from gsched.model.host_ledger import AttemptKey
from gsched.model.job import FINISHED, STARTED, AttemptResult, JobState

SYSTEM = "_system_"
"""Who acts when nobody asked."""
GPU_FAILED = "TERM_GPU"
"""Keyword (ours; LSF has none) for attempts that end because a GPU of theirs has failed."""
MOST_STALE = 10_000
"""Results of attempts of jobs that nobody remembers that one host may hand in."""
RETRY_FIRST_S = 1.0
RETRY_MOST_S = 60.0
HOW_TO_ASK = (
    'No GPU was requested, so the job sees none; to get one: -R "select[ngpus>0] rusage[ngpus_excl_p=1]" '
    "(ngpus_shared for a shared one)"
)


def hello(
    state: ClusterState, config: ClusterConfig, hello: HostHello, seen: Observation, now: float, decision: Decision
) -> None:
    """Bring state and journal of a host together. Reply: None; the agent may be given work from now on."""
    for key in list(seen.strays):
        _drop_stray(state, seen, hello.host, key)
    seen.connected, seen.session, seen.last_heard, seen.lost = True, hello.session, now, False
    seen.boot_id, seen.version = hello.boot_id, hello.version
    # What an earlier session said may be of another boot: unknown until this one has told.
    seen.load, seen.gpus = None, None
    seen.topology, seen.only_user = hello.topology, hello.only_user
    seen.usage.clear()
    decision.instruct(ConfigureAgent(hello.host))
    # Starts before ends: an attempt that ended while the master was away has both, and both belong into its history.
    for start in hello.started:
        attempt_started(state, start, seen, now, decision)
    for report in hello.ended:
        attempt_ended(state, config, report, seen, now, decision)
    known = {item.key for item in hello.held}
    for item in hello.held:
        job = state.jobs.get(item.job_id)
        if job is not None and job.key == item.key and _is_on(job, hello.host):
            continue
        keep_stray(state, seen, hello.host, item.key, item.part)
        if item.job_id not in state.quarantined:
            decision.instruct(TerminateAttempt(hello.host, item.job_id, item.attempt))
    for job in _jobs_on(state, hello.host):
        _reconcile(job, config, hello, job.key in known, now, decision)
    state.touched_hosts.add(hello.host)


def _is_on(job: Job, host: str) -> bool:
    return job.state in STARTED and job.allocation is not None and job.allocation.first_host == host


def _jobs_on(state: ClusterState, host: str) -> list[Job]:
    """The jobs that the state has on the host, by number."""
    held = sorted(state.ledger.host(host).held)
    found = [job for key in held if (job := state.jobs.get(key[0])) is not None and job.key == key]
    return [job for job in found if _is_on(job, host)]


def _reconcile(job: Job, config: ClusterConfig, hello: HostHello, held: bool, now: float, decision: Decision) -> None:
    """One job that the state has on the host: still there, never arrived, or gone."""
    never_arrived = not held and job.started_at is None and not job.kill_by and not job.requeue_by
    if not held and not never_arrived:
        _finish_unheard(job, config, hello, now, decision)
        return
    if job.state is JobState.UNKWN:
        decision.record(JobStatusRegained(at=now, job_id=job.job_id, host=hello.host))
    # Orders that the agent may have missed are repeated; all of them are idempotent.
    if job.kill_by or job.requeue_by:
        decision.instruct(TerminateAttempt(hello.host, job.job_id, job.attempt, ending_reason(job)))
        return
    if job.started_at is None:
        # The agent's journal makes the same attempt start once, however often it is told.
        decision.instruct(StartJob(hello.host, job.job_id, job.attempt))
    if job.relimited:
        decision.instruct(LimitAttempt(hello.host, job.job_id, job.attempt))
    if job.state in (JobState.USUSP, JobState.SSUSP):
        decision.instruct(SuspendAttempt(hello.host, job.job_id, job.attempt))
    elif job.started_at is not None:
        decision.instruct(ResumeAttempt(hello.host, job.job_id, job.attempt))


def _finish_unheard(job: Job, config: ClusterConfig, hello: HostHello, now: float, decision: Decision) -> None:
    """The agent knows nothing of a job that ran there (or was to be killed): it is over, how is not known."""
    rebooted = bool(job.boot_id) and job.boot_id != hello.boot_id
    problem = "the host restarted while the job ran" if rebooted else "the agent's journal no longer has the attempt"
    if job.started_at is None:
        problem = ""  # killed before its order arrived: nothing is unknown
    result = AttemptResult(ended_at=now, problem=problem, started=job.started_at is not None)
    if job.spec.rerunnable and job.started_at is not None and not job.kill_by and not job.requeue_by:
        _run_again(job, result, now, decision, reason=f"it is rerunnable, and {problem}")
    else:
        _end(job, config, result, now, decision)


def keep_stray(state: ClusterState, seen: Observation, host: str, key: AttemptKey, part: HostAllocation) -> None:
    """What an attempt holds that the state knows nothing of stays reserved until its agent says that it is over."""
    if not state.ledger.holds(host, key):
        state.ledger.host(host).take(key, part)
        seen.strays[key] = part
        state.touched_hosts.add(host)


def _drop_stray(state: ClusterState, seen: Observation, host: str, key: AttemptKey) -> None:
    if seen.strays.pop(key, None) is not None:
        state.ledger.host(host).give(key)
        state.touched_hosts.add(host)


def attempt_started(
    state: ClusterState, report: AttemptStarted, seen: Observation, now: float, decision: Decision
) -> None:
    """The first process runs: start line, the GPUs' external message, or how to ask for one."""
    job = state.jobs.get(report.job_id)
    if job is None or job.attempt != report.attempt or not _is_on(job, report.host) or job.started_at is not None:
        return
    assert job.allocation is not None
    decision.record(
        JobStarted(
            at=_within(job, report.at, now),
            job_id=job.job_id,
            attempt=job.attempt,
            pid=report.pid,
            home=report.home,
            cwd=report.cwd,
            boot_id=report.boot_id,
        )
    )
    message = job.allocation.gpu_message()
    if message:
        decision.record(JobMessagePosted(at=now, job_id=job.job_id, user=job.spec.user, box=0, text=message))


def note_hidden_gpus(job: Job, config: ClusterConfig, seen: Observation, now: float, decision: Decision) -> None:
    """Tell a job that asked for no GPU on a host with GPUs how to ask for one; once."""
    held = job.allocation is not None and any(part.gpus for part in job.allocation.hosts)
    has_gpus = seen.gpus is not None and bool(seen.gpus.gpus)
    hidden = config.params.gpu_unrequested is GpuUnrequested.HIDE
    if hidden and has_gpus and not held and job.attempt == job.failed_starts + 1:
        decision.record(JobNoted(at=now, job_id=job.job_id, text=HOW_TO_ASK, is_warning=False))


def attempt_ended(
    state: ClusterState, config: ClusterConfig, report: AttemptEnded, seen: Observation, now: float, decision: Decision
) -> None:
    """Record the end (once) and let the agent forget the attempt."""
    key = (report.job_id, report.attempt)
    decision.instruct(ForgetAttempts(report.host, (key,)))
    seen.usage.pop(key, None)
    _drop_stray(state, seen, report.host, key)
    if report.job_id in state.quarantined:
        return
    job = state.jobs.get(report.job_id)
    if job is None or job.attempt != report.attempt or not _is_on(job, report.host):
        if _is_news(job, report, seen):
            decision.record(
                StaleResultRecorded(
                    at=now, job_id=report.job_id, attempt=report.attempt, host=report.host, result=report.result
                )
            )
        return
    result = report.result
    never_ran = not result.started and job.started_at is None and result.exit_code is None and result.signal is None
    if (never_ran or result.pre_failed) and not job.kill_by and not job.requeue_by:
        most = config.params.max_preexec_retry
        if not result.pre_failed or most is None or job.failed_starts + 1 < most:
            _requeue(job, report, seen, now, decision)
        elif config.params.preexec_exit:
            _finish(job, result, now, decision)
        else:
            _suspend_for_good(job, report, now, decision)
        return
    _end(job, config, result, _within(job, result.ended_at, now), decision)


def _is_news(job: Job | None, report: AttemptEnded, seen: Observation) -> bool:
    """Whether this end of an attempt that is over, as far as the state knows, has not been recorded yet."""
    key = (report.job_id, report.attempt)
    if job is None:
        if key in seen.stale or len(seen.stale) >= MOST_STALE:
            return False
        seen.stale.add(key)
        return True
    if report.attempt > job.attempt or (report.attempt == job.attempt and job.state in STARTED):
        return False  # an attempt that has never been, or runs elsewhere: no agent of this host can know of it
    if job.state in FINISHED and job.attempt == report.attempt and job.result is not None:
        how_it_ended_is_known = job.result.exit_code is not None or job.result.signal is not None
        if how_it_ended_is_known or job.result == report.result:
            return False
    elif report.attempt <= job.attempt and not report.result.started:
        return False  # that it was never started is why it was given up
    return report.attempt not in job.stale


def _within(job: Job, at: float, now: float) -> float:
    """An agent's time, no earlier than the job's dispatch and no later than now: clocks of hosts may be wrong."""
    return min(max(at, job.dispatched_at or 0.0), max(now, job.dispatched_at or 0.0))


def _requeue(job: Job, report: AttemptEnded, seen: Observation, now: float, decision: Decision) -> None:
    """The command was never executed: back to pending, a little later each time; suspended if it was.

    At once where its GPUs were at fault and are closed: no cycle can choose them again.
    """
    was_stopped = JobState.USUSP in (job.state, job.known_state)
    stopped_by = job.stopped_by if was_stopped else ""
    delay = min(RETRY_MOST_S, RETRY_FIRST_S * 2.0 ** min(job.failed_starts, 10))
    at_once = report.result.gpus_unfit and _is_closed(job, report.host, seen)
    decision.record(
        JobRequeued(
            at=now,
            job_id=job.job_id,
            attempt=job.attempt,
            reason=report.result.problem or "the job could not be started",
            avoid_host="" if at_once else report.host,
            not_before=0.0 if at_once else now + delay,
        )
    )
    if stopped_by:
        decision.record(JobSuspended(at=now, job_id=job.job_id, by=stopped_by))


def _is_closed(job: Job, host: str, seen: Observation) -> bool:
    """Whether the same GPUs of the host cannot be given out now."""
    parts = job.allocation.hosts if job.allocation is not None else ()
    held = {gpu.uuid for part in parts if part.host == host for gpu in part.gpus}
    return bool(held - {uuid for uuid, gpu in devices_of(seen.gpus).items() if not gpu.problem})


def _suspend_for_good(job: Job, report: AttemptEnded, now: float, decision: Decision) -> None:
    """Its pre-execution command has failed as often as it may: pending and suspended until its owner resumes it."""
    failed = report.result.problem or "a pre-exec command failed"
    reason = f"{failed}; {job.failed_starts + 1} failed starts are the most (MAX_PREEXEC_RETRY), so it is suspended"
    decision.record(
        JobRequeued(
            at=now, job_id=job.job_id, attempt=job.attempt, reason=reason, by="", avoid_host=report.host, hold=True
        )
    )


def _end(job: Job, config: ClusterConfig, result: AttemptResult, at: float, decision: Decision) -> None:
    """The attempt is over: the job is too, or it waits again because somebody, or its exit code, wants it to."""
    if job.kill_by:
        _finish(job, result, at, decision)
    elif job.requeue_by and not (job.gpu_fault and result.succeeded):  # what is done need not be done again
        by = job.requeue_by
        reason = job.gpu_fault or "Job has been requeued"
        if job.preempted_by:
            reason = f"preempted by job {show_job(job.preempted_by)}"
        _run_again(job, result, at, decision, reason=reason, by="" if by == SYSTEM else by, hold=job.requeue_hold)
    elif not _requeued_by_code(job, config, result, at, decision):
        _finish(job, result, at, decision)


def _requeued_by_code(job: Job, config: ClusterConfig, result: AttemptResult, at: float, decision: Decision) -> bool:
    """REQUEUE_EXIT_VALUES; a job that died by a signal is never requeued by it."""
    code = result.exit_code
    if code is None or result.term_reason or not job.spec.requeue_exit_values:
        return False
    values = requeue_values(job.spec.requeue_exit_values)
    if code not in values.codes and code not in values.elsewhere:
        return False
    queue, profile = config.queues.get(job.spec.queue), config.applications.get(job.spec.application)
    most_often = profile.max_requeue if profile is not None else None
    if most_often is None and queue is not None:
        most_often = queue.max_requeue
    if most_often is not None and job.code_requeues >= most_often:
        most = f"{job.code_requeues} times are the most (MAX_JOB_REQUEUE)"
        text = f"it exited with {code} and is not requeued again: {most}"
        decision.record(JobNoted(at=at, job_id=job.job_id, text=text))
        return False
    host = job.allocation.first_host if job.allocation is not None else ""
    exclude = host if code in values.elsewhere and job.allocation and len(job.allocation.hosts) == 1 else ""
    reason = f"it exited with {code}, which requeues it"
    _run_again(job, result, at, decision, reason=reason, at_head=True, exclude=exclude)
    return True


def _run_again(
    job: Job,
    result: AttemptResult,
    at: float,
    decision: Decision,
    *,
    reason: str,
    by: str = "",
    hold: bool = False,
    at_head: bool = False,
    exclude: str = "",
) -> None:
    decision.record(
        JobRequeued(
            at=at,
            job_id=job.job_id,
            attempt=job.attempt,
            reason=reason,
            failed_start=False,
            result=result,
            by=by,
            hold=hold,
            at_head=at_head,
            exclude_host=exclude,
        )
    )


def _finish(job: Job, result: AttemptResult, at: float, decision: Decision) -> None:
    if job.ends_done and result.started:
        result = msgspec.structs.replace(result, exit_code=0, signal=None, core_dumped=False, term_reason="")
    elif job.kill_by and not result.succeeded and not result.term_reason:
        result = msgspec.structs.replace(result, term_reason=_killed(job))
    if result.problem:
        decision.record(JobNoted(at=at, job_id=job.job_id, text=result.problem))
    decision.record(JobFinished(at=at, job_id=job.job_id, attempt=job.attempt, result=result))
    decision.record(JobPostProcessed(at=at, job_id=job.job_id, attempt=job.attempt, failed=bool(result.post_code)))


def ending_reason(job: Job) -> str:
    """LSF's keyword for why a started job is being ended; empty for one that is not, and for one that is DONE then."""
    if job.ends_done:
        return ""
    if job.kill_by:
        return _killed(job)
    if job.preempted_by and job.requeue_by:
        return "TERM_PREEMPT"
    if job.gpu_fault and job.requeue_by:
        return GPU_FAILED
    if job.requeue_by:
        return "TERM_REQUEUE_OWNER" if job.requeue_by == job.spec.user else "TERM_REQUEUE_ADMIN"
    return ""


def _killed(job: Job) -> str:
    if job.kill_by == SYSTEM:
        return GPU_FAILED if job.gpu_fault else "TERM_DEADLINE"
    return "TERM_OWNER" if job.kill_by == job.spec.user else "TERM_ADMIN"


def host_lost(state: ClusterState, host: str, seen: Observation, now: float, decision: Decision) -> None:
    """The host has been silent for too long: its jobs are UNKWN until it says hello; rerunnable ones wait again.

    An attempt that still runs there all the same is ended at the host's hello, and its result is recorded.
    """
    seen.lost = True
    for job in _jobs_on(state, host):
        if job.state in (JobState.UNKWN, JobState.ZOMBI):
            continue
        if job.spec.rerunnable and not job.kill_by:
            result = AttemptResult(
                ended_at=now, problem=f"{host} no longer answers", started=job.started_at is not None
            )
            allocation, key = job.allocation, job.key
            reason = f"it is rerunnable, and {host} no longer answers"
            by = "" if job.requeue_by == SYSTEM else job.requeue_by
            _run_again(job, result, now, decision, reason=reason, by=by, hold=job.requeue_hold)
            for part in allocation.hosts if allocation is not None else ():
                if part.host == host:
                    keep_stray(state, seen, host, key, part)
        else:
            decision.record(JobStatusLost(at=now, job_id=job.job_id, host=host))
    state.touched_hosts.add(host)
