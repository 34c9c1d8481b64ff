"""What lsb.users and lsb.params allow one user: pending jobs, slots, priority; limits of jobs; removals under way."""

from __future__ import annotations

import pytest
from core_world import World, gpu_spec, make_config, spec

from gsched.base.errors import BadRequest, ResourceExhausted
from gsched.base.ids import element_id
from gsched.model.config import Params
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue, RunLimits
from gsched.model.queues.user import UserGroup, UserLimits

GROUPS = {"lab": UserGroup(name="lab", users=("ann", "eve")), "crew": UserGroup(name="crew", users=("bob", "carl"))}


def users(*rows: UserLimits) -> dict[str, UserLimits]:
    return {row.name: row for row in rows}


# -- pending jobs -----------------------------------------------------------------------------------------------------


def test_every_job_that_waits_counts_towards_the_pending_jobs() -> None:
    world = World(make_config(users=users(UserLimits(name="ann", max_pending=6))))
    world.run(spec(slots=16))
    world.submit(spec(), spec(hold=True), spec(dependency="done(1)"), spec(begin_at=world.now + 99))
    (array,) = world.submit(spec(name="a", indices="1-2"))
    with pytest.raises(ResourceExhausted, match=r"job limit: 6 jobs of ann wait, 1 more would exceed 6 \(MAX_PEND"):
        world.submit(spec())
    with pytest.raises(ResourceExhausted, match="6 jobs of ann wait, 3 more would exceed 6"):
        world.submit(spec(name="b", indices="1-3"))
    world.control("kill", element_id(array, 1))
    assert len(world.submit(spec())) == 1
    world.ended(1)
    world.settle()
    assert world.engine.state.tally.pending_jobs == {"ann": 2}  # the held one, and the one that has its time
    assert len(world.submit(*[spec()] * 4)) == 4
    assert len(world.submit(*[spec()] * 99, user="bob")) == 99
    world.check_replay()


def test_whose_pending_limit_holds() -> None:
    rows = users(
        UserLimits(name="lab", max_pending=5), UserLimits(name="lab@", max_pending=3), UserLimits(name="eve"),
        UserLimits(name="default", max_pending=1),
    )  # fmt: skip
    world = World(make_config(users=rows, user_groups=GROUPS))
    for user, most in (("ann", 3), ("eve", 2), ("bob", 1)):  # eve has a row of her own; the group has five together
        world.submit(*[spec(hold=True)] * most, user=user)
        with pytest.raises(ResourceExhausted, match="pending job limit"):
            world.submit(spec(hold=True), user=user)


def test_slots_that_pending_jobs_want_are_limited_too() -> None:
    rows = users(UserLimits(name="ann", max_pending_slots=10))
    world = World(make_config(users=rows, user_groups=GROUPS))
    world.submit(spec(slots=2, hold=True), spec(name="a", indices="1-2", slots=3, hold=True))
    with pytest.raises(ResourceExhausted, match=r"pending slot limit: 8 slots of ann wait, 3 more would exceed 10"):
        world.submit(spec(slots=3))
    (last,) = world.submit(spec(slots=2, hold=True))
    (refused,) = world.modify(last, slots=3)
    assert refused.startswith("The user has reached his/her pending slot limit: 10 slots of ann wait, 1 more")
    assert world.modify(last, slots=1) == [""]
    assert world.engine.state.tally.pending_slots == {"ann": 9}
    world.submit(spec(hold=True))
    world.control("kill", last)
    assert world.engine.state.tally.pending_slots == {"ann": 9}
    world.check_replay()


def test_pending_jobs_of_everybody_together_are_limited() -> None:
    world = World(make_config(params=Params(max_pending=3, max_pending_slots=20)))
    world.submit(spec(hold=True), spec(hold=True, slots=16))
    with pytest.raises(ResourceExhausted, match=r"^Pending job threshold reached: 2 jobs wait, 2 more would exceed 3"):
        world.submit(*[spec()] * 2, user="bob")
    with pytest.raises(ResourceExhausted, match=r"^Pending slot threshold reached: 17 slots wait, 4 more .* 20 \(MAX_"):
        world.submit(spec(slots=4), user="bob")
    assert world.submit(spec(slots=3), user="bob")


def test_a_group_of_everybody_is_limited_as_a_whole() -> None:
    rows = users(UserLimits(name="all_of_us", max_pending=2))
    groups = {"all_of_us": UserGroup(name="all_of_us", users=("all",))}
    world = World(make_config(users=rows, user_groups=groups))
    world.submit(spec(hold=True), user="ann")
    world.submit(spec(hold=True), user="bob")
    with pytest.raises(ResourceExhausted, match="2 jobs of all_of_us wait"):
        world.submit(spec(hold=True), user="carl")


# -- slots ------------------------------------------------------------------------------------------------------------


def test_a_row_without_a_limit_exempts_from_the_default() -> None:
    rows = users(
        UserLimits(name="default", max_jobs=1), UserLimits(name="ann"), UserLimits(name="crew@", max_jobs=2),
        UserLimits(name="carl", max_jobs=3),
    )  # fmt: skip
    world = World(make_config(users=rows, user_groups=GROUPS))
    for user, most in (("ann", 4), ("bob", 2), ("carl", 3), ("eve", 1)):
        ids = world.submit(*[spec()] * 4, user=user)
        world.settle()
        assert sum(world.state(job_id) == "RUN" for job_id in ids) == most, user
        if most < 4:
            assert world.reasons(ids[3])[0].startswith("The user has reached his/her job slot limit")


def test_a_row_without_a_limit_per_processor_exempts_too() -> None:
    rows = users(UserLimits(name="default", max_jobs_per_processor=0.125), UserLimits(name="ann"))
    world = World(make_config(users=rows))
    for user, most in (("ann", 4), ("bob", 2)):  # 16 CPUs
        ids = world.submit(*[spec()] * 4, user=user)
        world.settle()
        assert sum(world.state(job_id) == "RUN" for job_id in ids) == most


# -- limits and priorities of jobs ------------------------------------------------------------------------------------


def test_limits_of_a_job_are_its_own_then_the_queues_default_then_its_maximum() -> None:
    queue = Queue(
        name="normal",
        limits={"MEMLIMIT": RunLimits(maximum=800.0, default=100.0), "CPULIMIT": RunLimits(maximum=60.0)},
        run_limit_s=600,
    )
    world = World(make_config(queues=(queue,)))
    plain, own = world.submit(spec(), spec(limits={"MEMLIMIT": 500.0, "THREADLIMIT": 9.0}, run_limit_s=60))
    assert world.job(plain).spec.limits == {"MEMLIMIT": 100.0, "CPULIMIT": 60.0}
    assert world.job(plain).spec.run_limit_s == 600
    assert world.job(own).spec.limits == {"MEMLIMIT": 500.0, "CPULIMIT": 60.0, "THREADLIMIT": 9.0}
    assert world.job(own).spec.run_limit_s == 60


def test_priority_orders_the_jobs_of_a_queue_and_grows_with_time() -> None:
    world = World(make_config(params=Params(max_user_priority=100)))
    world.run(spec(slots=16))
    low, plain, high = world.submit(spec(priority=1), spec(), spec(priority=99))
    assert world.job(plain).spec.priority == 50
    assert sorted((world.job(job_id).rank(), job_id) for job_id in (low, plain, high))[0][1] == high
    with pytest.raises(BadRequest, match="Bad user priority: 101"):
        world.submit(spec(priority=101))
    world = World(make_config(params=Params(max_user_priority=100, priority_over_time=(2, 10))))
    world.run(spec(slots=16))
    (old,) = world.submit(spec(priority=50))
    world.now += 600 * 5
    young, better = world.submit(spec(priority=59), spec(priority=61))  # five times two have been gained meanwhile
    order = sorted((old, young, better), key=lambda job_id: world.job(job_id).rank())
    assert order == [better, old, young]


def test_an_exclusive_job_is_alone_on_its_host() -> None:
    world = World(make_config("ab", (Queue(name="normal", exclusive=True),)))
    (other,) = world.run(spec(hosts=("a",)))
    (alone,) = world.run(spec(exclusive=True))
    assert world.job(alone).allocation.first_host == "b"  # type: ignore[union-attr]
    waiting, second = world.submit(spec(hosts=("b",)), spec(exclusive=True))
    world.settle()
    assert (world.state(waiting), world.state(second)) == ("PEND", "PEND")
    assert world.reasons(waiting)[0].startswith("Running an exclusive job")
    world.ended(alone, host="b")
    world.ended(other)
    world.settle()
    assert world.state(waiting) == world.state(second) == "RUN"


# -- removals under way -----------------------------------------------------------------------------------------------


def test_a_host_in_use_may_go() -> None:
    world = World(make_config("ab"))
    running, stays = world.run(gpu_spec(4, hosts=("b",)), gpu_spec(4, hosts=("a",)))
    (waiting,) = world.submit(gpu_spec(4, hosts=("b",)))
    world.reconfigure(make_config("a"))
    world.settle()
    assert (world.state(running), world.state(stays), world.state(waiting)) == ("RUN", "RUN", "PEND")
    assert world.reasons(waiting)
    world.ended(running, host="b")
    assert world.state(running) == "DONE"
    world.settle()
    assert world.state(waiting) == "PEND"
    world.reconfigure(make_config("ab"))
    world.connect("b")
    world.settle()
    assert world.state(waiting) == "RUN"
    world.check_replay()


def test_a_resource_and_a_user_group_in_use_may_go() -> None:
    hosts = [HostConfig(name="a", max_slots=4, values={"licence": 2.0})]
    world = World(make_config(hosts, user_groups=GROUPS))
    running, waiting = world.submit(*[spec(res_req="rusage[licence=2]", user_group="lab")] * 2)
    world.settle()
    bare = make_config([HostConfig(name="a", max_slots=4)])
    world.reconfigure(bare)
    world.settle()
    assert (world.state(running), world.state(waiting)) == ("RUN", "PEND")
    assert "licence" in world.reasons(waiting)[0]
    assert world.modify(waiting, res_req="") == [""]
    world.settle()
    assert world.state(waiting) == "RUN"
    world.check_replay()


def test_a_resource_may_be_reserved_for_each_task_by_configuration() -> None:
    hosts = [HostConfig(name="a", max_slots=16, values={"licence": 4.0})]
    world = World(make_config(hosts, reservation_method={"licence": "task", "mem": "job"}))
    ids = world.run(spec(slots=2, res_req="rusage[licence=1,mem=10]"), spec(slots=2, res_req="rusage[licence=1/host]"))
    held = [world.job(job_id).allocation.hosts[0].amounts for job_id in ids]  # type: ignore[union-attr]
    assert held == [{"licence": 2.0, "mem": 10.0}, {"licence": 1.0}]
    text = "select[type == local] order[r15s:pg] rusage[mem=10.00/job,licence=1.00/task]"
    assert world.job(ids[0]).spec.combined_req == text


def test_the_cluster_may_reserve_all_amounts_for_each_task() -> None:
    hosts = [HostConfig(name="a", max_slots=16, values={"licence": 4.0})]
    params = Params(reserves_per_task=True)
    world = World(make_config(hosts, params=params, reservation_method={"licence": "job"}))
    (job_id,) = world.run(spec(slots=3, res_req="rusage[mem=10,licence=1,swp=5/host]"))
    held = world.job(job_id).allocation.hosts[0].amounts  # type: ignore[union-attr]
    assert held == {"mem": 30.0, "licence": 1.0, "swp": 5.0}


def test_jobs_of_a_queue_without_hosts_wait() -> None:
    world = World(make_config(queues=(Queue(name="normal", hosts=()),)))
    (job_id,) = world.submit(spec())
    world.settle()
    assert world.state(job_id) == "PEND" and world.reasons(job_id)
