"""An agent that lies: about its own host it may; it reaches no job of another host, breaks nothing, fills nothing."""

from __future__ import annotations

from typing import Any

import pytest
from core_world import EXCLUSIVE, World, gpu_spec, gpus, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.core.attempts.attempt_notes import MOST_NOTES
from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    AttemptUnkillable,
    HeldAttempt,
    HostHello,
    HostReported,
    OutputsRemoved,
)
from gsched.core.decision import Decision
from gsched.core.engine import HalfDone
from gsched.core.instruction import TerminateAttempt
from gsched.model.config import GmemAction, Params
from gsched.model.event import JobNoted, JobOutputRemoved, StaleResultRecorded
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuReport, GpuXid, LoadReport, MigDevice
from gsched.model.hosts.kept_output import RemovedOutput
from gsched.model.hosts.topology import Topology
from gsched.model.jobs.job import AttemptResult, JobState, Usage
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from tests.support.property_examples import examples


def two_hosts() -> tuple[World, int]:
    """A job with a GPU that runs on `a`, and the honest host `b` that is about to lie."""
    world = World(make_config("ab", params=Params(gmem_action=GmemAction.KILL)))
    (job_id,) = world.run(gpu_spec(hosts=("a",)), user="ann")
    assert world.state(job_id) == "RUN"
    return world, job_id


def removed(job_id: int, attempt: int) -> RemovedOutput:
    return RemovedOutput(job_id=job_id, attempt=attempt, at=0.0, size=1 << 21, limit_mib=3, of_user=True)


def accusing(name: str, **more: Any) -> GpuReport:
    """A GPU report that says everything bad of an attempt."""
    process = GpuProcess(pid=7, user="ann", job=name, escaped=True)
    return gpus(
        2, host="b", over_gmem=(name,), left_behind=(name,), mps_lost=(name,), fault="fell off", problem="fell off",
        hit=(name,), xids=(GpuXid(number=79, jobs=(name,)),), processes=(process,), **more,
    )  # fmt: skip


def test_it_says_nothing_of_jobs_on_other_hosts() -> None:
    world, job_id = two_hosts()
    before = len(world.events)
    world.report("b", gpus=accusing(f"{job_id}.1"), usage={(job_id, 1): Usage(cpu_s=1e9)})
    world.do(AttemptUnkillable(job_id, 1, "b", ((1, "init"),)))
    world.ended(job_id, host="b", exit_code=0)
    world.do(AttemptStarted(job_id, 1, "b", 1, world.now))
    assert world.state(job_id) == "RUN"
    notes = [event for event in world.events[before:] if isinstance(event, JobNoted)]
    assert len(world.events) - before == len(notes)
    assert all(
        "of b is not clean" in sentence(note.text) for note in notes
    )  # of an earlier run nobody knows where it was
    assert not [each for each in world.orders(0) if isinstance(each, TerminateAttempt)]
    assert not world.engine.observations.of("b").usage


def test_it_takes_no_job_of_another_host_over() -> None:
    world, job_id = two_hosts()
    part = HostAllocation(host="b", slots=1, gpus=(HeldGpu(uuid="GPU-b0", index=0, claim="ngpus_excl_p"),))
    started = (AttemptStarted(job_id, 1, "b", 1, world.now),)
    ended = (AttemptEnded(job_id, 1, "b", AttemptResult(exit_code=1, ended_at=world.now)),)
    world.do(HostHello("b", 99, "boot", "1", (HeldAttempt(job_id, 1, part),), started, ended))
    job = world.job(job_id)
    assert job.state is JobState.RUN and job.allocation is not None and job.allocation.first_host == "a"
    world.ended(job_id)
    assert world.state(job_id) == "DONE"
    world.check_replay()


def test_a_name_that_is_none_behind_one_that_is_leaves_nothing_half_done() -> None:
    world, job_id = two_hosts()
    names = (f"{job_id}.1", "rubbish", "1.", ".", "9" * 50, "\n")
    world.report(
        "a", gpus=gpus(4, over_gmem=names, left_behind=names, mps_lost=names, fault="x", problem="x", hit=names)
    )
    world.check_replay()


def test_what_it_says_of_one_job_ends_somewhere() -> None:
    world, job_id = two_hosts()
    for look in range(MOST_NOTES + 50):
        process = GpuProcess(pid=look, job=f"{job_id}.1", escaped=True)
        gpu = Gpu(uuid=f"GPU-{look}", index=0, mode=EXCLUSIVE, processes=(process,))
        world.engine.handle(HostReported("a", 1, gpus=GpuReport(gpus=(gpu,))), world.now)
    assert len(tuple(map(sentence, world.job(job_id).notes))) == MOST_NOTES


def test_results_of_attempts_that_never_were_are_not_kept() -> None:
    world, job_id = two_hosts()
    before = len(world.events)
    for attempt in range(2, 50):
        world.ended(job_id, attempt, host="b")
    assert len(world.events) == before


def test_results_of_forgotten_jobs_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.core.attempts.attempt_reports.MOST_STALE", 3)
    world, job_id = two_hosts()
    world.ended(job_id)
    world.wait(1e6)
    assert job_id not in world.engine.state.jobs
    for attempt in range(1, 50):
        world.ended(job_id, attempt, host="b")
    for unknown in range(1000, 1050):  # of a store that was lost, perhaps
        world.ended(unknown, host="b")
    assert sum(isinstance(event, StaleResultRecorded) for event in world.events) == 3


def test_outputs_that_it_cannot_have_kept_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.core.hosts.removed_outputs.MOST_A_DAY", 3)
    world, job_id = two_hosts()

    def noted(host: str, job_id: int, *attempts: int) -> int:
        world.do(OutputsRemoved(host, tuple(removed(job_id, attempt) for attempt in attempts)))
        return sum(isinstance(event, JobOutputRemoved) for event in world.events)

    assert noted("a", job_id, 1, 2) == noted("b", job_id, 1) == noted("a", 1000, 1) == 0
    world.ended(job_id)
    assert noted("b", job_id, 1) == noted("a", job_id, 2) == 0
    assert noted("a", job_id, 1) == 1
    world.wait(1e6)
    assert noted("b", job_id, *range(1, 50)) == 4
    world.wait(86_400)
    assert noted("b", job_id, *range(1, 50)) == 7
    world.check_replay()


# -- anything at all that passes the checks of message_checks ---------------------------------------------------------

NAMES = st.sampled_from(["1.1", "2.1", "1.2", "3.1", "4294967299.1", "x", "", "1.1 "])
NUMBER = st.integers(0, 1 << 40)
UUIDS = ["GPU-a0", "GPU-a1", "GPU-b0", "MIG-1", "MIG-2", "GPU-new"]
PROCESS = st.builds(
    GpuProcess, pid=st.integers(0, 99), user=st.sampled_from(["ann", ""]), job=NAMES, escaped=st.booleans(),
    used_mib=st.none() | NUMBER,
)  # fmt: skip
MODE = st.none() | st.sampled_from(ComputeMode)


@st.composite
def reports(draw: st.DrawFn) -> GpuReport:
    """GPUs that no machine has, each named once."""
    named = draw(st.lists(st.sampled_from(UUIDS), unique=True, max_size=6))
    found = []
    while named:
        uuid = named.pop()
        parts = [
            MigDevice(uuid=named.pop(), profile=draw(st.sampled_from(["1g.10gb", "rubbish", ""])))
            for _ in range(draw(st.integers(0, len(named))))
        ]
        some = st.lists(NAMES, max_size=3).map(tuple)
        found.append(
            draw(
                st.builds(
                    Gpu, uuid=st.just(uuid), index=st.integers(0, 3), mode=MODE, memory_mib=st.none() | NUMBER,
                    used_mib=st.none() | NUMBER, reserved_mib=st.none() | NUMBER, foreign_mib=st.none() | NUMBER,
                    problem=st.sampled_from(["", "bad"]), fault=st.sampled_from(["", "gone"]), hit=some, over_gmem=some,
                    left_behind=some, mps_lost=some, processes=st.lists(PROCESS, max_size=3).map(tuple),
                    foreign_pids=st.lists(st.integers(0, 99), max_size=3).map(tuple), mig=st.none() | st.booleans(),
                    mig_devices=st.just(tuple(parts)), links=st.lists(st.sampled_from(UUIDS), max_size=2).map(tuple),
                    mode_given=MODE, standing_mode=MODE, mode_settable=st.booleans(), numa=st.none() | NUMBER,
                    xids=st.lists(st.builds(GpuXid, number=NUMBER, jobs=some), max_size=2).map(tuple),
                )
            )
        )  # fmt: skip
    return GpuReport(gpus=tuple(found), known=draw(st.booleans()))


KEY = st.tuples(st.sampled_from([1, 2, 3, 4, 5, 5, 99, (1 << 32) + 3]), st.integers(1, 3))
TIME = st.floats(0, 2e6)
RESULT = st.builds(
    AttemptResult, exit_code=st.none() | st.integers(-(1 << 31), 1 << 30), signal=st.none() | st.integers(-5, 200),
    ended_at=TIME, run_s=TIME, started=st.booleans(), pre_failed=st.booleans(), gpus_unfit=st.booleans(),
    term_reason=st.sampled_from(["", "TERM_OWNER", "?"]), problem=st.sampled_from(["", "no such file"]),
)  # fmt: skip
HELD_GPU = st.builds(
    HeldGpu, uuid=st.sampled_from(UUIDS), index=st.integers(0, 3), share=st.floats(0, 1),
    claim=st.sampled_from(["ngpus", "ngpus_excl_p", "ngpus_shared", "rubbish", ""]),
)  # fmt: skip


def part_on(host: str) -> st.SearchStrategy[HostAllocation]:
    held = st.lists(HELD_GPU, max_size=3, unique_by=lambda gpu: gpu.uuid).map(tuple)
    amounts = st.dictionaries(st.sampled_from(["mem", "licence", "nonsense"]), st.floats(0, 1e9), max_size=2)
    return st.builds(
        HostAllocation, host=st.just(host), slots=st.integers(0, 1 << 20), gpus=held, amounts=amounts,
        exclusive=st.booleans(),
    )  # fmt: skip


@st.composite
def said(draw: st.DrawFn) -> Any:
    """Something that one of the two hosts says."""
    host = draw(st.sampled_from("ab"))
    start = st.builds(
        lambda key, at, pid: AttemptStarted(key[0], key[1], host, pid, at, "/h", "/w", "boot"), KEY, TIME, NUMBER
    )
    end = st.builds(
        lambda key, result, is_part, given_up: AttemptEnded(
            key[0], key[1], host, result, is_part=is_part, given_up=given_up
        ),
        KEY, RESULT, st.booleans(), st.booleans(),
    )  # fmt: skip
    holding = st.builds(lambda key, part: HeldAttempt(key[0], key[1], part), KEY, part_on(host))
    hello = st.builds(
        HostHello, st.just(host), st.just(0), st.sampled_from(["boot1", "boot2"]), st.just("1"),
        st.lists(holding, max_size=4).map(tuple), st.lists(start, max_size=3).map(tuple),
        st.lists(end, max_size=3).map(tuple), st.sampled_from([None, Topology()]),
    )  # fmt: skip
    unkillable = st.builds(lambda key, pid: AttemptUnkillable(key[0], key[1], host, ((pid, "x"),)), KEY, NUMBER)
    load = st.builds(
        LoadReport, ncpus=st.integers(0, 8192), maxmem_mib=st.none() | st.floats(0, 1e15),
        indices=st.dictionaries(st.sampled_from(["mem", "r1m", "tmp", "?"]), st.floats(0, 1e15), max_size=3),
        external=st.dictionaries(
            st.sampled_from(["heat", "seats", "?"]), st.floats(-1e9, 1e9) | st.just("text"), max_size=2
        ),
    )  # fmt: skip
    report = st.builds(
        HostReported, st.just(host), st.just(0), load=st.none() | load, gpus=st.none() | reports(),
        usage=st.dictionaries(KEY, st.builds(Usage, cpu_s=TIME), max_size=2),
    )  # fmt: skip
    gone = st.builds(lambda keys: OutputsRemoved(host, tuple(removed(*key) for key in keys)), st.lists(KEY, max_size=3))
    return draw(st.one_of(start, end, unkillable, report, report, hello, gone))


class Deceived(World):
    """What an attempt that nobody knows of is said to hold may be what others hold: a lie about the host itself."""

    def take(self, decision: Decision) -> Decision:
        self.events += decision.events
        self.instructions += decision.instructions
        wrong = [line for line in self.engine.audit() if "is held" not in line]
        assert wrong == []
        return decision


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(said(), max_size=12))
def test_nothing_that_an_agent_says_breaks_the_engine(messages: list[Any]) -> None:
    """World audits after each step; the events alone give the same state."""
    world = Deceived(make_config("ab", params=Params(gmem_action=GmemAction.KILL)))
    world.run(
        gpu_spec(hosts=("a",)), gpu_spec(hosts=("b",), rerunnable=True), spec(name="x", indices="1-3"), spec(hold=True),
        spec(slots=20, res_req="span[ptile=10]"),
    )  # fmt: skip
    for message in messages:
        if isinstance(message, HostHello):
            world.session += 1
            message = HostHello(message.host, world.session, *[getattr(message, each) for each in (
                "boot_id", "version", "held", "started", "ended", "topology")])  # fmt: skip
        elif isinstance(message, HostReported):
            session = world.engine.observations.of(message.host).session
            message = HostReported(message.host, session, message.load, message.gpus, message.usage)
        try:
            world.do(message)
        except HalfDone as error:
            raise AssertionError(f"{message} ends the master") from error
        world.settle()
    world.wait(1.0)
    world.settle()
    world.check_replay()
