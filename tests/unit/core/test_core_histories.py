"""Any history at all: random people, agents and hosts (see core_histories), shrunk by hypothesis or long and seeded."""

from __future__ import annotations

import pytest
from core_histories import Histories
from core_long_history import live
from hypothesis import HealthCheck, settings

from gsched.model.event import (
    AnyEvent,
    GpuClosed,
    GpuOpened,
    HistoryArchived,
    JobDispatched,
    JobEndWarned,
    JobGpuCurves,
    JobGpusKept,
    JobGpusMoved,
    JobOutputRemoved,
    JobPreemptionWithdrawn,
    JobRequeued,
    JobResizeWithdrawn,
    JobServiceAnswered,
    JobSignalsSent,
    JobSuspended,
    NumbersRaised,
    PastJobRecorded,
    StaleResultRecorded,
    StoreRenewed,
    SubmissionAccepted,
)
from tests.support.property_examples import examples

TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(13),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.mark.slow
def test_long_histories_see_everything_happen() -> None:
    # Seeds on which also happens what is rare: jobs that are preempted, or have compute units for themselves.
    worlds = {seed: Histories() for seed in (16, 26, 28)}
    for seed, world in worlds.items():
        live(world, seed, 400)
    events = [event for world in worlds.values() for event in world.events]
    elsewhere = {StaleResultRecorded, NumbersRaised, StoreRenewed, SubmissionAccepted, GpuClosed, GpuOpened}
    elsewhere |= {JobGpuCurves, JobServiceAnswered, JobEndWarned, JobPreemptionWithdrawn, JobResizeWithdrawn}
    elsewhere |= {JobGpusMoved, JobGpusKept, JobSignalsSent, PastJobRecorded, JobOutputRemoved}
    elsewhere |= {HistoryArchived}
    assert set(AnyEvent.__args__) - {type(event) for event in events} <= elsewhere
    suspended = [event for event in events if isinstance(event, JobSuspended)]
    assert any(event.preempted_by for event in suspended) and any(event.reason for event in suspended)
    assert any(event.retry for event in events if isinstance(event, JobRequeued))
    assert any(event.allocation.kept for event in events if isinstance(event, JobDispatched))
