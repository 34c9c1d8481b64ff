"""Jobs that cannot be ended because a process of theirs hangs in the kernel: said in their history.

What such a job holds stays its own until the process is gone, and only that: its host goes on with all the rest.
"""

from __future__ import annotations

from gsched.base.ids import show_job
from gsched.core.cluster import ClusterState
from gsched.core.command import AttemptUnkillable
from gsched.core.decision import Decision
from gsched.model.event import JobNoted
from gsched.model.job import STARTED


def note_unkillable(state: ClusterState, report: AttemptUnkillable, now: float, decision: Decision) -> None:
    """Name each process once."""
    job = state.jobs.get(report.job_id)
    if job is None or job.attempt != report.attempt or job.state not in STARTED:
        return
    whose = f"run {report.attempt} of job {show_job(report.job_id)} of user {job.spec.user} on {report.host}"
    for pid, name in report.processes:
        text = (
            f"UNKILLABLE pid {pid} ({name}) of {whose}: SIGKILL does not end it, "
            "so the job keeps its slots and GPUs there until it is gone"
        )
        if text not in job.notes:
            decision.record(JobNoted(at=now, job_id=job.job_id, text=text))
