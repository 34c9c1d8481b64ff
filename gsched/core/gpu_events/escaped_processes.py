"""Processes of jobs on GPUs that their job does not hold: said in the job's history.

The agents say who is where; nothing is measured here, and nobody is ended for it.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, CodedText, coded
from gsched.core.attempts.attempt_notes import note, running_on
from gsched.core.decision import Decision
from gsched.model.host import GpuReport


def note_escapes(host: str, report: GpuReport, decision: Decision) -> None:
    """Note each such job once for each of its runs and each GPU."""
    for gpu in report.gpus:
        for process in gpu.processes:
            job = next(running_on(decision.state, host, (process.job,)), None) if process.escaped else None
            if job is None:
                continue
            who = (process.pid, process.user or "unknown")
            text = coded("note.escaped_process", job.attempt, *who, gpu.index, gpu.uuid, host)
            if not any(_is_same(text, each) for each in job.notes):
                note(job, text, decision)


def _is_same(text: CodedText, other: AnyText) -> bool:
    """Whether they are about the same run and GPU, whichever process was seen first."""
    if isinstance(other, str):
        return False
    return text.code == other.code and text.values[:1] + text.values[3:] == other.values[:1] + other.values[3:]
