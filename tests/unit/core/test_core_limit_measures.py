"""Which limits an administrator could raise for a waiting job: each by as little as suffices."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from core_measures import applied, less
from core_world import EXCLUSIVE, World, gpu_spec, gpus, make_config, spec
from msgspec.structs import replace as replaced
from test_core_start_changes import asked, random_spec

from gsched.base.errors import GschedError
from gsched.base.ids import element_id
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.limit import Amount, Consumers, Limit
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share, UserGroup, UserLimits
from gsched.model.queues.window import Window
from gsched.model.views.explanation import AdminMeasure

ALWAYS, NEVER = (), (Window(0, 1),)


def limited(**changes: Any) -> ClusterConfig:
    return make_config(limits=(Limit(name="few", **changes),))


def of_queue(**changes: Any) -> ClusterConfig:
    return make_config(queues=(Queue(name="normal", priority=30, **changes),))


CASES: dict[str, tuple[ClusterConfig, tuple[str, str, str, str, str]]] = {
    "slots": (limited(amounts={"slots": (Amount(4),)}), ("lsb.resources", "few", "SLOTS", "4", "7")),
    "jobs": (limited(amounts={"jobs": (Amount(1),)}), ("lsb.resources", "few", "JOBS", "1", "2")),
    "gpus": (limited(amounts={"ngpus": (Amount(3),)}), ("lsb.resources", "few", "NGPUS", "3", "4")),
    "memory": (limited(amounts={"mem": (Amount(1500),)}), ("lsb.resources", "few", "MEM", "1500", "2000")),
    "per host": (
        limited(amounts={"slots": (Amount(4),)}, hosts=Consumers(per=True)),
        ("lsb.resources", "few", "SLOTS", "4", "7"),
    ),
    "per user": (
        limited(amounts={"slots": (Amount(4),)}, users=Consumers(per=True)),
        ("lsb.resources", "few", "SLOTS", "4", "7"),
    ),
    "queue": (of_queue(job_limit=4), ("lsb.queues", "queue normal", "QJOB_LIMIT", "4", "7")),
    "user of a queue": (of_queue(user_limit=5), ("lsb.queues", "queue normal", "UJOB_LIMIT", "5", "7")),
    "queue on a host": (of_queue(host_limit=6), ("lsb.queues", "queue normal", "HJOB_LIMIT", "6", "7")),
    "user": (
        make_config(users={"ann": UserLimits(name="ann", max_jobs=4)}),
        ("lsb.users", "user ann", "MAX_JOBS", "4", "7"),
    ),
    "every user": (
        make_config(users={"default": UserLimits(name="default", max_jobs=4)}),
        ("lsb.users", "user ann", "MAX_JOBS", "4", "7"),
    ),
    "user group": (
        make_config(
            users={"crew": UserLimits(name="crew", max_jobs=4)},
            user_groups={"crew": UserGroup(name="crew", members=("ann",), users=("ann",))},
        ),
        ("lsb.users", "user group crew", "MAX_JOBS", "4", "7"),
    ),
    "user and processor": (
        make_config(users={"ann": UserLimits(name="ann", max_jobs_per_processor=0.25)}),
        ("lsb.users", "user ann", "JL/P", "0.25", "1"),
    ),
    "queue and processor": (of_queue(processor_limit=0.25), ("lsb.queues", "queue normal", "PJOB_LIMIT", "0.25", "1")),
    "user on a host": (
        make_config(hosts=(HostConfig(name="a", max_slots=16, user_slots=4),)),
        ("lsb.hosts", "host a", "JL/U", "4", "7"),
    ),
}


def limit_of(found: AdminMeasure) -> tuple[str, str, str, str, str]:
    (change,) = found.changes
    assert change.what == "limit"
    return change.file, change.name, change.setting, change.old, change.new


@pytest.mark.parametrize("name", CASES)
def test_a_limit_is_raised_by_as_little_as_suffices(name: str) -> None:
    config, wanted = CASES[name]
    world = World(config)
    world.run(gpu_spec(2, slots=3, res_req="rusage[ngpus_excl_p=2,mem=1000]"))
    (waiting,) = world.submit(spec(slots=4, res_req="rusage[ngpus_excl_p=2,mem=1000]"))
    world.settle()
    assert world.state(waiting) == "PEND"
    (found,) = asked(world, waiting).measures
    assert (limit_of(found), found.commands) == (wanted, ("gadmin reconfig",))
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_the_limit_of_a_job_group_by_its_command() -> None:
    world = World()
    world.groups("add", "/my jobs", job_limit=1)
    world.run(spec(group="/my jobs"))
    (waiting,) = world.submit(spec(group="/my jobs"))
    world.settle()
    (found,) = asked(world, waiting).measures
    assert found.commands == ("gbgmod -L 2 '/my jobs'",)
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_the_limit_of_an_array_by_its_command() -> None:
    world = World()
    (array,) = world.submit(spec(name="sweep", indices="1-9", array_limit=2))
    world.settle()
    waiting = element_id(array, 3)
    assert world.state(element_id(array, 2)) == "RUN"
    (found,) = asked(world, waiting).measures
    assert found.commands == (f"gmod -J %3 {array}",)
    (change,) = found.changes
    assert (change.what, change.name, change.setting, change.old, change.new) == (
        *("limit", f"job array {array}", "-J %"),
        *("2", "3"),
    )
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_what_is_in_force_at_the_time_is_raised() -> None:
    amounts = (Amount(1, NEVER), Amount(2, ALWAYS))
    world = World(limited(amounts={"slots": amounts}))
    world.run(spec(slots=2))
    (waiting,) = world.submit(spec())
    world.settle()
    assert limit_of(asked(world, waiting).measures[0])[3:] == ("2", "3")


def test_a_budget_of_gpu_hours_is_raised_to_the_next_hour_that_is_not_used() -> None:
    world = World(limited(gpu_hours=3.0, budget_window_s=7 * 86_400.0))
    (running,) = world.run(gpu_spec(2))
    world.wait(3 * 3600.0)
    (waiting,) = world.submit(gpu_spec(1))
    world.settle()
    assert world.state(running) == "RUN" and world.state(waiting) == "PEND"
    (found,) = asked(world, waiting).measures
    assert limit_of(found) == ("lsb.resources", "few", "GPU_HOURS", "3", "7")
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_two_limits_at_once() -> None:
    config = of_queue(job_limit=1)
    world = World(
        make_config(queues=config.queues.values(), limits=(Limit(name="few", amounts={"jobs": (Amount(1),)}),))
    )
    world.run(spec())
    (waiting,) = world.submit(spec())
    world.settle()
    (found,) = asked(world, waiting).measures
    assert sorted(each.setting for each in found.changes) == ["JOBS", "QJOB_LIMIT"]
    applied(world, found)
    assert world.state(waiting) == "RUN"


def test_a_limit_that_is_not_the_reason_is_not_named() -> None:
    world = World(of_queue(job_limit=10))
    world.run(gpu_spec(4))
    (waiting,) = world.submit(gpu_spec(1))
    world.settle()
    assert asked(world, waiting).measures == ()


# -- random clusters --------------------------------------------------------------------------------------------------


def limited_world(seed: int, shares: tuple[Share, ...] | None = None) -> tuple[World, list[int]]:
    """A cluster with limits at random, the same for the same seed; and the jobs that wait. `shares`: of two queues with
    fairshare.
    """
    rng = random.Random(seed)
    hosts = ("a", "b")[: rng.randint(1, 2)]
    few = rng.choice(["slots", "jobs", "ngpus", "mem"])
    amount = {"slots": 6.0, "jobs": 2.0, "ngpus": 3.0, "mem": 50_000.0}[few]
    queues = (
        Queue(
            name="normal",
            priority=30,
            exclusive=True,
            job_limit=rng.choice([None, 4]),
            host_limit=rng.choice([None, 3]),
            fairshare=shares,
        ),
        Queue(name="short", priority=40, exclusive=True, user_limit=rng.choice([None, 3]), fairshare=shares),
        Queue(name="night", priority=20, hosts=hosts[:1]),
    )
    per_cpu = rng.choice([None, 0.25])  # of 16 processors
    users = {"default": UserLimits(name="default", max_jobs=rng.choice([None, 8]), max_jobs_per_processor=per_cpu)}
    of = rng.choice([{}, {"users": Consumers(per=True)}, {"queues": Consumers(names=("normal",))}])
    limits = (Limit(name="few", amounts={few: (Amount(amount),)}, **of),)
    world = World(make_config(hosts=hosts, queues=queues, users=users, limits=limits))
    for host in hosts:
        world.report(host, gpus=gpus(rng.randint(1, 4), EXCLUSIVE, host, memory_mib=80_000, used_mib=0))
    for _ in range(rng.randint(5, 12)):
        with suppress(GschedError):  # what no host could ever give is refused
            wanted = random_spec(rng, hosts)
            if rng.random() < 0.2:
                wanted = replaced(wanted, name="sweep", indices="1-6", array_limit=rng.randint(1, 3))
            world.submit(wanted, user=rng.choice(["ann", "bob"]))
        if rng.random() < 0.5:
            world.settle()
    world.settle()
    jobs = [job.job_id for job in world.engine.state.jobs.values() if job.state == "PEND" and not job.allocation]
    arrays = world.engine.state.arrays.values()
    return world, jobs + [element_id(each.array_id, index) for each in arrays for index in [*each.waiting()][:1]]


def starts(seed: int, job_id: int, measure: AdminMeasure) -> bool:
    other, _ = limited_world(seed)
    applied(other, measure)
    job = other.engine.state.jobs.get(job_id)  # none for an element that still waits in its array
    return job is not None and job.allocation is not None


def check_limits(seed: int) -> int:
    world, waiting = limited_world(seed)
    count = 0
    for job_id in waiting:
        for each in asked(world, job_id).measures:
            assert starts(seed, job_id, each), (seed, job_id, each)
            for lesser in less(each):
                assert not starts(seed, job_id, lesser), (seed, job_id, each, lesser)
            count += 1
    return count


@pytest.mark.slow
def test_each_raised_limit_starts_the_job_and_one_less_does_not() -> None:
    assert sum(map(check_limits, range(22))) > 5


@pytest.mark.nightly
def test_the_same_of_thousands() -> None:
    assert sum(map(check_limits, range(22, 3_000))) > 400
