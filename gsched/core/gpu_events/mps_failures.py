"""What is said of jobs whose MPS control daemon has ended below them: their history.

The agents say whose; a daemon's clients fail by themselves, so nobody is ended here.
"""

from __future__ import annotations

from gsched.base.coded_text import coded
from gsched.core.attempts.attempt_notes import note, running_on
from gsched.core.decision import Decision
from gsched.model.host import GpuReport


def note_lost_daemons(host: str, report: GpuReport, decision: Decision) -> None:
    """Note each loss once for each run and GPU."""
    for gpu in report.gpus:
        for job in running_on(decision.state, host, gpu.mps_lost):
            note(job, coded("note.mps_ended", job.attempt, gpu.index, gpu.uuid, host), decision)
