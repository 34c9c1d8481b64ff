"""What is told of steps: packed, bounded, and never an error for who reads it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gsched.model.jobs.step_facts import MOST_PACKED_STEPS, StepFacts, pack_steps, unpack_steps


def facts(number: int, **more: object) -> StepFacts:
    plain = {"name": "a.out", "tasks": 2, "nodes": "n[1-2]", "node_count": 2, "cpus": 2, "gpus": 0, "began_at": 5.0}
    return StepFacts(number=number, **{**plain, **more})  # type: ignore[arg-type]


def test_steps_are_read_as_they_were_told() -> None:
    steps = (facts(0, ended_at=7.5, code=3, max_rss_mib=1.5, cpu_s=0.25), facts(1, signal=9, is_cancelled=True))
    assert unpack_steps(pack_steps(steps)) == steps
    assert pack_steps([]) == b"" and unpack_steps(b"") == ()


def test_of_many_the_last_are_told() -> None:
    many = [facts(number, name="x" * 64) for number in range(2_000)]
    data = pack_steps(many)
    assert len(data) <= MOST_PACKED_STEPS
    told = unpack_steps(data)
    assert 200 < len(told) < 2_000 and told == tuple(many[-len(told) :])
    assert unpack_steps(pack_steps(many[:3], 250)) == tuple(many[1:3])


@given(st.binary(max_size=200))
def test_what_cannot_be_read_is_not_known(data: bytes) -> None:
    assert isinstance(unpack_steps(data), tuple)
    assert unpack_steps(pack_steps([facts(0)])[:-1] + data) in ((), (facts(0),)) or data
    assert unpack_steps(b"\x90" * (MOST_PACKED_STEPS + 1)) == ()
