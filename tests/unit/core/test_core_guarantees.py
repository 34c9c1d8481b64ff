"""Service classes in the engine: who joins one, what a reconfiguration changes while jobs run, replay."""

from __future__ import annotations

import msgspec
import pytest
from core_world import World, make_config, spec

from gsched.base.errors import BadRequest
from gsched.model.config import ClusterConfig
from gsched.model.queues.guarantee import GuaranteePool, LoanPolicy, Portion, ServiceClass
from gsched.model.queues.limit import Consumers
from gsched.policy.guarantees.pool_views import pool_views
from gsched.policy.limits.job_limits import LimitUse


def config(gold: float = 4.0, **of_class: object) -> ClusterConfig:
    found = ServiceClass(name="gold", **of_class)  # type: ignore[arg-type]
    pool = GuaranteePool(name="p", kind="slots", unit={"slots": 1.0}, shares={"gold": Portion(gold)})
    return make_config(service_classes={"gold": found}, pools=(pool,))


def used(world: World) -> dict[str, float]:
    (view,) = pool_views(LimitUse(world.engine.snapshot(world.now)).guarantees)
    return {each.name: each.used for each in view.owners} | {"free": view.free}


def test_a_class_that_is_not_there_or_does_not_admit_the_job_is_refused() -> None:
    world = World(config(users=Consumers(("bob",))))
    with pytest.raises(BadRequest, match="silver: No such service class"):
        world.submit(spec(service_class="silver"))
    with pytest.raises(BadRequest, match="gold: Service class does not admit the job by USERS of its ACCESS_CONTROL"):
        world.submit(spec(service_class="gold"))
    assert len(world.submit(spec(service_class="gold"), user="bob")) == 1
    world.check_replay()


def test_jobs_join_a_class_by_themselves_and_leave_it_when_they_change() -> None:
    world = World(config(auto_attach=True, projects=("paid",)))
    job_id, other = world.submit(spec(project="paid", hold=True), spec(hold=True))
    assert world.job(job_id).spec.service_class == "gold" and world.job(other).spec.service_class == ""
    assert world.modify(job_id, project="free") == [""]
    assert world.job(job_id).spec.service_class == ""
    world.check_replay()


def test_a_guarantee_holds_and_counts_started_jobs_of_the_class() -> None:
    world = World(config())
    mine, others, _ = world.run(spec(service_class="gold", slots=2), spec(slots=12), spec(slots=1))
    assert (world.state(mine), world.state(others), world.state(_)) == ("RUN", "RUN", "PEND")
    assert used(world) == {"gold": 2.0, "free": 2.0}
    assert any("Held back for guarantee p of service class gold" in each for each in world.reasons(_))
    assert world.modify(others, service_class="gold") == [""]
    assert used(world)["gold"] == 14.0
    world.check_replay()


def test_a_reconfiguration_changes_guarantees_while_jobs_run() -> None:
    world = World(config(gold=2.0))
    world.run(spec(slots=14))
    assert used(world) == {"gold": 0.0, "free": 2.0}
    world.reconfigure(msgspec.structs.replace(config(gold=8.0), digest="d2"))
    (waits,) = world.run(spec(slots=1))
    assert world.state(waits) == "PEND"
    (mine,) = world.run(spec(slots=2, service_class="gold"))
    assert world.state(mine) == "RUN"
    world.reconfigure(msgspec.structs.replace(config(gold=0.0), digest="d3"))
    world.ended(mine)
    world.settle()
    assert world.state(waits) == "RUN"
    world.check_replay()


def test_a_restart_counts_the_same() -> None:
    world = World(config())
    world.run(spec(service_class="gold", slots=3), spec(slots=5))
    before = used(world)
    world.restart()
    world.connect("a", held=((1, 1), (2, 1)))
    assert used(world)["gold"] == before["gold"] == 3.0


def borrowing(others: int) -> tuple[World, list[int]]:
    """All slots are guaranteed to a class of which no job waits; two jobs may borrow them, the others run too long."""
    pool = GuaranteePool(
        name="p", kind="slots", unit={"slots": 1.0}, shares={"gold": Portion(16.0)},
        loans=LoanPolicy(all_queues=True, duration_s=600.0),
    )  # fmt: skip
    world = World(make_config(service_classes={"gold": ServiceClass(name="gold")}, pools=(pool,)))
    short = [spec(slots=2, run_limit_s=600, res_req=f"rusage[mem={n}]") for n in (100, 200)]
    long = [spec(slots=1, res_req=f"rusage[mem={n + 1}]") for n in range(others)]
    return world, world.submit(*short, *long)


@pytest.mark.parametrize("budget", [1000, 30, 20])
def test_a_pass_that_the_budget_cuts_short_comes_to_lending(budget: int) -> None:
    world, (first, second, *others) = borrowing(8)
    cycles = 0
    while world.engine.cycles.needs_cycle:
        world.cycle(budget=budget)
        cycles += 1
        assert cycles < 30
    assert [world.state(each) for each in (first, second)] == ["RUN", "RUN"]
    assert {world.state(each) for each in others} == {"PEND"}
    assert all("Held back for guarantee p" in world.reasons(each)[0] for each in others)


@pytest.mark.parametrize("budget", [1, 2, 5, 8])
def test_a_pass_comes_to_an_end_though_more_may_borrow_than_a_cycle_serves(budget: int) -> None:
    world, jobs = borrowing(8)
    for _ in range(100):
        if not world.engine.cycles.needs_cycle:
            break
        world.cycle(budget=budget)
    assert not world.engine.cycles.needs_cycle
    assert all(world.reasons(each) for each in jobs if world.state(each) == "PEND")
