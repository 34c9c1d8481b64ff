"""Attempts on hosts that the store has no record of: it was lost, or is an old copy. They are never ended unasked.

What they hold stays reserved, and how they ended stays with their agents, until an administrator says that they are not
wanted. Of an attempt that the state has given up it knows more than its agent: that one is ended (`attempt_reports`).

They are known from agents alone, so nothing of this is stored: each hello tells of them again.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.ids import array_of, attempt_name, index_of
from gsched.core.attempts import attempt_results
from gsched.core.attempts.attempt_notes import note
from gsched.core.attempts.orphaned_attempts import drop_orphaned, keep_orphaned
from gsched.core.authorization import cluster_denied
from gsched.core.command import AttemptEnded, EndOrphans, HeldAttempt, HostHello, RaiseNumbers, RenewStore
from gsched.core.decision import Decision
from gsched.core.instruction import ForgetAttempts, TerminateAttempt
from gsched.core.resources.observed_hosts import Observation, Observations, UnrecordedAttempt
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobSuspended, NumbersRaised, StoreRenewed
from gsched.model.jobs.job import PENDING, STARTED
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.views.view import Answer

MOST_UNRECORDED = 20_000
"""Of one host."""
MOST_NUMBER = 100_000_000
"""No agent is believed that job numbers beyond this have been given out."""


def is_unrecorded(state: ClusterState, item: HeldAttempt | AttemptEnded) -> bool:
    """Whether no record of the state can have led to this attempt."""
    job_id, attempt = item.job_id, item.attempt
    number = array_of(job_id)
    if item.foreign or number >= state.next_job_id or state.lost_store.had(number):
        return True
    job = state.jobs.get(job_id)
    if job is not None:
        return attempt > job.attempt or attempt in job.unrecorded or is_of_lost_store(state, item)
    array = state.arrays.get(number)
    return array is not None and bool(index_of(job_id)) and array.has_waiting(index_of(job_id))


def is_of_lost_store(state: ClusterState, item: HeldAttempt | AttemptEnded) -> bool:
    """Whether an earlier generation of the store has ordered it after all that this one has of that."""
    return 0 < item.generation < state.generation and item.attempt > state.lost_store.attempts.get(item.job_id, 0)


def renew_store(command: RenewStore, decision: Decision) -> None:
    """What an earlier generation has ordered and no record tells of is not what this one orders under that name."""
    if command.generation > decision.state.generation:
        decision.record(StoreRenewed(at=decision.now, generation=command.generation))


def raise_numbers(command: RaiseNumbers, decision: Decision) -> None:
    """No job gets a number below `next_job_id` any more; those that are left out belong to jobs that are not known."""
    if command.next_job_id > decision.state.next_job_id:
        decision.record(NumbersRaised(at=decision.now, next_job_id=command.next_job_id, why=command.why))


def numbers_of(hello: HostHello) -> int:
    """The first job number that nothing in this hello has used."""
    used = [array_of(item.job_id) for many in (hello.held, hello.ended) for item in many]
    return max(hello.numbers_from, max(used, default=0) + 1)


def raise_by_hello(hello: HostHello, most: int, decision: Decision) -> None:
    """A host that knows of numbers which this store has not given out: none of them is given out again.

    `most`: MAX_JOBID. No host is believed that half of all numbers are used up.
    """
    numbers = numbers_of(hello)
    if numbers <= min(MOST_NUMBER, most // 2):
        raise_numbers(RaiseNumbers(numbers, f"host {hello.host} knows of such jobs"), decision)


def set_aside(seen: Observation, host: str, key: AttemptKey, part: HostAllocation, decision: Decision) -> None:
    """It runs on and keeps what it holds; a job that waits in the state though it runs there is not started again."""
    keep_orphaned(decision.state, seen, host, key, part)
    if len(seen.unrecorded) < MOST_UNRECORDED:
        seen.unrecorded[key] = UnrecordedAttempt(part)
    if key in seen.unwanted:
        _end(seen, host, key, decision)


def hold_back(host: str, key: AttemptKey, decision: Decision) -> None:
    """The job whose attempt that is waits for an administrator, where the store knows it as one that waits."""
    state = decision.state
    job_id, attempt = key
    job, array = state.jobs.get(job_id), state.arrays.get(array_of(job_id))
    if job is not None and job.state in STARTED:  # too late: it was started before this host was heard
        note(job, coded("note.unrecorded_run", attempt, host), decision)
        return
    waits = job is not None and job.state in PENDING and attempt not in job.unrecorded
    if not waits and not (job is None and array is not None and array.has_waiting(index_of(job_id))):
        return
    decision.record(JobSuspended(at=decision.now, job_id=job_id, by=attempt_results.SYSTEM, unrecorded=attempt))
    note(state.jobs[job_id], coded("note.held_back", attempt, host), decision)


def unrecorded_ended(seen: Observation, report: AttemptEnded, decision: Decision) -> None:
    """The unrecorded attempt has ended and holds nothing any more. Its agent keeps the result, unless nobody wants it
    or its number is another job's.
    """
    state = decision.state
    key = (report.job_id, report.attempt)
    drop_orphaned(state, seen, report.host, key)
    is_known = report.job_id in state.jobs or report.job_id in state.arrays
    if key in seen.unwanted or report.given_up or is_known or len(seen.unrecorded) >= MOST_UNRECORDED:
        seen.unrecorded.pop(key, None)
        seen.unwanted.discard(key)
        decision.instruct(ForgetAttempts(report.host, (key,)))
    else:
        seen.unrecorded[key] = UnrecordedAttempt(None)
    state.touched_hosts.add(report.host)


def end_unrecorded(
    observations: Observations,
    command: EndOrphans,
    decision: Decision,
) -> None:
    """End those that run, forget those that are over. Reply: an Answer for each. Names: `all`, hosts, JOB.ATTEMPT."""
    if not command.is_admin:
        raise PermissionDenied(cluster_denied(decision.config))
    every = [(host, key) for host, seen in observations.with_unrecorded() for key in sorted(seen.unrecorded)]
    names = set(command.names)
    chosen = [each for each in every if names & {"all", each[0], attempt_name(*each[1])}]
    known = {"all", *(host for host, _ in every), *(attempt_name(*key) for _, key in every)}
    for name in command.names:
        if name not in known:
            raise BadRequest(
                f"{name}: no attempt that is not in the store has this number, or is on a host of this name"
            )
    answers = []
    for host, key in chosen:
        seen = observations.of(host)
        name = f"{attempt_name(*key)} on {host}"
        if seen.unrecorded[key].part is None:
            del seen.unrecorded[key]
            decision.instruct(ForgetAttempts(host, (key,)))
            answers.append(Answer(name=name, text=f"Attempt <{name}> is forgotten"))
        else:
            seen.unwanted.add(key)
            _end(seen, host, key, decision)
            answers.append(Answer(name=name, text=f"Attempt <{name}> is being ended"))
        decision.state.touched_hosts.add(host)
    decision.reply = answers


def _end(seen: Observation, host: str, key: AttemptKey, decision: Decision) -> None:
    decision.instruct(TerminateAttempt(host, *key, given_up=True))
