"""A request to do something to jobs as the engine's command for it: which of the nine it is, and what belongs to it.

It reads; whether the caller may is for the engine to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gsched.base.errors import BadRequest
from gsched.core.command import (
    ExchangeJobs,
    JobCommand,
    KillJobs,
    MoveJobsToBottom,
    MoveJobsToTop,
    PostToJobs,
    ReleaseSlots,
    RequestSlots,
    RequeueJobs,
    ResumeJobs,
    RunJobs,
    SignalJobs,
    StopJobs,
)
from gsched.core.control.job_control import MOST_ATTACHED
from gsched.model.views.message_boxes import OWN_BOXES
from gsched.model.views.view import JobFilter
from gsched.store.eventlog import blob_id
from gsched.store.passing_blobs import own_message
from gsched.wire.identity.caller_identity import ProvenCaller
from gsched.wire.messages.convert import from_proto

_Whose = tuple[str, bool, tuple[int, ...], JobFilter | None]
"""The caller, whether he is an administrator, and the jobs: what all commands begin with."""


def job_command(request: Any, caller: ProvenCaller) -> tuple[JobCommand, dict[str, bytes]]:
    """The command, and the texts that go with it by their ids. Raises BadRequest."""
    make = _COMMANDS.get(request.action)
    if make is None:
        raise BadRequest(f"'{request.action}' is not something that can be done to a job")
    attached = _attached(request)
    command = make(request, (caller.user, caller.is_admin, tuple(request.job_ids), filter_of(request)))
    if attached and isinstance(command, PostToJobs):
        command = replace(command, attachment="".join(attached), attached_bytes=len(request.attachment))
    return command, attached


def filter_of(request: Any) -> JobFilter | None:
    """The filter of a request; None when there is none, which is not the same as one that admits all."""
    return from_proto(request.filter, JobFilter) if request.HasField("filter") else None


def _attached(request: Any) -> dict[str, bytes]:
    """What goes with a message, by its id. Raises BadRequest."""
    if not request.HasField("attachment"):
        return {}
    if request.action != "post" or len(request.attachment) > MOST_ATTACHED:
        raise BadRequest(f"Bad argument: attachments go with messages, and hold {MOST_ATTACHED >> 20} MiB at most")
    content = own_message(request.attachment) if request.box in OWN_BOXES else request.attachment
    return {blob_id(content): content}


def _kill(request: Any, whose: _Whose) -> KillJobs:
    delay_s = request.kill_delay_s if request.HasField("kill_delay_s") else None
    return KillJobs(*whose, text=request.text, as_done=request.as_done, hangup=request.hangup, kill_delay_s=delay_s)


def _signal(request: Any, whose: _Whose) -> SignalJobs:
    step = request.step if request.HasField("step") else None
    return SignalJobs(*whose, signal=request.signal, target=request.target, step=step)


def _requeue(request: Any, whose: _Whose) -> RequeueJobs:
    return RequeueJobs(*whose, hold=request.hold, states=tuple(request.states))


_COMMANDS: dict[str, Callable[[Any, _Whose], JobCommand]] = {
    "kill": _kill,
    "signal": _signal,
    "stop": lambda request, whose: StopJobs(*whose, text=request.text),
    "resume": lambda request, whose: ResumeJobs(*whose, text=request.text),
    "requeue": _requeue,
    "release": lambda request, whose: ReleaseSlots(*whose, hosts=tuple(request.hosts), cancels=request.cancels),
    "request": lambda request, whose: RequestSlots(*whose, slots=request.position),
    "top": lambda request, whose: MoveJobsToTop(*whose, position=request.position or 1, among_own=request.among_own),
    "bottom": lambda request, whose: MoveJobsToBottom(
        *whose, position=request.position or 1, among_own=request.among_own
    ),
    "exchange": lambda request, whose: ExchangeJobs(*whose),
    "run": lambda request, whose: RunJobs(*whose, hosts=tuple(dict.fromkeys(request.hosts))),
    "post": lambda request, whose: PostToJobs(*whose, box=request.box, text=request.text),
}
