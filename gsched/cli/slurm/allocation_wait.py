"""What srun and salloc say while their job waits for its resources, and when it ends: Slurm's words.

Source: srun(1), salloc(1) of Slurm 22.05.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gsched.base.coded_text import sentence
from gsched.base.ids import new_token
from gsched.cli.commands.submission.gsub import submission_of
from gsched.cli.options.submission_context import value_context
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, program
from gsched.cli.session.session import Session
from gsched.cli.slurm.job_priority import settle_priority
from gsched.cli.slurm.slurm_call import elements_of, refusals
from gsched.cli.submit.interactive import TerminalSession
from gsched.dialect.slurm.allocation import AllocationRequest
from gsched.dialect.slurm.job_fields import Reading
from gsched.model.event import AnyEvent, JobDispatched, JobFinished, JobRequeued, JobStarted
from gsched.model.ledgers.allocation import Allocation
from gsched.model.views.view import Submitted

QUIET_S = 1.0
"""A job that gets its resources within that time is not said to wait."""
IMMEDIATE_S = 5.0
"""--immediate without a number."""
CAUSES = {"TERM_RUNLIMIT": "DUE TO TIME LIMIT", "TERM_PREEMPT": "DUE TO PREEMPTION", "TERM_MEMLIMIT": "DUE TO MEMORY"}
"""Why a job was cancelled, by LSF's keyword; others were by somebody."""
FAILURE = 1


def reading_of(call: Call, session: Callable[[], Session], name: str) -> Reading:
    """What the values of options may hang on; the job is called `name` where nothing else is said."""

    def element_of(number: int, indices: str) -> str:
        return ",".join(map(str, elements_of(session(), number, indices)))

    return Reading(value_context(call), call.user, name, element_of)


def submit(call: Call, session: Session, asked: AllocationRequest) -> Submitted:
    """Submit the job. Raises a refusal that names the option."""
    parsed, notes = settle_priority(session, asked.words, asked.parsed)
    for note in notes:
        complain(call, f"warning: {note}")
    submission = submission_of(call, parsed)
    with refusals(session, asked, "Unable to allocate resources"):
        job = session.client.submit(submission, token=call.token or new_token())
    for text in job.warnings:
        complain(call, f"warning: {sentence(text)}")
    return job


class AllocationSession(TerminalSession):
    """Follows the job of one command."""

    def __init__(self, call: Call, session: Session, job_id: int, asked: AllocationRequest, *, has_input: bool) -> None:
        super().__init__(call, session, job_id, asked.parsed.spec.interactive or "I", has_input=has_input)
        self.asked = asked
        self.allocation: Allocation | None = None
        self._is_quiet = asked.words.has("quiet")
        self._has_waited = False
        self._timer = threading.Timer(QUIET_S, self._say_waiting)
        self._patience = threading.Timer(float(asked.words.value("immediate") or IMMEDIATE_S), self._give_up)
        self._timer.daemon = self._patience.daemon = True

    def say(self, text: str) -> None:
        """A line of news."""
        if not self._is_quiet:
            self.call.error(f"{program(self.call)}: {text}\n")

    def waits(self) -> None:
        """Say so, but only when it takes a moment."""
        self._timer.start()
        if self.asked.words.has("immediate"):
            self._patience.start()

    def _give_up(self) -> None:
        self._timer.cancel()
        complain(self.call, "error: Unable to allocate resources: Requested nodes are busy")
        self.call.cancel()

    def is_ended(self) -> None:
        """The command goes away."""
        self._timer.cancel()
        complain(self.call, f"Force Terminated JobId={self.job_id}")

    def _say_waiting(self) -> None:
        self._has_waited = True
        self.say(f"job {self.job_id} queued and waiting for resources")

    def happened(self, event: AnyEvent) -> int | None:
        """The exit code when it is over."""
        match event:
            case JobDispatched():
                self.host, self.allocation = event.allocation.first_host, event.allocation
            case JobStarted():
                self._timer.cancel()
                self._patience.cancel()
                if self._has_waited:
                    self.say(f"job {self.job_id} has been allocated resources")
                return self.started(event)
            case JobRequeued():
                self.host, self.allocation = "", None
                self.say(f"job {self.job_id} queued and waiting for resources")
            case JobFinished():
                self._timer.cancel()
                return self.finished(event)
        return None

    def started(self, event: JobStarted) -> int | None:
        """It has its resources: show what it prints."""
        self._show(event.attempt)
        return None

    def finished(self, event: JobFinished) -> int:
        """It is over."""
        if not (event.result.started or self.host):
            complain(self.call, f"error: Job allocation {self.job_id} has been revoked")
            return FAILURE
        if event.result.term_reason:
            cause = CAUSES.get(event.result.term_reason, "")
            text = f"*** JOB {self.job_id} ON {self.host} CANCELLED {cause}".rstrip()
            complain(self.call, f"error: {text} ***")
        return self.code_of(event)


def shown_name(words: Sequence[str], default: str) -> str:
    """What a job is called by itself: the program that it runs."""
    return words[0].rpartition("/")[2] or default if words else default
