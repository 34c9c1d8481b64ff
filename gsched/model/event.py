"""Events: facts in the past tense, true for ever. The state of a cluster is what they add up to.

Events carry everything (full allocation, times, ids, reasons): applying one computes nothing anew. They are stored as
JSON objects tagged by `kind`; a field may be added with a default, none may change its meaning. Times are UTC seconds.
"""

from __future__ import annotations

import msgspec

from gsched.model.allocation import Allocation
from gsched.model.job import AttemptResult, JobSpec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What all events have: `at`, when it happened, in UTC seconds."""

    at: float


class JobEvent(Event, frozen=True, kw_only=True):
    """An event of one job."""

    job_id: int


class JobSubmitted(JobEvent, frozen=True, kw_only=True, tag="job_submitted"):
    """A submission was accepted. The same `token` and `place` in it never make a second job."""

    spec: JobSpec
    token: str = ""
    place: int = 0


class JobDispatched(JobEvent, frozen=True, kw_only=True, tag="job_dispatched"):
    """The job was given an allocation; its attempt is about to be started there."""

    attempt: int
    allocation: Allocation
    effective_req: str


class JobStarted(JobEvent, frozen=True, kw_only=True, tag="job_started"):
    """The attempt's first process runs."""

    attempt: int
    pid: int
    home: str = ""
    cwd: str = ""
    boot_id: str = ""


class JobMessagePosted(JobEvent, frozen=True, kw_only=True, tag="job_message_posted"):
    """An external message was put into one of the job's message boxes."""

    user: str
    box: int
    text: str


class JobNoted(JobEvent, frozen=True, kw_only=True, tag="job_noted"):
    """A remark for the job's history: how to ask for a GPU, where the output went instead.

    `is_warning`: something is not as it was asked for, so `gjobs -l` shows it too.
    """

    text: str
    is_warning: bool = True


class JobFinished(JobEvent, frozen=True, kw_only=True, tag="job_finished"):
    """The attempt is over and what it held is free again; `attempt` is 0 for a job that never ran."""

    attempt: int
    result: AttemptResult


class JobPostProcessed(JobEvent, frozen=True, kw_only=True, tag="job_post_processed"):
    """Nothing of the job is left on its hosts."""

    attempt: int


class JobRequeued(JobEvent, frozen=True, kw_only=True, tag="job_requeued"):
    """The attempt is given up and the job is pending again; what it held is free."""

    attempt: int
    reason: str
    avoid_host: str = ""
    not_before: float = 0.0
    """No new attempt before this time (back-off of starts that fail)."""


class JobSuspended(JobEvent, frozen=True, kw_only=True, tag="job_suspended"):
    """PEND -> PSUSP or RUN -> USUSP."""

    by: str


class JobResumed(JobEvent, frozen=True, kw_only=True, tag="job_resumed"):
    """PSUSP -> PEND or USUSP -> RUN."""

    by: str


class JobSignalRequested(JobEvent, frozen=True, kw_only=True, tag="job_signal_requested"):
    """Somebody asked for a signal; `signal` 0 stands for "terminate" (INT, TERM, KILL with an interval between)."""

    by: str
    signal: int


class JobStatusLost(JobEvent, frozen=True, kw_only=True, tag="job_status_lost"):
    """The job's host no longer answers: the job is UNKWN."""

    host: str


class JobStatusRegained(JobEvent, frozen=True, kw_only=True, tag="job_status_regained"):
    """The host answers again and still runs the attempt."""

    host: str


class JobForgotten(JobEvent, frozen=True, kw_only=True, tag="job_forgotten"):
    """CLEAN_PERIOD after its end the job leaves the memory; its history stays in the store."""


class StaleResultRecorded(JobEvent, frozen=True, kw_only=True, tag="stale_result_recorded"):
    """An attempt that was already given up has ended after all: recorded, and changes nothing."""

    attempt: int
    host: str
    result: AttemptResult


class HostClosed(Event, frozen=True, kw_only=True, tag="host_closed"):
    """An administrator closed the host."""

    host: str
    by: str
    comment: str = ""


class HostOpened(Event, frozen=True, kw_only=True, tag="host_opened"):
    """An administrator opened the host again."""

    host: str
    by: str


class ConfigApplied(Event, frozen=True, kw_only=True, tag="config_applied"):
    """The master started with, or was switched to, the configuration with this digest."""

    digest: str
    by: str
    started: bool = False


AnyEvent = (
    JobSubmitted
    | JobDispatched
    | JobStarted
    | JobMessagePosted
    | JobNoted
    | JobFinished
    | JobPostProcessed
    | JobRequeued
    | JobSuspended
    | JobResumed
    | JobSignalRequested
    | JobStatusLost
    | JobStatusRegained
    | JobForgotten
    | StaleResultRecorded
    | HostClosed
    | HostOpened
    | ConfigApplied
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode_event(event: AnyEvent) -> bytes:
    """JSON of the event, with its `kind`."""
    return _encoder.encode(event)


def decode_event(payload: bytes) -> AnyEvent:
    """The event of a payload made by `encode_event`. Raises msgspec.DecodeError for anything else."""
    return _decoder.decode(payload)


def kind_of(event: AnyEvent) -> str:
    """The event's tag, `job_submitted` say."""
    return str(event.__struct_config__.tag)
