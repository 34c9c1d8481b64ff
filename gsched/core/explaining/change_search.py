"""Which changes would let a job start: found by trying, each with as little changed as possible and no part too much.

First every way alone, then two together, then all at once with what is not needed taken back. The changes are a user's,
of the job, or an administrator's, of the cluster. It never judges a change itself: `Try` asks the scheduler. The number
of tries is bounded; what is not found within them is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, Protocol, TypeVar

MOST_TOLD = 8
"""Suggestions."""
StartHosts = tuple[str, ...]
Tried = Generator[None, None, StartHosts | None]


class TriedStep(Protocol):
    """One change."""

    @property
    def loss(self) -> float:
        """How much is given up by it; the least is told first."""
        ...


Step = TypeVar("Step", bound=TriedStep)
StepOf = TypeVar("StepOf", bound=TriedStep, covariant=True)


class Steps(Protocol[StepOf]):
    """From the least change to the most; a tuple, or made when they are looked at."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> StepOf: ...


class TriedWay(Protocol[StepOf]):
    """One thing that could be otherwise. Of two ways of the same `what` never both are taken."""

    @property
    def what(self) -> str: ...

    @property
    def steps(self) -> Steps[StepOf]: ...


Try = Callable[[tuple[Step, ...]], Tried]
"""Changes -> the hosts on which the job starts with them; None: it does not. Yields where a turn is over."""


@dataclass(frozen=True, slots=True)
class FoundChange(Generic[Step]):
    """Changes with which the job starts."""

    steps: tuple[Step, ...]
    hosts: StartHosts

    @property
    def loss(self) -> float:
        """How much they cost the user."""
        return sum(step.loss for step in self.steps)


class _OutOfTries(Exception):
    pass


class ChangeSearch(Generic[Step]):
    """For one job, which does not start as it is."""

    def __init__(
        self, ways: Iterable[TriedWay[Step]], attempt: Try[Step], most_tries: int, *, is_growing: bool = False
    ) -> None:
        """`is_growing`: what does not start it with all ways together does not with some of them; and since more of a
        change may let others start first, the least step is tried before the last.
        """
        self._ways = list(ways)
        self._attempt = attempt
        self._is_growing = is_growing
        self._left = most_tries
        self.is_cut = False
        """Whether it was out of tries before all had been tried."""
        self._known: dict[tuple[tuple[int, int], ...], StartHosts | None] = {}
        """(way, step) of all changes -> what came of it."""
        self.found: list[FoundChange[Step]] = []

    def run(self) -> Generator[None, None, list[FoundChange[Step]]]:
        """The cheapest of what was found, the cheapest first."""
        try:
            if self._is_growing and not (yield from self._may_start()):
                return []
            alone: list[int] = []
            for way in range(len(self._ways)):
                least = yield from self._least({way: self._last(way)}, way)
                if not (yield from self._add(least)):
                    alone.append(way)
            yield from self._pairs(alone)
            if not self.found and len(alone) > 2:
                yield from self._all(alone)
        except _OutOfTries:
            self.is_cut = True
        return sorted(self.found, key=lambda each: (each.loss, len(each.steps)))[:MOST_TOLD]

    def _may_start(self) -> Generator[None, None, bool]:
        """Whether it starts with all ways together, at their ends or at their beginnings."""
        most = self._of_each_kind(range(len(self._ways)))
        for chosen in (most, dict.fromkeys(most, 0)):
            if (yield from self._hosts(chosen)) is not None:
                return True
        return False

    def _pairs(self, alone: list[int]) -> Generator[None, None, None]:
        """Two ways of which neither is enough alone."""
        for pair in combinations(alone, 2):
            if self._ways[pair[0]].what == self._ways[pair[1]].what:
                continue  # two queues
            chosen: dict[int, int] | None = {way: self._last(way) for way in pair}
            for way in pair:
                chosen = None if chosen is None else (yield from self._least(chosen, way))
            yield from self._add(chosen)

    def _all(self, alone: list[int]) -> Generator[None, None, None]:
        """All ways at their ends, of each kind one; then what is not needed is taken back or lessened."""
        chosen = self._of_each_kind(alone)
        if (yield from self._hosts(chosen)) is None:
            return
        for way in sorted(chosen, key=lambda each: -self._ways[each].steps[-1].loss):
            without = {each: step for each, step in chosen.items() if each != way}
            if (yield from self._hosts(without)) is not None:
                chosen = without
        for way in list(chosen):
            chosen = (yield from self._least(chosen, way)) or chosen
        yield from self._add(chosen)

    def _of_each_kind(self, ways: Iterable[int]) -> dict[int, int]:
        """The first way of each kind, at its end."""
        chosen: dict[int, int] = {}
        for way in ways:
            if self._ways[way].what not in {self._ways[each].what for each in chosen}:
                chosen[way] = self._last(way)
        return chosen

    def _last(self, way: int) -> int:
        return len(self._ways[way].steps) - 1

    def _least(self, chosen: dict[int, int], way: int) -> Generator[None, None, dict[int, int] | None]:
        """The same with the least step of this way that lets the job start; None where not even the last does.

        More change is taken to be no worse: where it is, a least step may be missed, never a wrong one found.
        """
        if self._is_growing and chosen[way] and (yield from self._hosts({**chosen, way: 0})) is not None:
            return {**chosen, way: 0}
        if (yield from self._hosts(chosen)) is None:
            return None
        low, high = 0, chosen[way]
        while low < high:
            middle = (low + high) // 2
            if (yield from self._hosts({**chosen, way: middle})) is None:
                low = middle + 1
            else:
                high = middle
        return {**chosen, way: high}

    def _add(self, chosen: dict[int, int] | None) -> Generator[None, None, bool]:
        """Note it, unless one of its parts is too much."""
        if not chosen:
            return False
        hosts = yield from self._hosts(chosen)
        assert hosts is not None
        for way in chosen if len(chosen) > 1 else ():
            without = {each: step for each, step in chosen.items() if each != way}
            if (yield from self._hosts(without)) is not None:
                return False
        self.found.append(FoundChange(self._steps(chosen), hosts))
        return True

    def _steps(self, chosen: dict[int, int]) -> tuple[Step, ...]:
        return tuple(self._ways[way].steps[step] for way, step in sorted(chosen.items()))

    def _hosts(self, chosen: dict[int, int]) -> Tried:
        key = tuple(sorted(chosen.items()))
        if key not in self._known:
            if self._left <= 0:
                raise _OutOfTries
            self._left -= 1
            self._known[key] = yield from self._attempt(self._steps(chosen))
        return self._known[key]
