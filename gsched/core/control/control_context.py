"""What everything that is done to jobs on request has at hand, and the answers that several of these give.

Texts are LSF's. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gsched.core.authorization import Caller
from gsched.core.command import JobCommand
from gsched.core.command_turns import Turn
from gsched.core.control import queue_order
from gsched.core.decision import Decision
from gsched.core.resources.observed_hosts import Observation
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobState

FINISHED_TEXT = "Job has already finished"
WRONG_STATE_TEXT = "Job is not in a state that was asked for"
UNREACHABLE_TEXT = "Host of the job does not answer"
NOT_STARTED_TEXT = "Job has not started yet"
STARTED_TEXT = "Job has already started"
MOST_OWED = 100
"""So many signals of a job are kept for hosts that have not told that they were sent."""
UNREACHABLE = (JobState.UNKWN, JobState.ZOMBI)


AnyJobCommand = TypeVar("AnyJobCommand", bound=JobCommand, covariant=True)


@dataclass(frozen=True, slots=True)
class ControlContext(Generic[AnyJobCommand]):
    """Everything a control needs at hand, in each of its turns as it is then."""

    state: ClusterState
    configured: Callable[[], ClusterConfig]
    command: AnyJobCommand
    observed: Callable[[str], Observation]
    turn: Turn
    moved: dict[int, queue_order.QueuePlace] = field(default_factory=dict)
    """Array, or job that is no element -> the place that it is given: all of an array get the same."""

    @property
    def config(self) -> ClusterConfig:
        return self.configured()

    @property
    def now(self) -> float:
        return self.turn.now

    @property
    def decision(self) -> Decision:
        return self.turn.decision

    @property
    def caller(self) -> Caller:
        return Caller(self.command.user, self.command.is_admin)
