"""Which hosts have GPUs, and so by what weights fairshare goes: known for good, whatever comes and goes."""

from __future__ import annotations

import msgspec
import pytest
from core_world import World, gpus, load, make_config

from gsched.core.state import checkpoint
from gsched.core.state.checkpoint import dump
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import Params
from gsched.model.event import HostGpusKnown
from gsched.model.hosts.host import GpuReport
from gsched.model.queues.fairshare_factors import WHERE_GPUS, FairshareFactors, factors_of
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share

EACH = (Share("default", 1),)
FAIR = Queue(name="normal", priority=30, fairshare=EACH)
NO_GPUS = GpuReport(provider="none")


def fair_world(*devices: int, **config: object) -> World:
    """Hosts a, b ... with so many GPUs each."""
    hosts = "abcd"[: len(devices)]
    world = World(make_config(hosts, (FAIR,), **config), connect=False)
    for host, count in zip(hosts, devices, strict=True):
        world.connect(host, gpus(count, host=host) if count else NO_GPUS)
    return world


def in_force(world: World, queue: str = "normal") -> FairshareFactors:
    return world.engine.snapshot(world.now).factors[queue]


def test_gpu_time_decides_once_a_host_has_reported_gpus() -> None:
    world = fair_world(0)
    assert in_force(world) == FairshareFactors()
    world.report("a", gpus=gpus(4))
    assert in_force(world) == WHERE_GPUS
    world.report("a", gpus=gpus(4))
    known = [event for event in world.events if isinstance(event, HostGpusKnown)]
    assert known == [HostGpusKnown(at=world.now, host="a")]


def test_gpus_of_one_host_are_enough() -> None:
    assert in_force(fair_world(0, 0, 1)) == WHERE_GPUS


def test_a_host_that_is_down_or_whose_driver_fails_still_has_its_gpus() -> None:
    world = fair_world(0, 4)
    world.report("b", gpus=GpuReport(known=False, reason="the driver hangs"))
    assert in_force(world) == WHERE_GPUS
    world.report("b", gpus=NO_GPUS)
    world.disconnect("b")
    world.wait(1000)
    assert in_force(world) == WHERE_GPUS


def test_a_restarted_master_knows_before_any_agent_is_back() -> None:
    world = fair_world(4)
    world.restart()
    assert in_force(world) == WHERE_GPUS


def test_a_checkpoint_keeps_it_and_one_of_before_is_read() -> None:
    world = fair_world(4, 0)
    stored = dump(world.engine.state)
    assert checkpoint.load(stored, ClusterState()).gpu_hosts == {"a"}
    before = msgspec.json.decode(stored)
    del before["gpu_hosts"]
    assert checkpoint.load(msgspec.json.encode(before), ClusterState()).gpu_hosts == frozenset()


def test_a_host_that_leaves_the_cluster_is_forgotten() -> None:
    world = fair_world(0, 4)
    world.reconfigure(make_config("a", (FAIR,), digest="d2"))
    assert in_force(world) == FairshareFactors()
    world.reconfigure(make_config("ab", (FAIR,), digest="d3"))
    world.connect("b", NO_GPUS)
    assert in_force(world) == FairshareFactors()


def test_a_master_that_comes_up_without_the_host_forgets_it() -> None:
    world = fair_world(0, 4)
    world.config = make_config("a", (FAIR,), digest="d2")
    world.engine.config = world.config
    world.restart()
    world.wait(1)
    assert in_force(world) == FairshareFactors()


def test_a_queue_on_hosts_without_gpus_keeps_lsfs_factors() -> None:
    here, there = (Queue(name=name, fairshare=EACH, hosts=(host,)) for name, host in (("here", "a"), ("there", "b")))
    world = World(make_config("ab", (here, there, FAIR)), connect=False)
    world.connect("a", NO_GPUS)
    world.connect("b", gpus(2, host="b"))
    assert [in_force(world, name) for name in ("here", "there", "normal")] == [
        FairshareFactors(),
        WHERE_GPUS,
        WHERE_GPUS,
    ]


def test_what_is_stated_wins_each_by_itself() -> None:
    world = fair_world(4, params=Params(factors={"run_time": 0.5, "gpu_hist_run_time": False}))
    stated = msgspec.structs.replace(WHERE_GPUS, run_time=0.5, gpu_hist_run_time=False)
    assert in_force(world) == stated
    world.reconfigure(world.with_queue(factors={"run_time": 0.0, "run_job": 3.0}))
    assert in_force(world) == msgspec.structs.replace(stated, run_time=0.0, run_job=3.0)


@pytest.mark.parametrize("hosts", [(), ("a",)])
def test_past_use_decays_alike_with_and_without_gpus(hosts: tuple[str, ...]) -> None:
    """HIST_HOURS is in events, so its default must not depend on what hosts report."""
    assert factors_of({}, FAIR, hosts).hist_hours == FairshareFactors().hist_hours


def test_load_alone_says_nothing_of_gpus() -> None:
    world = fair_world(0)
    world.report("a", load=load())
    assert in_force(world) == FairshareFactors()
