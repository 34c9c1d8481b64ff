"""Advance reservations: grsvadd, grsvmod, grsvdel. What is promised at one time is never promised twice.

Source of the rules: brsvadd(8), brsvmod(8), brsvdel(8).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import msgspec

from gsched.base.errors import BadRequest, Conflict, NotFound, PermissionDenied
from gsched.core.authorization import DENIED, of_cluster, some
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
from gsched.model.queues.reservation_policy import ReservationPolicy
from gsched.model.queues.user import USER_NAME
from gsched.model.views.room_view import ReservationView
from gsched.model.views.view import Answer
from gsched.resreq.ast import Requirement
from gsched.resreq.judging.evaluate import compile_select
from gsched.resreq.parsing.syntax import parse

CheckNames = Callable[[Requirement, ClusterConfig], None]
"""Raises RequirementError for names that the cluster does not know."""

_NAME = re.compile(r"[A-Za-z0-9_.#-]{1,39}")
MAX_AHEAD_S = 366 * 24 * 3600.0
MOST_USERS = 100
"""Users and user groups of one reservation."""


def control_reservations(
    command: ControlReservations,
    observed: Observed,
    decision: Decision,
    check_names: CheckNames,
) -> None:
    """Reply: one Answer. Raises GschedError when it cannot be done; nothing has changed then."""
    state, config, now = decision.state, decision.config, decision.now
    name = command.reservation.name
    if not command.is_admin:
        _check_user(command, state, config)
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
    wanted = _wanted(command, old)
    _check(wanted, config, now)
    if old is None:
        wanted = msgspec.structs.replace(wanted, start=max(wanted.start, now))
    asked = _asked(command.requirement, config, check_names)
    named = sorted({*wanted.slots, *wanted.gpus})
    had = () if old is None or command.hosts else (*old.slots, *old.gpus)
    room = _Room(wanted, name, named or _candidates(command.hosts, had, config), decision, observed)
    if named:
        _check_room(wanted, room)
        slots, gpus = wanted.slots, wanted.gpus
    else:
        slots, gpus = _find(wanted, command, asked, room, had)
    if not command.is_admin:
        _check_policy(command.user, wanted, {*slots, *gpus}, config)
    decision.record(
        ReservationMade(
            at=now,
            name=name,
            by=command.user,
            users=wanted.users,
            start=wanted.start,
            end=wanted.end,
            slots=slots,
            gpus=gpus,
        )
    )
    done = "created" if command.action == "add" else "modified"
    decision.reply = [Answer(name=name, text=f"Reservation {name} is {done}")]


def _check_user(command: ControlReservations, state: ClusterState, config: ClusterConfig) -> None:
    """Whether a user who is no administrator may do this at all. Raises PermissionDenied, and Conflict for too many."""
    user, name = command.user, command.reservation.name
    old = state.reservations.get(name)
    if command.action == "remove" and old is not None and old.owner == user:
        return  # what is his he may always give back, whatever has become of his policy
    if not any(policy.is_for(user) for policy in config.reservation_policies):
        raise PermissionDenied(f"{DENIED}: advance reservations are made by {of_cluster(config)}")
    if command.action != "add" and old is not None and old.owner != user:
        raise PermissionDenied(f"{DENIED}: {name} is for {old.owner or 'nobody'} and {of_cluster(config)} to change")
    most = config.params.reservations_of_user
    if command.action == "add" and sum(each.owner == user for each in state.reservations.values()) >= most:
        raise Conflict(f"{user} has {most} advance reservations already, as many as one user may (ADVRSV_USER_LIMIT)")


def _check_policy(user: str, wanted: ReservationView, hosts: set[str], config: ClusterConfig) -> None:
    """Whether a policy lets the user reserve these hosts at that time. Raises PermissionDenied."""
    mine = [policy for policy in config.reservation_policies if policy.is_for(user)]
    there = [policy for policy in mine if policy.has_hosts(hosts)]
    if any(policy.has_time(wanted.start, wanted.end) for policy in there):
        return
    what = "at that time" if there else "there"
    raise _not_by_policy(user, f"{some(sorted(hosts))} {what}", there or mine)


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


def _wanted(command: ControlReservations, old: StoredReservation | None) -> ReservationView:
    """What it shall be: as the command says, else as it was; users once each, and no amounts of 0."""
    asked = command.reservation
    kept = StoredReservation("", (), 0.0, 0.0, {}, {}) if old is None else old
    slots, gpus = asked.slots or kept.slots, asked.gpus or kept.gpus
    if command.slots or command.gpus:  # they are found anew
        slots, gpus = asked.slots, asked.gpus
    return ReservationView(
        name=asked.name,
        users=tuple(dict.fromkeys(asked.users or kept.users)),
        start=asked.start or kept.start,
        end=asked.end or kept.end,
        slots={host: amount for host, amount in slots.items() if amount},
        gpus={host: amount for host, amount in gpus.items() if amount},
    )


def _check(wanted: ReservationView, config: ClusterConfig, now: float) -> None:
    _check_users(wanted.users)
    if not all(0.0 <= at < math.inf for at in (wanted.start, wanted.end)):
        raise BadRequest("Bad time specification: a reservation begins and ends at a moment after 1969")
    if not wanted.start < wanted.end or wanted.end <= now:
        raise BadRequest("Bad time specification: a reservation ends after it begins, and in the future")
    if wanted.end > now + MAX_AHEAD_S:
        raise BadRequest("Bad time specification: a reservation ends within a year")
    for host in {*wanted.slots, *wanted.gpus}:
        if host not in config.hosts or not config.hosts[host].server:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    if any(amount < 0 for amount in (*wanted.slots.values(), *wanted.gpus.values())):
        raise BadRequest("Bad argument: amounts below zero cannot be reserved")


def _check_users(users: tuple[str, ...]) -> None:
    if not users:
        raise BadRequest("Bad argument: -u USER says who may use the reservation")
    if len(users) > MOST_USERS:
        raise BadRequest(f"Bad argument: -u names {len(users)} users and user groups; at most {MOST_USERS} are allowed")
    for user in users:
        if not USER_NAME.fullmatch(user):
            raise BadRequest(f"Bad argument: -u {user[:60]}: not the name of a user or user group")


def _asked(text: str, config: ClusterConfig, check_names: CheckNames) -> Requirement:
    """What hosts must have. Raises RequirementError, and BadRequest for what says nothing of a host."""
    asked = parse(text)
    if asked != Requirement(select=asked.select):
        raise BadRequest(f"-R {text[:60]}: only select[...] chooses hosts of a reservation")
    check_names(asked, config)
    return asked


class _Room:
    """What the hosts have left in the time wanted: what other reservations have then is summed once for them all."""

    def __init__(
        self, wanted: ReservationView, name: str, hosts: Sequence[str], decision: Decision, observed: Observed
    ) -> None:
        self.hosts, self.observed = hosts, observed
        self.state, self.config = decision.state, decision.config
        self._slots: dict[str, int] = dict.fromkeys(hosts, 0)
        self._gpus: dict[str, int] = dict.fromkeys(hosts, 0)
        for each in self.state.reservations.values():
            if each.name != name and each.start < wanted.end and wanted.start < each.end:
                _add(each.slots, self._slots)
                _add(each.gpus, self._gpus)

    def left(self, host: str) -> tuple[int | None, int]:
        """Slots (None: no limit) and GPUs of the host that no other reservation has."""
        seen = self.observed(host)
        limit = slot_limit(self.config.hosts[host], seen)
        # Those that are split by MIG are had in parts alone, which nobody can reserve.
        devices = sum(not gpu.mig for gpu in seen.gpus.gpus) if seen.gpus is not None and seen.gpus.known else 0
        free = None if limit is None else max(0, limit - self._slots[host])
        return free, max(0, devices - self._gpus[host])


def _add(amounts: dict[str, int], sums: dict[str, int]) -> None:
    """To the sums of these hosts; whichever are fewer are gone through."""
    for host in amounts if len(amounts) < len(sums) else sums:
        if host in sums and host in amounts:
            sums[host] += amounts[host]


def _check_room(wanted: ReservationView, room: _Room) -> None:
    """Whether the hosts have what is wanted of each."""
    for host in room.hosts:
        slots, gpus = room.left(host)
        for what, asked, free in (
            ("slots", wanted.slots.get(host, 0), slots),
            ("GPUs", wanted.gpus.get(host, 0), gpus),
        ):
            if free is not None and asked > free:
                raise BadRequest(f"{host}: {asked} {what} wanted, {free} can be reserved in that time")


def _find(
    wanted: ReservationView,
    command: ControlReservations,
    asked: Requirement,
    room: _Room,
    had: tuple[str, ...],
) -> tuple[dict[str, int], dict[str, int]]:
    """Fill host by host until all slots and GPUs are found. Who is no administrator gets, without -m, hosts of one of
    his policies: of one that has all that the reservation `had`, if it can be.
    """
    if command.slots < 0 or command.gpus < 0 or not (command.slots or command.gpus):
        raise BadRequest("Bad argument: -n says how many slots, -gpu how many GPUs are reserved")
    judge = compile_select(asked.select, local_type=LOCAL_TYPE)
    choices: list[Sequence[str]] = [room.hosts]
    among = ""
    if not (command.is_admin or command.hosts):
        policies = _policies_at(command.user, wanted, room.config)
        policies.sort(key=lambda policy: not policy.has_hosts(had))
        choices = [policy.among(room.hosts) for policy in policies]
        among = f" on hosts of ResourceReservation {', '.join(policy.name for policy in policies)}"

    @cache
    def left(host: str) -> tuple[int | None, int]:
        values = _values_in_all(room.config.hosts[host], asked, room)
        return room.left(host) if judge(values).holds is True else (0, 0)

    short: list[str] = []
    for choice in choices:
        slots, gpus = _filled(command, choice, left)
        wants = ((command.slots - sum(slots.values()), "slots"), (command.gpus - sum(gpus.values()), "GPUs"))
        if not any(more for more, _ in wants):
            return slots, gpus
        short.append(", ".join(f"{more} {what}" for more, what in wants if more))
    raise BadRequest(f"Not enough host(s) currently eligible: {short[0]} more are wanted in that time{among}")


def _filled(
    command: ControlReservations, hosts: Iterable[str], left: Callable[[str], tuple[int | None, int]]
) -> tuple[dict[str, int], dict[str, int]]:
    """As many of the slots and GPUs as the hosts have left, one host after another."""
    slots: dict[str, int] = {}
    gpus: dict[str, int] = {}
    slots_wanted, gpus_wanted = command.slots, command.gpus
    for host in hosts:
        if not (slots_wanted or gpus_wanted):
            break
        free_slots, free_gpus = left(host)
        take_slots = slots_wanted if free_slots is None else min(slots_wanted, free_slots)
        take_gpus = min(gpus_wanted, free_gpus)
        if take_slots:
            slots[host] = take_slots
        if take_gpus:
            gpus[host] = take_gpus
        slots_wanted, gpus_wanted = slots_wanted - take_slots, gpus_wanted - take_gpus
    return slots, gpus


def _policies_at(user: str, wanted: ReservationView, config: ClusterConfig) -> list[ReservationPolicy]:
    """The user's policies for that time. Raises PermissionDenied where there is none."""
    mine = [policy for policy in config.reservation_policies if policy.is_for(user)]
    if found := [policy for policy in mine if policy.has_time(wanted.start, wanted.end)]:
        return found
    raise _not_by_policy(user, "hosts at that time", mine)


def _not_by_policy(user: str, what: str, policies: Iterable[ReservationPolicy]) -> PermissionDenied:
    names = ", ".join(policy.name for policy in policies)
    return PermissionDenied(f"{DENIED}: {user} may not reserve {what} (ResourceReservation {names})")


def _values_in_all(host: HostConfig, asked: Requirement, room: _Room) -> Mapping[str, float | str | bool | None]:
    """What the host has, whoever holds it now: GPUs by mode and slots count in all."""
    seen, devices = room.observed(host.name), room.state.ledger.host(host.name)
    values = host_values(room.config, host, seen)
    values["slots"] = values["maxslots"]
    for name in GPU_COUNTERS:
        if name in values and devices.gpus_known:
            values[name] = float(devices.devices_in_mode(name))
    if seen.gpus is not None and seen.gpus.known:
        for name in gpu_names_in(asked.source):
            values[name] = gpu_value(name, seen.gpus.gpus, seen.gpus.driver)
    return values


def _candidates(names: tuple[str, ...], first: Iterable[str], config: ClusterConfig) -> list[str]:
    """Servers among the named hosts and host groups (none: all hosts), those of `first` before the others."""
    if refused := config.params.too_many_hosts(names):
        raise BadRequest(refused)
    found = dict.fromkeys(host for host in first if host in config.hosts)
    for name in dict.fromkeys(names) or config.hosts:
        for host in config.host_groups.get(name, (name,)):
            if host not in config.hosts:
                raise BadRequest(f"{name}: Bad host name, host group name or cluster name")
            found[host] = None
    return [host for host in found if config.hosts[host].server]
