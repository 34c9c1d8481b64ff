"""A job that ended CLEAN_PERIOD ago is forgotten, and with it what only a job in memory can still need.

That is what it was given to read (`-is`), once nobody else reads the same, and what is in its own message boxes: what
its calls have saved for another attempt, and results. The rest stays with its history.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.ids import element_id
from gsched.core.decision import Decision
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import JobForgotten
from gsched.model.views.message_boxes import OWN_BOXES


def forget(number: int, decision: Decision) -> None:
    """The job, or the array with all its elements."""
    state = decision.state
    given = state.item(number).spec.spooled_input
    saved = [
        message.attachment
        for job in _jobs(number, state)
        for message in job.messages
        if message.box in OWN_BOXES and message.attachment
    ]
    decision.record(JobForgotten(at=decision.now, job_id=number))
    decision.dropped += saved
    if given and not state.inputs.is_read(given, state.accepted):
        decision.dropped.append(given)


def _jobs(number: int, state: ClusterState) -> Iterable[JobRecord]:
    array = state.arrays.get(number)
    numbers = [number] if array is None else [element_id(number, index) for index in array.indices]
    return (state.jobs[each] for each in numbers if each in state.jobs)
