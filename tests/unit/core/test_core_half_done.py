"""Faults in the middle of a command: what is a refusal, and what ends the engine because the state is not known."""

from __future__ import annotations

import pytest
from core_world import World, spec

from gsched.base.errors import Internal
from gsched.core.engine import HalfDone
from gsched.core.state.transitions import IllegalEvent
from gsched.model.event import AnyEvent


def test_an_event_that_was_applied_in_part_ends_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a replay can say what the state is then, whether or not an event came before it."""
    world = World()
    (job,) = world.run(spec())

    def fail(job_id: int, queue: str, at: float) -> None:
        raise ValueError("in the middle")

    monkeypatch.setattr(world.engine.state.accounts, "switched", fail)
    with pytest.raises(HalfDone, match="failed after 0 events"):
        world.modify(job, run_limit_s=60)


def test_an_event_that_cannot_follow_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    (job,) = world.run(spec())
    before = world.engine.state.dump()

    def refuse(event: AnyEvent) -> None:
        raise IllegalEvent("never mind")

    monkeypatch.setattr(world.engine.state, "apply", refuse)
    with pytest.raises(Internal, match="nothing was changed"):
        world.modify(job, run_limit_s=60)
    assert world.engine.state.dump() == before
