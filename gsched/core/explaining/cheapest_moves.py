"""Which jobs to move at the least cost so that another one starts: found by trying, none of them too much.

On few jobs the set is the cheapest there is: sets are looked at in the order of their cost, and those are passed over
that leave out what every sufficient set must have a part of. It never judges a set itself: the scheduler is asked. Work
is bounded; the search says when it was cut.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

MOST_LOOKED_AT = 20_000
"""Sets that are looked at without asking the scheduler."""

Chosen = frozenset[int]
MoveCost = tuple[float, float]
"""What is lost by moving one job: GPU seconds, and seconds of jobs that count where these are equal."""
FoundPlan = TypeVar("FoundPlan")


class CheapestMoves(Generic[FoundPlan]):
    """For one job, and the jobs that might be moved for its sake, named by their places in `costs`.

    `has_room`: whether it would start if these were gone for ever and nobody else waited; with more gone it never is
    harder. `plan_with`: what the scheduler does once these wait again, None where the job does not start. Both yield
    where a turn is over.
    """

    def __init__(
        self,
        costs: Sequence[MoveCost],
        has_room: Callable[[Chosen], Generator[None, None, bool]],
        plan_with: Callable[[Chosen], Generator[None, None, FoundPlan | None]],
        most_tries: int,
    ) -> None:
        self._costs = costs
        self._has_room = has_room
        self._plan_with = plan_with
        self._left = most_tries
        self._needed: list[Chosen] = []
        """Of each of these, every sufficient set has one."""
        self.is_cut = False
        """Whether it was out of tries before it knew the cheapest."""

    @property
    def tries_left(self) -> int:
        """Plans that may still be made."""
        return self._left

    def run(self) -> Generator[None, None, tuple[Chosen, FoundPlan] | None]:
        """The cheapest set with what comes of it; None: there is none, or it was cut."""
        everybody = frozenset(range(len(self._costs)))
        if not everybody or not (yield from self._room(everybody)):
            return None
        for looked_at, chosen in enumerate(sets_by_cost(self._costs)):
            if self._left <= 0 or looked_at >= MOST_LOOKED_AT:
                self.is_cut = True
                return None
            if any(chosen.isdisjoint(each) for each in self._needed):
                continue
            if not (yield from self._room(chosen)):
                self._needed.append(everybody - (yield from self._most_without_room(chosen, everybody)))
                continue
            self._left -= 1
            plan = yield from self._plan_with(chosen)
            if plan is not None:
                return chosen, plan
        return None

    def _room(self, chosen: Chosen) -> Generator[None, None, bool]:
        self._left -= 1
        return (yield from self._has_room(chosen))

    def _most_without_room(self, chosen: Chosen, everybody: Chosen) -> Generator[None, None, Chosen]:
        """As many as can be gone beside these without there being room."""
        for each in sorted(everybody - chosen, key=lambda one: (self._costs[one], one)):
            if self._left <= 0:
                break
            wider = chosen | {each}
            if not (yield from self._room(wider)):
                chosen = wider
        return chosen


def cost_of(costs: Sequence[MoveCost], chosen: Collection[int]) -> tuple[float, float, int]:
    """What moving all of them costs; of what costs the same the fewest come first."""
    return (math.fsum(costs[each][0] for each in chosen), math.fsum(costs[each][1] for each in chosen), len(chosen))


def sets_by_cost(costs: Sequence[MoveCost]) -> Iterator[Chosen]:
    """All sets but the empty one, the cheapest first."""
    order = sorted(range(len(costs)), key=lambda each: (costs[each], each))

    def entry(places: tuple[int, ...]) -> tuple[tuple[float, float, int], tuple[int, ...]]:
        return cost_of(costs, [order[place] for place in places]), places

    heap = [entry((0,))] if order else []
    while heap:
        _, places = heapq.heappop(heap)
        yield frozenset(order[place] for place in places)
        following = places[-1] + 1
        if following < len(order):
            heapq.heappush(heap, entry((*places, following)))
            heapq.heappush(heap, entry((*places[:-1], following)))


def cheapest(costs: Sequence[MoveCost], places: Iterable[int], most: int) -> list[int]:
    """So many of these at the most, the cheapest ones."""
    return sorted(places, key=lambda each: (costs[each], each))[:most]
