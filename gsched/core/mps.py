"""What is said of jobs whose MPS control daemon has ended below them: their history.

The agents say whose; a daemon's clients fail by themselves, so nobody is ended here.
"""

from __future__ import annotations

from gsched.base.ids import parse_attempt_name
from gsched.core.cluster import ClusterState
from gsched.core.decision import Decision
from gsched.model.event import JobNoted
from gsched.model.host import GpuReport
from gsched.model.job import STARTED


def note_lost_daemons(state: ClusterState, host: str, report: GpuReport, now: float, decision: Decision) -> None:
    """Note each loss once for each run and GPU."""
    for gpu in report.gpus:
        for name in gpu.mps_lost:
            job_id, attempt = parse_attempt_name(name)
            job = state.jobs.get(job_id)
            if job is None or job.attempt != attempt or job.state not in STARTED:
                continue
            what = f"the MPS control daemon on GPU {gpu.index} ({gpu.uuid}) of {host}"
            text = f"Run {attempt}: {what} has ended by itself; programs that used it have failed"
            if text not in job.notes:
                decision.record(JobNoted(at=now, job_id=job_id, text=text))
