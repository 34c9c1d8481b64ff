"""What agents say about attempts: hello, started, ended, silence. The state decides what it means.

An old attempt's result is recorded and dropped. A start that never happened goes back to pending, a start that did is
never repeated unnoticed.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import array_of
from gsched.core.attempts.attempt_results import (
    SYSTEM,
    AnotherRun,
    end,
    keep_curves,
    requeue_order,
    run_again,
    start_failed,
    within,
)
from gsched.core.attempts.exit_rates import count_exit
from gsched.core.attempts.job_part_reports import (
    HeldHere,
    part_ended,
    part_ended_late,
    part_started,
    reconcile_finished,
    reconcile_part,
    regain,
)
from gsched.core.attempts.orphaned_attempts import drop_orphaned, keep_orphaned
from gsched.core.attempts.preemption_withdrawal import repeat_sparing
from gsched.core.attempts.restarts import restart_cause
from gsched.core.attempts.signal_delivery import repeat_signals
from gsched.core.attempts.unrecorded_attempts import (
    hold_back,
    is_of_lost_store,
    is_unrecorded,
    raise_by_hello,
    set_aside,
    unrecorded_ended,
)
from gsched.core.command import AttemptEnded, AttemptStarted, HeldAttempt, HostHello
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
from gsched.core.records.host_allocations import is_ordered, is_part
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observation
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import GpuUnrequested
from gsched.model.event import (
    JobMessagePosted,
    JobNoted,
    JobStarted,
    JobStatusLost,
    StaleResultRecorded,
)
from gsched.model.jobs.job import FINISHED, STARTED, AttemptResult, JobState
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.views.message_boxes import GPUS_BOX
from gsched.resreq.parsing.gpu import asks_for_none

MOST_STALE = 10_000
"""Results of attempts of jobs that nobody remembers that one host may hand in."""
HOW_TO_ASK = coded("note.no_gpu_asked")


def hello(hello: HostHello, seen: Observation, decision: Decision) -> None:
    """Bring state and journal of a host together. Reply: None; the agent may be given work from now on."""
    state = decision.state
    for key in list(seen.unaccounted):
        drop_orphaned(state, seen, hello.host, key)
    rebooted = bool(seen.boot_id) and seen.boot_id != hello.boot_id
    seen.meet(hello.session, decision.now)
    seen.boot_id, seen.version = hello.boot_id, hello.version
    # What an earlier session said may be of another boot: unknown until this one has told.
    seen.load, seen.gpus = None, None
    seen.topology, seen.only_user = hello.topology, hello.only_user
    seen.confirms_signals = hello.confirms_signals
    seen.usage.clear()
    seen.idle.clear()
    seen.unrecorded.clear()
    decision.instruct(ConfigureAgent(hello.host, seen.roll.reported_by(hello.host)))
    raise_by_hello(hello, decision.config.params.max_job_id, decision)
    # Starts before ends: an attempt that ended while the master was away has both, and both belong into its history.
    for start in hello.started:
        attempt_started(start, seen, decision)
    for report in hello.ended:
        if is_unrecorded(state, report):
            unrecorded_ended(seen, report, decision)
        else:
            attempt_ended(report, seen, decision)
    known = {item.key for item in hello.held if not item.foreign and not is_of_lost_store(state, item)}
    for item in hello.held:
        _take_held(hello.host, item, seen, decision)
    signalled = {item.key: item.signalled for item in hello.held}
    for job in _jobs_on(state, hello.host):
        held = HeldHere(job.key in known, signalled.get(job.key, 0))
        if is_part(job, hello.host):
            reconcile_part(job, hello.host, held, rebooted, decision)
        else:
            _reconcile(job, hello, held, decision)
    reconcile_finished(hello.host, known, decision)
    state.touched_hosts.add(hello.host)


def _take_held(host: str, item: HeldAttempt, seen: Observation, decision: Decision) -> None:
    """An attempt that an agent has: one of the state, one that it has given up, or one that it cannot know of."""
    state = decision.state
    job = state.jobs.get(item.job_id)
    is_strange = item.foreign or is_of_lost_store(state, item)
    if job is not None and job.key == item.key and _is_on(job, host) and not is_strange:
        return
    if is_unrecorded(state, item) or item.job_id in state.quarantined:
        set_aside(seen, host, item.key, item.part, decision)
        if not item.foreign:
            hold_back(host, item.key, decision)
        return
    keep_orphaned(state, seen, host, item.key, item.part)
    decision.instruct(TerminateAttempt(host, item.job_id, item.attempt, given_up=True))


def _is_on(job: JobRecord, host: str) -> bool:
    hosts = job.allocation.hosts if job.allocation is not None else ()
    return job.state in STARTED and any(part.host == host for part in hosts)


def _jobs_on(state: ClusterState, host: str) -> list[JobRecord]:
    """The jobs that the state has on the host, by number."""
    held = sorted(state.ledger.host(host).held)
    found = [job for key in held if (job := state.jobs.get(key[0])) is not None and job.key == key]
    return [job for job in found if _is_on(job, host)]


def _reconcile(job: JobRecord, hello: HostHello, held: HeldHere, decision: Decision) -> None:
    """One job that the state has on the host: still there, never arrived, or gone."""
    never_arrived = not held.is_there and job.started_at is None and not job.kill_by and not job.requeue_by
    if not held.is_there and not never_arrived:
        _finish_unheard(job, hello, decision)
        return
    regain(job, hello.host, decision)
    # Orders that the agent may have missed are repeated; all of them are idempotent.
    if job.kill_by or job.requeue_by:
        repeat_signals(job, hello.host, held.signalled, decision)
        decision.instruct(requeue_order(job, hello.host))
        return
    if not is_ordered(job):
        return  # its parts on other hosts are not open yet
    if job.started_at is None:
        # The agent's journal makes the same attempt start once, however often it is told.
        decision.instruct(StartJob(hello.host, job.job_id, job.attempt))
    repeat_signals(job, hello.host, held.signalled, decision)
    repeat_sparing(job, hello.host, decision)
    if job.relimited:
        decision.instruct(LimitAttempt(hello.host, job.job_id, job.attempt))
    if job.state in (JobState.USUSP, JobState.SSUSP):
        moves = job.moving_off or job.moved_off
        decision.instruct(SuspendAttempt(hello.host, job.job_id, job.attempt, moves))
    elif job.started_at is not None:
        decision.instruct(ResumeAttempt(hello.host, job.job_id, job.attempt))


def _finish_unheard(job: JobRecord, hello: HostHello, decision: Decision) -> None:
    """The agent knows nothing of a job that ran there (or was to be killed): it is over, how is not known."""
    now = decision.now
    rebooted = bool(job.boot_id) and job.boot_id != hello.boot_id
    problem: AnyText = coded("attempt.host_restarted" if rebooted else "attempt.not_in_journal")
    if job.started_at is None:
        problem = ""  # killed before its order arrived: nothing is unknown
    result = AttemptResult(ended_at=now, problem=problem, started=job.started_at is not None)
    decision.over.add((hello.host, job.key))
    is_asked = job.kill_by or job.requeue_by
    if job.runs_again_after(RestartCause.HOST) and job.started_at is not None and not is_asked:
        run_again(job, result, now, _after_host(job, coded("requeue.rerunnable", problem)), decision)
    else:
        end(job, result, now, decision)


def _after_host(job: JobRecord, reason: AnyText) -> AnotherRun:
    return AnotherRun(reason, restart=restart_cause(job, RestartCause.HOST))


def attempt_started(report: AttemptStarted, seen: Observation, decision: Decision) -> None:
    """The first process runs: its start, and the external message with its GPUs (`host:gpus=0,1;`)."""
    job = decision.state.jobs.get(report.job_id)
    if job is None or job.attempt != report.attempt or not _is_on(job, report.host):
        return
    if is_part(job, report.host):
        part_started(job, report.host, decision)
        return
    if job.started_at is not None:
        return
    assert job.allocation is not None
    decision.record(
        JobStarted(
            at=within(job, report.at, decision.now),
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
        user = job.spec.user
        decision.record(JobMessagePosted(at=decision.now, job_id=job.job_id, user=user, box=GPUS_BOX, text=message))


def note_hidden_gpus(job: JobRecord, seen: Observation, at: float, decision: Decision) -> None:
    """Tell a job that asked for no GPU on a host with GPUs how to ask for one; once."""
    held = job.allocation is not None and any(part.gpus for part in job.allocation.hosts)
    has_gpus = seen.gpus is not None and bool(seen.gpus.gpus)
    hidden = decision.config.params.gpu_unrequested is GpuUnrequested.HIDE
    if (
        hidden
        and has_gpus
        and not held
        and not asks_for_none(job.spec.gpu_req)
        and job.attempt == job.failed_starts + 1
    ):
        decision.record(JobNoted(at=at, job_id=job.job_id, text=HOW_TO_ASK, is_warning=False))


def attempt_ended(report: AttemptEnded, seen: Observation, decision: Decision) -> None:
    """Record the end (once) and let the agent forget the attempt."""
    state, now = decision.state, decision.now
    key = (report.job_id, report.attempt)
    if key in seen.unrecorded and report.job_id not in state.quarantined:
        unrecorded_ended(seen, report, decision)
        return
    seen.unrecorded.pop(key, None)
    seen.unwanted.discard(key)
    decision.instruct(ForgetAttempts(report.host, (key,)))
    seen.usage.pop(key, None)
    seen.idle.pop(key, None)
    drop_orphaned(state, seen, report.host, key)
    if report.job_id in state.quarantined:
        return
    job = state.jobs.get(report.job_id)
    if job is not None and job.key == key and _is_on(job, report.host) and is_part(job, report.host):
        part_ended(job, report, decision)
        return
    # A host that has forgotten its part, with its folder, does not say that it was one.
    is_left = job is not None and job.key == key and any(part.host == report.host for part in job.left_parts())
    if report.is_part or report.given_up or is_left:
        part_ended_late(job, report, decision)
        return
    if job is None or job.attempt != report.attempt or not _is_on(job, report.host):
        if _is_news(job, report, seen, state):
            keep_curves(report, decision)
            decision.record(
                StaleResultRecorded(
                    at=now, job_id=report.job_id, attempt=report.attempt, host=report.host, result=report.result
                )
            )
        return
    decision.over.add((report.host, key))
    keep_curves(report, decision)
    count_exit(job, report, seen, decision)
    result = report.result
    never_ran = not result.started and job.started_at is None and result.exit_code is None and result.signal is None
    if (never_ran or result.pre_failed) and not job.kill_by and not job.requeue_by:
        start_failed(job, report, seen, decision)
        return
    at = within(job, result.ended_at, now)
    if result.host_down and job.runs_again_after(RestartCause.HOST) and not job.kill_by and not job.requeue_by:
        run_again(job, result, at, _after_host(job, coded("requeue.rerunnable", result.problem)), decision)
    else:
        end(job, result, at, decision)


def _is_news(job: JobRecord | None, report: AttemptEnded, seen: Observation, state: ClusterState) -> bool:
    """Whether this end of an attempt that is over, as far as the state knows, has not been recorded yet."""
    key = (report.job_id, report.attempt)
    if job is None:
        # What comes before the first event of a job would be taken for the rest of one whose events have gone.
        if not has_been(report.job_id, state):
            return False
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


def has_been(job_id: int, state: ClusterState) -> bool:
    """Whether there has been a job of this number."""
    number = array_of(job_id)
    to_be_made = (each.to_be_made() for each in state.accepted.values())
    return number < state.next_job_id and not any(number in numbers for numbers in to_be_made)


def host_lost(host: str, seen: Observation, decision: Decision) -> None:
    """The host has been silent for too long: its jobs are UNKWN until it says hello; rerunnable ones wait again.

    An attempt that still runs there all the same is ended at the host's hello, and its result is recorded.
    """
    state, now = decision.state, decision.now
    seen.give_up()
    for job in _jobs_on(state, host):
        has_none = is_part(job, host) and all(part.host != host for part in job.left_parts())
        if job.state in (JobState.UNKWN, JobState.ZOMBI) or has_none:
            continue
        if job.runs_again_after(RestartCause.HOST) and not job.kill_by:
            silent = coded("attempt.silent_host", host)
            result = AttemptResult(ended_at=now, problem=silent, started=job.started_at is not None)
            allocation, key = job.allocation, job.key
            reason = coded("requeue.rerunnable", silent)
            by = "" if job.requeue_by == SYSTEM else job.requeue_by
            cause = restart_cause(job, RestartCause.HOST)
            run_again(job, result, now, AnotherRun(reason, by=by, hold=job.requeue_hold, restart=cause), decision)
            if allocation is not None and len(allocation.hosts) == 1:  # of several hosts: see job_part_reports.settle
                keep_orphaned(state, seen, host, key, allocation.hosts[0])
        else:
            decision.record(JobStatusLost(at=now, job_id=job.job_id, host=host))
    state.touched_hosts.add(host)
