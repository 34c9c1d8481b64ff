"""Tasks of one job over several hosts: all of them find a place or none does.

`assemble` deals tasks to hosts that offer room, in the order in which they are given; it knows no ledger: whoever asks
says what each host can take and fills it. Source of the rules: bsub(1), options -n, -m and -R (span, same, cu).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec import structs

from gsched.base.coded_text import AnyText, coded
from gsched.model.ledgers.allocation import SHARING, Allocation, HostAllocation, courses_together
from gsched.model.scheduling.snapshot import HostValues
from gsched.policy.requirement.demand import DemandTerm
from gsched.policy.requirement.reasons import Reason
from gsched.policy.several_hosts.balanced_units import even_shares
from gsched.resreq.ast import Cu

TOO_FEW_HOSTS = coded("pending.too_few_hosts")
TOO_FEW_SLOTS = coded("pending.too_few_slots")
FIRST_HOST = coded("pending.first_host")


class Offer(NamedTuple):
    """A host that could take tasks of a job."""

    host: str
    tasks: int
    """Most it could take."""
    tile: int | None = None
    """Tasks that span[ptile] puts on it; None when it does not say."""
    same: Hashable = None
    """What same[...] looks at."""
    unit: int = 0
    """Its compute unit, numbered in the order in which units are preferred."""


Fill = Callable[[str, int, bool], HostAllocation | Reason]
"""(host, tasks, whether it is the job's first host) -> what they would hold there, or why they cannot."""


_MOST_TURNS = 4


def assemble(
    term: DemandTerm, least: int, most: int, offers: Sequence[Offer], fill: Fill, *, first_hosts: Sequence[str] = ()
) -> tuple[HostAllocation, ...] | Reason:
    """Places for `most` tasks, or as many as there are but not fewer than `least`. `offers`: the best first.

    `first_hosts`: one of these comes first; empty: any may. The result is in the order of execution hosts.
    """
    reason: Reason | None = None
    best: tuple[HostAllocation, ...] = ()
    deal = _balance if _is_balanced(term) else _stripe if term.is_striped else _deal
    for group in _groups(term, offers, least, first_hosts):
        found = deal(term, least, most, group, fill, first_hosts)
        if isinstance(found, Reason):
            reason = reason or found
            continue
        if sum(part.slots for part in found) == most:
            return found
        if sum(part.slots for part in found) > sum(part.slots for part in best):
            best = found
    return best or reason or _too_few(term, least, offers, first_hosts)


def turns_of(parts: int) -> list[list[int]]:
    """Orders in which the parts of a compound are placed until there is a place for all: as they are written, then
    with each of the next in front.
    """
    numbers = list(range(parts))
    return [[first, *(each for each in numbers if each != first)] for first in numbers[:_MOST_TURNS]]


def merge(parts: Sequence[HostAllocation]) -> Allocation:
    """An allocation with one part for each host, in the order in which hosts are first named."""
    hosts: dict[str, HostAllocation] = {}
    for part in parts:
        before = hosts.get(part.host)
        if before is None:
            hosts[part.host] = part
            continue
        amounts = dict(before.amounts)
        for name, amount in part.amounts.items():
            amounts[name] = amounts.get(name, 0.0) + amount
        held = tuple(sorted((*before.gpus, *part.gpus), key=lambda gpu: gpu.index))
        hosts[part.host] = HostAllocation(
            host=part.host,
            slots=before.slots + part.slots,
            gpus=held,
            amounts=amounts,
            exclusive=before.exclusive or part.exclusive,
            bindings=before.bindings + part.bindings,
            courses=courses_together(before, part),
        )
    return Allocation(hosts=tuple(hosts.values()))


def apart(part: HostAllocation) -> HostAllocation:
    """A part of a compound as it stands in the ledger while the next is tried: none may share a device with another,
    since each asks for devices of its own.
    """
    if not any(gpu.claim in SHARING for gpu in part.gpus):
        return part
    return structs.replace(part, gpus=tuple(structs.replace(gpu, claim="ngpus", share=1.0) for gpu in part.gpus))


def _groups(
    term: DemandTerm, offers: Sequence[Offer], least: int, first_hosts: Sequence[str]
) -> Iterator[Sequence[Offer]]:
    """The sets of hosts that may be used together, each in its order, the set of the best host first."""
    alike: dict[Hashable, list[Offer]] = {}
    for offer in offers:
        alike.setdefault(offer.same, []).append(offer)
    for group in alike.values():
        if sum(offer.tasks for offer in group) < least:
            continue
        if first_hosts and not any(offer.host in first_hosts for offer in group):
            continue
        yield from _by_units(term, group, least) if term.cu is not None and not term.cu.balance else (group,)


def _by_units(term: DemandTerm, offers: Sequence[Offer], least: int) -> Iterator[Sequence[Offer]]:
    """cu[...]: one unit after the other, in the order that it prefers; at most maxcus of them."""
    assert term.cu is not None
    units = _units(term.cu, offers)
    room = {unit: sum(offer.tasks for offer in members) for unit, members in units.items()}
    fullest = sorted(units, key=lambda unit: (-room[unit], unit))
    order = list(units)
    if term.cu.pref == "bestfit":
        whole = [unit for unit in reversed(fullest) if room[unit] >= least]
        order = [*whole, *(unit for unit in fullest if unit not in whole)]
    most = term.cu.maxcus or len(units)
    for each in (order, fullest):
        for start in range(max(1, len(each) - most + 1)):
            chosen = each[start : start + most]
            if sum(room[unit] for unit in chosen) >= least:
                yield [offer for unit in chosen for offer in units[unit]]


def _units(cu: Cu, offers: Sequence[Offer]) -> dict[int, list[Offer]]:
    """Unit -> its offers, for the units that cu[usablecuslots] allows, in the order of cu[pref] but for bestfit."""
    units: dict[int, list[Offer]] = {}
    for offer in offers:
        units.setdefault(offer.unit, []).append(offer)
    room = {unit: sum(offer.tasks for offer in members) for unit, members in units.items()}
    usable = sorted(unit for unit in units if room[unit] >= (cu.usablecuslots or 0))
    if cu.pref in ("minavail", "maxavail"):
        usable.sort(key=lambda unit: room[unit] if cu.pref == "minavail" else -room[unit])
    return {unit: units[unit] for unit in usable}


def _is_balanced(term: DemandTerm) -> bool:
    return term.cu is not None and term.cu.balance


def _balance(
    term: DemandTerm, least: int, most: int, offers: Sequence[Offer], fill: Fill, first_hosts: Sequence[str]
) -> tuple[HostAllocation, ...] | Reason:
    """cu[balance]: units are asked for equal shares until all can give theirs."""
    assert term.cu is not None
    deal, block = _stripe if term.is_striped else _deal, term.block
    units = _units(term.cu, offers)
    if first_hosts:
        units = dict(sorted(units.items(), key=lambda each: not any(one.host in first_hosts for one in each[1])))
    room = {unit: sum(offer.tasks for offer in members) // block for unit, members in units.items()}
    reason: Reason | None = None
    while shares := even_shares(room, -(-least // block), most // block, term.cu.maxcus):
        parts: list[HostAllocation] = []
        for unit, share in shares.items():
            firsts = () if parts else first_hosts
            given = fill if not parts else _not_first(fill)
            found = deal(term, share * block, share * block, units[unit], given, firsts)
            if isinstance(found, Reason):
                # An offer is an upper bound: it is asked for less.
                reason = reason or found
                some = deal(term, block, share * block, units[unit], given, firsts)
                left = 0 if isinstance(some, Reason) else sum(part.slots for part in some) // block
                room[unit] = min(left, share - 1)
                break
            parts += found
        else:
            return tuple(parts)
    return short_of(term, least, sum(room.values()) * block, sum(map(len, units.values())), reason)


def _not_first(fill: Fill) -> Fill:
    """The same for hosts none of which is the job's first."""
    return lambda host, tasks, is_first: fill(host, tasks, False)


def _deal(
    term: DemandTerm, least: int, most: int, offers: Sequence[Offer], fill: Fill, first_hosts: Sequence[str]
) -> tuple[HostAllocation, ...] | Reason:
    parts: list[HostAllocation] = []
    left = most
    reason: Reason | None = None
    waiting = list(offers)
    if first_hosts:
        waiting.sort(key=lambda offer: offer.host not in first_hosts)
    passed_over: list[Offer] = []
    for offer in chain(waiting, passed_over):
        if first_hosts and not parts and offer.host not in first_hosts:
            return reason or Reason(FIRST_HOST, coded("numbers.no_first_task", ", ".join(first_hosts)))
        found, shrunk = _fill(offer, left, fill, not parts, term.block)
        reason = reason or shrunk
        if isinstance(found, Reason):
            reason = reason or found
        elif found is not None:
            parts.append(found)
            left -= found.slots
        elif offer.tasks < left and len(passed_over) < len(waiting):
            passed_over.append(offer)  # too small for a whole tile; the last tasks may be fewer
        if left <= 0:
            break
    if most - left >= max(1, least):
        return tuple(parts)
    return short_of(term, least, most - left, len(parts), reason)


def _stripe(
    term: DemandTerm, least: int, most: int, offers: Sequence[Offer], fill: Fill, first_hosts: Sequence[str]
) -> tuple[HostAllocation, ...] | Reason:
    """span[stripe]: the tasks are dealt one by one round all the hosts, which get none beyond what they can take."""
    room = {offer.host: offer.tasks for offer in sorted(offers, key=lambda each: each.host not in first_hosts)}
    reason: Reason | None = None
    while True:
        shares = dealt_round(room, most)
        if sum(shares.values()) < max(1, least):
            return short_of(term, least, sum(shares.values()), len(shares), reason)
        if first_hosts and next(iter(shares)) not in first_hosts:
            return reason or Reason(FIRST_HOST, coded("numbers.no_first_task", ", ".join(first_hosts)))
        parts: list[HostAllocation] = []
        for name, tasks in shares.items():
            found, shrunk = _fill(Offer(name, tasks), tasks, fill, not parts)
            reason = reason or shrunk
            if isinstance(found, HostAllocation):
                parts.append(found)
            room[name] = _room_found(found, tasks, room[name])
        if sum(part.slots for part in parts) == sum(shares.values()):
            return tuple(parts)


def _room_found(found: HostAllocation | Reason | None, tasks: int, room: int) -> int:
    """What a host can take in fact, when it was asked for so many tasks."""
    if not isinstance(found, HostAllocation):
        return 0
    return room if found.slots == tasks else found.slots


def dealt_round(room: Mapping[str, int], tasks: int) -> dict[str, int]:
    """So many tasks, or all that there is room for, dealt one by one round the hosts in their order; who gets any."""
    given = dict.fromkeys(room, 0)
    while tasks > 0:
        open_ = [name for name in room if given[name] < room[name]]
        if not open_:
            break
        each = min(tasks // len(open_), *(room[name] - given[name] for name in open_))
        for name in open_ if each else open_[:tasks]:
            given[name] += each or 1
            tasks -= each or 1
    return {name: number for name, number in given.items() if number}


def _fill(
    offer: Offer, left: int, fill: Fill, is_first: bool, block: int = 1
) -> tuple[HostAllocation | Reason | None, Reason | None]:
    """Tasks on one host: as many as it takes, or with span[ptile] as many as that says or none. And why not more."""
    wanted = min(left, offer.tasks if offer.tile is None else offer.tile)
    wanted -= wanted % block
    if wanted < 1 or wanted > offer.tasks:
        return None, None
    found = fill(offer.host, wanted, is_first)
    shrunk = found if isinstance(found, Reason) else None
    while isinstance(found, Reason) and offer.tile is None and wanted > block:
        # An offer is an upper bound: what limits and devices leave may be less.
        wanted -= block
        found = fill(offer.host, wanted, is_first)
    return found, shrunk


def short_of(term: DemandTerm, least: int, taken: int, hosts: int, reason: Reason | None = None) -> Reason:
    """The reason that `least` slots are wanted and only `taken` could be had, on so many hosts."""
    spreads = term.is_tiled or term.is_striped or term.block > 1
    text = TOO_FEW_HOSTS if spreads or term.same or term.cu is not None else TOO_FEW_SLOTS
    code = "numbers.had_on_host" if hosts == 1 else "numbers.had_on_hosts"
    return Reason(text, coded(code, least, taken, hosts, "" if reason is None else coded("reason.and", told(reason))))


def told(reason: Reason) -> AnyText:
    """The reason with its numbers."""
    return coded("reason.with_numbers", reason.text, reason.detail) if reason.detail else reason.text


def _too_few(term: DemandTerm, least: int, offers: Sequence[Offer], first_hosts: Sequence[str]) -> Reason:
    if first_hosts and not any(offer.host in first_hosts for offer in offers):
        return Reason(FIRST_HOST, coded("numbers.no_task_now", ", ".join(first_hosts)))
    if not term.same:
        return _too_few_in_units(term, least, offers)
    alike: dict[Hashable, list[int]] = {}
    for offer in offers:
        alike.setdefault(offer.same, []).append(offer.tasks)
    most = max(alike.values(), key=sum, default=[])
    found = short_of(term, least, sum(most), len(most))
    return found._replace(detail=coded("numbers.agree_in", found.detail, ", ".join(term.same)))


def _too_few_in_units(term: DemandTerm, least: int, offers: Sequence[Offer]) -> Reason:
    """With cu[maxcus] what the fullest units have counts; all hosts together may have enough."""
    most = term.cu.maxcus if term.cu is not None else None
    if term.cu is None or most is None:
        return short_of(term, least, sum(offer.tasks for offer in offers), len(offers))
    fullest = sorted(_units(term.cu, offers).values(), key=lambda unit: -sum(offer.tasks for offer in unit))
    chosen = [offer for unit in fullest[:most] for offer in unit]
    found = short_of(term, least, sum(offer.tasks for offer in chosen), len(chosen))
    return found._replace(detail=coded("numbers.in_unit" if most == 1 else "numbers.in_units", found.detail, most))


def same_of(names: Sequence[str], values: HostValues) -> tuple[object, ...] | None:
    """What hosts must agree in; None when one of the values is unknown: an unknown value is like no other."""
    found = tuple(values.get(name) for name in names)
    return None if None in found else found
