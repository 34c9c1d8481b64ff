"""Processes of jobs on GPUs that their job does not hold: said in the job's history.

The agents say who is where; nothing is measured here, and nobody is ended for it.
"""

from __future__ import annotations

from gsched.base.ids import parse_attempt_name
from gsched.core.cluster import ClusterState
from gsched.core.decision import Decision
from gsched.core.job import Job
from gsched.model.event import JobNoted
from gsched.model.host import GpuProcess, GpuReport
from gsched.model.job import STARTED


def note_escapes(state: ClusterState, host: str, report: GpuReport, now: float, decision: Decision) -> None:
    """Note each such job once for each of its runs and each GPU."""
    for gpu in report.gpus:
        for process in gpu.processes:
            job = _job_of(state, process) if process.escaped else None
            if job is None:
                continue
            where = f" GPU {gpu.index} ({gpu.uuid}) on {host}, which is not its own"
            if not any(_opening(job) in note and where in note for note in job.notes):
                text = f"{_opening(job)}process {process.pid} of user {process.user or 'unknown'} uses{where}"
                decision.record(JobNoted(at=now, job_id=job.job_id, text=text))


def _opening(job: Job) -> str:
    return f"ESCAPED: of run {job.attempt} "


def _job_of(state: ClusterState, process: GpuProcess) -> Job | None:
    """The job whose current run the process belongs to."""
    job_id, attempt = parse_attempt_name(process.job)
    job = state.jobs.get(job_id)
    return job if job is not None and job.attempt == attempt and job.state in STARTED else None
