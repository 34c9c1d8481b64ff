"""A request to do something to jobs becomes the engine's command for it, with what belongs to that and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

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
from gsched.core.control.job_control import JOB_COMMANDS, MOST_ATTACHED
from gsched.master.rpc.control_requests import job_command
from gsched.model.views.view import JobFilter
from gsched.store.eventlog import blob_id
from gsched.store.passing_blobs import content_of
from gsched.wire.identity.caller_identity import ProvenCaller
from gsched.wire.v1 import scheduler_pb2

ANN = ProvenCaller("ann", False)
WHOSE = ("ann", False, (1, 2), None)

CASES: dict[str, tuple[dict[str, Any], JobCommand]] = {
    "kill": (
        {"text": "why", "as_done": True, "hangup": True, "kill_delay_s": 0},
        KillJobs(*WHOSE, text="why", as_done=True, hangup=True, kill_delay_s=0),
    ),
    "signal": ({"signal": 10}, SignalJobs(*WHOSE, signal=10)),
    "stop": ({}, StopJobs(*WHOSE)),
    "resume": ({}, ResumeJobs(*WHOSE)),
    "release": ({"hosts": ["2*a"], "cancels": True}, ReleaseSlots(*WHOSE, hosts=("2*a",), cancels=True)),
    "request": ({"position": 3}, RequestSlots(*WHOSE, slots=3)),
    "requeue": ({"hold": True, "states": ["RUN", "EXIT"]}, RequeueJobs(*WHOSE, hold=True, states=("RUN", "EXIT"))),
    "top": ({"position": 3}, MoveJobsToTop(*WHOSE, position=3)),
    "bottom": ({}, MoveJobsToBottom(*WHOSE, position=1)),
    "exchange": ({}, ExchangeJobs(*WHOSE)),
    "run": ({"hosts": ["a", "b"]}, RunJobs(*WHOSE, hosts=("a", "b"))),
    "post": ({"text": "note", "box": 3}, PostToJobs(*WHOSE, text="note", box=3)),
}


@pytest.mark.parametrize("action", CASES)
def test_each_action_is_a_command_of_its_own(action: str) -> None:
    fields, expected = CASES[action]
    request = scheduler_pb2.ControlRequest(action=action, job_ids=[1, 2], **fields)
    assert job_command(request, ANN) == (expected, {})


def test_all_commands_for_jobs_can_be_asked_for() -> None:
    assert {type(command) for _, command in CASES.values()} == {*JOB_COMMANDS}


def test_who_asks_is_the_proven_caller_and_a_filter_is_handed_on() -> None:
    request = scheduler_pb2.ControlRequest(action="stop")
    request.filter.queue = "night"
    command, _ = job_command(request, ProvenCaller("root", True))
    assert command == StopJobs("root", True, (), JobFilter(queue="night"))


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(BadRequest, match="'sing' is not something that can be done to a job"):
        job_command(scheduler_pb2.ControlRequest(action="sing", job_ids=[1]), ANN)


def test_an_attachment_goes_with_a_message_and_with_nothing_else() -> None:
    request = scheduler_pb2.ControlRequest(action="post", job_ids=[1], text="note", attachment=b"data")
    number = blob_id(b"data")
    command = PostToJobs("ann", False, (1,), text="note", attachment=number, attached_bytes=4)
    assert job_command(request, ANN) == (command, {number: b"data"})
    for action, data in (("kill", b"data"), ("post", b"x" * (MOST_ATTACHED + 1))):
        with pytest.raises(BadRequest, match="attachments go with messages, and hold 16 MiB at most"):
            job_command(scheduler_pb2.ControlRequest(action=action, job_ids=[1], attachment=data), ANN)


def test_what_goes_to_a_box_of_the_owner_shares_no_blob() -> None:
    request = scheduler_pb2.ControlRequest(action="post", job_ids=[1], text="note", attachment=b"data", box=127)
    (command, texts), (_, others) = job_command(request, ANN), job_command(request, ANN)
    ((number, data),) = texts.items()
    assert isinstance(command, PostToJobs) and (command.attachment, command.attached_bytes) == (number, 4)
    assert (blob_id(data), content_of(data)) == (number, b"data") and data != b"data" and texts != others
