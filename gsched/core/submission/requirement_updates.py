"""Waiting jobs follow their queue: what queue and cluster ask for beside the job is combined anew when it changes.

After a reconfig, and when a master starts, for all jobs that wait; else for those that begin to wait again. A job whose
text cannot be combined with the queue's any more keeps the requirement that it had, and says so. Done in pieces, so
that however many jobs change, commands are answered in between; the cost of those that do not is one look each. It
never touches a job that has started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import GschedError
from gsched.core.decision import Decision
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.wait_index import WaitingItem, item_id
from gsched.core.submission.requirement_check import CheckedRequirement, CheckRequirement, lasting
from gsched.model.config import ClusterConfig, GpuUnrequested
from gsched.model.event import AnyEvent, JobModified, JobRequeued
from gsched.model.jobs.job import JobSpec

MOST_CHANGED = 500
"""Jobs that one piece of the work changes at the most."""
MOST_SPECS = 500
"""Distinct texts that it combines at the most."""


class RequirementUpdates:
    """The jobs that are yet to be looked at."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._left: deque[int] = deque()
        self._check: CheckRequirement
        self._answers: dict[int, tuple[JobSpec, JobSpec]] = {}
        """id(spec) -> the spec (kept, so that its id stays its own) and the one that takes its place."""

    @property
    def is_due(self) -> bool:
        """Whether jobs are left to be looked at: until then nothing should be started."""
        return bool(self._left)

    def begin(self, check: CheckRequirement) -> None:
        """Another configuration, by which `check` judges: every waiting job is to be looked at. Jobs come before the
        arrays.
        """
        self._check = check
        self._answers.clear()
        waiting = (job.job_id for job in self._state.jobs.values() if job.is_pending())
        arrays = (array.array_id for array in self._state.arrays.values() if array.count)
        self._left = deque([*waiting, *arrays])

    def note(self, events: Iterable[AnyEvent]) -> None:
        """Jobs that begin to wait again may have started under another configuration."""
        self._left.extend(event.job_id for event in events if isinstance(event, JobRequeued))

    def step(self, decision: Decision) -> None:
        """Look at the next jobs and record what changes."""
        changed, known = 0, len(self._answers)
        while self._left and changed < MOST_CHANGED and len(self._answers) - known < MOST_SPECS:
            item = self._waiting(self._left.popleft())
            if item is None:
                continue
            new = self._anew(item.spec, decision.config)
            if new is not item.spec:
                changed += 1
                decision.record(
                    JobModified(
                        at=decision.now, job_id=item_id(item), by="", spec=new, changes=tuple(_told(item.spec, new))
                    )
                )
        if not self._left:
            self._answers.clear()

    def _waiting(self, number: int) -> WaitingItem | None:
        array = self._state.arrays.get(number)
        if array is not None:
            return array if array.count else None
        job = self._state.jobs.get(number)
        return job if job is not None and job.is_pending() else None

    def _anew(self, spec: JobSpec, config: ClusterConfig) -> JobSpec:
        """The spec as it would be now; the same object when nothing changes."""
        known = self._answers.get(id(spec))
        if known is None:
            new = spec if spec.queue not in config.queues else _combined(spec, config, self._check)
            known = self._answers[id(spec)] = (spec, spec if new == spec else self._state.specs.shared(new))
        return known[1]


def _combined(spec: JobSpec, config: ClusterConfig, judge: CheckRequirement) -> JobSpec:
    warnings = lasting(spec.warnings)
    try:
        judged = judge(spec.res_req, spec.gpu_req, spec.queue, spec.slots, spec.application)
    except GschedError as error:
        text = coded("warning.requirement_kept", spec.queue, error.text)
        return msgspec.structs.replace(spec, warnings=(*warnings, text))
    return msgspec.structs.replace(
        spec,
        combined_req=judged.text,
        combined_gpu_req=judged.gpu_text,
        auto_gpu=_gets_unasked(judged, config),
        warnings=tuple(dict.fromkeys((*warnings, *judged.warnings))),
    )


def _gets_unasked(judged: CheckedRequirement, config: ClusterConfig) -> bool:
    return judged.takes_unasked and config.params.gpu_unrequested is GpuUnrequested.AUTO


def _told(old: JobSpec, new: JobSpec) -> Iterable[AnyText]:
    """What is different, in words."""
    for code, before, after in (
        ("change.requirement", old.combined_req, new.combined_req),
        ("change.gpu_requirement", old.combined_gpu_req, new.combined_gpu_req),
    ):
        if before != after:
            yield coded(code, after or coded("change.nothing"))
    yield from (text for text in new.warnings if text not in old.warnings)
