"""How far an array is, and how long it will take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.cli.render.text.array_progress import ElementTimes, about, progress_line, progress_text, time_left

OVER, RUNS, WAITS = ("DONE", 0.0, 100.0), ("RUN", 100.0, None), ("PEND", None, None)


@pytest.mark.parametrize(
    ("elements", "left_s"),
    [
        ([], None),
        ([OVER, WAITS], None),  # nothing runs: nobody knows when it goes on
        ([RUNS, WAITS], None),  # none has ended
        ([OVER, RUNS], 60.0),
        ([OVER, RUNS, WAITS], 160.0),
        ([OVER, RUNS, RUNS, WAITS, WAITS], 160.0),
        ([("EXIT", 0.0, 50.0), ("DONE", 0.0, 150.0), RUNS], 60.0),
        ([OVER, ("RUN", -900.0, None)], 0.0),  # it takes longer than the others
        ([OVER, ("EXIT", None, 10.0), RUNS], 60.0),  # one that never started
    ],
)
def test_what_is_left(elements: list[ElementTimes], left_s: float | None) -> None:
    assert time_left(elements, 140.0) == left_s


@given(st.lists(st.sampled_from([OVER, RUNS, WAITS])), st.floats(100.0, 1e6))
def test_it_is_never_less_than_nothing(elements: list[ElementTimes], now: float) -> None:
    left = time_left(elements, now)
    assert left is None or left >= 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "about 1 s"), (89, "about 89 s"), (840, "about 14 min"), (7200, "about 2 h"), (200_000, "about 2 d")],
)
def test_rounded(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_as_texts() -> None:
    counts = {"DONE": 35, "EXIT": 2, "RUN": 4, "PEND": 59}
    assert progress_text(counts, 840.0) == "37/100, 2 failed, 4 running, about 14 min"
    assert progress_line({"DONE": 1, "PEND": 3}) == "[#####               ] 1/4"
    assert progress_line({}) == "[                    ] 0/0"
