"""Python's collector in the master: not while a cycle plans, little by little between turns, never through all jobs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from gsched.core.records.job import JobRecord
from gsched.master.garbage_collection import FLOOD, MIDDLE, OLD, YOUNG, tidy_up, undisturbed
from gsched.master.views.board import Traits
from gsched.model.event import JobSubmitted
from gsched.model.hosts.host import Gpu, GpuProcess, GpuReport, GpuXid, LoadReport, MigDevice
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.scheduling.snapshot import Rank
from gsched.model.views.view import Control, GpuView, HostView, JobView, Submitted
from gsched.store.tables.schema import JobRow


@pytest.fixture
def by_hand() -> Iterator[None]:
    """Nothing is collected but what a test asks for."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(FLOOD, MIDDLE, OLD)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.usefixtures("by_hand")
def test_nothing_is_collected_from_a_cycle_s_first_turn_until_its_plan_is_carried_out(fails: bool) -> None:
    looks: list[str] = []
    seen = []

    def flood() -> list[list[int]]:
        return [[] for _ in range(2 * FLOOD)]

    def schedule(snapshot: Any, now: float, budget: int, turn: int) -> Any:
        seen.append((snapshot, now, budget, turn, flood()[:0]))
        yield
        if fails:
            raise RuntimeError("a fault")
        return flood()

    anything: Any = "snapshot"
    planning = undisturbed(schedule)(anything, 1.0, 2, 3)
    gc.callbacks.append(lambda phase, _: looks.append(phase))
    try:
        next(planning)
        with pytest.raises(RuntimeError if fails else StopIteration) as end:
            next(planning)
        carried_out = flood()
        assert not looks and end and carried_out
        tidy_up()
        assert looks
        looks.clear()
        carried_out = flood()
        assert looks and carried_out
    finally:
        gc.callbacks.pop()
    assert seen == [("snapshot", 1.0, 2, 3, [])]


def test_what_there_is_of_each_gpu_is_kept_from_the_collector() -> None:
    """Each host tells of its GPUs again and again; nothing of that can be part of a ring."""
    gpu = Gpu(uuid="GPU-0", index=0, processes=(GpuProcess(pid=1),), xids=(GpuXid(number=31),))
    seen: list[Any] = [
        gpu,
        gpu.processes[0],
        gpu.xids[0],
        MigDevice(uuid="MIG-0"),
        GpuReport(gpus=(gpu,)),
        LoadReport(),
    ]
    shown = GpuView(gpu=gpu, holders=("1.1",))
    views: list[Any] = [shown, HostView(name="a", status="ok", gpus=(shown,), load={"r1m": 0.5})]
    assert [type(each).__name__ for each in (*seen, *views) if gc.is_tracked(each)] == []


@pytest.mark.usefixtures("by_hand")
def test_between_turns_rings_are_looked_for_when_there_is_enough_that_is_new() -> None:
    class Ring:
        def __init__(self) -> None:
            self.me = self

    def gone() -> weakref.ref[Ring]:
        return weakref.ref(Ring())

    few = gone()
    tidy_up()
    assert few() is not None
    many: list[list[int]] = [[] for _ in range(2 * YOUNG)]
    tidy_up()
    assert few() is None and gc.get_count()[0] < YOUNG and many
    assert gc.get_threshold() == (FLOOD, MIDDLE, OLD)


@pytest.mark.usefixtures("by_hand")
def test_between_turns_all_that_there_is_is_looked_at_only_where_much_of_it_is_new() -> None:
    looks: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looks.append(info["generation"])

    old: list[list[int]] = [[] for _ in range(YOUNG * MIDDLE * OLD // 4)]
    gc.collect()
    gc.callbacks.append(note)
    try:
        for _ in range((MIDDLE + 1) * (OLD + 2)):
            new: list[list[int]] = [[] for _ in range(2 * YOUNG)]
            tidy_up()
            del new
    finally:
        gc.callbacks.remove(note)
    assert {0, 1} <= set(looks) and looks.count(2) <= 1
    assert old


def test_what_there_is_one_of_for_each_job_is_kept_from_the_collector() -> None:
    spec = JobSpec(command="run", user="ann", queue="normal")
    job = JobRecord(job_id=1, spec=spec, state=JobState.PEND, submitted_at=0.0)
    job.not_before = 5.0
    of_jobs: list[Any] = [
        *(spec, job, job.course, job.view(None), Traits(Rank(0.0, 1.0, 0))),
        JobSubmitted(at=0.0, job_id=1, spec=spec),
        JobView(job_id=1, spec=spec, state="PEND", submitted_at=0.0),
        JobRow(job_id=1, user="ann", queue="normal", name="", project="", state="PEND", submitted_at=0.0),
        *(Control(job_id=1), Submitted(job_id=1, queue="normal", default_queue=False)),
    ]
    assert [type(each).__name__ for each in of_jobs if gc.is_tracked(each)] == []
