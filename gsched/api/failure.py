"""What is raised for a job that did not end well. It says which job, where, and how."""

from __future__ import annotations

from gsched.base.coded_text import sentence
from gsched.base.errors import GschedError
from gsched.base.ids import show_job
from gsched.model.jobs.job import FINISHED, TERM_TEXTS, JobState
from gsched.model.views.view import JobEnd


class JobFailed(GschedError):
    """A job ended as EXIT; `end` says how."""

    def __init__(self, end: JobEnd) -> None:
        super().__init__(story_of(end))
        self.end = end

    def __reduce__(self) -> tuple[type[JobFailed], tuple[JobEnd]]:
        return JobFailed, (self.end,)


def story_of(end: JobEnd) -> str:
    """`Job <7> (train) on gpu01 ended with exit code 3`, with LSF's reason where there is one."""
    name = f" ({end.name[:60]})" if end.name else ""
    job = f"Job <{show_job(end.job_id)}>{name}"
    if end.result is None:
        total = sum(count for state, count in end.counts.items() if state in FINISHED)
        return f"{job}: {end.counts.get(JobState.EXIT, 0)} of {total} elements failed"
    place = f" on {end.host}" if end.host else ""
    text = TERM_TEXTS.get(end.result.term_reason, "")
    reason = f": {end.result.term_reason}{f', {text}' if text else ''}" if end.result.term_reason else ""
    if end.result.problem:
        reason += f" ({sentence(end.result.problem)})"
    if not end.result.started and not end.host:
        return f"{job} was ended before it started{reason}"
    if end.result.signal is not None:
        return f"{job}{place} was ended by signal {end.result.signal}{reason}"
    if end.result.exit_code is None:
        return f"{job}{place} has ended, and its exit code is not known{reason}"
    return f"{job}{place} ended with exit code {end.result.exit_code}{reason}"
