"""State machine: what each event does in each state, and that a refused one changes nothing."""

from __future__ import annotations

import pytest
from core_world import spec
from msgspec import structs

from gsched.core.audit import audit
from gsched.core.state.apply_events import _APPLY, IllegalEvent
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.model.event import (
    AnyEvent,
    ConfigApplied,
    HostClosed,
    HostOpened,
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobMessagePosted,
    JobModified,
    JobNoted,
    JobPostProcessed,
    JobRequeued,
    JobResumed,
    JobSignalRequested,
    JobStarted,
    JobStatusLost,
    JobStatusRegained,
    JobSubmitted,
    JobSuspended,
    StaleResultRecorded,
)
from gsched.model.jobs.job import TRANSITIONS, AttemptResult, JobState
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation

SPEC = spec(user="ann", queue="normal", combined_req="select[type == any ]")
GPU = HeldGpu(uuid="GPU-0", index=0, claim="ngpus_excl_p")
PLACE = Allocation(hosts=(HostAllocation(host="a", slots=2, gpus=(GPU,), amounts={"mem": 10.0}),))
DONE = AttemptResult(exit_code=0, ended_at=5.0)
FAILED = AttemptResult(exit_code=3, ended_at=5.0)
NEVER_RAN = AttemptResult(started=False, ended_at=5.0, term_reason="TERM_OWNER")

SUBMITTED = JobSubmitted(at=1.0, job_id=1, spec=SPEC, token="t")
DISPATCHED = JobDispatched(at=2.0, job_id=1, attempt=1, allocation=PLACE, effective_req="r")
STARTED = JobStarted(at=3.0, job_id=1, attempt=1, pid=7)
SUSPENDED = JobSuspended(at=3.0, job_id=1, by="ann")
LOST = JobStatusLost(at=3.0, job_id=1, host="a")
KILLED = JobSignalRequested(at=4.0, job_id=1, by="ann", signal=0)

ROADS: dict[str, tuple[AnyEvent, ...]] = {
    "PEND": (SUBMITTED,),
    "PSUSP": (SUBMITTED, SUSPENDED),
    "RUN": (SUBMITTED, DISPATCHED),
    "RUN started": (SUBMITTED, DISPATCHED, STARTED),
    "USUSP": (SUBMITTED, DISPATCHED, STARTED, SUSPENDED),
    "UNKWN": (SUBMITTED, DISPATCHED, STARTED, LOST),
    "UNKWN suspended": (SUBMITTED, DISPATCHED, STARTED, SUSPENDED, LOST),
    "ZOMBI": (SUBMITTED, DISPATCHED, STARTED, LOST, KILLED),
    "DONE": (SUBMITTED, DISPATCHED, STARTED, JobFinished(at=5.0, job_id=1, attempt=1, result=DONE)),
    "EXIT": (SUBMITTED, DISPATCHED, STARTED, JobFinished(at=5.0, job_id=1, attempt=1, result=FAILED)),
}
"""Events that lead to a state."""

EVENTS: dict[str, AnyEvent] = {
    "submitted": JobSubmitted(at=6.0, job_id=1, spec=SPEC),
    "dispatched": JobDispatched(at=6.0, job_id=1, attempt=1, allocation=PLACE, effective_req="r"),
    "dispatched twice": JobDispatched(at=6.0, job_id=1, attempt=2, allocation=PLACE, effective_req="r"),
    "started": STARTED,
    "started, old attempt": JobStarted(at=6.0, job_id=1, attempt=9, pid=7),
    "done": JobFinished(at=6.0, job_id=1, attempt=1, result=DONE),
    "failed": JobFinished(at=6.0, job_id=1, attempt=1, result=FAILED),
    "killed before": JobFinished(at=6.0, job_id=1, attempt=0, result=NEVER_RAN),
    "requeued": JobRequeued(at=6.0, job_id=1, attempt=1, reason="fork", avoid_host="a", not_before=9.0),
    "requeued, old attempt": JobRequeued(at=6.0, job_id=1, attempt=9, reason="fork"),
    "requeued, no attempt": JobRequeued(at=6.0, job_id=1, attempt=0, reason="fork"),
    "suspended": SUSPENDED,
    "resumed": JobResumed(at=6.0, job_id=1, by="ann"),
    "lost": LOST,
    "regained": JobStatusRegained(at=6.0, job_id=1, host="a"),
    "kill": KILLED,
    "signal": JobSignalRequested(at=6.0, job_id=1, by="ann", signal=10),
    "processed": JobPostProcessed(at=6.0, job_id=1, attempt=1),
    "forgotten": JobForgotten(at=6.0, job_id=1),
}

LEGAL: dict[str, dict[str, str]] = {
    "PEND": {"dispatched": "RUN", "killed before": "EXIT", "suspended": "PSUSP", "kill": "PEND", "signal": "PEND"},
    "PSUSP": {
        "killed before": "EXIT", "resumed": "PEND", "kill": "PSUSP", "signal": "PSUSP", "suspended": "PSUSP",
    },
    "RUN": {
        "started": "RUN", "done": "DONE", "failed": "EXIT", "requeued": "PEND", "suspended": "USUSP", "lost": "UNKWN",
        "kill": "RUN", "signal": "RUN",
    },
    "RUN started": {
        "done": "DONE", "failed": "EXIT", "requeued": "PEND", "suspended": "USUSP", "lost": "UNKWN", "kill": "RUN",
        "signal": "RUN",
    },
    "USUSP": {
        "done": "DONE", "failed": "EXIT", "requeued": "PEND", "resumed": "RUN", "lost": "UNKWN", "kill": "USUSP",
        "signal": "USUSP", "suspended": "USUSP",
    },
    "UNKWN": {
        "done": "DONE", "failed": "EXIT", "requeued": "PEND", "regained": "RUN", "kill": "ZOMBI", "signal": "UNKWN",
    },
    "UNKWN suspended": {
        "done": "DONE", "failed": "EXIT", "requeued": "PEND", "regained": "USUSP", "kill": "ZOMBI", "signal": "UNKWN",
    },
    "ZOMBI": {"done": "DONE", "failed": "EXIT", "kill": "ZOMBI", "signal": "ZOMBI"},
    "DONE": {"processed": "DONE", "forgotten": ""},
    "EXIT": {"processed": "EXIT", "forgotten": ""},
}  # fmt: skip
"""State -> event -> state after it; every pair that is not named is illegal."""


@pytest.mark.parametrize("result", [DONE, FAILED])
def test_an_end_that_leaves_nothing_is_what_two_events_said_before(result: AttemptResult) -> None:
    end = JobFinished(at=6.0, job_id=1, attempt=1, result=result)
    before = replay([*ROADS["RUN started"], end, JobPostProcessed(at=6.0, job_id=1, attempt=1)])
    now = replay([*ROADS["RUN started"], structs.replace(end, post_processed=True)])
    assert now.dump() == before.dump() and now.jobs[1].post_processed
    assert audit(now) == []


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_leads_where_it_should_or_changes_nothing(road: str, name: str) -> None:
    state = replay(ROADS[road])
    before = state.dump()
    wanted = LEGAL[road].get(name)
    if wanted is None:
        with pytest.raises(IllegalEvent):
            state.apply(EVENTS[name])
        assert state.dump() == before
    else:
        state.apply(EVENTS[name])
        assert (state.jobs[1].state.value if 1 in state.jobs else "") == wanted
        assert state.dump() != before or name in ("signal", "kill", "suspended")
    assert audit(state) == []


@pytest.mark.parametrize("road", ROADS)
def test_the_matrix_keeps_to_the_table_of_transitions(road: str) -> None:
    before = JobState(road.split()[0])
    after = {JobState(state) for state in LEGAL[road].values() if state}
    assert after - {before} <= TRANSITIONS[before]


def test_every_kind_of_event_has_its_function() -> None:
    assert set(_APPLY) == set(AnyEvent.__args__)


@pytest.mark.parametrize("name", [name for name in EVENTS if name != "submitted"])
def test_an_event_of_an_unknown_job_is_illegal(name: str) -> None:
    state = ClusterState()
    with pytest.raises(IllegalEvent):
        state.apply(EVENTS[name])
    assert state.dump() == ClusterState().dump()
    assert state.take_touched() == (set(), set())


def test_a_place_in_a_submission_is_filled_once() -> None:
    state = replay([SUBMITTED])
    with pytest.raises(IllegalEvent, match="place 0"):
        state.apply(JobSubmitted(at=2.0, job_id=2, spec=SPEC, token="t"))
    assert list(state.jobs) == [1]


def test_an_allocation_names_a_host_once() -> None:
    state = replay([SUBMITTED])
    twice = Allocation(hosts=(PLACE.hosts[0], PLACE.hosts[0]))
    for allocation in (twice, Allocation(hosts=())):
        with pytest.raises(IllegalEvent, match="one part on each host"):
            state.apply(JobDispatched(at=2.0, job_id=1, attempt=1, allocation=allocation, effective_req="r"))
    assert audit(state) == []


def test_a_requeue_forgets_the_attempt_but_not_the_job() -> None:
    state = replay([*ROADS["USUSP"], EVENTS["requeued"]])
    job = state.jobs[1]
    assert (job.attempt, job.allocation, job.started_at, job.pid, job.boot_id) == (1, None, None, None, "")
    assert (job.failed_starts, job.avoid_host, job.not_before) == (1, "a", 9.0)
    assert state.ledger.host("a").held == {} and state.tally.queue_slots == {}
    assert state.waits.delayed == {1: 9.0} and state.avoiding == {1: "a"}


def test_a_message_box_holds_the_newest_message() -> None:
    posts = [
        JobMessagePosted(at=float(i), job_id=1, user="ann", box=box, text=f"{i}") for i, box in enumerate((5, 0, 5))
    ]
    job = replay([SUBMITTED, *posts]).jobs[1]
    assert [(message.box, message.text) for message in job.messages] == [(0, "1"), (5, "2")]


def test_only_warnings_are_kept_with_the_job() -> None:
    notes = [JobNoted(at=2.0, job_id=1, text="told"), JobNoted(at=2.0, job_id=1, text="history", is_warning=False)]
    assert [*replay([SUBMITTED, *notes]).jobs[1].notes] == ["told"]


def test_a_late_result_is_remembered_and_changes_nothing_else() -> None:
    stale = StaleResultRecorded(at=7.0, job_id=1, attempt=1, host="a", result=DONE)
    job = replay([*ROADS["EXIT"], stale, stale]).jobs[1]
    assert (job.state, job.result, [*job.stale]) == (JobState.EXIT, FAILED, [1])
    assert replay([stale]).jobs == {}  # the job may be forgotten by then


def test_hosts_close_and_open() -> None:
    state = replay([HostClosed(at=1.0, host="a", by="root", comment="fan"), HostClosed(at=1.0, host="b", by="root")])
    state.apply(HostOpened(at=2.0, host="b", by="root"))
    state.apply(HostOpened(at=2.0, host="c", by="root"))
    state.apply(ConfigApplied(at=2.0, digest="d", by="root"))
    assert (state.closed_hosts, state.config_digest) == ({"a": ("root", "fan")}, "d")


def test_hosts_are_shown_anew_when_their_jobs_change() -> None:
    state = replay(ROADS["RUN"])
    state.take_touched()
    for event in (SUSPENDED, EVENTS["resumed"], LOST, EVENTS["regained"]):
        state.apply(event)
        assert state.take_touched() == ({1}, {"a"})


def test_what_a_started_job_is_given_can_be_taken() -> None:
    """Its part on b was given up, and what that leaves there stands in the ledger still."""
    state = replay(ROADS["RUN started"])
    state.ledger.host("b").take((1, 1), HostAllocation(host="b", slots=2))
    before, on_b = state.dump(), HostAllocation(host="b", slots=2)
    for hosts, said in (
        ((*PLACE.hosts, on_b), "already holds something on b"),
        ((*PLACE.hosts, *PLACE.hosts), "one part on each host"),
        ((), "one part on each host"),
    ):
        with pytest.raises(IllegalEvent, match=said):
            state.apply(JobModified(at=6.0, job_id=1, by="ann", spec=SPEC, allocation=Allocation(hosts=hosts)))
        assert state.dump() == before
    state.ledger.host("b").give((1, 1))
    assert audit(state) == []
    moved = Allocation(hosts=(structs.replace(PLACE.hosts[0], slots=1), on_b))
    state.apply(JobModified(at=6.0, job_id=1, by="ann", spec=SPEC, allocation=moved))
    assert audit(state) == [] and state.ledger.host("b").slots_used == 2
