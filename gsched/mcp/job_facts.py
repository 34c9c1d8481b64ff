"""What an assistant is told of jobs, hosts and queues: short, with names that need no manual, times as ISO 8601 in UTC.

Knows values alone; asks nobody.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NotRequired  # pydantic needs these up to Python 3.11

from typing_extensions import TypedDict

from gsched.base.coded_text import sentence
from gsched.base.ids import show_job
from gsched.cli.render.text.reason_texts import reason_text
from gsched.model.jobs.job import FINISHED, PENDING
from gsched.model.views.view import GpuView, HostView, JobView, QueueView


class HeldPart(TypedDict):
    """What a job has on one host; GPUs by nvidia-smi's numbers."""

    host: str
    slots: int
    gpus: list[int]


class JobFacts(TypedDict):
    """One job. Keys that do not apply are left out."""

    job: str
    name: str
    user: str
    queue: str
    state: str
    command: str
    submitted: str
    requirement: NotRequired[str]
    slots: NotRequired[int]
    started: NotRequired[str]
    finished: NotRequired[str]
    run_limit_s: NotRequired[float]
    where: NotRequired[list[HeldPart]]
    waits_because: NotRequired[list[str]]
    expected_start: NotRequired[str]
    expected_start_rests_on: NotRequired[str]
    suspended_because: NotRequired[str]
    exit_code: NotRequired[int]
    signal: NotRequired[int]
    ended_because: NotRequired[str]


class GpuFacts(TypedDict):
    """One GPU, by nvidia-smi's number."""

    gpu: int
    model: str
    mode: str
    jobs: list[str]
    memory_mib: int | None
    used_mib: int | None
    utilization_percent: int | None
    problem: str
    closed_by: str


class HostFacts(TypedDict):
    """One host."""

    host: str
    status: str
    slots: int | None
    slots_free: int | None
    jobs: int
    cpus: int
    gpus: list[GpuFacts]
    notes: list[str]


class QueueFacts(TypedDict):
    """One queue; counts are in slots."""

    queue: str
    priority: int
    status: str
    description: str
    pending: int
    running: int
    run_limit_s: int | None
    hosts: list[str]
    policies: list[str]


def job_facts(view: JobView) -> JobFacts:
    """The facts of a job."""
    spec = view.spec
    facts = JobFacts(
        job=show_job(view.job_id),
        name=spec.name,
        user=spec.user,
        queue=spec.queue,
        state=view.state,
        command=spec.command,
        submitted=moment(view.submitted_at),
        slots=spec.slots,
    )
    if requirement := view.effective_req or spec.combined_req or spec.res_req:
        facts["requirement"] = requirement
    if view.started_at is not None:
        facts["started"] = moment(view.started_at)
    if view.finished_at is not None:
        facts["finished"] = moment(view.finished_at)
    if spec.run_limit_s is not None:
        facts["run_limit_s"] = spec.run_limit_s
    if view.allocation is not None:
        facts["where"] = [
            HeldPart(host=part.host, slots=part.slots, gpus=sorted({gpu.index for gpu in part.gpus}))
            for part in view.allocation.hosts
        ]
    _add_waiting(facts, view)
    _add_end(facts, view)
    return facts


def _add_waiting(facts: JobFacts, view: JobView) -> None:
    if view.suspending_reason:
        facts["suspended_because"] = sentence(view.suspending_reason)
    if view.state not in PENDING:
        return
    facts["waits_because"] = [reason_text(each) for each in view.pending_reasons]
    if view.planned is not None:
        if view.planned.at is not None:
            facts["expected_start"] = moment(view.planned.at)
        if view.planned.text:
            facts["expected_start_rests_on"] = sentence(view.planned.text)


def _add_end(facts: JobFacts, view: JobView) -> None:
    result = view.result
    if result is None or view.state not in FINISHED:
        return
    if result.exit_code is not None:
        facts["exit_code"] = result.exit_code
    if result.signal is not None:
        facts["signal"] = result.signal
    if result.term_reason:
        facts["ended_because"] = result.term_reason


def host_facts(view: HostView) -> HostFacts:
    """The facts of a host."""
    return HostFacts(
        host=view.name,
        status=view.status,
        slots=view.max_slots,
        slots_free=view.slots_free,
        jobs=view.njobs,
        cpus=view.ncpus,
        gpus=[_gpu_facts(each) for each in view.gpus],
        notes=[sentence(note) for note in view.notes],
    )


def _gpu_facts(view: GpuView) -> GpuFacts:
    gpu = view.gpu
    return GpuFacts(
        gpu=gpu.index,
        model=gpu.model,
        mode="" if gpu.mode is None else gpu.mode.value,
        jobs=[show_job(int(holder.partition(".")[0])) for holder in view.holders],
        memory_mib=gpu.memory_mib,
        used_mib=gpu.used_mib,
        utilization_percent=gpu.utilization_percent,
        problem=sentence(gpu.problem),
        closed_by="" if view.closure is None else view.closure.by,
    )


def queue_facts(view: QueueView) -> QueueFacts:
    """The facts of a queue."""
    return QueueFacts(
        queue=view.name,
        priority=view.priority,
        status=view.status,
        description=view.description,
        pending=view.pend,
        running=view.run,
        run_limit_s=view.run_limit_s,
        hosts=list(view.hosts),
        policies=list(view.policies),
    )


def moment(at: float) -> str:
    """UTC seconds as ISO 8601."""
    return datetime.fromtimestamp(round(at), UTC).isoformat()
