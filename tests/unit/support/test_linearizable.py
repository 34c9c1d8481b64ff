"""The check of recorded calls: whatever one master could have answered passes, and each kind of lie is found."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.linearizable import ABSENT, FINISHED, OVER, Call, violations
from tests.support.property_examples import examples


class Model:
    """One master that does one thing after the other; each call takes effect at a moment of its own."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.jobs: dict[int, tuple[str, int]] = {}
        self.tokens: dict[str, int] = {}
        self.killed: set[int] = set()
        self.calls: list[Call] = []

    def play(self, steps: int) -> list[Call]:
        for _ in range(steps):
            self.now += self.rng.random()
            self.rng.choice([self.submit, self.query, self.query, self.kill, self.advance, self.advance])()
        return self.calls

    def submit(self) -> None:
        token = self.rng.choice([f"t{len(self.tokens)}", *self.tokens])
        job = self.tokens.setdefault(token, len(self.tokens) + 1)
        self.jobs.setdefault(job, ("PEND", 0))
        self.note(Call(what="submit", begin=0, token=token, job=job))

    def query(self) -> None:
        job = self.rng.randint(1, len(self.jobs) + 1)
        state, attempt = self.jobs.get(job, (ABSENT, 0))
        self.note(Call(what="query", begin=0, job=job, answer=state, attempt=attempt))

    def kill(self) -> None:
        if self.jobs:
            job = self.rng.choice(list(self.jobs))
            is_over = self.jobs[job][0] in FINISHED
            self.killed.add(job)
            self.note(Call(what="kill", begin=0, job=job, answer=OVER if is_over else "killed"))

    def advance(self) -> None:
        """A job goes forward by itself; it may be started again."""
        for job, (state, attempt) in self.jobs.items():
            if state not in FINISHED and self.rng.random() < 0.5:
                ends = [("DONE", attempt), ("PEND", attempt), *([("EXIT", attempt)] if job in self.killed else [])]
                self.jobs[job] = self.rng.choice(ends) if state == "RUN" else ("RUN", attempt + 1)

    def note(self, call: Call) -> None:
        began, ended = self.now - 3 * self.rng.random(), self.now + 3 * self.rng.random()
        self.calls.append(replace(call, begin=began, end=ended))


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 80))
def test_what_one_master_could_have_answered_passes(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    calls = Model(rng).play(steps)
    assert violations(calls) == []
    # An answer that never came proves nothing.
    assert violations([replace(call, end=None) if rng.random() < 0.2 else call for call in calls]) == []


def late(what: str, **values: object) -> Call:
    """A call after all others."""
    return Call(what=what, begin=1e6, end=1e6 + 1, **values)  # type: ignore[arg-type]


LIES: dict[str, tuple[Callable[[int], list[Call]], str]] = {
    "an acknowledged job is lost": (lambda job: [late("query", job=job, answer=ABSENT)], "was answered absent, after"),
    "a job goes back": (
        lambda job: [
            Call(what="query", begin=1e5, end=1e5 + 1, job=job, answer="RUN", attempt=99),
            late("query", job=job, answer="PEND", attempt=98),
        ],
        "was answered PEND, after",
    ),
    "a job that is over is killed": (
        lambda job: [
            Call(what="kill", begin=1e5, end=1e5 + 1, job=job, answer=OVER),
            late("kill", job=job, answer="killed"),
        ],
        "was answered killed, after",
    ),
    "a job that is over runs": (
        lambda job: [
            Call(what="query", begin=1e5, end=1e5 + 1, job=job, answer="DONE", attempt=99),
            late("query", job=job, answer="RUN", attempt=100),
        ],
        "was answered RUN, after",
    ),
    "two jobs of one submission": (
        lambda job: [late("submit", token="twice", job=10**6), late("submit", token="twice", job=10**6 + 1)],
        "submission twice has made two jobs",
    ),
    "one job for two submissions": (
        lambda job: [late("submit", token="other", job=job)],
        "job 1 was given to two submissions",
    ),
    "two ends": (
        lambda job: [
            late("kill", job=job, answer=OVER),
            late("query", job=job, answer="DONE", attempt=99),
            late("query", job=job, answer="EXIT", attempt=99),
        ],
        "ended twice: as DONE and as EXIT",
    ),
    "seen before it was submitted": (
        lambda job: [Call(what="query", begin=-1e6, end=-1e5, job=job, answer="RUN", attempt=1)],
        "before it was submitted",
    ),
}


@pytest.mark.parametrize("kind", LIES)
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40))
def test_a_lie_is_found(kind: str, seed: int, steps: int) -> None:
    """Among what is true, wherever it stands."""
    rng = random.Random(seed)
    model = Model(rng)
    model.submit()
    calls = model.play(steps)
    lies, complaint = LIES[kind]
    told = [*calls, *lies(1)]
    rng.shuffle(told)
    found = violations(told)
    assert any(complaint in line for line in found), found


def test_who_ends_without_a_kill_was_lost() -> None:
    submitted = Call(what="submit", begin=0, end=1, token="t", job=1)
    seen = Call(what="query", begin=2, end=3, job=1, answer="EXIT", attempt=1)
    (line,) = violations([submitted, seen])
    assert line == "job 1: a query from 2.000 to 3.000 s was answered EXIT, and nobody had killed it"
    assert violations([submitted, seen, Call(what="kill", begin=2.5, job=1)]) == [], "it may have been carried out"
    assert violations([submitted, seen, Call(what="kill", begin=3.5, job=1)]) == [line]
    assert violations([submitted, seen], ends_well=False) == []


def test_calls_at_the_same_time_may_see_either() -> None:
    submitted = Call(what="submit", begin=0, end=5, token="t", job=1)
    seen = Call(what="query", begin=1, end=2, job=1, answer="RUN", attempt=1)
    not_yet = Call(what="query", begin=1.5, end=3, job=1, answer=ABSENT)
    assert violations([submitted, seen, not_yet]) == []
    (line,) = violations([submitted, seen, replace(not_yet, begin=2.5)])
    assert "answered absent, after a query from 1.000 to 2.000 s was answered RUN" in line
