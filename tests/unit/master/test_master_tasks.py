"""Questions about tasks are passed on between the hosts of one running attempt, and nowhere else."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from gsched.master.agents import task_relay
from gsched.master.agents.task_relay import TaskRelay
from gsched.model.jobs.job import JobState
from gsched.wire.v1 import agent_pb2


class Streams:
    """What the agents of connected hosts were sent; a host in `answering` answers at once."""

    def __init__(self, *connected: str) -> None:
        parts = [SimpleNamespace(host=host) for host in ("a", "b")]
        self.job = SimpleNamespace(attempt=2, state=JobState.RUN, allocation=SimpleNamespace(hosts=parts))
        self.connected = set(connected)
        self.answering: set[str] = set()
        self.sent: list[tuple[str, agent_pb2.MasterMessage]] = []
        board = SimpleNamespace(job=lambda job_id: self.job if job_id == 17 else None)
        self.relay = TaskRelay(board, self.post)  # type: ignore[arg-type]

    def post(self, host: str, message: agent_pb2.MasterMessage) -> bool:
        if host not in self.connected:
            return False
        self.sent.append((host, message))
        if host in self.answering and message.HasField("task_ask"):
            self.relay.answered(host, agent_pb2.TaskReply(request=message.task_ask.request, stdout=b"text"))
        return True

    async def ask(self, asker: str = "a", **fields: object) -> agent_pb2.TaskReply | None:
        """The answer that the asking host gets; None when there is none yet."""
        given = {"job_id": 17, "attempt": 2, "task": "t-0", "host": "b", "request": 5, **fields}
        given.setdefault("read", agent_pb2.ReadTask(most=4096))
        self.relay.asked(asker, agent_pb2.TaskAsk(**given))  # type: ignore[arg-type]
        for _ in range(5):
            await asyncio.sleep(0)
        return self.reply()

    def reply(self) -> agent_pb2.TaskReply | None:
        found = [message.task_reply for _, message in self.sent if message.HasField("task_reply")]
        return found[-1] if found else None


def test_a_question_goes_there_and_the_answer_comes_back() -> None:
    async def scenario() -> None:
        streams = Streams("a", "b")
        streams.answering = {"b"}
        reply = await streams.ask(from_host="forged")
        assert reply is not None and (reply.request, reply.stdout, reply.error) == (5, b"text", "")
        host, message = streams.sent[0]
        assert (host, message.task_ask.from_host, message.task_ask.task) == ("b", "a", "t-0")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"host": "c"}, "job <17> does not have host c"),
        ({"attempt": 1}, "job <17> does not run any more"),
        ({"job_id": 18}, "job <18> does not run any more"),
    ],
)
def test_what_is_not_the_job_s_is_refused_for_good(change: dict[str, object], told: str) -> None:
    async def scenario() -> None:
        streams = Streams("a", "b", "c")
        reply = await streams.ask(**change)
        assert reply is not None and (reply.error, reply.later) == (told, False)
        assert [host for host, _ in streams.sent] == ["a"]

    asyncio.run(scenario())


def test_a_host_that_is_not_the_job_s_cannot_ask() -> None:
    async def scenario() -> None:
        streams = Streams("a", "b", "c")
        reply = await streams.ask("c")
        assert reply is not None and reply.error == "job <17> does not have host c"
        assert [host for host, _ in streams.sent] == ["c"]

    asyncio.run(scenario())


def test_a_job_that_has_ended_is_refused() -> None:
    async def scenario() -> None:
        streams = Streams("a", "b")
        streams.job.state = JobState.EXIT
        reply = await streams.ask()
        assert reply is not None and "does not run any more" in reply.error

    asyncio.run(scenario())


def test_a_host_that_is_away_or_goes_away_may_be_asked_again() -> None:
    async def scenario() -> None:
        streams = Streams("a")
        reply = await streams.ask()
        assert reply is not None and reply.later
        streams.connected.add("b")
        streams.sent.clear()
        assert await streams.ask() is None
        streams.relay.gone("b")
        for _ in range(5):
            await asyncio.sleep(0)
        reply = streams.reply()
        assert reply is not None and reply.later

    asyncio.run(scenario())


def test_only_the_host_that_was_asked_answers() -> None:
    async def scenario() -> None:
        streams = Streams("a", "b", "c")
        await streams.ask()
        number = streams.sent[0][1].task_ask.request
        streams.relay.answered("c", agent_pb2.TaskReply(request=number, stdout=b"forged"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert streams.reply() is None

    asyncio.run(scenario())


def test_so_much_is_under_way_for_a_host_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(task_relay, "MOST_BYTES", 1 << 20)
        streams = Streams("a", "b")
        for number in range(10):
            await streams.ask(request=number, read=agent_pb2.ReadTask(most=128 << 10))
        asked = [message for host, message in streams.sent if host == "b"]
        assert len(asked) == 3, "three times 256 KiB and their questions"
        reply = streams.reply()
        assert reply is not None and reply.later and "too much" in reply.error
        streams.relay.gone("b")
        for _ in range(5):
            await asyncio.sleep(0)
        streams.answering = {"b"}
        reply = await streams.ask(request=99)
        assert reply is not None and reply.request == 99 and reply.stdout == b"text"

    asyncio.run(scenario())
