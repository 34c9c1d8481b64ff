"""Jobs on parts of GPUs by MIG, in the engine and in what it shows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import SHARED, World, gpus, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.core.dispatch.host_queue_views import host_view
from gsched.core.submission.device_fit import Offered, never_met, wishes_of
from gsched.model.event import JobNoted
from gsched.model.hosts.host import GpuReport, MigDevice
from tests.support.property_examples import examples


def laid(*profiles: str) -> GpuReport:
    """Two GPUs; the second one is split like this."""
    report = gpus(2, SHARED, memory_mib=80_000)
    parts = tuple(MigDevice(uuid=f"MIG-{place}", profile=name) for place, name in enumerate(profiles))
    first, second = report.gpus
    return GpuReport(gpus=(first, msgspec.structs.replace(second, mig=bool(parts), mig_devices=parts)), provider="nvml")


def world_of(*profiles: str) -> World:
    world = World(make_config())
    world.report(gpus=laid(*profiles))
    return world


def notes(world: World) -> list[str]:
    return [
        sentence(event.text) for event in world.events if isinstance(event, JobNoted) and "MIG" in sentence(event.text)
    ]


def test_a_part_that_goes_below_a_job_is_told_once_and_not_given_to_others() -> None:
    """pains 23."""
    world = world_of("3g.40gb", "3g.40gb")
    first, second = world.run(spec(gpu_req="mig=3"), spec(gpu_req="mig=3"))
    for _ in range(2):
        world.report(gpus=laid("3g.40gb", "1g.10gb"))
        world.report(gpus=laid("3g.40gb"))
    (part,) = world.job(second).allocation.hosts
    said = f"Run 1: its part MIG-1 (3g.40gb) of GPU 1 ({part.gpus[0].parent}) on a is gone: the MIG layout was changed"
    assert notes(world) == [said] and said in tuple(map(sentence, world.job(second).notes))
    world.report(gpus=laid("3g.40gb", "1g.10gb"))
    (third,) = world.run(spec(gpu_req="mig=1"))
    (fourth,) = world.run(spec(gpu_req="num=1"))
    assert (world.state(first), world.state(third), world.state(fourth)) == ("RUN", "PEND", "RUN")
    world.ended(first)
    world.settle()
    assert world.state(third) == "PEND"
    world.ended(second)
    world.settle()
    assert world.state(third) == "RUN" and world.engine.audit() == []


def test_a_gpu_that_is_gone_is_no_change_of_its_layout() -> None:
    world = world_of("3g.40gb")
    world.run(spec(gpu_req="mig=3"))
    world.report(gpus=gpus(1, SHARED))
    first, second = gpus(2, SHARED).gpus
    world.report(gpus=GpuReport(gpus=(first, msgspec.structs.replace(second, fault="the driver no longer lists it"))))
    assert notes(world) == []


def test_new_parts_are_given_out_as_soon_as_they_are_seen() -> None:
    world = world_of("7g.80gb")
    (job,) = world.run(spec(gpu_req="mig=1"))
    assert world.state(job) == "PEND"
    (reason,) = world.reasons(job)
    assert "mig=1" in reason
    world.report(gpus=laid("1g.10gb", "1g.10gb"))
    world.settle()
    assert world.state(job) == "RUN"


def test_nobody_is_refused_for_a_layout_that_may_come() -> None:
    world = world_of("1g.10gb")
    (job,) = world.run(spec(gpu_req="num=9:mig=2"))
    (said,) = [text for text in map(sentence, world.job(job).spec.warnings) if "mig" in text]
    assert (
        said
        == "No host that the job may use has a part of a GPU of mig=2 (parts are 1g.10gb): the job waits until one has"
    )
    assert sentence(never_met(wishes_of("", "mig=1", 1), {"a": Offered(gpus(2, SHARED))})).startswith(
        "No host that the job may use has a part of a GPU of mig=1 (no GPU is split)"
    )
    assert sentence(never_met(wishes_of("", "mig=1", 1), {"a": Offered(laid("1g.10gb"))})) == ""
    assert "gmem=15G" in sentence(never_met(wishes_of("", "mig=1:gmem=15G", 1), {"a": Offered(laid("1g.10gb"))}))


def test_a_split_gpu_shows_who_holds_parts_of_it() -> None:
    world = world_of("1g.10gb", "1g.10gb")
    jobs = world.run(spec(gpu_req="mig=1"), spec(gpu_req="mig=1"))
    host = world.engine.config.hosts["a"]
    view = host_view(host, world.engine.config, world.engine.state, world.engine.observations.of("a"))
    assert [gpu.holders for gpu in view.gpus] == [(), tuple(f"{job}.1" for job in jobs)]


def test_a_split_gpu_cannot_be_reserved() -> None:
    world = world_of("1g.10gb")
    soon: dict[str, Any] = {"users": ("ann",), "start": world.now + 600, "end": world.now + 1200}
    with pytest.raises(BadRequest, match="a: 2 GPUs wanted, 1 can be reserved"):
        world.reserve(**soon, gpus_on={"a": 2})
    assert world.reserve(**soon, gpus_on={"a": 1}) == "root#0"


_LAID = st.sampled_from([(), ("3g.40gb", "3g.40gb"), ("3g.40gb", "1g.10gb"), ("1g.10gb", "1g.10gb"), ("7g.80gb",)])
_ASKED = st.sampled_from(["mig=1", "mig=3:j_exclusive=yes", "num=2:mig=1", "num=2:j_exclusive=yes", "num=1", "mig=7"])


@settings(max_examples=examples(13), deadline=None)
@given(st.lists(_LAID | _ASKED | st.integers(0, 9) | st.just("again"), max_size=25))
def test_whatever_is_relaid_the_ledger_holds_and_a_replay_says_the_same(
    steps: list[tuple[str, ...] | str | int],
) -> None:
    """Layouts change, jobs come, end (a number), and the master starts again."""
    world = world_of("3g.40gb", "1g.10gb")
    layout: tuple[str, ...] = ("3g.40gb", "1g.10gb")
    for step in steps:
        running = [number for number, job in sorted(world.engine.state.jobs.items()) if job.state == "RUN"]
        if isinstance(step, tuple):
            layout = step
            world.report(gpus=laid(*layout))
        elif isinstance(step, int):
            if running:
                world.ended(running[step % len(running)])
        elif step == "again":
            world.restart()
            keys = [(number, world.job(number).attempt) for number in running]
            world.connect(devices=laid(*layout), held=keys)
        else:
            world.run(spec(gpu_req=step))
        world.settle()
        assert world.engine.audit() == []
    world.check_replay()
    world.report(gpus=laid(*layout))
    for number, job in sorted(world.engine.state.jobs.items()):
        if job.state == "RUN":
            world.ended(number)
    world.settle()
    assert not world.engine.state.ledger.host("a").inconsistent
