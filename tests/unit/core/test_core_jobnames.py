"""Names in conditions: found through an index, once for each expression, whatever one user writes."""

from __future__ import annotations

import random
from fnmatch import fnmatchcase

import pytest
from core_world import World, spec
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.ids import index_of
from gsched.core.command import ModifyJobs
from gsched.core.pending import dependency_check
from gsched.core.records import job_names
from gsched.core.records.dependency_condition import MOST_CONDITIONS, RESOLVED_LENGTH, conditions_in, parse_resolved
from gsched.core.records.job_names import JobNames
from tests.support.property_examples import examples

NAMES = st.text("ab-", min_size=1, max_size=4)


def matching(table: dict[int, tuple[str, str]], user: str | None, pattern: str) -> list[int]:
    """By looking at every job."""
    return sorted(n for n, (who, name) in table.items() if user in (None, who) and fnmatchcase(name, pattern))


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("xy"), NAMES), max_size=40), st.integers(0, 1 << 32))
def test_the_index_finds_what_a_look_at_every_job_finds(jobs: list[tuple[str, str]], seed: int) -> None:
    rng, names, table = random.Random(seed), JobNames(), {}
    for number, (user, name) in enumerate(jobs, 1):
        names.enter(number, user, name)
        table[number] = (user, name)
        if rng.random() < 0.4:
            gone = rng.choice(list(table))
            names.leave(gone, *table.pop(gone))
        for pattern in ("a", "a*", "*", "ab*-", "*b", "a**b*"):
            for who in ("x", "y", None):
                found, expected = names.search(who).numbers(pattern, 99), matching(table, who, pattern)
                assert found == expected, (pattern, who)
                assert names.search(who).newest(pattern) == (expected[-1] if expected else None)


def test_a_name_that_is_written_often_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = job_names.Search.numbers

    def numbers(self: job_names.Search, pattern: str, most: int) -> list[int]:
        asked.append(pattern)
        return original(self, pattern, most)

    monkeypatch.setattr(job_names.Search, "numbers", numbers)
    world = World()
    for _ in range(20):
        world.submit(spec(name="step"))
    (waiting,) = world.submit(spec(dependency="&&".join(["step"] * 440 + ["exit(step)"] * 100)))
    assert asked == ["step"]
    assert len(list(conditions_in(parse_resolved(world.job(waiting).spec.conditions)))) == 40


def test_only_names_that_begin_so_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_names, "MOST_LOOKED_AT", 30)
    world = World()
    world.submit(*[spec(name=f"a{number}") for number in range(40)], *[spec(name=f"b{number}") for number in range(4)])
    world.submit(spec(dependency="b* && b1* && b*3 && a7"))
    with pytest.raises(
        BadRequest, match=r"a\* and what else is named would be held against over 30 names .*position 1"
    ):
        world.submit(spec(dependency="a*"))
    with pytest.raises(BadRequest, match=r"b\*{8} and .* held against over 30 names"):
        world.submit(spec(dependency="&&".join("b" + "*" * stars for stars in range(1, 20))))


def test_what_an_expression_comes_to_is_bounded() -> None:
    world = World()
    world.submit(*[spec(name="many")] * (MOST_CONDITIONS - 1))
    (waiting,) = world.submit(spec(dependency="many"))
    text = world.job(waiting).spec.conditions
    assert len(list(conditions_in(parse_resolved(text)))) == MOST_CONDITIONS - 1
    assert len(text) < RESOLVED_LENGTH
    with pytest.raises(BadRequest, match=r"stands for more than 5000 jobs \(position 9\)"):
        world.submit(spec(dependency="many && exit(many)"))
    world.submit(spec(name="many"), spec(name="many"))
    with pytest.raises(BadRequest, match="many stands for more than 5000 jobs"):
        world.submit(spec(dependency="many"))


def test_a_star_alone_means_jobs_without_a_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    first = world.submit(spec(), spec(name="named"))
    (waiting,) = world.submit(spec(dependency="*"))
    assert world.job(waiting).spec.conditions == f"done({first[0]}) && done({first[1]})"
    monkeypatch.setattr(dependency_check, "MOST_LOOKED_AT", 2)
    with pytest.raises(BadRequest, match="stands for any of more than 2 jobs"):
        world.submit(spec(dependency="*"))


def test_the_index_follows_the_jobs() -> None:
    world = World()
    (job,) = world.submit(spec(name="old"))
    world.do(ModifyJobs("ann", False, (job,), spec(name="new"), ("name",)))
    with pytest.raises(BadRequest, match="no job is called old"):
        world.submit(spec(dependency="old"))
    world.submit(spec(dependency="new", name="array", indices="1-3"))
    state = world.engine.state
    expected: dict[tuple[str, str], set[int]] = {}
    for number, item in [*state.jobs.items(), *state.arrays.items()]:
        if not index_of(number) and item.spec.name:
            expected.setdefault((item.spec.user, item.spec.name), set()).add(number)
    for (user, name), numbers in expected.items():
        assert set(state.names.search(user).numbers(name, 99)) == numbers
    world.check_replay()
