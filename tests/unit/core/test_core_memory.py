"""What a hundred thousand pending jobs cost: little each, in memory and in a checkpoint; the compact line is right."""

from __future__ import annotations

import tracemalloc

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gsched.core.command import Submit
from gsched.core.command_turns import UNLIMITED, Turn
from gsched.core.decision import Decision
from gsched.core.records.job import JobProgress, JobRecord
from gsched.core.records.spec_interning import REMEMBERED, SpecPool
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import ClusterState, replay
from gsched.core.state.pending_jobs import PendingJobs, PendingLine
from gsched.core.submission.submit import submit
from gsched.model.config import ClusterConfig, Locations
from gsched.model.event import AnyEvent, JobSubmitted, decode_event, encode_event
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import Bucket, Rank, RequirementClass

PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
CONFIG = ClusterConfig(
    cluster="test", master_host="a", hosts={}, queues={"normal": Queue(name="normal", priority=3)}, locations=PLACES
)
JOBS = 2000
MOST_BYTES = 400
"""Of a pending job in the state: its record, its place in the line, its entries in the indexes."""
MOST_STORED = 60
"""Bytes of a pending job in a checkpoint."""


def submissions() -> list[AnyEvent]:
    """Equal jobs of one submission, as they come from the store."""
    spec = JobSpec(command="./train.sh --seed 17", user="ann", queue="normal", res_req="rusage[mem=1]", cwd="/home/ann")
    events = [
        JobSubmitted(at=1e9, job_id=number + 1, spec=spec, token="t" * 32, place=number) for number in range(JOBS)
    ]
    return [decode_event(encode_event(event)) for event in events]


def test_a_pending_job_is_small() -> None:
    events = submissions()
    state = ClusterState()
    state.apply(events[0])
    tracemalloc.start()
    replay(events[1:], state)
    state.take_touched()
    del events
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / JOBS < MOST_BYTES


def test_a_checkpoint_has_each_spec_and_each_token_once() -> None:
    state = replay(submissions())
    dump = state.dump()
    assert len(dump) / JOBS < MOST_STORED
    again = ClusterState.load(dump)
    assert again.jobs == state.jobs and again.dump() == dump
    assert len({id(job.spec) for job in again.jobs.values()}) == 1


def test_what_happens_to_a_job_is_its_own() -> None:
    first, second = (JobRecord(job_id=number, spec=SPEC, state=JobState.PEND, submitted_at=0.0) for number in (1, 2))
    first.kill_by, first.order = "ann", -5.0
    assert (second.kill_by, second.order, second.happened()) == ("", 2.0, None)
    assert (first.kill_by, first.order) == ("ann", -5.0)
    first.kill_by, first.order = "", 1.0
    assert first.happened() is None
    assert all(hasattr(first, name) for name in JobProgress.__struct_fields__)


SPEC = JobSpec(command="true", user="ann", queue="normal")
RANKS = st.tuples(st.sampled_from([-1.0, 0.0]), st.integers(0, 6), st.integers(0, 2))
STEPS = st.lists(st.tuples(st.integers(0, 2), RANKS, st.integers(1, 9)), max_size=60)


@given(STEPS)
def test_a_line_is_a_sorted_list(steps: list[tuple[int, tuple[float, int, int], int]]) -> None:
    line = PendingLine(Bucket("q", "ann", RequirementClass("")))
    plain: list[tuple[Rank, int]] = []
    for what, (priority, order, element), number in steps:
        entry = (Rank(priority, float(order), element), number)
        if what and entry not in plain:
            line.add(*entry)
            plain = sorted([*plain, entry])
        elif not what and plain:
            gone = plain.pop(number % len(plain) if number > 5 else 0)
            line.remove(*gone)
        assert list(line) == plain and list(line.entries()) == [number for _, number in plain]
        assert line.first() == (plain[0] if plain else None)
        assert (len(line), line.is_empty()) == (len(plain), not plain)


WAITING = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans()), max_size=40)


@given(WAITING)
def test_each_job_waits_in_the_line_of_its_bucket(steps: list[tuple[int, int, bool]]) -> None:
    """Jobs of a few specifications come and go, some of them with something in their course: no line is mistaken."""
    specs = [
        JobSpec(command="true", user="ann", queue="normal", combined_req=req, array_limit=limit)
        for req, limit in (("", 0), ("rusage[mem=1]", 0), ("", 2))
    ]
    room, waiting = PendingJobs(), []
    for number, (what, kind, is_touched) in enumerate(steps, 1):
        if what or not waiting:
            job = JobRecord(job_id=number, spec=specs[what if kind else 0], state=JobState.PEND, submitted_at=0.0)
            if is_touched:
                job.avoid_host = "h1"
            room.add(job)
            waiting.append(job)
        else:
            room.remove(waiting.pop(0))
        found = {bucket: list(line.entries()) for bucket, line in room.lines()}
        expected: dict[Bucket, list[int]] = {}
        for job in waiting:
            expected.setdefault(job.bucket(), []).append(job.job_id)
        assert found == expected
        heads = {head[3] for key in room for queue in room.queues_of(key) for head in room.heads(queue, key)}
        assert {line[0] for line in expected.values()} <= heads


def test_a_spec_that_is_shared_no_longer_is_still_the_one_that_was_given() -> None:
    pool = SpecPool()
    for number in [*range(REMEMBERED + 50), *range(100)]:
        spec = JobSpec(command=f"run {number}", user="ann", queue="normal")
        assert pool.shared(spec) == spec
    known = pool.shared(JobSpec(command="run 99", user="ann", queue="normal"))
    assert pool.shared(known) is known
    assert pool.shared(JobSpec(command="run 99", user="ann", queue="normal")) is known


def test_jobs_of_one_submission_that_are_alike_but_for_their_commands_are_admitted_once() -> None:
    state, admitted = ClusterState(), []
    decision = Decision(state, CONFIG, 1.0, Observations(0.0).of)

    def admit(spec: JobSpec) -> JobSpec:
        admitted.append(spec)
        return msgspec.structs.replace(spec, queue="normal", user="ann")

    specs = tuple(JobSpec(command=f"run {number % 2}", user="", queue="") for number in range(20))
    turn = Turn()
    turn.begin(decision, UNLIMITED)
    assert not list(submit(state, lambda: CONFIG, Submit("ann", "t", specs), admit, lambda *_: None, turn))
    assert [spec.command for spec in admitted] == ["run 0"]
    assert [job.spec.command for job in state.jobs.values()] == [spec.command for spec in specs]
    assert len({id(job.spec) for job in state.jobs.values()}) == 2
