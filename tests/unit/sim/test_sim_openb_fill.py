"""A cluster that fills with tasks which never leave: what is counted, what is dropped, what chance decides."""

from __future__ import annotations

import pytest

from gsched.base.errors import BadRequest
from gsched.config.changed_files import parse_setting
from gsched.sim.cluster_file import SimulatedHost
from gsched.sim.openb_fill import ClusterFill, asked_of, draw, fill_cluster, in_thousandths
from gsched.sim.sim_config import simulation_config
from gsched.sim.trace import TraceJob

FOREVER = float("inf")


def task(cpu: float, gpus: int = 0, share: float = 1.0, model: str = "") -> TraceJob:
    wanted = f"num={gpus}" + (f":mode=shared:share={share:g}" if share < 1 else "")
    return TraceJob(
        arrives_s=0,
        runs_s=FOREVER,
        slots=round(cpu * 1000),
        gpus=gpus,
        gpu_req=wanted if gpus else "",
        res_req=f"select[gpumodel == {model}]" if model else "",
    )


def filled(tasks: list[TraceJob], seed: int = 1, placement: str = "scarce", cpus: int = 8) -> ClusterFill:
    hosts = in_thousandths(
        [SimulatedHost(name=f"n{n}", slots=cpus, mem_mib=65_536, gpus=4, gpu_model="T4") for n in "123"]
    )
    config = simulation_config(None, hosts, [parse_setting(f"GPU_PLACEMENT={placement}")])
    return fill_cluster(hosts, tasks, config, seed)


def test_tasks_that_fit_fill_it() -> None:
    found = filled([task(0.1, 1, 0.5), task(0.1, 1, 0.25), task(0.1)])
    assert found.summary["allocated_at_130_percent"] == 1.0
    assert found.summary["fragments_at_130_percent"] == 0.0
    assert found.summary["placed"] < found.summary["arrivals"]


def test_what_lacks_cpus_or_another_model_is_dropped() -> None:
    found = filled([task(4, 1)], cpus=8)
    assert found.summary["placed"] == 6, "two on each host, for want of CPUs"
    assert found.summary["allocated_at_130_percent"] == found.summary["allocated_at_100_percent"] == 0.5
    assert found.summary["fragments_at_130_percent"] == 0.5
    assert filled([task(1, 1, model="A100"), task(1, 1)], seed=3).summary["allocated_at_130_percent"] < 1.0
    with pytest.raises(BadRequest, match="no task asks for one"):
        filled([task(1)])


@pytest.mark.parametrize("placement", ["scarce", "pack"])
def test_the_curve_is_what_was_asked_for_and_given(placement: str) -> None:
    tasks = [task(1, 1, 0.5), task(2, 1), task(3, 2), task(4, 4), task(2)]
    found = filled(tasks, seed=5, placement=placement, cpus=12)
    curve = found.curve
    assert curve["asked_share"] == sorted(curve["asked_share"]) and len(curve["asked_share"]) > 5
    assert curve["allocated_share"] == sorted(curve["allocated_share"])
    for asked, allocated, fragment in zip(*curve.values(), strict=True):
        assert 0 <= allocated <= min(asked, 1) + 1e-6 and -1e-6 <= fragment <= 1 - allocated + 1e-6
    assert found == filled(tasks, seed=5, placement=placement, cpus=12)
    assert found != filled(tasks, seed=6, placement=placement, cpus=12)


def test_arrivals_ask_for_as_much_as_the_protocol_says() -> None:
    for tasks in ([task(1, 1), task(1, 2), task(1, 1, 0.3)], [task(1, 4)] * 30):
        asked = sum(asked_of(each) for each in draw(tasks, lambda each: round(1000 * asked_of(each)), 12_000, 1))
        assert 15.6 - 4 <= asked < 15.6 + 4
