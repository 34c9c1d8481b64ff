"""Advance reservations: grsvadd, grsvmod, grsvdel. What is promised at one time is never promised twice.

Source of the rules: brsvadd(8), brsvmod(8), brsvdel(8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied
from gsched.core.authorization import DENIED, of_cluster
from gsched.core.command import ControlReservations
from gsched.core.decision import Decision
from gsched.core.records.entities import StoredReservation
from gsched.core.resources.observed_hosts import Observed
from gsched.core.resources.resource_values import LOCAL_TYPE, host_values, slot_limit
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import ReservationMade, ReservationRemoved
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.reported_resources import gpu_names_in, gpu_value
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import Answer
from gsched.resreq.ast import Requirement
from gsched.resreq.judging.evaluate import compile_select
from gsched.resreq.parsing.syntax import parse

CheckNames = Callable[[Requirement, ClusterConfig], None]
"""Raises RequirementError for names that the cluster does not know."""

_NAME = re.compile(r"[A-Za-z0-9_.#-]{1,39}")
MAX_AHEAD_S = 366 * 24 * 3600.0


def control_reservations(
    command: ControlReservations,
    observed: Observed,
    decision: Decision,
    check_names: CheckNames,
) -> None:
    """Reply: one Answer. Raises GschedError when it cannot be done; nothing has changed then."""
    state, config, now = decision.state, decision.config, decision.now
    if not command.is_admin:
        raise PermissionDenied(f"{DENIED}: advance reservations are made by {of_cluster(config)}")
    name = command.reservation.name
    if command.action == "remove":
        if name not in state.reservations:
            raise NotFound(f"{name}: there is no such advance reservation")
        decision.record(ReservationRemoved(at=now, name=name, by=command.user))
        decision.reply = [Answer(name=name, text=f"Reservation {name} is being deleted")]
        return
    if command.action not in ("add", "modify"):
        raise BadRequest(f"'{command.action}' is not something that can be done to a reservation")
    old = state.reservations.get(name)
    if command.action == "modify" and old is None:
        raise NotFound(f"{name}: there is no such advance reservation")
    if command.action == "add":
        name = _new_name(name, command.user, state)
    wanted = _merged(command.reservation, old)
    if command.slots or command.gpus:  # they are found anew
        wanted = msgspec.structs.replace(wanted, slots=command.reservation.slots, gpus=command.reservation.gpus)
    _check(wanted, config, now)
    asked = _asked(command.requirement, config, check_names)
    slots, gpus = _places(wanted, command, asked, decision, observed, name)
    decision.record(
        ReservationMade(
            at=now,
            name=name,
            by=command.user,
            users=wanted.users,
            start=max(wanted.start, now) if old is None else wanted.start,
            end=wanted.end,
            slots=slots,
            gpus=gpus,
        )
    )
    done = "created" if command.action == "add" else "modified"
    decision.reply = [Answer(name=name, text=f"Reservation {name} is {done}")]


def _new_name(name: str, user: str, state: ClusterState) -> str:
    if not name:
        number = 0
        while f"{user}#{number}" in state.reservations:
            number += 1
        return f"{user}#{number}"
    if not _NAME.fullmatch(name):
        raise BadRequest(f"{name[:60]}: Bad reservation name: letters, digits and _ . # -, at most 39 characters")
    if name in state.reservations:
        raise Conflict(f"{name}: the advance reservation already exists")
    return name


def _merged(wanted: ReservationView, old: StoredReservation | None) -> ReservationView:
    if old is None:
        return wanted
    return ReservationView(
        name=old.name,
        users=wanted.users or old.users,
        start=wanted.start or old.start,
        end=wanted.end or old.end,
        slots=wanted.slots or old.slots,
        gpus=wanted.gpus or old.gpus,
    )


def _check(wanted: ReservationView, config: ClusterConfig, now: float) -> None:
    if not wanted.users:
        raise BadRequest("Bad argument: -u USER says who may use the reservation")
    if not wanted.start < wanted.end or wanted.end <= now:
        raise BadRequest("Bad time specification: a reservation ends after it begins, and in the future")
    if wanted.end > now + MAX_AHEAD_S:
        raise BadRequest("Bad time specification: a reservation ends within a year")
    for host in {*wanted.slots, *wanted.gpus}:
        if host not in config.hosts or not config.hosts[host].server:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    if any(amount < 0 for amount in (*wanted.slots.values(), *wanted.gpus.values())):
        raise BadRequest("Bad argument: amounts below zero cannot be reserved")


def _asked(text: str, config: ClusterConfig, check_names: CheckNames) -> Requirement:
    """What hosts must have. Raises RequirementError, and BadRequest for what says nothing of a host."""
    asked = parse(text)
    if asked != Requirement(select=asked.select):
        raise BadRequest(f"-R {text[:60]}: only select[...] chooses hosts of a reservation")
    check_names(asked, config)
    return asked


def _places(
    wanted: ReservationView,
    command: ControlReservations,
    requirement: Requirement,
    decision: Decision,
    observed: Observed,
    name: str,
) -> tuple[dict[str, int], dict[str, int]]:
    """What is reserved on which host: as named, or found among the hosts that meet the requirement."""
    state, config = decision.state, decision.config
    if wanted.slots or wanted.gpus:
        for host in sorted({*wanted.slots, *wanted.gpus}):
            slots, gpus = _left(host, wanted, config, state, observed, name)
            for what, asked, free in (
                ("slots", wanted.slots.get(host, 0), slots),
                ("GPUs", wanted.gpus.get(host, 0), gpus),
            ):
                if free is not None and asked > free:
                    raise BadRequest(f"{host}: {asked} {what} wanted, {free} can be reserved in that time")
        return dict(wanted.slots), dict(wanted.gpus)
    return _find(wanted, command, requirement, decision, observed, name)


def _left(
    host: str, wanted: ReservationView, config: ClusterConfig, state: ClusterState, observed: Observed, name: str
) -> tuple[int | None, int]:
    """Slots (None: no limit) and GPUs of the host that no other reservation has in the time wanted."""
    seen = observed(host)
    limit = slot_limit(config.hosts[host], seen)
    others = [
        each
        for each in state.reservations.values()
        if each.name != name and each.start < wanted.end and wanted.start < each.end
    ]
    taken = sum(each.slots.get(host, 0) for each in others)
    # Those that are split by MIG are had in parts alone, which nobody can reserve.
    devices = sum(not gpu.mig for gpu in seen.gpus.gpus) if seen.gpus is not None and seen.gpus.known else 0
    free = None if limit is None else max(0, limit - taken)
    return free, max(0, devices - sum(each.gpus.get(host, 0) for each in others))


def _find(
    wanted: ReservationView,
    command: ControlReservations,
    asked: Requirement,
    decision: Decision,
    observed: Observed,
    name: str,
) -> tuple[dict[str, int], dict[str, int]]:
    """Fill host by host, in lsf.cluster's order, until all slots and GPUs are found."""
    state, config = decision.state, decision.config
    if command.slots < 0 or command.gpus < 0 or not (command.slots or command.gpus):
        raise BadRequest("Bad argument: -n says how many slots, -gpu how many GPUs are reserved")
    judge = compile_select(asked.select, local_type=LOCAL_TYPE)
    slots: dict[str, int] = {}
    gpus: dict[str, int] = {}
    slots_wanted, gpus_wanted = command.slots, command.gpus
    for host in _candidates(command.hosts, config):
        if judge(_values_in_all(config.hosts[host], asked, config, state, observed)).holds is not True:
            continue
        free_slots, free_gpus = _left(host, wanted, config, state, observed, name)
        take_slots = slots_wanted if free_slots is None else min(slots_wanted, free_slots)
        take_gpus = min(gpus_wanted, free_gpus)
        if take_slots:
            slots[host] = take_slots
        if take_gpus:
            gpus[host] = take_gpus
        slots_wanted, gpus_wanted = slots_wanted - take_slots, gpus_wanted - take_gpus
    if slots_wanted or gpus_wanted:
        short = ", ".join(f"{left} {what}" for left, what in ((slots_wanted, "slots"), (gpus_wanted, "GPUs")) if left)
        raise BadRequest(f"Not enough host(s) currently eligible: {short} more are wanted in that time")
    return slots, gpus


def _values_in_all(
    host: HostConfig, asked: Requirement, config: ClusterConfig, state: ClusterState, observed: Observed
) -> Mapping[str, float | str | bool | None]:
    """What the host has, whoever holds it now: GPUs by mode and slots count in all."""
    seen, devices = observed(host.name), state.ledger.host(host.name)
    values = host_values(config, host, seen)
    values["slots"] = values["maxslots"]
    for name in GPU_COUNTERS:
        if name in values and devices.gpus_known:
            values[name] = float(devices.devices_in_mode(name))
    if seen.gpus is not None and seen.gpus.known:
        for name in gpu_names_in(asked.source):
            values[name] = gpu_value(name, seen.gpus.gpus, seen.gpus.driver)
    return values


def _candidates(names: tuple[str, ...], config: ClusterConfig) -> list[str]:
    found: list[str] = []
    for name in names or tuple(config.hosts):
        for host in config.host_groups.get(name, (name,)):
            if host not in config.hosts:
                raise BadRequest(f"{name}: Bad host name, host group name or cluster name")
            if config.hosts[host].server and host not in found:
                found.append(host)
    return found
