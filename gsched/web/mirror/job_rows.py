"""A job as a list of jobs needs it: what it is sorted, searched and counted by, and nothing more."""

from __future__ import annotations

import msgspec

from gsched.base.ids import array_of, index_of, show_job
from gsched.model.views.view import JobView
from gsched.web.mirror.awaited_jobs import Awaited, awaited_by

MOST_HOSTS = 3
"""Named in a row; of the others the number."""


class MirroredJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Times are UTC seconds; None: not yet."""

    job_id: int
    name: str
    user: str
    queue: str
    project: str
    state: str
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    attempt: int = 0
    """The last one; 0: it has not started."""
    slots: int = 1
    gpus: int = 0
    hosts: str = ""
    waits_for: tuple[Awaited, ...] = ()
    """By its conditions, whether they hold or not."""

    @property
    def array_id(self) -> int:
        """Of an element: its array; 0 for a job of its own."""
        return array_of(self.job_id) if index_of(self.job_id) else 0

    @property
    def label(self) -> str:
        """`12`, `12[3]`."""
        return show_job(self.job_id)


def row_of(view: JobView) -> MirroredJob:
    """What is kept of a job."""
    parts = view.allocation.hosts if view.allocation is not None else ()
    hosts = " ".join(part.host for part in parts[:MOST_HOSTS])
    if len(parts) > MOST_HOSTS:
        hosts += f" +{len(parts) - MOST_HOSTS}"
    spec = view.spec
    return MirroredJob(
        job_id=view.job_id,
        name=spec.name or spec.command[:80],
        user=spec.user,
        queue=spec.queue,
        project=spec.project,
        state=view.state,
        submitted_at=view.submitted_at,
        started_at=view.dispatched_at,
        finished_at=view.finished_at,
        attempt=view.attempt,
        slots=sum(part.slots for part in parts) or spec.slots,
        gpus=sum(len(part.gpus) for part in parts),
        hosts=hosts,
        waits_for=awaited_by(spec.conditions),
    )
