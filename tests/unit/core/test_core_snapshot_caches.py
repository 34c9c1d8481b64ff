"""Snapshots of a builder that has lived through anything at all are those of one that begins anew.

What a cycle sees is kept from one cycle to the next, and only what has changed is looked at again: a change that is
not noticed there gives something twice, or to nobody.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from core_world import COUNTERS, OTHERS, World, make_config, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.errors import GschedError
from gsched.core.command import ModifyJobs
from gsched.core.dispatch.snapshot_builder import SnapshotBuilder
from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig, Params
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.resource import Resource
from gsched.model.hosts.shared_resource import SharedInstance
from gsched.model.jobs.job import FINISHED, JobSpec, JobState, Usage
from gsched.model.queues.guarantee import GuaranteePool, LoanPolicy, Portion, ServiceClass
from gsched.model.queues.limit import Consumers
from gsched.model.queues.queue import Preemption, Queue
from tests.support.property_examples import examples

HOSTS = tuple(HostConfig(name=name, max_slots=number) for name, number in (("a", 6), ("b", 8), ("c", 6)))
QUEUES = (
    Queue(name="normal", priority=30, resizable="y"),
    Queue(name="low", priority=1, resizable="auto"),
    Queue(name="high", priority=90, preemption=Preemption(preemptive=(("low", 1),)), resizable="y"),
)
NAMES = tuple(queue.name for queue in QUEUES)
TURN = 30
"""Steps of a turn of a command that takes several."""


def some_config(choice: random.Random, number: int) -> ClusterConfig:
    """Guarantees and licences of any size; the rest stays as it is."""
    loans = choice.choice((None, LoanPolicy(queues=("low",)), LoanPolicy(all_queues=True, close_on_demand=True)))
    gold = {"gold": Portion(float(choice.randint(1, 5)))}
    pools = (
        GuaranteePool(name="p", kind="slots", unit={"slots": 1.0}, shares=gold, loans=loans),
        GuaranteePool(
            name="g", kind="resource[ngpus]", unit={"ngpus": 1.0}, shares=gold, loans=loans, hosts=Consumers(("a",))
        ),
    )
    licences = SharedInstance(
        resource="lic", number=0, hosts=("a", "b", "c"), consumable=True, value=float(choice.randint(3, 6))
    )
    return make_config(
        HOSTS,
        QUEUES,
        digest=f"d{number}",
        service_classes={"gold": ServiceClass(name="gold")},
        pools=tuple(pool for pool in pools if choice.random() < 0.6),
        shared={"lic": (licences,)},
        resources=COUNTERS | OTHERS | {"lic": Resource(name="lic", consumable=True)},
        params=Params(preempt_requeue=choice.random() < 0.3),
    )


class Life:
    """A cluster to which anything happens."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.world = World(some_config(choice, 0))
        self.turns: Callable[[], bool] = lambda: False
        """Goes on with a command of several turns; whether there is more of it."""
        self.configurations = 0

    def step(self) -> None:
        """Something happens; nobody minds what is refused."""
        acts = (self.submit, self.submit, self.end, self.end, self.resize, self.modify, self.modify_in_turns, self.wait)
        try:
            self.choice.choice((*acts, self.control, self.reconfigure, lambda: self.turns()))()
        except GschedError:
            pass

    def any_job(self, *, started: bool = False) -> JobRecord | None:
        found = [job for job in self.world.engine.state.jobs.values() if job.state not in FINISHED]
        if started:
            found = [job for job in found if job.state is JobState.RUN and job.started_at is not None]
        return self.choice.choice(found) if found else None

    def any_spec(self) -> JobSpec:
        choice, slots = self.choice, self.choice.randint(1, 4)
        amounts = ("mem=100/task", "mem=100:duration=5:decay=1", "lic=1", "lic=2", "lic=1/task", "lic=1:duration=5")
        values: dict[str, Any] = {
            "res_req": choice.choice(("", *(f"rusage[{each}]" for each in amounts))),
            "queue": choice.choice(NAMES),
            "service_class": choice.choice(("", "", "gold")),
            "rerunnable": choice.choice((True, False)),
            "max_slots": choice.choice((0, slots + choice.randint(0, 6))),
            "gpu_req": choice.choice(("", "", "", "num=1:mode=exclusive_process")),
            "run_limit_s": choice.choice((None, 60, 600)),
        }
        return spec(slots=slots, **values)

    def submit(self) -> None:
        self.world.submit(*(self.any_spec() for _ in range(3)), user=self.choice.choice(("ann", "bob")))

    def end(self) -> None:
        job = self.any_job(started=True)
        if job is not None and job.allocation is not None:
            leaves = self.choice.random() < 0.3
            self.world.ended(
                job.job_id, job.attempt, job.allocation.first_host, leaves_parts=leaves, usage=Usage(cpu_s=5.0)
            )

    def resize(self) -> None:
        job = self.any_job(started=True)
        if job is None or job.allocation is None:
            return
        if self.choice.random() < 0.5:
            self.world.order("request", job.job_id, slots=self.choice.randint(0, 5), user="root")
            return
        host = self.choice.choice(job.allocation.hosts).host
        words = (self.choice.choice(("all", host, f"1*{host}")),)
        self.world.order("release", job.job_id, hosts=words, cancels=True, user="root")

    def changes(self) -> dict[str, Any]:
        amounts = {"res_req": self.choice.choice(("rusage[mem=50]", "rusage[lic=1]", "rusage[lic=2]"))}
        others = ({"run_limit_s": 100}, {"queue": self.choice.choice(NAMES)}, {"service_class": "gold"})
        return self.choice.choice((amounts, amounts, *others, {"service_class": ""}))

    def modify(self) -> None:
        job = self.any_job()
        if job is not None:
            self.world.modify(job.job_id, user="root", **self.changes())

    def modify_in_turns(self) -> None:
        """Other things happen between its turns."""
        job, fields = self.any_job(), self.changes()
        if job is None:
            return
        command = ModifyJobs("root", True, (job.job_id,), spec(**fields), tuple(fields))
        world = self.world
        decision = world.take(world.engine.handle(command, world.now, TURN))

        def go_on() -> bool:
            nonlocal decision
            if decision.rest is not None:
                decision = world.take(world.engine.go_on(decision.rest, world.now, TURN))
            return decision.rest is not None

        self.turns = go_on

    def control(self) -> None:
        job = self.any_job()
        if job is not None:
            self.world.order(self.choice.choice(("requeue", "kill", "stop", "resume")), job.job_id, user="root")

    def wait(self) -> None:
        self.world.wait(self.choice.choice((1, 30, 200)))

    def reconfigure(self) -> None:
        self.configurations += 1
        self.world.reconfigure(some_config(self.choice, self.configurations))

    def run(self) -> None:
        """Cycles, and what agents make of them."""
        for _ in range(100):
            if not self.world.engine.cycles.needs_cycle:
                break
            self.world.cycle(budget=self.choice.choice((100_000, 100_000, 5)))
            assert self.world.engine.cycles.failure is None, self.world.engine.cycles.failure
        else:
            raise AssertionError("the engine wants cycles for ever")
        for job in list(self.world.engine.state.jobs.values()):
            if job.state is JobState.RUN and job.started_at is None and self.choice.random() < 0.8:
                self.world.started(job.job_id)
            elif (job.requeue_by or job.kill_by) and job.allocation is not None and job.state not in FINISHED:
                self.world.ended(job.job_id, job.attempt, job.allocation.first_host, exit_code=None, signal=9)


def told(value: Any) -> Any:
    """A value to compare: without entries that say nothing."""
    if isinstance(value, dict):
        return {str(key): told(each) for key, each in value.items() if each}
    if isinstance(value, msgspec.Struct):
        return {name: told(getattr(value, name)) for name in value.__struct_fields__}
    return value


def check(world: World) -> None:
    """Nothing is given twice, and what is kept is what is found anew."""
    for name, ledger in world.engine.state.ledger.hosts.items():
        assert ledger.max_slots is None or ledger.slots_used <= ledger.max_slots, name
    state = world.engine.state
    kept = world.engine.snapshot(world.now)
    fresh = SnapshotBuilder(state, world.engine.observations).snapshot(world.engine.config, world.now)
    assert told(kept.held) == told(fresh.held)
    for name in ("limits", "hosts", "queue_slots", "queue_user_slots", "job_group_jobs", "growing", "elastic"):
        assert getattr(kept, name) == getattr(fresh, name), name
    for name in ("free", "empty", "unlocked"):
        assert np.array_equal(getattr(kept.columns, name), getattr(fresh.columns, name)), name
    for name in ("mem", "ncpus", "ngpus_excl_p"):
        assert np.array_equal(kept.columns.number(name), fresh.columns.number(name), equal_nan=True), name


@pytest.mark.slow
@settings(max_examples=examples(6), deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_is_kept_for_cycles_is_what_is_found_anew(choice: random.Random) -> None:
    life = Life(choice)
    for _ in range(40):
        life.step()
        check(life.world)
        if choice.random() < 0.7:
            life.run()
            check(life.world)
    life.world.check_replay()
