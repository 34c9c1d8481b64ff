"""By when jobs start, of which a first guess is known: by how much longer than guessed others like them have waited.

Of each job that waits the guess is kept, and what became of it: that it has started, or that it waits still, which says
that it waits at least so long. Quantiles of wait / guess are those of Kaplan and Meier (JASA 1958), with one more job
that outlasts all; beyond the longest an exponential tail is taken. Where more was guessed than of any that has started,
as in a queue that grows, what was learned of those counts the less, and the guess itself the more. The p90 is
multiplied by a factor that grows when a p90 has passed and the job still waits, and shrinks when one starts before: so
that nine in ten start by it although waits drift (adaptive conformal inference, Gibbs and Candès 2021). It plans
nothing, and no cycle asks it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from gsched.policy.future.past_waits import GOAL, LEAST, MOST_KINDS, WaitEstimate, scopes_of

NEWEST = 40
"""Jobs that are alike of which it is looked how they did: so many that started last, and that came last of those that
wait. With more, quantiles follow too late.
"""
STEP = 0.15
"""By so much the logarithm of the factor moves."""
UNTRUSTED, WIDER = 2.0, 0.15
"""Where so many times more was guessed than of any that has started: by which power of it what was learned counts less,
and by which the p90 is later.
"""
_FACTORS: Final = (0.7, 8.0)


class _Guess(NamedTuple):
    submitted_at: float
    guess_s: float

    def ratio(self, at: float) -> float:
        """How much of what was guessed it has waited then."""
        return max(0.0, at - self.submitted_at) / self.guess_s


@dataclass(slots=True)
class _AlikeGuesses:
    started: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=NEWEST))
    """How many times as long as guessed each has waited, and what was guessed."""
    waiting: dict[int, _Guess] = field(default_factory=dict)
    known_at: float = math.nan
    quantiles: tuple[float, float] = (0.0, 0.0)
    """As of then: of one half, of nine in ten."""

    def ratios(self, now: float) -> list[tuple[float, bool]]:
        """As `quantile` takes them."""
        newest = islice(reversed(self.waiting.values()), NEWEST)
        return [*((ratio, True) for ratio, _ in self.started), *((each.ratio(now), False) for each in newest)]


class WaitForecasts:
    """What is kept is bounded by the kinds of jobs, and by those that wait."""

    def __init__(self) -> None:
        self._alike: dict[tuple[object, ...], _AlikeGuesses] = {}
        """Those of which something was guessed most recently come last."""
        self._waiting: dict[int, tuple[_Guess, list[_AlikeGuesses]]] = {}
        self._due: list[tuple[float, int]] = []
        """When the p90 of a job passes, its number."""
        self._open: dict[int, float] = {}
        """Number -> p90 that has neither passed nor come true."""
        self._factor = 1.0

    # -- what is said ---------------------------------------------------------------------------------------------

    def estimate(
        self, user: str, queue: str, gpus: float, guess_s: float, now: float, waited_s: float = 0.0
    ) -> WaitEstimate | None:
        """Of a job that has waited for so long, of which `guess_s` was guessed at its submission; seconds from that
        submission on. None: too few are known.
        """
        self._pass(now)
        for scope in scopes_of(user, queue, gpus):
            alike = self._alike.get(scope)
            if alike is None or len(alike.started) < LEAST:
                continue
            found = self._quantiles(alike, waited_s / guess_s, now)
            if found is None:
                continue
            half, most, jobs = found
            more = max(1.0, guess_s / max(guessed for _, guessed in alike.started))
            trust = more**-UNTRUSTED
            factor = self._factor if self._factor > 1.0 else self._factor**trust
            p50_s = max(guess_s * _trusted(half, trust), waited_s)
            p90_s = guess_s * _trusted(most, trust) * factor * more**WIDER
            return WaitEstimate(p50_s, max(p50_s, p90_s), jobs)
        return None

    def _quantiles(self, alike: _AlikeGuesses, least: float, now: float) -> tuple[float, float, int] | None:
        """Of wait / guess: of one half, of nine in ten, and of how many starts; of those alone that are at least so
        large. None: of too few.
        """
        if least > 0.0:
            longer = [each for each in alike.ratios(now) if each[0] >= least]
            jobs = sum(has_started for _, has_started in longer)
            return None if jobs < LEAST else (quantile(longer, 0.5), quantile(longer, GOAL), jobs)
        if alike.known_at != now:
            ratios = alike.ratios(now)
            alike.quantiles, alike.known_at = (quantile(ratios, 0.5), quantile(ratios, GOAL)), now
        return *alike.quantiles, len(alike.started)

    # -- what happens ---------------------------------------------------------------------------------------------

    def told(
        self, number: int, user: str, queue: str, gpus: float, submitted_at: float, guess_s: float, p90_s: float | None
    ) -> None:
        """That was guessed of a job that waits, and `p90_s` was told if anything was."""
        self.leave(number)
        guess = _Guess(submitted_at, guess_s)
        kept = [self._of(scope) for scope in scopes_of(user, queue, gpus)]
        for alike in kept:
            alike.waiting[number] = guess
        self._waiting[number] = guess, kept
        while len(self._alike) > MOST_KINDS:
            del self._alike[next(iter(self._alike))]
        if p90_s is not None:
            self._open[number] = submitted_at + p90_s
            heappush(self._due, (submitted_at + p90_s, number))
            if len(self._due) > 64 + 2 * len(self._open):
                self._due = [(at, each) for each, at in self._open.items()]
                heapify(self._due)

    def started(self, number: int, at: float, left: int = 0) -> None:
        """A job has started, or one of an array of which `left` wait still."""
        self._pass(at)
        guess, kept = self._waiting.get(number, (None, []))
        if guess is None:
            return
        for alike in kept:
            alike.started.append((guess.ratio(at), guess.guess_s))
        if not left:
            if number in self._open:
                self._move(GOAL - 1.0)
            self.leave(number)

    def leave(self, number: int) -> None:
        """It waits no more for what was guessed: it was killed, or asks for something else."""
        _, kept = self._waiting.pop(number, (None, []))
        for alike in kept:
            del alike.waiting[number]
        self._open.pop(number, None)

    def _of(self, scope: tuple[object, ...]) -> _AlikeGuesses:
        """Those of that kind, which is now the last that something was guessed of."""
        found = self._alike.pop(scope) if scope in self._alike else _AlikeGuesses()
        self._alike[scope] = found
        return found

    def _pass(self, now: float) -> None:
        """Those whose p90 has passed have not started by it."""
        while self._due and self._due[0][0] < now:
            at, number = heappop(self._due)
            if self._open.get(number) == at:
                del self._open[number]
                self._move(GOAL)

    def _move(self, by: float) -> None:
        self._factor = min(max(self._factor * math.exp(STEP * by), _FACTORS[0]), _FACTORS[1])


def _trusted(ratio: float, trust: float) -> float:
    """One below 1 the nearer to 1 the less it is trusted; who waits longer than guessed is not said to wait less."""
    return ratio if ratio >= 1.0 else ratio**trust


def quantile(ratios: Sequence[tuple[float, bool]], level: float) -> float:
    """Of values of which some (False) are known to be at least so large; at least one is known. One more is taken to
    be larger than all.
    """
    ordered = sorted(ratios, key=lambda each: (each[0], not each[1]))
    beyond, at_risk = 1.0, len(ordered) + 1
    for ratio, is_known in ordered:
        if is_known:
            beyond *= 1.0 - 1.0 / at_risk
            if beyond <= 1.0 - level + 1e-9:
                return ratio
        at_risk -= 1
    mean = math.fsum(ratio for ratio, _ in ordered) / sum(is_known for _, is_known in ordered)
    return ordered[-1][0] + mean * math.log(beyond / (1.0 - level))
