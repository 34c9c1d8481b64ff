"""What is told of compute modes that somebody changes under a job that has the GPU: its history.

The agents say which; who did it cannot be known. Nothing is done to the job here, and whom the GPU is offered to
meanwhile is the ledger's affair.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.core.attempts.attempt_notes import note
from gsched.core.decision import Decision
from gsched.model.host import GpuReport
from gsched.model.job import STARTED


def note_changed_modes(host: str, report: GpuReport, decision: Decision) -> None:
    """Note each change once for each job that has the GPU."""
    for gpu in report.gpus:
        if gpu.mode_given is None or gpu.mode is None:
            continue
        for job_id, attempt in decision.state.ledger.host(host).holders.get(gpu.uuid, ()):
            job = decision.state.jobs.get(job_id)
            if job is None or job.attempt != attempt or job.state not in STARTED:
                continue
            modes = (gpu.mode_given.value, gpu.mode.value)
            note(job, coded("note.mode_changed", gpu.index, gpu.uuid, host, *modes, attempt), decision)
