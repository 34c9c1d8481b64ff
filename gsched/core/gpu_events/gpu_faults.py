"""What becomes of jobs when a GPU of theirs fails, and what they are told of the driver's errors (XIDs).

The agents say what has failed and which attempts held it then; nothing is judged by readings here. A rerunnable job is
requeued once (the GPU is closed, so it goes elsewhere), any other ends. Jobs of other GPUs are not touched.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.core.attempts.attempt_notes import known_on, note
from gsched.core.attempts.attempt_results import GPU_FAILED, SYSTEM
from gsched.core.decision import Decision
from gsched.core.instruction import TerminateAttempt
from gsched.core.records.job import JobRecord
from gsched.model.event import JobRequeueRequested, JobSignalRequested
from gsched.model.gpus.xid import describe_xid
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.jobs.job import FINISHED
from gsched.model.jobs.requeue_exits import RestartCause

MOST_REQUEUES = 1
"""So often a job is run again because of a GPU; the next failure is more likely to be its own doing."""


def judge_faults(host: str, report: GpuReport, decision: Decision) -> None:
    """Act on each failed GPU once for each attempt, and note each error of the driver once."""
    for gpu in report.gpus:
        for job in known_on(decision.state, host, gpu.hit if gpu.fault else ()):
            if _holds(job, host, gpu):
                _fail(job, host, gpu, decision)
        for xid in gpu.xids:
            for job in known_on(decision.state, host, xid.jobs):
                where = (gpu.index, gpu.uuid, host)
                note(job, coded("note.xid", job.attempt, describe_xid(xid.number), *where), decision)


def _holds(job: JobRecord, host: str, gpu: Gpu) -> bool:
    parts = job.allocation.hosts if job.allocation is not None else ()
    return any(held.board == gpu.uuid for part in parts if part.host == host for held in part.gpus)


def _fail(job: JobRecord, host: str, gpu: Gpu, decision: Decision) -> None:
    text = coded("gpu.has_failed", gpu.index, gpu.uuid, host, gpu.fault)
    note(job, coded("note.gpu_failed", job.attempt, text), decision)
    # One that has not begun is turned away by its agent; one that is ending needs no second word.
    if job.state in FINISHED or job.started_at is None or job.kill_by or job.requeue_by or job.allocation is None:
        return
    if job.runs_again_after(RestartCause.GPU) and job.gpu_faults < MOST_REQUEUES:
        decision.record(JobRequeueRequested(at=decision.now, job_id=job.job_id, by=SYSTEM, gpu_fault=text))
    else:
        decision.record(JobSignalRequested(at=decision.now, job_id=job.job_id, by=SYSTEM, signal=0, gpu_fault=text))
    for part in job.allocation.hosts:
        decision.instruct(TerminateAttempt(part.host, job.job_id, job.attempt, GPU_FAILED))
