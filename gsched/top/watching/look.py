"""One look at the cluster: hosts with their GPUs, jobs and queues, no more of each than is shown and recorded.

None is unknown, never 0. Times are UTC seconds. Texts are as users wrote them: who shows them makes them harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from gsched.base.ids import parse_attempt_name, show_job
from gsched.cli.render.hosts.gpu_tables import trouble_of
from gsched.cli.render.text.reason_texts import reason_texts
from gsched.model.jobs.job import PENDING
from gsched.model.views.view import GpuView, HostView, JobView, QueueView

LONGEST_NAME = 80
"""Characters of a name, a command, a reason that are kept."""
LONGEST_TEXT = 240
MOST_HELD = 64
"""GPUs of a job that are kept; of the others the number."""


class Whose(StrEnum):
    """What strikes first of a GPU; the value is what is shown."""

    FREE = "free"
    MINE = "mine"
    OTHERS = "others'"
    CLOSED = "closed"
    FAILED = "failed"
    FOREIGN = "foreign"
    BARRED = "barred"
    """Its compute mode is not known, or prohibits its use."""


class GpuLook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One GPU. `use`: percent of the time in which it computed."""

    uuid: str
    index: int
    whose: Whose
    use: int | None = None
    used_mib: int | None = None
    memory_mib: int | None = None
    users: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()

    @property
    def memory_percent(self) -> int | None:
        """Of its memory that is in use."""
        if self.used_mib is None or not self.memory_mib:
            return None
        return min(100, round(100 * self.used_mib / self.memory_mib))


class HostLook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host; `status` is LSF's word."""

    name: str
    status: str
    max_slots: int | None = None
    njobs: int = 0
    gpus: tuple[GpuLook, ...] = ()


class HeldLook(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A GPU that a job holds, or held; `board` is the UUID of the GPU, also where a part of it is held."""

    host: str
    index: int
    board: str


class JobLook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job, as lists need it."""

    job_id: int
    name: str
    user: str
    queue: str
    state: str
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    slots: int = 1
    hosts: tuple[str, ...] = ()
    held: tuple[HeldLook, ...] = ()
    gpus: int = 0
    """That it holds, those beyond MOST_HELD too."""
    command: str = ""
    gpu_req: str = ""
    res_req: str = ""
    why: str = ""
    """Of a pending job: the first reason."""

    @property
    def label(self) -> str:
        """`12`, `12[3]`."""
        return show_job(self.job_id)

    def run_s(self, now: float) -> float | None:
        """How long it has run, or ran; None: it has not begun."""
        if self.started_at is None:
            return None
        return max(0.0, (self.finished_at or now) - self.started_at)


class QueueLook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One queue; counts are in slots, as gqueues has them."""

    name: str
    priority: int
    status: str
    njobs: int = 0
    pend: int = 0
    run: int = 0
    susp: int = 0


class ClusterLook(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen at one time. `me`: whose jobs are "mine"."""

    at: float
    me: str
    cluster: str = ""
    hosts: tuple[HostLook, ...] = ()
    jobs: tuple[JobLook, ...] = ()
    queues: tuple[QueueLook, ...] = ()
    is_cut: bool = False
    """There was no room for all jobs."""

    def job(self, job_id: int) -> JobLook | None:
        """The job with that number."""
        return next((job for job in self.jobs if job.job_id == job_id), None)

    def gpu(self, uuid: str) -> GpuLook | None:
        """The GPU with that UUID."""
        return next((gpu for host in self.hosts for gpu in host.gpus if gpu.uuid == uuid), None)


def job_look(view: JobView) -> JobLook:
    """What is kept of a job."""
    spec, parts = view.spec, view.allocation.hosts if view.allocation is not None else ()
    held = [HeldLook(part.host, gpu.index, gpu.board) for part in parts for gpu in part.gpus]
    reasons = reason_texts(view.pending_reasons) if view.state in PENDING else ()
    return JobLook(
        job_id=view.job_id,
        name=(spec.name or spec.command)[:LONGEST_NAME],
        user=spec.user,
        queue=spec.queue,
        state=view.state,
        submitted_at=view.submitted_at,
        started_at=view.dispatched_at,
        finished_at=view.finished_at,
        slots=sum(part.slots for part in parts) or spec.slots,
        hosts=tuple(part.host for part in parts[:MOST_HELD]),
        held=tuple(held[:MOST_HELD]),
        gpus=len(held),
        command=spec.command[:LONGEST_TEXT],
        gpu_req=spec.gpu_req[:LONGEST_TEXT],
        res_req=spec.res_req[:LONGEST_TEXT],
        why=reasons[0][:LONGEST_TEXT] if reasons else "",
    )


def host_looks(hosts: Iterable[HostView], me: str, user_of: Mapping[int, str]) -> tuple[HostLook, ...]:
    """Hosts with their GPUs by index; `user_of`: a job's number and its user."""
    return tuple(
        HostLook(
            name=host.name,
            status=host.status,
            max_slots=host.max_slots,
            njobs=host.njobs,
            gpus=tuple(_gpu(view, me, user_of) for view in sorted(host.gpus, key=lambda view: view.gpu.index)),
        )
        for host in hosts
        if host.server
    )


def queue_looks(queues: Iterable[QueueView]) -> tuple[QueueLook, ...]:
    """Queues in the order in which the master tells them, by priority."""
    return tuple(
        QueueLook(
            name=queue.name,
            priority=queue.priority,
            status=queue.status,
            njobs=queue.njobs,
            pend=queue.pend,
            run=queue.run,
            susp=queue.ssusp + queue.ususp,
        )
        for queue in queues
    )


def _gpu(view: GpuView, me: str, user_of: Mapping[int, str]) -> GpuLook:
    gpu, ids = view.gpu, [job_id for name in view.holders if (job_id := _job_of(name))]
    users = tuple(dict.fromkeys(user_of.get(job_id, "") for job_id in ids))
    return GpuLook(
        uuid=gpu.uuid,
        index=gpu.index,
        whose=_whose(view, users, me),
        use=gpu.utilization_percent,
        used_mib=gpu.used_mib,
        memory_mib=gpu.memory_mib,
        users=tuple(user for user in users if user),
        jobs=tuple(show_job(job_id) for job_id in ids),
    )


def _job_of(attempt: str) -> int:
    try:
        return parse_attempt_name(attempt)[0]
    except ValueError:
        return 0


def _whose(view: GpuView, users: tuple[str, ...], me: str) -> Whose:
    trouble = trouble_of(view)
    if trouble is not None:
        return Whose(trouble.value)
    if view.holders:
        return Whose.MINE if me in users else Whose.OTHERS
    return Whose.BARRED if view.gpu.is_barred else Whose.FREE
