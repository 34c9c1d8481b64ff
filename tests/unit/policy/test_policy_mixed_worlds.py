"""Nothing that starts delays a planned job, in worlds that mix what the other traces try one by one: limits and their
windows, windows of queues, compounds, hosts wanted alone, preemption, advance reservations, jobs of unknown end.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs
from placing_cluster import kind
from test_policy_limits_ahead import EACH
from test_policy_limits_ahead import world as limited_world
from timed_cluster import DUST_S, TimedCluster

from gsched.model.queues.limit import Amount, Limit
from gsched.model.queues.queue import Preemption
from gsched.model.queues.window import Window
from gsched.model.scheduling.snapshot import AdvanceReservation, Bucket

WORLDS, NIGHTS = 12, 4000
FOUND = (439, 484, 3887)
"""Worlds in which plans were lost when an advance reservation began; and one in which a job waited, because of a limit,
for the end of another that started a moment after its planned time: its plan was put off beyond that end.
"""
TOP = 9
Arrivals = list[tuple[float, Bucket, float]]


class Mixed(TimedCluster):
    """Where jobs preempt only the plans of the highest queue are sure to be kept."""

    is_preemptive = False

    def _audit(self, now: float) -> None:
        every = self.planned
        if self.is_preemptive:
            queue_of = {job_id: bucket.queue for bucket, ids in self.pending.items() for job_id in ids}
            self.planned = {
                job_id: each for job_id, each in every.items() if self.queues[queue_of[job_id]].priority == TOP
            }
        super()._audit(now)
        self.planned = every


class Dice:
    """What chance makes of a world."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.plain, _ = limited_world(seed)
        self.names = list(self.plain.hosts)
        host_ledger = self.plain.ledger.host(self.names[0])
        self.slots, self.gpus = host_ledger.max_slots or 1, len(host_ledger.gpus)

    def is_so(self, share: float) -> bool:
        return self.chance.random() < share

    def cluster(self) -> Mixed:
        options = dict(self.plain.options)
        if self.is_so(0.2):
            amount = Amount(float(self.chance.choice((3, 4, 6))), (Window(start=0, end=1),))
            options["limits"] = (*options["limits"], Limit(name="W", queues=EACH, amounts={"slots": (amount,)}))
        queues = list(self.plain.queues.values())
        is_preemptive = self.is_so(0.3)
        if is_preemptive:
            high = structs.replace(queues[0], priority=TOP, preemption=Preemption(preemptive=()))
            queues = [high, structs.replace(queues[1], priority=1)]
            options["min_run_before_preempt_s"] = 5.0
        if self.is_so(0.35):
            options["reservations"] = tuple(self.reservation(number) for number in range(self.chance.randint(1, 2)))
        if self.is_so(0.25):
            closes, opens = self.chance.randint(1, 2), self.chance.randint(3, 5)
            which = self.chance.randint(0, 1)
            queues[which] = structs.replace(queues[which], dispatch_window=(Window(0, closes), Window(opens, 1000)))
        mixed = Mixed(*self.plain.hosts.values(), slots=self.slots, queues=queues, **options)
        mixed.is_preemptive = is_preemptive
        for name in self.names:
            mixed.devices(name, self.gpus)
        return mixed

    def reservation(self, number: int) -> AdvanceReservation:
        start = float(self.chance.randint(5, 120))
        hosts = self.chance.sample(self.names, self.chance.randint(1, len(self.names)))
        return AdvanceReservation(
            f"carl#{number}",
            ("carl",),
            start,
            start + self.chance.randint(10, 60),
            {name: self.chance.randint(1, self.slots) for name in hosts},
            {name: self.chance.randint(0, self.gpus) for name in hosts} if self.gpus else {},
        )

    def arrivals(self, unknown: float) -> Arrivals:
        at, found = 0.0, []
        for _ in range(self.chance.randint(5, 25)):
            at += self.chance.choice((0, 0, 1, 5, 20))
            limit = float(self.chance.randint(1, 60))
            lasts = limit if self.is_so(0.5) else float(self.chance.randint(1, int(limit)))
            found.append((at, self.job(None if self.is_so(unknown) else limit), lasts))
        return found

    def inside(self, windows: Iterable[AdvanceReservation]) -> Arrivals:
        """Jobs of advance reservations, that end before they do unless a limit keeps them back for most of that."""
        found = []
        for window in windows:
            if self.is_so(0.5):
                slots = self.chance.randint(1, min(window.slots.values()))
                what = kind("span[hosts=1]", user="carl", slots=slots, run_s=5.0, reservation=window.name)
                found.append((window.start, what, 5.0))
        return found

    def job(self, run_s: float | None) -> Bucket:
        more: dict[str, Any] = {"exclusive": self.is_so(0.12), "job_group": "/p" if self.is_so(0.3) else ""}
        if self.is_so(0.25):
            text, slots = self.compound()
        else:
            slots = self.chance.randint(1, self.slots)
            text = f"{self.devices()}{' span[hosts=1]' if self.is_so(0.7) else ''}".strip()
            more["max_slots"] = slots + 2 if self.is_so(0.1) else 0
        queue, user = self.chance.choice("qr"), self.chance.choice(("ann", "bob"))
        return kind(text, queue=queue, user=user, slots=slots, run_s=run_s, **more)

    def compound(self) -> tuple[str, int]:
        parts, slots = [], 0
        for _ in range(self.chance.choice((2, 2, 3))):
            tasks = self.chance.randint(1, 2)
            slots += tasks
            wanted = f"hname=={self.chance.choice(self.names)}" if self.is_so(0.3) else "mem>0"
            parts.append(f"{tasks}*{{select[{wanted}] {self.devices()}{' span[ptile=1]' if self.is_so(0.2) else ''}}}")
        return " + ".join(parts), slots

    def devices(self) -> str:
        return f"rusage[ngpus_excl_p={self.chance.randint(1, self.gpus)}]" if self.gpus and self.is_so(0.6) else ""


def world(seed: int) -> tuple[Mixed, Arrivals]:
    dice = Dice(seed)
    cluster = dice.cluster()
    jobs = dice.arrivals(dice.chance.choice((0.0, 0.0, 0.2, 0.5)))
    return cluster, jobs + dice.inside(cluster.options.get("reservations", ()))


def meet(seed: int) -> int:
    """Jobs planned for in the world; asserts that nothing delayed one."""
    cluster, jobs = world(seed)
    try:
        cluster.play(jobs)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    for job_id, first in cluster.first_promise.items():
        assert job_id in cluster.started and cluster.started[job_id] <= first + DUST_S, f"seed {seed}: job {job_id}"
    return len(cluster.first_promise)


def test_nothing_delays_a_planned_job_in_mixed_worlds() -> None:
    assert sum(meet(seed) for seed in (*FOUND, *range(WORLDS))) > WORLDS  # else nothing was tried


@pytest.mark.nightly
def test_nothing_delays_a_planned_job_in_thousands_of_mixed_worlds() -> None:
    assert sum(meet(seed) for seed in range(WORLDS, WORLDS + NIGHTS)) > NIGHTS // 2  # else hardly anything was tried
