"""Waiting for a job that was just submitted: what happens to it is said on standard error, its exit code is the answer.

Source: bsub(1), -K; the sentences are those of LSF.
"""

from __future__ import annotations

import msgspec

from gsched.base.errors import LSF_FAILURE, GschedError
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.session import Session
from gsched.cli.submit.idle_notice import idle_notice
from gsched.cli.submit.progress_shown import progress_shown
from gsched.model.event import (
    AnyEvent,
    JobDispatched,
    JobFinished,
    JobIdleActed,
    JobIdleOver,
    JobIdleWarned,
    JobRequeued,
    JobStarted,
    decode_event,
)
from gsched.model.jobs.job import AttemptResult, JobState
from gsched.model.views.view import JobFilter

TERMINATED_WHILE_PENDING = 126
"""Exit code of -K for a job that never started. Source: bsub(1)."""


class Wait:
    """-K: follows one job to its end and says how it goes on standard error."""

    def __init__(self, call: Call, session: Session, job_id: int) -> None:
        self.call = call
        self.session = session
        self.job_id = job_id
        self.host = ""

    def to_its_end(self) -> int:
        """The job's exit code."""
        self.call.error("<<Waiting for dispatch ...>>\n")
        try:
            return self._follow()
        except (Cancelled, GschedError):
            if self.call.cancelled.is_set():
                text = f"No longer waiting; job <{self.job_id}> stays in the cluster (gkill {self.job_id})\n"
                self.call.error(text)
            raise

    def _follow(self) -> int:
        # The history says from where to follow, so that nothing is missed between submission and this moment.
        seen = list(self.session.client.history(JobFilter(ids=(self.job_id,), user="all")))
        records = seen[0].events if seen else ()
        for record in records:
            if (code := self.tell(record.payload)) is not None:
                return code
        last = records[-1].seq if records else 0
        for record in self.session.follow(last, (self.job_id,)):
            if record.job_id == self.job_id and (code := self.tell(record.payload)) is not None:
                return code
        return LSF_FAILURE

    def tell(self, payload: str) -> int | None:
        """Say what the event means to who waits; the exit code when it is the last one."""
        try:
            event = decode_event(payload.encode())
        except msgspec.MsgspecError:
            return None  # ghist tells about it; here only the end matters
        return self.happened(event)

    def happened(self, event: AnyEvent) -> int | None:
        """The same, of an event that could be read."""
        match event:
            case JobDispatched():
                self.host = event.allocation.first_host
            case JobStarted():
                self.call.error(f"<<Starting on {self.host}>>\n")
            case JobRequeued():
                self.host = ""
                self.call.error("<<Job has been requeued, waiting for dispatch......>>\n")
            case JobIdleWarned() | JobIdleActed() | JobIdleOver():
                self.call.error(idle_notice(event))
            case JobFinished() if not (event.result.started or self.host):
                self.call.error("<<Terminated while pending>>\n")
                return TERMINATED_WHILE_PENDING
            case JobFinished():
                self.call.error("<<Job is finished>>\n")
                return self.code_of(event)
        return None

    def code_of(self, event: JobFinished) -> int:
        """The command's exit code."""
        return exit_code(event.result)


class WaitForAll(Wait):
    """-K with an array: waits until every element has ended."""

    def _follow(self) -> int:
        """0 when all elements are DONE, else the exit code of the first that is not."""
        with progress_shown(self.call, self.session.client, (self.job_id,)):
            array = self.session.end_of(self.job_id)
        if not array.counts.get(JobState.EXIT):
            self.call.error("<<Job is finished>>\n")
            return 0
        wanted = JobFilter(ids=(self.job_id,), user="all", states=(JobState.EXIT,), finished=True)
        failed = sorted(self.session.client.jobs(wanted), key=lambda job: job.job_id)
        ran = [job.result for job in failed if job.result is not None and job.started_at is not None]
        if not ran and not array.counts.get(JobState.DONE):
            self.call.error("<<Terminated while pending>>\n")
            return TERMINATED_WHILE_PENDING
        self.call.error("<<Job is finished>>\n")
        return exit_code(ran[0]) if ran else TERMINATED_WHILE_PENDING


def exit_code(result: AttemptResult) -> int:
    """What a shell would say of the job's end; 255 when nobody knows."""
    if result.signal is not None:
        return 128 + result.signal
    return LSF_FAILURE if result.exit_code is None else result.exit_code
