"""Makes the jobs of submissions that were accepted as a whole, some in each turn.

It never judges: what may enter was decided before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto

import msgspec

from gsched.core.command_turns import EVENT
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import JobSubmitted
from gsched.model.jobs.job import JobSpec

RecordSubmitted = Callable[[JobSubmitted], None]
_decoder = msgspec.json.Decoder(JobSpec)


class MakingProgress(Enum):
    """How far a submission has come."""

    MORE = auto()
    OVER = auto()
    OVER_UNDER_ANOTHER = auto()
    """All its jobs are there, and were judged by another configuration than the one in force."""


class SubmissionMaking:
    """Makes the jobs of accepted submissions, one submission after the other."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._kept: dict[int, tuple[Sequence[JobSpec], ClusterConfig]] = {}
        """First number of a submission -> what its jobs are made of, and the configuration that judged it."""

    @property
    def has_more(self) -> bool:
        """Whether jobs are still to be made."""
        return bool(self._state.accepted)

    def keep(self, first_id: int, specs: Sequence[JobSpec], config: ClusterConfig) -> None:
        """What the event holds that is being recorded, so that it need not be read again."""
        self._kept[first_id] = (specs, config)

    def step(self, config: ClusterConfig, record: RecordSubmitted, steps: int) -> MakingProgress:
        """Make as many jobs of the oldest submission as so many steps allow, one at the least."""
        first_id, accepted = next(iter(self._state.accepted.items()))
        event, kept = accepted.event, self._kept.get(first_id)
        for place in range(accepted.made, min(event.count, accepted.made + max(1, steps // EVENT))):
            spec = kept[0][place] if kept is not None else _decoder.decode(event.spec_at(place))
            queue = config.queues.get(spec.queue)
            delay_s = queue.new_job_delay_s if queue is not None else 0.0
            record(
                JobSubmitted(
                    at=event.at,
                    job_id=first_id + place,
                    spec=spec,
                    token=event.token,
                    place=place,
                    not_before=event.at + delay_s if delay_s else 0.0,
                )
            )
        if not accepted.is_over:
            return MakingProgress.MORE
        self._kept.pop(first_id, None)
        return MakingProgress.OVER if kept is not None and kept[1] is config else MakingProgress.OVER_UNDER_ANOTHER
