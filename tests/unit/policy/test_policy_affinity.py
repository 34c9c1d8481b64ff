"""Which processor units jobs with affinity[] get, on invented topologies, and through whole cycles."""

from __future__ import annotations

from typing import Any

import pytest
from affinity_hosts import held_cpus, host_ledger, task_cpus, topology
from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import NOW, Cluster, host, kind, places, spreads, told

from gsched.base.coded_text import sentence
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.hosts.topology import offered
from gsched.model.ledgers.allocation import Allocation, CpuBinding, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.ledgers.ledger import Ledger, double_owners
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.scheduling.snapshot import Running
from gsched.policy.backfill.trial_fit import TrialFit
from gsched.policy.devices import cpu_affinity
from gsched.policy.match.host_fit import fill
from gsched.policy.match.host_now import FitRules
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.requirement.demand import DeviceKind, Devices, HostNeed
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.requirement.reasons import Reason
from tests.support.property_examples import examples

SHORT = sentence(cpu_affinity.NOT_ENOUGH)


def chosen(ledger: HostLedger, text: str, tasks: int = 1) -> list[list[int]]:
    """CPUs of each task, which are then held."""
    found = cpu_affinity.choose(ledger, cpu_affinity.affinity_of(f"affinity[{text}]"), tasks)
    assert isinstance(found, CpuBinding), found
    take(ledger, found)
    return [list(task.cpus) for task in found.tasks]


def take(ledger: HostLedger, binding: CpuBinding) -> None:
    part = HostAllocation(host=ledger.host, slots=len(binding.tasks), bindings=(binding,))
    assert refusal_of(part, ledger) is None
    ledger.take((100 + len(ledger.held), 1), part)


def shortage(ledger: HostLedger, text: str, tasks: int = 1) -> str:
    found = cpu_affinity.choose(ledger, cpu_affinity.affinity_of(f"affinity[{text}]"), tasks)
    assert isinstance(found, Reason) and sentence(found.text) == SHORT
    return sentence(found.detail)


# 2 sockets, 4 NUMA nodes, 16 cores: core N has the threads N and 16 + N, cores 0-3 are in node 0, 0-7 in socket 0.
@pytest.mark.parametrize(
    ("text", "tasks", "cpus"),
    [
        ("thread", 3, [[0], [16], [1]]),
        ("core", 2, [[0, 16], [1, 17]]),
        ("core(3)", 2, [[0, 1, 2, 16, 17, 18], [4, 5, 6, 20, 21, 22]]),
        ("core(5)", 1, [[0, 1, 2, 3, 4, 16, 17, 18, 19, 20]]),
        ("numa", 1, [[0, 1, 2, 3, 16, 17, 18, 19]]),
        ("socket", 1, [[*range(8), *range(16, 24)]]),
        ("core(2,same=socket)*3", 1, [[*range(6), *range(16, 22)]]),
        ("thread(1,exclusive=(core,intask))*3", 1, [[0, 1, 2]]),
        ("thread(1,exclusive=(core,injob))", 3, [[0], [1], [2]]),
        ("core(1,exclusive=(numa,injob))", 4, [[0, 16], [4, 20], [8, 24], [12, 28]]),
        ("core(2,same=socket,exclusive=(socket,injob))", 2, [[0, 1, 16, 17], [8, 9, 24, 25]]),
        ("core:distribute=balance", 4, [[0, 16], [4, 20], [8, 24], [12, 28]]),
        ("thread:distribute=balance", 5, [[0], [4], [8], [12], [1]]),
        ("core(3):distribute=pack", 2, [[0, 1, 2, 16, 17, 18], [4, 5, 6, 20, 21, 22]]),
        ("core(2):distribute=pack(numa=1)", 2, [[0, 1, 16, 17], [2, 3, 18, 19]]),
    ],
)
def test_units_of_an_empty_host(text: str, tasks: int, cpus: list[list[int]]) -> None:
    assert chosen(host_ledger(), text, tasks) == cpus


def test_jobs_get_different_units_and_pack_takes_the_smallest_place_that_holds_all() -> None:
    ledger = host_ledger()
    assert chosen(ledger, "core(3)") == [[0, 1, 2, 16, 17, 18]]
    assert chosen(ledger, "thread") == [[3]]
    assert chosen(ledger, "core") == [[4, 20]]  # core 3 has lost a thread
    assert chosen(ledger, "core(3):distribute=pack") == [[5, 6, 7, 21, 22, 23]]
    assert chosen(ledger, "core(4):distribute=pack(numa=1)") == [[8, 9, 10, 11, 24, 25, 26, 27]]
    assert chosen(ledger, "core(2,same=socket)", 2) == [[12, 13, 28, 29], [14, 15, 30, 31]]
    assert shortage(ledger, "core") == "1 core wanted, 0 of 16 free on a"
    assert shortage(ledger, "thread(2)", 3) == "3*2 threads wanted, 1 of 32 free on a"
    assert chosen(ledger, "thread") == [[19]]


@pytest.mark.parametrize(
    ("text", "tasks", "said"),
    [
        ("core(17)", 1, "17 cores wanted, 16 of 16 free on a"),
        ("core(2)*3", 3, "3*6 cores wanted, 16 of 16 free on a"),
        ("core(5,same=numa)", 1, "5 cores with same=numa wanted, 16 of 16 free on a"),
        ("core(1,exclusive=(socket,injob))", 3, "3*1 cores with exclusive=(socket,injob) wanted, 16 of 16 free on a"),
        ("core:distribute=pack(numa=1)", 5, "5*1 cores with distribute=pack(numa=1) wanted, 16 of 16 free on a"),
        (
            "thread(1,exclusive=(core,intask))*17",
            1,
            "17 threads with exclusive=(core,intask) wanted, 32 of 32 free on a",
        ),
        ("socket(3)", 1, "3 sockets wanted, 2 of 2 free on a"),
        ("numa", 5, "5*1 NUMA nodes wanted, 4 of 4 free on a"),
    ],
)
def test_what_a_host_can_never_give_is_said_with_numbers(text: str, tasks: int, said: str) -> None:
    ledger = host_ledger()
    assert shortage(ledger, text, tasks) == said
    assert cpu_affinity.room(ledger, cpu_affinity.affinity_of(f"affinity[{text}]")) < tasks


def test_processors_are_near_the_devices_of_the_job_where_that_can_be() -> None:
    ledger = host_ledger()
    gpus = (
        Gpu(uuid=f"g{node}", index=node, mode=ComputeMode.EXCLUSIVE_PROCESS, numa=node or None) for node in (2, 1, 0)
    )
    ledger.observe_gpus(GpuReport(gpus=tuple(gpus)))
    given = [(0, [[0, 16], [1, 17]]), (1, [[4, 20], [5, 21]]), (2, [[8, 24], [9, 25]])]
    for number, (index, cpus) in enumerate(given):
        part = fill(need("core", 2), ledger)
        assert isinstance(part, HostAllocation)
        assert ([gpu.index for gpu in part.gpus], task_cpus(part)) == ([index], cpus)
        ledger.take((200 + number, 1), part)
    ledger.give((202, 1))
    balanced = fill(need("core(2):distribute=balance", 2), ledger)
    assert isinstance(balanced, HostAllocation)
    assert task_cpus(balanced) == [[8, 9, 24, 25], [10, 11, 26, 27]]
    far = fill(need("core(3)", 2), ledger)
    assert isinstance(far, HostAllocation), "it does not wait for what is near"
    assert task_cpus(far) == [[8, 9, 10, 24, 25, 26], [12, 13, 14, 28, 29, 30]]


def need(text: str, tasks: int) -> HostNeed:
    """A GPU and units for so many tasks."""
    devices = (Devices(DeviceKind("ngpus_excl_p"), 1),)
    return HostNeed(tasks, {}, devices, False, False, cpu_affinity.affinity_of(f"affinity[{text}]"))


def test_exclusive_keeps_other_jobs_out_and_is_kept_out_by_them() -> None:
    ledger = host_ledger()
    assert chosen(ledger, "thread(1,exclusive=(core,alljobs))") == [[0]]
    assert held_cpus(ledger) == [0, 16]
    assert chosen(ledger, "core(1,exclusive=(socket))") == [[8, 24]]  # nobody is in that socket
    assert held_cpus(ledger) == [0, *range(8, 17), *range(24, 32)]
    said = "1 core with exclusive=(socket,alljobs) wanted, 0 of 16 free on a"
    assert shortage(ledger, "core(1,exclusive=(socket,alljobs))") == said
    assert chosen(ledger, "core") == [[1, 17]]


def test_a_task_is_bound_to_the_level_that_cpubind_names() -> None:
    found = cpu_affinity.choose(
        host_ledger(), cpu_affinity.affinity_of("affinity[thread(2):cpubind=numa:membind=localonly]"), 1
    )
    assert isinstance(found, CpuBinding)
    (task,) = found.tasks
    assert (task.cpus, task.bound, task.nodes) == ((0, 16), (0, 1, 2, 3, 16, 17, 18, 19), (0,))
    assert task.units == ("/0/0/0/0", "/0/0/0/16")
    assert found.held == (0, 16)
    assert found.affinity == "affinity[thread(2):cpubind=numa:membind=localonly]"


def test_only_the_cpus_that_are_offered_are_given_and_a_part_of_a_core_counts_as_one() -> None:
    ledger = host_ledger()
    ledger.observe_processors(offered(topology(), (0, 1, 17)))
    assert chosen(ledger, "core", 2) == [[0], [1, 17]]
    assert shortage(ledger, "thread") == "1 thread wanted, 0 of 3 free on a"
    ledger.observe_processors((), "AFFINITY is not enabled in lsb.hosts")
    assert shortage(ledger, "thread") == "AFFINITY is not enabled in lsb.hosts on a"


# -- the ledgers --------------------------------------------------------------------------------------------------


def test_ledgers_refuse_units_that_are_held_unknown_or_named_twice() -> None:
    ledger = host_ledger(sockets=1, numas=1, cores=2, threads=1)
    binding = CpuBinding(affinity="affinity[core(1)]", held=(0,), tasks=())
    part = HostAllocation(host="a", slots=1, bindings=(binding,))
    twice = HostAllocation(host="a", slots=1, bindings=(binding, binding))
    elsewhere = HostAllocation(host="a", slots=1, bindings=(CpuBinding(affinity="", held=(7,), tasks=()),))
    assert (refusal_of(twice, ledger) or pytest.fail()).text == "a CPU of a is named twice"
    assert (refusal_of(elsewhere, ledger) or pytest.fail()).text == "CPU 7 is not offered by a"
    ledger.take((1, 1), part)
    assert (refusal_of(part, ledger) or pytest.fail()).text == "CPU 0 of a is held by another job"
    assert double_owners([ledger]) == []
    ledger.take((2, 1), part)  # a fact is entered, whatever it is; the audit tells
    assert double_owners([ledger]) == ["CPU 0 of a is held 2 times"]
    ledger.give((1, 1))
    ledger.give((2, 1))
    assert ledger.bound_cpus() == set()


TEXTS = st.builds(
    "affinity[{}({}{}){}{}{}]".format,
    st.sampled_from(["thread", "core", "socket", "numa"]),
    st.integers(1, 3),
    st.sampled_from(
        [
            "",
            ",same=socket",
            ",same=numa",
            *(
                f",exclusive=({level},{scope})"
                for level in ("core", "numa", "socket")
                for scope in ("intask", "injob", "alljobs")
            ),
        ]
    ),
    st.sampled_from(["", "*2"]),
    st.sampled_from(["", ":cpubind=core", ":cpubind=socket"]),
    st.sampled_from(["", ":distribute=pack", ":distribute=balance", ":distribute=pack(socket=1)"]),
)
SIZES = st.fixed_dictionaries(
    {"sockets": st.integers(1, 2), "numas": st.integers(1, 2), "cores": st.integers(1, 4), "threads": st.integers(1, 2)}
)


@settings(max_examples=examples(50), deadline=None)
@given(SIZES, st.lists(st.tuples(TEXTS, st.integers(1, 4), st.booleans()), max_size=12))
def test_no_unit_has_two_owners_and_each_task_gets_what_it_asks_for(sizes: dict[str, int], jobs: list[Any]) -> None:
    ledger = host_ledger(**sizes)
    for number, (text, tasks, ends) in enumerate(jobs):
        asked = cpu_affinity.affinity_of(text)
        room = cpu_affinity.room(ledger, asked)
        found = cpu_affinity.choose(ledger, asked, tasks)
        if isinstance(found, Reason):
            assert room < tasks
            continue
        assert room >= tasks
        part = HostAllocation(host="a", slots=tasks, bindings=(found,))
        assert refusal_of(part, ledger) is None
        assert cpu_affinity.rechoose(ledger, part.bindings) == part.bindings
        ledger.take((number, 1), part)
        at = {each.cpu: each for each in ledger.processors}
        for task in found.tasks:
            assert {at[cpu].at(asked.unit) for cpu in task.cpus} <= {each.at(asked.unit) for each in ledger.processors}
            assert len({at[cpu].at(asked.unit) for cpu in task.cpus}) == asked.number * asked.factor
            assert set(task.cpus) <= set(task.bound) and set(task.cpus) <= set(found.held)
            if asked.same and asked.factor == 1:
                assert len({at[cpu].at(asked.same) for cpu in task.cpus}) == 1
        level, scope = asked.exclusive
        touched = [{at[cpu].at(level) for cpu in task.cpus} for task in found.tasks] if level else []
        if scope == "injob":
            assert len(set().union(*touched)) == sum(map(len, touched))
        others = [each for key, each in ledger.held.items() if key != (number, 1)]
        if scope == "alljobs":
            assert set().union(*touched).isdisjoint(at[cpu].at(level) for each in others for cpu in each.cpus)
        assert double_owners([ledger]) == []
        if ends:
            ledger.give((number, 1))


# -- whole cycles -----------------------------------------------------------------------------------------------------


def cluster(*names: str, slots: int | None = 16, **sizes: int) -> Cluster:
    found = Cluster(*[host(name) for name in names], slots=slots)
    for name in names:
        found.ledger.host(name).observe_processors(offered(topology(**sizes), ()))
    return found


def test_a_cycle_gives_units_as_long_as_there_are_some_and_says_what_is_missing() -> None:
    world = cluster("a", sockets=1, numas=1, cores=2, threads=1)
    world.add(kind("affinity[core(1)]"), 3)
    plan = world.plan()
    assert [task_cpus(each.allocation) for each in plan.placements] == [[[0]], [[1]]]
    assert told(plan) == [(f"{SHORT}: 1 host (1 core wanted, 0 of 2 free on a)",)]
    world.carry_out(plan)
    assert told(world.plan()) == told(plan)
    world.add(kind())
    assert len(world.plan().placements) == 1  # jobs without affinity[] go on as ever


def test_tasks_go_where_units_are_free() -> None:
    world = cluster("a", "b", sockets=1, numas=1, cores=4, threads=1)
    world.add(kind("affinity[core(3)]"))
    world.carry_out(world.plan())
    world.add(kind("affinity[core(2)]", slots=2))
    world.add(kind("affinity[core(1)]", slots=2))
    plan = world.plan()
    assert spreads(plan) == {2: {"b": 2}}
    assert told(plan) == [
        (
            "Not enough job slot(s) (2 slots wanted, 1 on 1 host could be had)",
            f"{SHORT}: 1 host (1 core wanted, 0 of 4 free on b)",
        )
    ]
    world = cluster("a", "b", sockets=1, numas=1, cores=4, threads=1)
    world.add(kind("affinity[core(3)]", slots=2))
    assert spreads(world.plan()) == {1: {"a": 1, "b": 1}}
    world.add(kind("span[hosts=1] affinity[core(3)]", slots=2))
    world.add(kind("1*{affinity[core(1)]}+1*{span[hosts=1] affinity[core(2)]}", slots=2))
    found = {each.job_id: task_cpus(each.allocation) for each in world.plan().placements}
    assert found == {1: [[0, 1, 2], [0, 1, 2]]}


def test_parts_of_a_compound_get_units_of_their_own() -> None:
    world = cluster("a", sockets=1, numas=1, cores=4, threads=1)
    world.add(kind("1*{affinity[core(1)]}+2*{affinity[core(1):distribute=balance]}", slots=3))
    (placed,) = world.plan().placements
    assert task_cpus(placed.allocation) == [[0], [1], [2]]
    assert [each.affinity for each in placed.allocation.hosts[0].bindings] == [
        "affinity[core(1)]",
        "affinity[core(1):distribute=balance]",
    ]


def run(world: Cluster, text: str, run_s: float) -> int:
    """Starts a job of its own that is expected to run so long."""
    bucket = kind(text, run_s=run_s)
    (job_id,) = world.add(bucket)
    plan = world.plan()
    (placement,) = plan.placements
    world.carry_out(plan)
    world.running[job_id] = Running(job_id, 1, bucket, placement.allocation, "RUN", NOW, NOW + run_s)
    return job_id


def test_a_job_that_lacks_units_is_planned_and_nothing_that_starts_before_delays_it() -> None:
    world = cluster("a", sockets=1, numas=1, cores=4, threads=1)
    world.queues = {"q": Queue(name="q", backfill=True, reserved_jobs=3)}
    run(world, "affinity[core(2)]", 600.0)
    run(world, "affinity[core(1)]", 100.0)
    (big,) = world.add(kind("affinity[core(3)]", run_s=60.0))
    assert world.plan().planned[big].at == NOW + 600.0
    (late,) = world.add(kind("affinity[core(2)]", run_s=800.0))
    (fits,) = world.add(kind("affinity[core(1)]", run_s=800.0))
    plan = world.plan()
    assert plan.planned[big].at == NOW + 600.0
    assert {each.job_id: task_cpus(each.allocation) for each in plan.placements} == {fits: [[3]]}
    world.carry_out(plan)
    assert world.plan().planned[big].at == NOW + 600.0
    (never,) = world.add(kind("affinity[core(5)]", run_s=60.0))
    found = world.plan().planned[never]
    assert sentence(found.text) == f"never: {SHORT} (5 cores wanted, 4 of 4 free on a)", late


def test_the_scalar_trial_agrees() -> None:
    world = cluster("a", "b", sockets=1, numas=2, cores=2, threads=2)
    world.add(kind("affinity[core(1)]"))
    world.carry_out(world.plan())
    snapshot = world.snapshot()
    trial = TrialFit(snapshot, FitRules.of(snapshot, NOW))
    for text, slots in (("affinity[core(2,same=numa)]", 3), ("affinity[core(1)]", 7), ("affinity[core(1)]", 8)):
        bucket = kind(text, slots=slots)
        found = trial.place(bucket, demand_of(bucket.requirement, "LINUX"), ["a", "b"], snapshot.ledger.host)
        world.pending.clear()
        world.add(bucket)
        assert isinstance(found, Allocation) == bool(world.plan().placements), text


def test_bindings_of_a_plan_move_to_other_units_if_theirs_are_taken() -> None:
    ledger = Ledger().host("a")
    ledger.observe_processors(offered(topology(sockets=1, numas=1, cores=3, threads=1), ()))
    asked = cpu_affinity.affinity_of("affinity[core(1)]")
    first = cpu_affinity.choose(ledger, asked, 2)
    assert isinstance(first, CpuBinding)
    chosen(ledger, "core")
    moved = cpu_affinity.rechoose(ledger, (first,))
    assert moved is not None and moved[0].held == (1, 2)
    chosen(ledger, "core")
    assert cpu_affinity.rechoose(ledger, (first,)) is None


def test_places_ignores_hosts_without_affinity() -> None:
    world = cluster("b")
    world.hosts["a"] = host("a")
    world.ledger.host("a").max_slots = 16
    world.ledger.host("a").observe_processors((), "AFFINITY is not enabled in lsb.hosts")
    world.add(kind("affinity[numa(1)]"))
    assert places(world.plan()) == {1: "b"}


def test_a_job_that_lacks_units_has_others_requeued_but_not_suspended_who_would_keep_theirs() -> None:
    queues = (Queue(name="q", priority=1), Queue(name="high", priority=9, preemption=Preemption(preemptive=())))
    for requeue in (False, True):
        world = Cluster(host("a"), slots=8, queues=queues, preempt_requeue=requeue)
        world.ledger.host("a").observe_processors(offered(topology(sockets=1, numas=1, cores=2, threads=1), ()))
        world.add(kind("affinity[core(1)]"), 2)
        world.carry_out(world.plan())
        for job_id, running in world.running.items():
            world.running[job_id] = running._replace(rerunnable=True, started_at=0.0)
        (wants,) = world.add(kind("affinity[core(1)]", queue="high"))
        found = world.plan()
        assert [each.by for each in found.preempted] == ([wants] if requeue else []), requeue
