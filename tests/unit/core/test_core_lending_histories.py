"""Any history in which GPUs are lent and given back: events alone give the same state, no GPU has two owners."""

from __future__ import annotations

import random

import pytest
from core_lending_histories import PLAIN, LendingHistories
from core_long_history import live
from hypothesis import HealthCheck, settings

from gsched.base.coded_text import has_code
from gsched.model.event import JobRequeued, JobRequeueRequested, JobResizeWithdrawn
from tests.support.property_examples import examples

TestLendingHistories = LendingHistories.TestCase
TestLendingHistories.settings = settings(
    max_examples=examples(8),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def lending(seed: int, steps: int) -> LendingHistories:
    """A long history in which much is lent."""
    world = LendingHistories()

    def borrow(choice: random.Random) -> None:
        world.borrow(choice.choice(["ann", "bob"]), choice, choice.randint(1, 2))

    def need(choice: random.Random) -> None:
        world.need("ann", choice.choice(["", "high", "small"]), choice.choice(PLAIN))

    def check(_: random.Random) -> None:
        world.nobody_has_more_or_less_than_it_asked_for()
        world.who_waits_for_gpus_waits_for_jobs_that_save()

    more = [
        (60, borrow),
        (30, need),
        (40, lambda choice: world.save(choice.choice("ab"), choice)),
        (4, world.change_range),
        (25, world.quiet_days),
        (40, check),
    ]
    live(world, seed, steps, more)
    return world


@pytest.mark.nightly
@pytest.mark.slow
def test_in_long_histories_jobs_grow_shrink_and_are_spared() -> None:
    # Seeds on which all of it happens.
    events = [event for seed in (6, 7) for event in lending(seed, 300).events]
    asked = [event.reason for event in events if isinstance(event, JobRequeueRequested)]
    assert any(has_code(reason, "requeue.shrinks") for reason in asked)
    assert any(has_code(reason, "requeue.grows") for reason in asked)
    assert any(event.resized for event in events if isinstance(event, JobRequeued))
    assert any(isinstance(event, JobResizeWithdrawn) for event in events)
