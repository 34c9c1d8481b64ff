"""The parts of a compound on hosts that several of them could use: found where serving one part after the other fails.

How many tasks of each part a host takes is chosen for all parts at once: host by host it keeps the best sums that can
be reached. It is exact for parts without cu[], same[], span[stripe] and tiles that differ from host to host, within
MOST_HOSTS, MOST_SUMS and MOST_TRIED; beyond these it may find nothing where there is a place. It takes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import NamedTuple

from msgspec import structs

from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.snapshot import Snapshot
from gsched.policy.match.host_fit import TaskFits
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.requirement.demand import Demand, DemandTerm
from gsched.policy.requirement.reasons import Reason
from gsched.policy.several_hosts.task_spread import apart, merge

MOST_HOSTS = 64
"""Hosts that one search looks at."""
MOST_SUMS = 64
"""Sums that are kept: ways to have served so many tasks of each part, none of which is better than another."""
MOST_TRIED = 1000
"""Times in a cycle that tasks are tried on a host, for one kind of job."""
MOST_IN_CYCLE = 10_000
"""The same for all kinds together: some 0.3 s."""
_MOST_ORDERS = 6
_MOST_FIRSTS = 8
_TRIED = -9
"""Attempt number under which parts stand in ledgers while the next part is tried."""

Sums = tuple[int, ...]
"""Tasks of each part."""


class Tries:
    """How often tasks of one kind of job may still be tried in a cycle."""

    def __init__(self, most: int = MOST_TRIED) -> None:
        self.left = most


class TriesOfCycle:
    """Each kind of job has its own, so that one that is tried in vain costs the others nothing."""

    def __init__(self, most: int = MOST_IN_CYCLE) -> None:
        self._left = most
        self._own: dict[Demand, Tries] = {}
        self._last, self._given = Tries(0), 0

    def of(self, demand: Demand) -> Tries:
        """What is left to this one, to be used up before the next is asked for."""
        self._left -= self._given - self._last.left
        self._last = self._own.setdefault(demand, Tries())
        self._given = self._last.left = min(self._last.left, max(0, self._left))
        return self._last


class CompoundPart(NamedTuple):
    """A part of a compound, and what each host could take of it at the most; the best hosts first."""

    term: DemandTerm
    tasks: int
    room: Mapping[str, int]

    @property
    def tile(self) -> int:
        """Tasks that a host takes or else none, but for the last; 0 when any number may be on it."""
        if self.term.one_host:
            return self.tasks
        span = self.term.span
        return 0 if span is None or span.ptile is None else min(span.ptile, self.tasks)

    def amounts(self, host: str) -> list[int]:
        """How many tasks the host may get, the most first."""
        most, tile, block = min(self.room.get(host, 0), self.tasks), self.tile, self.term.block
        if tile:
            found = {tile, self.tasks % tile} if tile <= most else {self.tasks % tile}
            return sorted((each for each in found if each <= most), reverse=True) + ([0] if 0 not in found else [])
        return list(range(most - most % block, -1, -block))

    def add(self, served: int, most: int) -> int:
        """How many of `most` tasks are taken when so many have been served."""
        left, tile = self.tasks - served, self.tile
        if not tile:
            return min(most, left)
        if most >= tile <= left:
            return tile
        rest = self.tasks % tile
        return rest if served % tile == 0 and most >= rest <= left else 0


def is_plain(term: DemandTerm) -> bool:
    """Whether the part says nothing that ties its hosts together."""
    if term.cu is not None or term.same or term.is_striped:
        return False
    span = term.span
    return span is None or span.ptile is None or (span.ptile > 0 and not span.ptile_types)


class HostTry:
    """Tries tasks of all parts together on one host. `allowed`: whether a job may have that part of it."""

    def __init__(
        self,
        snapshot: Snapshot,
        fits: TaskFits,
        host_ledger: Callable[[str], HostLedger],
        terms: Sequence[DemandTerm],
        tries: Tries,
        allowed: Callable[[HostAllocation], bool] = lambda part: True,
    ) -> None:
        self._snapshot = snapshot
        self._fits = fits
        self._host_ledger = host_ledger
        self._terms = terms
        self._allowed = allowed
        self._known: dict[tuple[str, Sums, bool], dict[int, HostAllocation] | None] = {}
        self.tries = tries

    def slots(self, host: str) -> float:
        """Slots that are free there."""
        free = self._host_ledger(host).free_slots
        return math.inf if free is None else free

    def hold(self, host: str, tasks: Sums, *, first: bool) -> dict[int, HostAllocation] | None:
        """What so many tasks of each part would hold there, by part; `first`: it is the job's first host."""
        key = (host, tasks, first)
        if key not in self._known:
            self._known[key] = self._hold(host, tasks, first)
        return self._known[key]

    def _hold(self, host: str, tasks: Sums, first: bool) -> dict[int, HostAllocation] | None:
        numbers = [number for number, each in enumerate(tasks) if each]
        for _, order in zip(range(_MOST_ORDERS), permutations(numbers), strict=False):
            found = self._in_order(host, order, tasks, first)
            if found is not None:
                whole = merge(list(found.values())).hosts[0]
                return None if refusal_of(whole, self._host_ledger(host)) or not self._allowed(whole) else found
        return None

    def _in_order(self, host: str, order: Sequence[int], tasks: Sums, first: bool) -> dict[int, HostAllocation] | None:
        there, host_ledger = self._snapshot.hosts[host], self._host_ledger(host).copy()
        found: dict[int, HostAllocation] = {}
        for number in order:
            term = self._terms[number]
            if found:  # its own parts do not keep each other out
                host_ledger.exclusive = None
            self.tries.left -= 1
            part = self._fits.of(term, tasks[number], first=first, beside=bool(found)).on(there, host_ledger)
            if isinstance(part, Reason):
                return None
            host_ledger.take((-1, _TRIED - number), apart(part))
            found[number] = structs.replace(part, exclusive=term.exclusive)
        return found


class _Served(NamedTuple):
    """How so many tasks of each part have been served: on this host, beside those before."""

    before: _Served | None
    host: str
    sums: Sums
    first: bool


def deal(
    parts: Sequence[CompoundPart], there: HostTry, first_hosts: Collection[str] = ()
) -> list[list[HostAllocation]] | None:
    """What each part holds, in the order of the parts; None if no place was found.

    `first_hosts`: one of these has tasks of the first part and is the job's first host; empty: any may be.
    """
    if any(sum(part.room.values()) < part.tasks for part in parts):
        return None
    hosts = _hosts(parts)
    if not (first_hosts or parts[0].term.once):
        return _search(parts, there, hosts, None)
    firsts = [name for name in hosts if parts[0].room.get(name) and (not first_hosts or name in first_hosts)]
    for first in firsts[:_MOST_FIRSTS]:
        found = _search(parts, there, [first, *(name for name in hosts if name != first)], first)
        if found is not None:
            return found
    return None


def _hosts(parts: Sequence[CompoundPart]) -> list[str]:
    """Those to look at. Where there are many, of each part those first that fewest parts could use."""
    names = dict.fromkeys(name for part in parts for name, room in part.room.items() if room)
    if len(names) <= MOST_HOSTS:
        return list(names)
    able = {name: sum(part.room.get(name, 0) > 0 for part in parts) for name in names}
    lines = [sorted((name for name in part.room if part.room[name]), key=lambda name: able[name]) for part in parts]
    chosen: dict[str, None] = {}
    for place in range(max(map(len, lines))):
        for line in lines:
            if place < len(line) and len(chosen) < MOST_HOSTS:
                chosen[line[place]] = None
    return [name for name in names if name in chosen]


def _search(
    parts: Sequence[CompoundPart], there: HostTry, hosts: Sequence[str], first: str | None
) -> list[list[HostAllocation]] | None:
    goal = tuple(part.tasks for part in parts)
    reached: dict[Sums, _Served | None] = {(0,) * len(parts): None}
    for host in hosts:
        is_first = host == first
        grown: dict[Sums, _Served | None] = {} if is_first else dict(reached)
        for most in _most(parts, there, host, is_first):
            for sums, served in reached.items():
                added = tuple(part.add(*each) for part, *each in zip(parts, sums, most, strict=True))
                total = tuple(map(sum, zip(sums, added, strict=True)))
                if total not in grown and (added[0] or not is_first):
                    grown[total] = _Served(served, host, added, is_first)
        if goal in grown:
            return _written(there, grown[goal], len(parts))
        reached = _best(grown)
        if there.tries.left <= 0 or not reached:
            return None
    return None


def _most(parts: Sequence[CompoundPart], there: HostTry, host: str, first: bool) -> list[Sums]:
    """The most that the host can take of all parts together: none of these is less than another in all parts."""
    found: list[Sums] = []
    slots = there.slots(host)
    *before, last = [part.amounts(host) for part in parts]
    for some in product(*before):
        more = [(*some, each) for each in reversed(last) if sum(some) + each <= slots]
        low, high = sum(_is_within(each, found) for each in more), len(more)
        middle = high - 1  # mostly all of it
        while low < high and there.tries.left > 0:
            if not any(more[middle]) or there.hold(host, more[middle], first=first) is not None:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        if low and any(more[low - 1]) and not _is_within(more[low - 1], found):
            found.append(more[low - 1])
    return found


def _is_within(tasks: Sums, others: Collection[Sums]) -> bool:
    return any(all(one <= other for one, other in zip(tasks, each, strict=True)) for each in others)


def _best(reached: dict[Sums, _Served | None]) -> dict[Sums, _Served | None]:
    kept: dict[Sums, _Served | None] = {}
    for sums in sorted(reached, key=lambda each: (-sum(each), each)):
        if len(kept) < MOST_SUMS and not _is_within(sums, kept):
            kept[sums] = reached[sums]
    return kept


def _written(there: HostTry, served: _Served | None, parts: int) -> list[list[HostAllocation]] | None:
    found: list[list[HostAllocation]] = [[] for _ in range(parts)]
    for step in reversed(list(_steps(served))):
        held = there.hold(step.host, step.sums, first=step.first)
        if held is None:
            return None
        for number, part in held.items():
            found[number].append(part)
    return found


def _steps(served: _Served | None) -> Iterator[_Served]:
    while served is not None:
        yield served
        served = served.before
