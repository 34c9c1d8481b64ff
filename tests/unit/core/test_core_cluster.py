"""The state as a whole: checkpoints, quarantine, what time brings about, and an audit that sees what is broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from core_world import spec
from test_core_machine import DISPATCHED, DONE, EVENTS, PLACE, ROADS, SPEC, SUBMITTED

from gsched.base.errors import Internal
from gsched.core.audit import audit
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.model.event import (
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobRequeued,
    JobResumed,
    JobSubmitted,
    JobSuspended,
)
from gsched.model.jobs.job import AttemptResult, JobState
from gsched.model.ledgers.allocation import HostAllocation


def waiting(state: ClusterState) -> list[list[int]]:
    """Jobs of each bucket, in order."""
    return sorted([job_id for _, job_id in line] for _, line in state.pending.lines())


@pytest.mark.parametrize("road", ROADS)
def test_a_checkpoint_gives_back_all_that_is_derived_from_it(road: str) -> None:
    state = replay(ROADS[road])
    again = ClusterState.load(state.dump())
    assert again.dump() == state.dump()
    for name in ("pending", "avoiding", "tokens", "next_job_id"):
        assert getattr(again, name) == getattr(state, name), name
    assert vars(again.tally) == vars(state.tally)
    assert {host: host_ledger.held for host, host_ledger in again.ledger.hosts.items() if host_ledger.held} == {
        host: host_ledger.held for host, host_ledger in state.ledger.hosts.items() if host_ledger.held
    }
    assert again.retention.first_end() == state.retention.first_end()
    assert audit(again) == []


def test_a_wait_for_another_attempt_survives_suspension_and_checkpoint() -> None:
    requeued = JobRequeued(at=3.0, job_id=1, attempt=1, reason="fork", avoid_host="a", not_before=60.0)
    stop, go_on = JobSuspended(at=4.0, job_id=1, by="ann"), JobResumed(at=5.0, job_id=1, by="ann")
    state = replay([*ROADS["RUN"], requeued, stop])
    assert (state.waits.delayed, state.avoiding) == ({}, {})
    state.apply(go_on)
    assert (state.waits.delayed, state.avoiding) == ({1: 60.0}, {1: "a"})
    assert ClusterState.load(state.dump()).waits.delayed == {1: 60.0}
    state.let_go_on(59.9)
    assert state.waits.delayed == {1: 60.0}
    state.let_go_on(60.0)
    assert state.waits.delayed == {}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"{}",
        b'{"jobs":[{"job_id":1}],"next_job_id":2}',
        replay(ROADS["RUN"]).dump().replace(b'"allocation":{', b'"allocation":null,"was":{'),
    ],
)
def test_a_broken_checkpoint_is_one_line(payload: bytes) -> None:
    with pytest.raises(Internal, match=r"the checkpoint cannot be read: .+") as caught:
        ClusterState.load(payload)
    assert "\n" not in caught.value.text


def test_requeued_jobs_wait_in_order_of_submission() -> None:
    state = replay(JobSubmitted(at=1.0, job_id=i, spec=SPEC) for i in (1, 2, 3))
    state.apply(JobDispatched(at=2.0, job_id=2, attempt=1, allocation=PLACE, effective_req="r"))
    state.apply(JobRequeued(at=3.0, job_id=2, attempt=1, reason="fork"))
    assert waiting(state) == [[1, 2, 3]]


def test_jobs_of_one_kind_share_a_bucket() -> None:
    kinds = [SPEC, SPEC, spec(user="bob", queue="normal"), spec(user="ann", queue="normal", slots=2)]
    state = replay(JobSubmitted(at=1.0, job_id=i, spec=each) for i, each in enumerate(kinds, 1))
    assert waiting(state) == [[1, 2], [3], [4]]


def test_finished_jobs_come_up_in_order_of_their_ends() -> None:
    state = ClusterState()
    for job_id, end in ((1, 30.0), (2, 10.0), (3, 20.0)):
        state.apply(JobSubmitted(at=1.0, job_id=job_id, spec=SPEC))
        state.apply(JobDispatched(at=2.0, job_id=job_id, attempt=1, allocation=PLACE, effective_req="r"))
        state.apply(JobFinished(at=end, job_id=job_id, attempt=1, result=DONE))
    assert state.retention.first_end() == 10.0
    assert state.retention.forgettable(25.0, 5.0, 9) == [2, 3]
    assert state.retention.forgettable(25.0, 5.0, 1) == [2]  # asking changes nothing
    assert state.retention.forgettable(14.9, 5.0, 9) == []
    state.apply(JobForgotten(at=40.0, job_id=2))
    assert state.retention.forgettable(100.0, 5.0, 9) == [3, 1]
    state.set_aside(3, "broken")
    assert state.retention.first_end() == 30.0


def test_jobs_that_are_done_may_be_forgotten_earlier() -> None:
    state = ClusterState()
    failed = AttemptResult(exit_code=1)
    for job_id, end, result in ((1, 10.0, failed), (2, 20.0, DONE), (3, 30.0, DONE), (4, 15.0, failed)):
        state.apply(JobSubmitted(at=1.0, job_id=job_id, spec=SPEC))
        state.apply(JobDispatched(at=2.0, job_id=job_id, attempt=1, allocation=PLACE, effective_req="r"))
        state.apply(JobFinished(at=end, job_id=job_id, attempt=1, result=result))
    assert sorted(state.retention.times(100.0, 5.0)) == [25.0, 110.0]
    assert state.retention.forgettable(30.0, 100.0, 9, 5.0) == [2]
    assert state.retention.forgettable(112.0, 100.0, 9, 5.0) == [1, 2, 3]
    assert state.retention.forgettable(112.0, 100.0, 2, 5.0) == [1, 2]
    assert state.retention.forgettable(500.0, 100.0, 9) == [1, 4, 2, 3]


def test_tokens_go_with_the_last_job_of_a_submission() -> None:
    state = ClusterState()
    for place in (0, 1):
        state.apply(JobSubmitted(at=1.0, job_id=place + 1, spec=SPEC, token="t", place=place))
        state.apply(JobFinished(at=2.0, job_id=place + 1, attempt=0, result=EVENTS["killed before"].result))
    assert state.tokens == {"t": {0: 1, 1: 2}}
    state.apply(JobForgotten(at=3.0, job_id=1))
    assert state.tokens == {"t": {1: 2}}
    state.apply(JobForgotten(at=3.0, job_id=2))
    assert state.tokens == {} and state.next_job_id == 3


@pytest.mark.parametrize("road", ROADS)
def test_a_job_set_aside_leaves_nothing_behind(road: str) -> None:
    state = replay(ROADS[road])
    state.set_aside(1, "a bad record")
    state.set_aside(1, "another one")
    assert state.jobs == {} and not state.pending
    assert state.tally.queue_slots == state.tally.queue_user_slots == {}
    assert state.quarantined == {1: "a bad record"}
    assert state.ledger.host("a").held == {}
    assert audit(state) == []
    for event in EVENTS.values():
        state.apply(event)  # later events of the job are passed over
    assert state.jobs == {} and audit(state) == []
    again = ClusterState.load(state.dump())
    assert again.quarantined == {1: "a bad record"} and again.next_job_id == 2


def test_a_job_never_seen_can_be_set_aside() -> None:
    state = ClusterState()
    state.set_aside(7, "its submission cannot be read")
    assert state.next_job_id == 8


def _forget_holding(state: ClusterState) -> None:
    state.ledger.host("a").give((1, 1))


def _hold_more(state: ClusterState) -> None:
    state.ledger.host("a").take((9, 1), HostAllocation(host="a", slots=1))


def _hold_twice(state: ClusterState) -> None:
    state.ledger.host("a").take((9, 1), PLACE.hosts[0])


def _miscount_slots(state: ClusterState) -> None:
    state.ledger.host("a").slots_used += 1


def _miscount_amounts(state: ClusterState) -> None:
    state.ledger.host("a").reserved["mem"] += 1


def _miscount_gpus(state: ClusterState) -> None:
    state.ledger.host("a").holders.clear()


def _miscount_queue(state: ClusterState) -> None:
    state.tally.queue_slots["normal"] = 7


def _miscount_owner(state: ClusterState) -> None:
    state.tally.queue_user_slots.clear()


def _lose_allocation(state: ClusterState) -> None:
    state.jobs[1].allocation = None


def _lose_result(state: ClusterState) -> None:
    state.jobs[1].state = JobState.DONE


def _lose_token(state: ClusterState) -> None:
    state.tokens.clear()


def _number_again(state: ClusterState) -> None:
    state.next_job_id = 1


def _wait_while_running(state: ClusterState) -> None:
    state.enqueue(state.jobs[1])


def _lose_memory_of_state(state: ClusterState) -> None:
    state.jobs[1].known_state = JobState.RUN


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (_forget_holding, "attempt (1, 1) is not in the ledger"),
        (_hold_more, "for attempt (9, 1), the job does not"),
        (_hold_twice, "GPU GPU-0 of a is held by [(1, 1), (9, 1)]"),
        (_miscount_slots, "a: 3 slots are counted, 2 are held"),
        (_miscount_amounts, "'mem': 11.0"),
        (_miscount_gpus, "a: GPUs are booked as {}"),
        (_miscount_queue, "slots by queue are counted"),
        (_miscount_owner, "slots by queue and user are counted"),
        (_lose_allocation, "job 1 is RUN without an attempt and its allocation"),
        (_lose_result, "job 1 is DONE without a result"),
        (_lose_token, "job 1 cannot be found by its token"),
        (_number_again, "the next one gets number 1"),
        (_wait_while_running, "pending jobs [1] are not where they wait"),
        (_lose_memory_of_state, "job 1 is RUN and was RUN before"),
    ],
)
def test_the_audit_sees_what_is_broken(break_it: Callable[[ClusterState], None], said: str) -> None:
    state = replay([SUBMITTED, DISPATCHED])
    assert audit(state) == []
    break_it(state)
    assert any(said in line for line in audit(state)), audit(state)


def test_the_audit_knows_of_strays() -> None:
    state = replay(ROADS["RUN"])
    _hold_more(state)
    assert audit(state, [(9, 1)]) == []


def test_a_pending_job_out_of_order_is_seen() -> None:
    state = replay(JobSubmitted(at=1.0, job_id=i, spec=SPEC) for i in (1, 2))
    line = next(state.pending.lines())[1]
    line._orders.reverse()
    line._numbers.reverse()
    assert any("do not wait in order" in line for line in audit(state))
