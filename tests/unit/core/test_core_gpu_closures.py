"""Single GPUs that administrators close and open: who may, what it means for jobs, how long it lasts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from core_world import START, World, gpu_spec, gpus, make_config

from gsched.base.coded_text import AnyText, coded, sentence
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.core.command import ControlGpus
from gsched.core.dispatch.host_queue_views import host_view
from gsched.core.instruction import OpenGpu
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import GpuClosed, GpuOpened
from gsched.model.hosts.host import GpuReport


def control(world: World, action: str, *names: str, user: str = "root", **more: Any) -> list[tuple[str, str]]:
    """Name and text of each answer."""
    return [(each.name, each.text) for each in world.do(ControlGpus(user, user == "root", action, names, **more))]


def closures(world: World, host: str = "a") -> dict[int, tuple[str, str, float | None]]:
    """Index -> who, why and until when, as people are shown it."""
    engine = world.engine
    view = host_view(world.config.hosts[host], world.config, engine.state, engine.observations.of(host))
    return {
        each.gpu.index: (each.closure.by, each.closure.comment, each.closure.until)
        for each in view.gpus
        if each.closure
    }


def moved(*order: int) -> GpuReport:
    """The GPUs of host a with other indices: `order` are their old ones."""
    report = gpus(4)
    found = tuple(msgspec.structs.replace(report.gpus[old], index=new) for new, old in enumerate(order))
    return msgspec.structs.replace(report, gpus=found)


def test_a_closed_gpu_gets_no_new_job_and_the_job_on_it_runs_on() -> None:
    world = World()
    (first,) = world.run(gpu_spec())
    (at,) = world.held(first)
    assert control(world, "close", f"a:{at}", comment="fan") == [(f"a:{at}", "")]
    assert world.state(first) == "RUN" and not world.orders(len(world.instructions))
    others = world.run(*(gpu_spec() for _ in range(3)))
    assert sorted(index for job in others for index in world.held(job)) == sorted({0, 1, 2, 3} - {at})
    world.ended(first)
    (waits,) = world.run(gpu_spec())
    assert world.state(waits) == "PEND"
    assert any(f"GPU {at} not offered: closed by root: fan" in line for line in world.reasons(waits))
    control(world, "open", f"a:{at}")
    world.settle()
    assert world.held(waits) == [at]
    world.check_replay()


def test_a_job_that_only_fits_there_is_accepted_and_waits() -> None:
    world = World(devices=1)
    control(world, "close", "GPU-a0")
    (job,) = world.run(gpu_spec())
    assert world.state(job) == "PEND"
    assert any("GPU 0 not offered: closed by root" in line for line in world.reasons(job)), world.reasons(job)


def test_it_follows_the_uuid_and_outlives_agent_and_master() -> None:
    world = World()
    control(world, "close", "a:1", comment="why")
    assert closures(world) == {1: ("root", "why", None)}
    world.report(gpus=moved(1, 0, 2, 3))
    assert closures(world) == {0: ("root", "why", None)}
    world.disconnect()
    world.connect(devices=moved(3, 2, 1, 0))
    assert closures(world) == {2: ("root", "why", None)}
    world.restart()
    world.connect()
    assert closures(world) == {1: ("root", "why", None)}
    again = ClusterState.load(world.engine.state.dump())
    assert again.closed_gpus == world.engine.state.closed_gpus and again.closed_gpus
    world.check_replay()


def test_until_opens_it_by_itself() -> None:
    world = World(devices=1)
    control(world, "close", "a:0", until=START + 100)
    (job,) = world.run(gpu_spec())
    assert closures(world) == {0: ("root", "", START + 100)}
    assert world.engine.next_deadline(world.now + 99) <= START + 100
    world.wait(99)
    world.settle()
    assert world.state(job) == "PEND"
    world.wait(1)
    world.settle()
    assert world.held(job) == [0] and closures(world) == {}
    assert [event for event in world.events if isinstance(event, GpuOpened)] == [
        GpuOpened(at=START + 100, host="a", uuid="GPU-a0", index=0, by="")
    ]
    world.check_replay()


def test_closing_again_replaces_and_opening_an_open_one_is_no_event() -> None:
    world = World()
    control(world, "open", "a:0")
    control(world, "close", "a:0", comment="one", until=START + 5)
    control(world, "close", "GPU-a0", comment="two")
    assert closures(world) == {0: ("root", "two", None)}
    control(world, "open", "a:0")
    kinds = [type(event) for event in world.events if isinstance(event, GpuClosed | GpuOpened)]
    assert kinds == [GpuClosed, GpuClosed, GpuOpened]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("a:4",), "a:4: host a has no GPU 4"),
        (("a:",), "a:: Bad GPU name"),
        (("nowhere:0",), "nowhere: Bad host name"),
        (("GPU-none",), "GPU-none: no host has this GPU"),
        (("a:0", "a:x"), "a:x: Bad GPU name"),
        ((), "no GPU is named"),
    ],
)
def test_a_bad_name_is_named_and_nothing_is_done(names: tuple[str, ...], told: str) -> None:
    world = World()
    before = list(world.events)
    with pytest.raises(BadRequest) as refused:
        control(world, "close", *names)
    assert told in refused.value.text and world.events == before


def test_a_time_that_is_past_and_a_strange_action_are_refused() -> None:
    world = World()
    with pytest.raises(BadRequest, match="past"):
        control(world, "close", "a:0", until=START)
    with pytest.raises(BadRequest, match="'melt'"):
        control(world, "melt", "a:0")
    assert not closures(world)


def test_only_administrators_of_the_host_may() -> None:
    config = make_config(hosts=("a", "b"), host_groups={"g": ("b",)}, host_group_admins={"g": ("gwen",)})
    world = World(config)
    for user, name in (("ann", "a:0"), ("gwen", "a:0"), ("ann", "GPU-b0")):
        with pytest.raises(PermissionDenied):
            control(world, "close", name, user=user)
    control(world, "close", "b:0", user="gwen")
    assert closures(world, "b") == {0: ("gwen", "", None)} and not closures(world)


def test_one_that_is_gone_is_opened_by_its_uuid_and_one_that_stays_ill_says_so() -> None:
    world = World()
    control(world, "close", "a:3", "a:2")
    world.report(gpus=msgspec.structs.replace(gpus(4), gpus=gpus(3).gpus))
    control(world, "open", "GPU-a3")
    assert set(world.engine.state.closed_gpus) == {("a", "GPU-a2")}
    ill = msgspec.structs.replace(gpus(3).gpus[2], problem="too hot")
    world.report(gpus=msgspec.structs.replace(gpus(3), gpus=(*gpus(2).gpus, ill)))
    assert control(world, "open", "a:2") == [("a:2", "too hot")]


@pytest.mark.parametrize(
    ("problem", "fault"),
    [
        ("XID 79; closed until", "XID 79"),
        (coded("gpu.check_failed", "check", 3, "row 7 is bad"), ""),
        (coded("gpu.check_hangs", "check", 60.0), ""),
    ],
)
def test_opening_one_that_has_failed_tells_its_agent_and_is_on_record(problem: AnyText, fault: str) -> None:
    """Or that the site's health program has closed."""
    world = World()
    ill = msgspec.structs.replace(gpus(4).gpus[0], problem=problem, fault=fault)
    world.report(gpus=msgspec.structs.replace(gpus(4), gpus=(ill, *gpus(4).gpus[1:])))
    assert control(world, "open", "a:0") == [("a:0", "")]
    assert world.orders()[-1] == OpenGpu("a", "GPU-a0")
    assert [event.uuid for event in world.events if isinstance(event, GpuOpened)] == ["GPU-a0"]
    world.disconnect()
    assert control(world, "open", "a:0") == [("a:0", sentence(problem))]  # nobody is there to let it go


def test_both_gpus_of_one_uuid_on_two_hosts_need_the_host_named() -> None:
    world = World(make_config(hosts=("a", "b")))
    world.report("b", gpus=gpus(4, host="a"))
    with pytest.raises(BadRequest, match="a:0, b:0"):
        control(world, "close", "GPU-a0")
    control(world, "close", "b:0")
    assert closures(world, "b") and not closures(world)


def test_what_is_wrong_besides_is_still_told() -> None:
    world = World()
    ill = msgspec.structs.replace(gpus(4).gpus[0], problem="too hot")
    world.report(gpus=msgspec.structs.replace(gpus(4), gpus=(ill, *gpus(4).gpus[1:])))
    control(world, "close", "a:0")
    view = host_view(world.config.hosts["a"], world.config, world.engine.state, world.engine.observations.of("a"))
    assert sentence(view.gpus[0].gpu.problem) == "too hot" and view.gpus[0].closure is not None
