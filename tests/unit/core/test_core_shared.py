"""Resources that hosts share (floating licences): counted once over all of them, whoever takes of them and where."""

from __future__ import annotations

import math
from typing import Any

import pytest
from core_world import COUNTERS, OTHERS, World, load, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.core.dispatch.host_queue_views import host_view
from gsched.core.instruction import ConfigureAgent
from gsched.master.views.shared_resource_views import shared_views, with_shared
from gsched.model.config import ClusterConfig, Params
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import Resource
from gsched.model.hosts.shared_resource import SharedInstance
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.views.view import SharedView
from tests.support.property_examples import examples

LICENCES = OTHERS | {"flex": Resource(name="flex", interval_s=30, consumable=True, source="f:1")}


def instances(resource: str, *parts: tuple[float | None, str], of_all: bool = False) -> tuple[SharedInstance, ...]:
    """`(4, "ab")`: so much for hosts a and b together."""
    return tuple(
        SharedInstance(resource=resource, number=n, hosts=tuple(hosts), value=value, consumable=True, of_all=of_all)
        for n, (value, hosts) in enumerate(parts)
    )


def cluster(*parts: tuple[float | None, str], hosts: str = "abc", resource: str = "licence", **more: Any) -> World:
    of_all = bool(more.pop("of_all", False))
    config = make_config(
        hosts,
        resources=COUNTERS | LICENCES,
        shared={resource: instances(resource, *parts, of_all=of_all)},
        **more,
    )
    return World(config)


def used(world: World, hosts: str, resource: str = "licence") -> float:
    return world.engine.state.ledger.reserved_on(hosts, resource)


def shared(world: World) -> dict[str, SharedView]:
    config, engine = world.config, world.engine
    hosts = {
        host.name: host_view(host, config, engine.state, engine.observations.of(host.name))
        for host in config.hosts.values()
    }
    return shared_views(config, hosts)


def lic(amount: float, resource: str = "licence", **more: Any) -> Any:
    return spec(res_req=f"rusage[{resource}={amount:g}]", **more)


def test_all_hosts_take_of_one_number() -> None:
    world = cluster((10.0, "abc"))
    first = world.run(lic(4, hosts=("a",)), lic(4, hosts=("b",)), lic(4, hosts=("c",)))
    assert [world.state(each) for each in first] == ["RUN", "RUN", "PEND"]
    assert world.reasons(first[2]) == (
        "Job's requirements for reserving resource (licence) not satisfied: 1 host (4 wanted, 2 free on c)",
        "Not specified in job submission: 2 hosts",
    )
    (small,) = world.run(lic(2))
    assert world.state(small) == "RUN" and used(world, "abc") == 10.0
    world.ended(first[0])
    world.settle()
    assert [world.state(each) for each in first] == ["DONE", "RUN", "RUN"]
    world.check_replay()


def test_each_instance_is_a_number_of_its_own() -> None:
    world = cluster((4.0, "ab"), (6.0, "c"))
    ids = world.run(*[lic(2) for _ in range(6)])
    assert [world.state(each) for each in ids] == ["RUN"] * 5 + ["PEND"]
    assert (used(world, "ab"), used(world, "c")) == (4.0, 6.0)


def test_select_and_order_see_what_is_left_of_the_instance() -> None:
    world = cluster((4.0, "ab"), (6.0, "c"))
    (there,) = world.run(spec(res_req="order[licence]"))
    assert world.job(there).allocation.first_host == "c"
    world.run(lic(5, hosts=("c",)))
    (other, none) = world.run(spec(res_req="select[licence>=2]"), spec(res_req="select[licence>4]"))
    assert world.job(other).allocation.first_host in "ab" and world.state(none) == "PEND"


def test_in_one_cycle_a_selection_sees_what_the_cycle_has_taken() -> None:
    world = cluster((4.0, "abc"))
    ids = world.run(lic(3, hosts=("a",)), spec(res_req="select[licence>=2]", hosts=("b",)))
    assert [world.state(each) for each in ids] == ["RUN", "PEND"]


def test_a_parallel_job_reserves_once_unless_it_says_otherwise() -> None:
    world = cluster((10.0, "abc"))
    (once,) = world.run(spec(res_req="rusage[licence=2] span[ptile=1]", slots=3))
    assert used(world, "abc") == 2.0 and "licence=2.00/job" in world.job(once).spec.combined_req
    (each,) = world.run(spec(res_req="rusage[licence=2/host] span[ptile=1]", slots=3))
    assert world.state(each) == "RUN" and used(world, "abc") == 8.0
    (more,) = world.run(spec(res_req="rusage[licence=1/task] span[ptile=1]", slots=3))
    assert world.state(more) == "PEND" and used(world, "abc") == 8.0


def test_more_than_there_is_of_any_instance_is_refused() -> None:
    world = cluster((4.0, "ab"), (6.0, "c"))
    with pytest.raises(BadRequest, match="No host can ever provide licence=7: c has the most, 6"):
        world.submit(lic(7))


def test_a_started_job_cannot_reserve_more_than_all_hosts_have_left() -> None:
    world = cluster((10.0, "abc"))
    one, _ = world.run(lic(4, hosts=("a",)), lic(5, hosts=("b",)))
    (error,) = world.modify(one, res_req="rusage[licence=6]")
    assert "a has no 2 more of licence to reserve: 1 left" in error
    assert world.modify(one, res_req="rusage[licence=5]") == [""]
    assert used(world, "abc") == 10.0


def test_a_reservation_for_a_time_gives_its_licence_back_to_all_hosts() -> None:
    world = cluster((1.0, "abc"))
    first, second = world.run(
        spec(res_req="rusage[licence=1:duration=2]", hosts=("a",), run_limit_s=3600), lic(1, hosts=("b",))
    )
    assert world.state(second) == "PEND"
    assert world.engine.cycles.planned[second].at == world.now + 120.0
    world.wait(121)
    world.settle()
    assert (world.state(first), world.state(second)) == ("RUN", "RUN")


def test_a_start_is_planned_for_when_a_licence_comes_back_on_another_host() -> None:
    world = cluster((2.0, "abc"))
    world.run(lic(1, hosts=("a",), run_limit_s=600), lic(1, hosts=("b",), run_limit_s=1200))
    (big,) = world.submit(lic(2, hosts=("c",)))
    world.settle()
    planned = world.engine.cycles.planned[big]
    assert planned.at == world.now + 1200.0 and planned.hosts == ("c",)
    (small,) = world.submit(lic(1, hosts=("c",), run_limit_s=60))
    world.settle()
    assert world.state(small) == "PEND"  # the first 600 s leave nothing
    world.wait(600)
    world.ended(1)
    world.settle()
    assert world.state(small) == "PEND"  # without BACKFILL nobody may use what the planned job waits for
    assert any("reserved for job <3>" in reason for reason in world.reasons(small))


def test_backfill_uses_a_licence_that_a_planned_job_waits_for_if_it_ends_in_time() -> None:
    world = cluster((2.0, "abc"), queues=[Queue(name="normal", priority=30, backfill=True)])
    world.run(lic(1, hosts=("b",), run_limit_s=1200))
    (big,) = world.submit(lic(2, hosts=("c",)))
    world.settle()
    short, long = world.run(lic(1, hosts=("a",), run_limit_s=600), lic(1, hosts=("a",), run_limit_s=3600))
    assert (world.state(short), world.state(long), world.state(big)) == ("RUN", "PEND", "PEND")


PREEMPTING = (Queue(name="high", priority=9, preemption=Preemption(preemptive=())), Queue(name="normal", priority=1))


def test_nobody_is_suspended_for_a_licence_that_he_would_keep() -> None:
    world = cluster((1.0, "ab"), hosts="ab", queues=PREEMPTING)
    (low,) = world.run(lic(1, hosts=("a",)))
    world.wait(20)
    (high,) = world.submit(lic(1, queue="high", hosts=("b",)), user="eve")
    world.settle()
    assert (world.state(low), world.state(high)) == ("RUN", "PEND")
    assert used(world, "ab") == 1.0


def test_a_job_on_another_host_is_requeued_for_its_licence() -> None:
    world = cluster((3.0, "abc"), queues=PREEMPTING, params=Params(preempt_requeue=True))
    low, other, safe = world.run(
        lic(2, hosts=("a",), rerunnable=True),
        lic(1, hosts=("b",), rerunnable=True),
        spec(hosts=("c",), rerunnable=True),
    )
    world.wait(20)
    (high,) = world.submit(lic(2, queue="high", hosts=("c",)), user="eve")
    world.settle()
    assert world.job(low).requeue_by and not world.job(other).requeue_by and not world.job(safe).requeue_by
    world.ended(low, exit_code=None, signal=9)
    world.settle()
    assert (world.state(high), world.state(low)) == ("RUN", "PEND")
    assert used(world, "abc") == 3.0


# -- elims ------------------------------------------------------------------------------------------------------------


def asked(world: World, since: int) -> dict[str, tuple[str, ...]]:
    """What agents were last told to report for others."""
    told = [each for each in world.instructions[since:] if isinstance(each, ConfigureAgent)]
    return {each.host: each.shared for each in told}


def test_one_host_reports_for_all_and_the_next_takes_over() -> None:
    config = make_config("abc", resources=COUNTERS | LICENCES, shared={"flex": instances("flex", (None, "bc"))})
    world = World(config, connect=False)
    for host in "abc":
        world.connect(host)
    assert asked(world, 0) == {"a": (), "b": ("flex",), "c": ()}
    first, second = world.submit(lic(2, "flex", hosts=("c",)), lic(2, "flex", hosts=("b",)))
    world.settle()
    assert (world.state(first), world.state(second)) == ("PEND", "PEND")  # nobody has said how many there are
    assert "flex is unknown on c" in " ".join(world.reasons(first))
    world.report("b", load=load(external={"flex": 3.0}))
    world.settle()
    assert (world.state(first), world.state(second)) == ("RUN", "PEND")
    world.report("b", load=load(external={"flex": 4.0}))
    world.settle()
    assert world.state(second) == "RUN"
    since = len(world.instructions)
    world.disconnect("b")
    assert asked(world, since) == {"c": ("flex",)}
    assert shared(world)["flex 0"].there is None
    world.report("c", load=load(external={"flex": 9.0}))
    assert shared(world)["flex 0"].there == 9.0
    since = len(world.instructions)
    world.connect("b", held=[(second, 1)])
    assert asked(world, since) == {"b": ("flex",), "c": ()}


def test_of_all_the_masters_host_reports() -> None:
    config = make_config(
        "abc", resources=COUNTERS | LICENCES, shared={"flex": instances("flex", (None, "bca"), of_all=True)}
    )
    assert config.master_host == "a"
    world = World(config)
    assert world.engine.observations.roll.reporters == {"flex 0": "a"}


def test_a_reconfiguration_forgets_instances_that_are_gone_and_counts_what_runs() -> None:
    world = cluster((4.0, "abc"))
    ids = world.run(lic(2, hosts=("a",)), lic(2, hosts=("b",)))
    world.reconfigure(
        make_config(
            "abc", resources=COUNTERS | LICENCES, shared={"licence": instances("licence", (5.0, "ab"), (1.0, "c"))}
        )
    )
    more = world.run(lic(2, hosts=("a",)), lic(1, hosts=("b",)), lic(1, hosts=("c",)))
    assert [world.state(each) for each in (*ids, *more)] == ["RUN", "RUN", "PEND", "RUN", "RUN"]


# -- tables -----------------------------------------------------------------------------------------------------------


def test_what_is_used_is_shown_once_for_the_hosts_that_share_it() -> None:
    world = cluster((4.0, "ab"), (6.0, "c"))
    world.run(lic(1, hosts=("a",)), lic(2, hosts=("b",)))
    views = shared(world)
    assert [(each.hosts, each.there, each.total, each.reserved) for each in views.values()] == [
        (("a", "b"), 4.0, 1.0, 3.0),
        (("c",), 6.0, 6.0, 0.0),
    ]
    config, engine = world.config, world.engine
    shown = with_shared(host_view(config.hosts["b"], config, engine.state, engine.observations.of("b")), config, views)
    (value,) = [each for each in shown.externals if each.name == "licence"]
    assert (value.total, value.reserved) == (1.0, 3.0)


def test_what_is_used_of_a_hosts_own_static_resource_is_shown() -> None:
    config = make_config([HostConfig(name="a", max_slots=16, values={"licence": 10.0}), "b"])
    world = World(config)
    world.run(lic(6))
    view = host_view(config.hosts["a"], config, world.engine.state, world.engine.observations.of("a"))
    (value,) = [each for each in view.externals if each.name == "licence"]
    assert (value.total, value.reserved, value.consumable) == (4.0, 6.0, True)


# -- never more than there is -----------------------------------------------------------------------------------------

REQUESTS = (
    "rusage[licence=1]",
    "rusage[licence=2]",
    "rusage[licence=2:duration=1]",
    "rusage[licence=1/task] span[ptile=1]",
    "rusage[licence=1/host] span[ptile=2]",
    "rusage[licence=1/host] span[ptile=1]",
    "rusage[licence=1] || rusage[flex=2]",
    "{rusage[licence=3]} || {rusage[flex=1]}",
    "1*{rusage[licence=1]} + 1*{rusage[licence=2]}",
    "select[licence>=2] rusage[licence=1]",
    "order[licence] rusage[licence=2,flex=1]",
    "",
)
STEPS = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(REQUESTS),
        st.integers(1, 4),
        st.sampled_from(["normal", "high"]),
        st.sampled_from([None, 60, 600]),
        st.booleans(),
    ),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("wait"), st.sampled_from([5, 30, 90])),
    st.tuples(st.just("flex"), st.integers(0, 6)),
    st.tuples(st.just("lose"), st.sampled_from("abcd")),
    st.tuples(st.just("restart")),
)


def shared_config() -> ClusterConfig:
    shares = {
        "licence": instances("licence", (2.0, "ab"), (3.0, "cd")),
        "flex": instances("flex", (None, "abcd"), of_all=True),
    }
    queues = (
        Queue(name="high", priority=9, preemption=Preemption(preemptive=()), backfill=True),
        Queue(name="normal", priority=1, backfill=True),
    )
    hosts = [HostConfig(name=name, max_slots=4) for name in "abcd"]
    params = Params(preempt_requeue=True, min_run_before_preempt_s=10.0)
    return make_config(hosts, queues, resources=COUNTERS | LICENCES, shared=shares, params=params)


def check_never_more(world: World, most_flex: float) -> None:
    assert used(world, "ab") <= 2.0 + 1e-9 and used(world, "cd") <= 3.0 + 1e-9
    assert used(world, "abcd", "flex") <= most_flex + 1e-9
    for view in shared(world).values():
        assert view.reserved is not None and math.isclose(view.reserved, used(world, "".join(view.hosts), view.name))


def take_step(world: World, step: tuple[Any, ...]) -> None:
    match step:
        case ("submit", text, slots, queue, run_limit_s, rerunnable):
            try:
                world.submit(
                    spec(res_req=text, slots=slots, queue=queue, run_limit_s=run_limit_s, rerunnable=rerunnable)
                )
            except BadRequest:
                return  # a compound that wants another number of slots
        case ("end", number):
            running = sorted(world.engine.state.running)
            if running:
                job = world.job(running[number % len(running)])
                if job.started_at is None:
                    world.started(job.job_id)
                world.ended(job.job_id, job.attempt, job.allocation.first_host)
        case ("wait", seconds):
            world.wait(seconds)
        case ("flex", count):
            world.report("a", load=load(external={"flex": float(count)}))
        case ("lose", host):
            if world.engine.observations.of(host).connected:
                world.disconnect(host)
            else:
                world.connect(host, held=sorted(world.engine.state.ledger.host(host).held))
        case ("restart",):
            world.restart()
            for host in "abcd":
                world.connect(host, held=sorted(world.engine.state.ledger.host(host).held))
    world.settle()


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_no_more_is_ever_held_of_a_licence_than_there_is(steps: list[tuple[Any, ...]]) -> None:
    world = World(shared_config())
    most_flex = 0.0
    for step in steps:
        if step[0] == "flex":
            most_flex = max(most_flex, float(step[1]))
        take_step(world, step)
        check_never_more(world, most_flex)
