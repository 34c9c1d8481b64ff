"""Processes of jobs on GPUs that their job does not hold: said in the job's history.

The agents say who is where; nothing is measured here, and nobody is ended for it.
"""

from __future__ import annotations

from gsched.core.attempts.attempt_notes import note, running_on
from gsched.core.decision import Decision
from gsched.core.records.job import JobRecord
from gsched.model.host import GpuReport


def note_escapes(host: str, report: GpuReport, decision: Decision) -> None:
    """Note each such job once for each of its runs and each GPU."""
    for gpu in report.gpus:
        for process in gpu.processes:
            job = next(running_on(decision.state, host, (process.job,)), None) if process.escaped else None
            if job is None:
                continue
            where = f" GPU {gpu.index} ({gpu.uuid}) on {host}, which is not its own"
            if not any(_opening(job) in each and where in each for each in job.notes):
                text = f"{_opening(job)}process {process.pid} of user {process.user or 'unknown'} uses{where}"
                note(job, text, decision)


def _opening(job: JobRecord) -> str:
    return f"ESCAPED: of run {job.attempt} "
