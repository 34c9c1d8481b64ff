"""Output piece by piece: as much as was asked for, waited for, and whole at the end."""

from __future__ import annotations

import asyncio
import time

import pytest

from gsched.agent.output import output_tail
from gsched.agent.output.output_tail import AttemptEndWaiters, answer
from gsched.agent.output.removed_outputs import OutputRemoved
from gsched.wire.v1 import agent_pb2

KEY = (7, 1)


class Printed:
    """An attempt that prints, and who listens to it."""

    def __init__(self, **streams: bytes) -> None:
        self.streams = streams
        self.is_over = False
        self.endings = AttemptEndWaiters()
        self.replies: list[agent_pb2.OutputReply] = []
        self.listens = True

    async def read(self, key: tuple[int, int], stream: str, offset: int, most: int) -> bytes:
        assert key == KEY
        return self.streams.get(stream, b"")[offset : offset + most]

    async def send(self, reply: agent_pb2.OutputReply) -> bool:
        self.replies.append(reply)
        return self.listens

    def end(self) -> None:
        self.is_over = True
        self.endings.tell(KEY)

    async def ask(self, *, out: int = 0, err: int = 0, most: int = 1 << 20, wait_s: float = 0.0) -> None:
        request = agent_pb2.ReadOutput(
            request=3, job_id=7, attempt=1, stdout_from=out, stderr_from=err, most=most, wait_s=wait_s
        )
        await answer(request, read=self.read, is_over=lambda _: self.is_over, endings=self.endings, send=self.send)

    def told(self) -> list[tuple[str, bytes]]:
        assert {reply.request for reply in self.replies} == {3}
        assert [reply.last for reply in self.replies] == [False] * (len(self.replies) - 1) + [True]
        return [(reply.stream, reply.data) for reply in self.replies[:-1]]


def test_who_reads_output_that_goes_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Printed(stdout=b"0123456789")
    is_gone = False

    async def read(key: tuple[int, int], stream: str, offset: int, most: int) -> bytes:
        nonlocal is_gone
        if is_gone:
            raise OutputRemoved("the output of this job was removed")
        is_gone = True
        return job.streams["stdout"][offset : offset + 4]

    monkeypatch.setattr(job, "read", read)
    asyncio.run(job.ask())
    assert job.told() == [("stdout", b"0123")]
    assert job.replies[-1].error == "the output of this job was removed" and not job.replies[-1].over


def test_from_the_offsets_and_no_more_than_was_asked_for() -> None:
    job = Printed(stdout=b"0123456789", stderr=b"abc")
    asyncio.run(job.ask(out=2, err=1, most=5))
    assert job.told() == [("stdout", b"23456"), ("stderr", b"bc")]
    assert not job.replies[-1].over


def test_what_is_there_is_told_at_once() -> None:
    job = Printed(stdout=b"x")
    began = time.monotonic()
    asyncio.run(job.ask(wait_s=300))
    assert job.told() == [("stdout", b"x")] and time.monotonic() - began < 60


def test_what_is_not_there_yet_is_waited_for() -> None:
    job = Printed(stdout=b"old")

    async def story() -> None:
        asking = asyncio.create_task(job.ask(out=3, wait_s=30))
        await asyncio.sleep(0)
        assert not job.replies
        job.streams["stdout"] += b"new"
        await asking

    asyncio.run(story())
    assert job.told() == [("stdout", b"new")]


def test_the_end_is_told_at_once_with_all_that_was_printed_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_tail, "LOOK_EVERY_S", 60.0)
    job = Printed()

    async def story() -> None:
        asking = asyncio.create_task(job.ask(wait_s=60))
        await asyncio.sleep(0)
        job.streams["stdout"] = b"last words"
        job.end()
        await asking

    asyncio.run(asyncio.wait_for(story(), 60))
    assert job.told() == [("stdout", b"last words")] and job.replies[-1].over


def test_the_wait_ends_by_itself() -> None:
    job = Printed()
    asyncio.run(asyncio.wait_for(job.ask(wait_s=0.01), 60))
    assert job.told() == [] and not job.replies[-1].over


def test_nobody_listens() -> None:
    job = Printed(stdout=b"x" * (3 * output_tail.PIECE))
    job.listens = False
    asyncio.run(job.ask())
    assert len(job.replies) == 1
