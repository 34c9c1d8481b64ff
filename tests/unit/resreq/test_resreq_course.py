"""How reservations with durations shrink: in steps that never hold less than what is or will be wanted."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.resreq.amount_steps import LEAST_STEP_S, MOST_STEPS, AmountSteps, at_start, course
from gsched.resreq.ast import Phase, Reservation
from gsched.resreq.parsing.syntax import parse

MIN = 60.0


def read(text: str) -> tuple[float, AmountSteps]:
    (item,) = parse(f"rusage[{text}]").rusage
    return at_start(item), course(item)


@pytest.mark.parametrize(
    ("text", "most", "steps"),
    [
        ("mem=50", 50, ()),
        ("mem=50:duration=10", 50, ((0, 50), (10 * MIN, 0))),
        ("mem=50:duration=2s:decay=1", 50, ((0, 50), (2, 0))),  # too short for more than one step
        ("mem=50:duration=2:decay=1", 50, ((0, 50), (MIN, 25), (2 * MIN, 0))),
        ("mem=(50 20):duration=(10):decay=(0)", 50, ((0, 50), (10 * MIN, 20))),
        ("mem=(50 20):duration=(10 5)", 50, ((0, 50), (10 * MIN, 20), (15 * MIN, 0))),
        # What a later phase wants is held from the start on.
        ("mem=(20 50):duration=(10)", 50, ()),
        ("mem=(10 50 20):duration=(10 5)", 50, ((0, 50), (15 * MIN, 20))),
        ("mem=(0 5):duration=(1 1)", 5, ((0, 5), (2 * MIN, 0))),
        ("mem=(40 20):duration=(4):decay=(1)", 40, ((0, 40), (MIN, 30), (2 * MIN, 20))),
        ("mem=(20 20):duration=(4)", 20, ()),
        ("mem=0:duration=5", 0, ()),
    ],
)
def test_courses(text: str, most: float, steps: AmountSteps) -> None:
    assert read(text) == (most, steps)


def test_a_long_decay_has_no_more_steps_than_are_worth_waking_up_for() -> None:
    most, steps = read("mem=100:duration=100h:decay=1")
    assert most == 100 and len(steps) == MOST_STEPS + 1
    assert steps[1] == (5 * 3600.0, 95.0)


PHASES = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(1, 10_000), st.booleans()), min_size=1, max_size=5
)  # fmt: skip


@given(PHASES, st.booleans(), st.floats(0, 60_000))
def test_never_less_is_held_than_is_wanted_now_or_later(
    rows: list[tuple[int, int, bool]], is_open: bool, at: float
) -> None:
    phases = [Phase(float(amount), str(amount), float(time), decay) for amount, time, decay in rows]
    if is_open:
        phases[-1] = Phase(phases[-1].amount, phases[-1].text)
    first = phases[0]
    item = Reservation("mem", first.amount, first.text, "", 0, first.duration_s, first.decay, phases=tuple(phases))
    steps = course(item) or ((0.0, at_start(item)),)
    times, amounts = [time for time, _ in steps], [amount for _, amount in steps]
    assert times[0] == 0 and times == sorted(set(times)) and amounts == sorted(set(amounts), reverse=True)
    assert amounts[0] == at_start(item)
    held = [amount for time, amount in steps if time <= at][-1]
    begin = 0.0
    for phase in phases:
        end = begin + (phase.duration_s or 1e9)
        if at < end:
            into = max(0.0, at - begin)
            wanted = phase.amount * (1 - into / (end - begin)) if phase.decay else phase.amount
            assert held >= wanted - 1e-9
        begin = end
    if not is_open:
        assert amounts[-1] == 0
    if len(phases) == 1 and phases[0].decay:
        assert all(later - earlier >= LEAST_STEP_S - 1e-6 for earlier, later in pairwise(times[:-1]))
