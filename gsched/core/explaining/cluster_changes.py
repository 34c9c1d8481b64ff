"""What an administrator could change in the cluster at no cost for a running job: hosts, GPUs, queues, reservations.

Each way is a list of steps from the least change to the most, as `job_changes` has them of the job. Whether one lets
the job start is not known here: that is tried (`admin_measures`). It never changes the state: steps change snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice

from gsched.core.decision import Decision
from gsched.core.dispatch.host_queue_views import closed_anyway
from gsched.core.explaining.change_search import Steps
from gsched.core.explaining.start_trial import AlterCluster
from gsched.core.records.entities import StoredReservation
from gsched.core.resources.closed_gpus import without_closed
from gsched.model.hosts.host import GpuReport
from gsched.model.queues.window import is_open, minute_of_week
from gsched.model.scheduling.snapshot import AdvanceReservation, Bucket, Snapshot
from gsched.model.views.explanation import AdminChange

MOST_OF_A_KIND = 16
"""Hosts, and also GPUs and reservations, that are tried."""


@dataclass(frozen=True, slots=True)
class ClusterStep:
    """One change. `loss`: how much is given up by it, 0 nothing to 1 all; it orders measures of the same cost."""

    told: AdminChange
    loss: float
    alter: AlterCluster
    command: str
    """How it is done; of what is in a file, how the file is read again."""


@dataclass(frozen=True, slots=True)
class ClusterWay:
    """One thing that an administrator could do, more or less of it."""

    what: str
    steps: Steps[ClusterStep]


def cluster_ways(decision: Decision, bucket: Bucket) -> list[ClusterWay]:
    """All that could help a job of the bucket; at most MOST_OF_A_KIND of each kind."""
    hosts = usable_hosts(decision, bucket)
    kinds = (_queue(decision, bucket.queue), _hosts(decision, hosts), _gpus(decision, hosts))
    found = list(chain.from_iterable(islice(kind, MOST_OF_A_KIND) for kind in kinds))
    made = [
        each for _, each in sorted(decision.state.reservations.items()) if _concerns(each, decision.now, bucket, hosts)
    ]
    return found + [way for each in made[:MOST_OF_A_KIND] for way in _reservation(each)]


def usable_hosts(decision: Decision, bucket: Bucket) -> set[str]:
    """Hosts that the job may use as far as names go."""
    queue, asked = decision.config.queues.get(bucket.queue), bucket.requirement.asked_hosts
    found = set(decision.config.hosts)
    if queue is not None and queue.hosts is not None:
        found &= set(queue.hosts)
    if asked and not bucket.requirement.other_hosts:
        found &= set(asked)
    return found - set(bucket.requirement.excluded_hosts)


# -- queues, hosts, GPUs ----------------------------------------------------------------------------------------------


def _queue(decision: Decision, name: str) -> Iterator[ClusterWay]:
    """The job's queue, where an administrator has inactivated it and its windows are open."""
    queue, state = decision.config.queues.get(name), decision.state.queue_states.get(name)
    minute = minute_of_week(decision.now)
    if queue is None or state is None or state.is_active:
        return
    if not (is_open(queue.run_window, minute) and is_open(queue.dispatch_window, minute)):
        return
    told = AdminChange(what="queue", name=name)
    yield _way(f"queue {name}", ClusterStep(told, 0.1, partial(_activated, name), f"gadmin qact {name}"))


def _activated(name: str, seen: Snapshot) -> Snapshot:
    return replace(seen, inactive_queues={key: why for key, why in seen.inactive_queues.items() if key != name})


def _hosts(decision: Decision, usable: set[str]) -> Iterator[ClusterWay]:
    """Hosts that nothing but an administrator has closed."""
    minute = minute_of_week(decision.now)
    for name in sorted(usable & decision.state.closed_hosts.keys()):
        host = decision.config.hosts[name]
        if closed_anyway(host, decision.observed(name)) or not is_open(host.dispatch_window, minute):
            continue
        told = AdminChange(what="host", name=name)
        yield _way(f"host {name}", ClusterStep(told, 0.2, partial(_opened, name), f"gadmin hopen {name}"))


def _opened(name: str, seen: Snapshot) -> Snapshot:
    host = seen.hosts.get(name)
    if host is None:
        return seen
    return replace(seen, hosts={**seen.hosts, name: replace(host, closed="")}, columns=None)


def _gpus(decision: Decision, usable: set[str]) -> Iterator[ClusterWay]:
    """GPUs that nothing but an administrator has closed."""
    for (host, uuid), closure in sorted(
        decision.state.closed_gpus.items(), key=lambda each: (each[0][0], each[1].index)
    ):
        seen = decision.observed(host)
        if host not in usable or seen.gpus is None or not seen.connected:
            continue
        gpu = next((each for each in seen.gpus.gpus if each.uuid == uuid), None)
        if gpu is None or gpu.problem:
            continue
        name = f"{host}:{gpu.index}"
        told = AdminChange(what="gpu", name=name)
        alter = partial(_with_gpu, decision, host, uuid)
        yield _way(f"gpu {host} {closure.uuid}", ClusterStep(told, 0.25, alter, f"gadmin gpuopen {name}"))


def _with_gpu(decision: Decision, host: str, uuid: str, seen: Snapshot) -> Snapshot:
    """With one GPU opened, beside those that were opened in the same snapshot before."""
    reported, offered = decision.observed(host).gpus, seen.ledger.host(host).gpus
    if reported is None:
        return seen
    still = {
        key: closure
        for key, closure in decision.state.closed_gpus.items()
        if key[1] != uuid and (key[1] not in offered or offered[key[1]].problem)
    }
    report: GpuReport | None = without_closed(host, reported, still)
    seen.ledger.observe_gpus(host, report)
    return replace(seen, columns=None)


def _way(what: str, step: ClusterStep) -> ClusterWay:
    return ClusterWay(what, (step,))


# -- advance reservations ---------------------------------------------------------------------------------------------


def _concerns(made: StoredReservation, now: float, bucket: Bucket, usable: set[str]) -> bool:
    """Whether it may keep the job from a host, and is not the one that the job is for."""
    requirement = bucket.requirement
    in_time = made.end > now and (requirement.run_s is None or made.start < now + requirement.run_s)
    on = {host for host, amount in (*made.slots.items(), *made.gpus.items()) if amount}
    return in_time and made.name != requirement.reservation and bool(on & usable)


def _reservation(made: StoredReservation) -> Iterator[ClusterWay]:
    """Fewer GPUs, or fewer slots, and at last none. One over several hosts can only be ended: which host it gives up
    cannot be said to grsvmod.
    """
    hosts = {host for host, amount in (*made.slots.items(), *made.gpus.items()) if amount}
    end = ClusterStep(
        AdminChange(what="reservation", name=made.name),
        0.9,
        partial(_with_reserved, made, None),
        f"grsvdel {made.name}",
    )
    if len(hosts) > 1:
        yield _way(f"reservation {made.name}", end)
        return
    (host,) = hosts
    gpus, slots = made.gpus.get(host, 0), made.slots.get(host, 0)
    fewer_gpus = [(slots, left) for left in range(gpus - 1, -1, -1) if slots or left]
    fewer_slots = [(left, gpus) for left in range(slots - 1, -1, -1) if left or gpus]
    for kind, amounts in (("gpus", fewer_gpus), ("slots", fewer_slots)):
        steps = [_smaller(made, host, kind, *each) for each in amounts]
        if steps or kind == "gpus":
            yield ClusterWay(f"reservation {made.name}", (*steps, end))


def _smaller(made: StoredReservation, host: str, kind: str, slots: int, gpus: int) -> ClusterStep:
    old, new = (made.gpus.get(host, 0), gpus) if kind == "gpus" else (made.slots.get(host, 0), slots)
    amounts = (("-n", slots, made.slots), ("-gpu", gpus, made.gpus))
    # What it had of the other kind would stay.
    options = " ".join(f"{name} {amount}" for name, amount, before in amounts if amount or before)
    return ClusterStep(
        AdminChange(what="reservation", name=made.name, setting=kind, old=str(old), new=str(new)),
        0.5 + 0.4 * (1 - new / old),
        partial(_with_reserved, made, (host, slots, gpus)),
        f"grsvmod {options} -m {host} {made.name}",
    )


def _with_reserved(made: StoredReservation, left: tuple[str, int, int] | None, seen: Snapshot) -> Snapshot:
    """With so much left of the reservation: host, slots, GPUs; None: nothing."""

    def changed(each: AdvanceReservation) -> AdvanceReservation:
        assert left is not None
        host, slots, gpus = left
        return replace(each, slots={host: slots} if slots else {}, gpus={host: gpus} if gpus else {})

    others = (
        changed(each) if each.name == made.name else each
        for each in seen.reservations
        if left is not None or each.name != made.name
    )
    return replace(seen, reservations=tuple(others))
