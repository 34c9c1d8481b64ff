"""A refusal travels with its code: who shows it makes the sentence, whatever the master called it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.errors import BadRequest, GschedError, about
from gsched.base.sentences import SENTENCES
from gsched.wire.calls.call_failure import error_from_rpc
from gsched.wire.messages.refusal_code import MOST_BYTES, SAID, said_in, said_trailer
from gsched.wire.server import answers, listen
from gsched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc

CLOSED = coded("refusal.queue_closed", "short")


class Master(scheduler_pb2_grpc.SchedulerServicer):
    """Refuses everything."""

    def __init__(self, said: AnyText) -> None:
        self.said = said

    @answers
    async def Control(self, request: Any, context: Any) -> Any:
        with about("queue"):
            raise BadRequest(self.said)


def refused(said: AnyText, folder: Path, *words: tuple[str, str]) -> GschedError:
    """What a client makes of a refusal, whose table has these words for some codes."""

    async def call() -> grpc.aio.AioRpcError:
        server = grpc.aio.server()
        scheduler_pb2_grpc.add_SchedulerServicer_to_server(Master(said), server)
        address = listen(server, str(folder / "s"))
        await server.start()
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                stub: Any = scheduler_pb2_grpc.SchedulerStub(channel)
                with pytest.raises(grpc.aio.AioRpcError) as found:
                    await stub.Control(scheduler_pb2.ControlRequest())
                return found.value
        finally:
            await server.stop(None)

    failure = asyncio.run(call())
    with pytest.MonkeyPatch.context() as patch:
        for code, sentence in words:
            patch.setitem(SENTENCES, code, sentence)
        return error_from_rpc(failure)


def test_the_sentence_is_that_of_who_asked(tmp_path: Path) -> None:
    error = refused(CLOSED, tmp_path, ("refusal.queue_closed", "zu: {0}"))
    assert (type(error), error.said, error.text, error.about) == (BadRequest, CLOSED, "zu: short", ("queue",))


def test_a_refusal_without_a_code_comes_as_it_is(tmp_path: Path) -> None:
    error = refused("no: é\u200b", tmp_path)
    assert (error.said, error.text, error.about) == ("no: é\u200b", "no: é\u200b", ("queue",))


def test_a_long_refusal_comes_as_text_alone(tmp_path: Path) -> None:
    said = listed([coded("refusal.queue_closed", f"queue{number}") for number in range(60)])
    assert len(str(said)) < MOST_BYTES < len(str(said)) * 2
    error = refused(said, tmp_path)
    assert error.said == error.text == str(said)


def test_values_of_all_kinds_are_told() -> None:
    said = coded("refusal.limit", "q", "-M", 1.5, "é", 2**40)
    ((name, packed),) = said_trailer(BadRequest(said))
    assert name == SAID and packed.isascii() and said_in([packed], "?") == said


@pytest.mark.parametrize("packed", ["", "%", "AAAA", "gqRjb2Rl"])
def test_what_cannot_be_read_leaves_the_text(packed: str) -> None:
    assert said_in([packed], "the text") == "the text"
