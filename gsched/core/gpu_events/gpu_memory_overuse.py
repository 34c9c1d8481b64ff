"""What is done about jobs that use more memory of a GPU than the gmem= they were given: GMEM_ACTION.

The agents say who does; nothing is measured here. GPU memory cannot be limited, so this comes after the fact.
"""

from __future__ import annotations

from gsched.base.coded_text import CodedText, coded
from gsched.core.attempts.attempt_notes import note, running_on
from gsched.core.attempts.attempt_results import SYSTEM
from gsched.core.decision import Decision
from gsched.core.instruction import TerminateAttempt
from gsched.core.records.job import JobRecord
from gsched.model.config import GmemAction
from gsched.model.event import JobSignalRequested
from gsched.model.hosts.host import Gpu, GpuReport

REASON = "TERM_MEMLIMIT"


def judge_gmem(host: str, report: GpuReport, decision: Decision) -> None:
    """Note each such job once for each GPU, and end it where that is configured, whether or not it was noted before."""
    for gpu in report.gpus:
        for job in running_on(decision.state, host, gpu.over_gmem):
            action = decision.config.params.gmem_action
            text = _text(job, host, gpu)
            if text is None or action is GmemAction.NONE:
                continue
            note(job, text, decision)
            if action is GmemAction.KILL:
                _end(job, decision)


def _text(job: JobRecord, host: str, gpu: Gpu) -> CodedText | None:
    """None when the job does not hold that GPU with a gmem=."""
    parts = job.allocation.hosts if job.allocation is not None else ()
    given = [held.gmem_mib for part in parts if part.host == host for held in part.gpus if held.uuid == gpu.uuid]
    if not given or not given[0]:
        return None
    return coded("note.gmem_exceeded", job.attempt, gpu.index, gpu.uuid, host, given[0])


def _end(job: JobRecord, decision: Decision) -> None:
    if job.kill_by or job.allocation is None:
        return
    decision.record(JobSignalRequested(at=decision.now, job_id=job.job_id, by=SYSTEM, signal=0))
    for part in job.allocation.hosts:
        decision.instruct(TerminateAttempt(part.host, job.job_id, job.attempt, REASON))
