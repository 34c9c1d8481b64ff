"""Jobs that cannot be ended because a process of theirs hangs in the kernel: said in their history.

What such a job holds stays its own until the process is gone, and only that: its host goes on with all the rest.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.base.ids import attempt_name, show_job
from gsched.core.attempts.attempt_notes import known_on, note
from gsched.core.command import AttemptUnkillable
from gsched.core.decision import Decision
from gsched.model.jobs.job import FINISHED


def note_unkillable(report: AttemptUnkillable, decision: Decision) -> None:
    """Name each process once."""
    job = next(known_on(decision.state, report.host, (attempt_name(report.job_id, report.attempt),)), None)
    if job is None or (job.state in FINISHED and all(part.host != report.host for part in job.left_parts())):
        return
    whose = (report.attempt, show_job(report.job_id), job.spec.user, report.host)
    for pid, name in report.processes:
        note(job, coded("note.unkillable", pid, name, *whose), decision)
