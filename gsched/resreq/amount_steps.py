"""How much of a reservation is held when: its durations, decays and phases as steps that only go down.

A reservation of LSF may grow from one phase to the next. Here it is at any time the most that the present or a later
phase wants: what was free when a job started is then free for its later phases, too, and no host is promised twice.
Source: bsub(1), option -R, rusage: duration, decay, phases; the rule above is this scheduler's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.resreq.ast import Phase, Reservation

MOST_STEPS = 20
"""Steps in which one phase decays."""
LEAST_STEP_S = 60.0
"""The shortest of these steps."""

AmountSteps = tuple[tuple[float, float], ...]
"""(seconds after the start, amount from then on), ascending from 0."""


def at_start(item: Reservation) -> float:
    """What is reserved when the job starts: the largest amount that any phase wants."""
    return max((phase.amount for phase in item.phases), default=item.amount)


def course(item: Reservation) -> AmountSteps:
    """What is reserved from when on; empty when it is the same amount from start to end."""
    found: list[tuple[float, float]] = []
    most = 0.0
    for after, amount in reversed(list(_wanted(item))):
        most = max(most, amount)
        if found and found[-1][1] == most:
            found.pop()  # nothing changes then
        found.append((after, most))
    return tuple(reversed(found)) if len(found) > 1 else ()


def _wanted(item: Reservation) -> Iterator[tuple[float, float]]:
    """What the phases want, each from when on."""
    begin = 0.0
    for phase in item.phases or (Phase(item.amount, item.text, item.duration_s, item.decay),):
        yield from _of_phase(phase, begin)
        if phase.duration_s is None:
            return
        begin += phase.duration_s
    yield begin, 0.0


def _of_phase(phase: Phase, begin: float) -> Iterator[tuple[float, float]]:
    """Of a decay each step holds what is wanted when it begins, so that it is never less than the even fall."""
    if not phase.decay or phase.duration_s is None:
        yield begin, phase.amount
        return
    steps = max(1, min(MOST_STEPS, int(phase.duration_s / LEAST_STEP_S)))
    for step in range(steps):
        yield begin + step * phase.duration_s / steps, phase.amount * (steps - step) / steps
