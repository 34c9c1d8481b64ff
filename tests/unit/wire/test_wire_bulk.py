"""Calls about many jobs last as long as the master goes on, and know what was done when it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from gsched.base.errors import Unavailable
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Control, JobFilter, Submission
from gsched.wire.calls import retried_calls
from gsched.wire.calls.client import Client
from gsched.wire.calls.retried_calls import BrokenOff, Silent
from gsched.wire.messages.control_action import ControlAction
from gsched.wire.v1 import model_pb2, scheduler_pb2, scheduler_pb2_grpc

ALL = JobFilter()


def part(*answers: tuple[int, int]) -> scheduler_pb2.ControlReply:
    """(place, job) of each answer."""
    results = [model_pb2.Control(job_id=job_id) for _, job_id in answers]
    return scheduler_pb2.ControlReply(results=results, places=[place for place, _ in answers])


class Master(scheduler_pb2_grpc.SchedulerServicer, scheduler_pb2_grpc.AdministrationServicer):
    """Answers as it is told: each call takes the next of `acts`."""

    def __init__(self) -> None:
        self.acts: list[Callable[[Any], Iterator[Any]]] = []
        self.requests: list[Any] = []
        self.over = threading.Event()

    def _answered(self, request: Any, context: Any) -> Iterator[Any]:
        self.requests.append(request)
        yield from self.acts.pop(0)(context)

    SubmitInParts = ControlInParts = ModifyInParts = _answered  # type: ignore[assignment]


class Older(scheduler_pb2_grpc.SchedulerServicer, scheduler_pb2_grpc.AdministrationServicer):
    """A master of before."""

    def Control(self, request: Any, context: Any) -> Any:
        return scheduler_pb2.ControlReply(results=[model_pb2.Control(job_id=5)])

    def Submit(self, request: Any, context: Any) -> Any:
        return scheduler_pb2.SubmitReply(jobs=[model_pb2.Submitted(job_id=each + 1) for each in range(501)])


def served(servicer: Any, path: Path) -> grpc.Server:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    scheduler_pb2_grpc.add_SchedulerServicer_to_server(servicer, server)
    scheduler_pb2_grpc.add_AdministrationServicer_to_server(servicer, server)
    assert server.add_insecure_port(f"unix:{path}")
    server.start()
    return server


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    made = Master()
    server = served(made, tmp_path / "m")
    yield made
    made.over.set()
    server.stop(0).wait()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Client(f"unix:{tmp_path}/m", wait_s=60) as made:
        yield made


def says(*replies: Any) -> Callable[[Any], Iterator[Any]]:
    return lambda context: iter(replies)


def breaks_off(*replies: Any) -> Callable[[Any], Iterator[Any]]:
    def act(context: Any) -> Iterator[Any]:
        yield from replies
        context.abort(grpc.StatusCode.UNAVAILABLE, "the master ends")

    return act


def test_answers_stand_in_order_whatever_was_done_first(master: Master, client: Client) -> None:
    master.acts = [says(part(), part((2, 30), (0, 10)), part(), part((1, 20)))]
    done: list[Control] = []
    assert [each.job_id for each in client.control("kill", wanted=ALL, done=done)] == [10, 20, 30]
    assert [each.job_id for each in done] == [30, 10, 20]


def test_what_was_done_is_known_when_the_master_goes_away(master: Master, client: Client) -> None:
    master.acts = [breaks_off(part((0, 10)), part((1, 20)))]
    done: list[Control] = []
    with pytest.raises(BrokenOff):
        client.control(ControlAction(action="post", text="a note"), wanted=ALL, done=done)
    assert [each.job_id for each in done] == [10, 20], "a note would be posted twice"


def test_a_command_that_may_be_repeated_goes_on_with_the_rest(master: Master, client: Client) -> None:
    numbers = range(1, 602)
    first = part(*[(place, number) for place, number in enumerate(numbers) if number <= 400])
    rest = part(*[(place, 401 + place) for place in range(201)])
    master.acts = [breaks_off(first), says(rest)]
    assert [each.job_id for each in client.control("kill", list(numbers))] == list(numbers)
    assert list(master.requests[1].job_ids) == list(range(401, 602))
    master.acts = [breaks_off(part((0, 1), (1, 2))), says(part((0, 2), (1, 3)))]
    spec = JobSpec(command="", user="", queue="", run_limit_s=60)
    assert [each.job_id for each in client.modify((), spec, ("run_limit_s",), ALL)] == [1, 2, 3]


def test_a_submission_is_asked_for_again_under_its_token(master: Master, client: Client) -> None:
    jobs = [model_pb2.Submitted(job_id=each + 1, queue="normal") for each in range(501)]
    nothing, whole = scheduler_pb2.SubmitReply(), scheduler_pb2.SubmitReply(jobs=jobs)
    master.acts = [breaks_off(nothing), says(nothing, nothing, whole)]
    made = client.submit_many([Submission(spec=JobSpec(command="run", user="", queue=""))] * 501)
    assert [each.job_id for each in made] == list(range(1, 502))
    assert len({request.token for request in master.requests}) == 1


def test_a_master_that_says_nothing_more_is_given_up(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retried_calls, "LATE_S", 0.0)

    def silent(context: Any) -> Iterator[Any]:
        yield part((0, 10))
        master.over.wait(60)

    master.acts = [silent] * 9
    done: list[Control] = []
    with Client(f"unix:{tmp_path}/m", wait_s=2) as client, pytest.raises(Silent, match="nothing for 2 s"):
        client.control(ControlAction(action="post", text="a note"), wanted=ALL, done=done)
    assert [each.job_id for each in done] in ([10], []), "whatever had come by then"


def test_each_answer_gives_it_the_whole_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    watched = retried_calls._Watched(lambda request: None, 60.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for now in (100.0, 150.0, 205.0, 260.0):
        clock[0] = now
        watched.note()
        assert watched.left_s() == 60.0 + retried_calls.LATE_S
    clock[0] = 322.0
    assert watched.left_s() == 0.0


def test_a_master_of_before_is_asked_as_ever(tmp_path: Path, client: Client) -> None:
    server = served(Older(), tmp_path / "m")
    try:
        assert [each.job_id for each in client.control("kill", wanted=ALL)] == [5]
        made = client.submit_many([Submission(spec=JobSpec(command="run", user="", queue=""))] * 501)
        assert len(made) == 501
    finally:
        server.stop(0).wait()


def test_nobody_there(tmp_path: Path) -> None:
    with Client(f"unix:{tmp_path}/m", wait_s=0.1) as client, pytest.raises(Unavailable, match="has not answered"):
        client.control("kill", wanted=ALL)
