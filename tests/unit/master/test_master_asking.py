"""A call that asks the engine in parts hears what is done as it is done, and else that the engine goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gsched.base.errors import BadRequest
from gsched.core.command import Submit
from gsched.master.engine_thread import InboxItem
from gsched.master.rpc import engine_calls
from gsched.master.rpc.engine_calls import EngineAnswer, ask_in_parts

COMMAND = Submit("ann", "", ())


class Inbox:
    """What an engine loop is given."""

    def __init__(self) -> None:
        self.items: list[InboxItem] = []

    def put(self, item: InboxItem) -> None:
        self.items.append(item)


def conversation(monkeypatch: pytest.MonkeyPatch, part_s: float, *says: Any) -> list[EngineAnswer]:
    """What is heard when the engine says these: parts, or how it ends."""
    monkeypatch.setattr(engine_calls, "PART_S", part_s)
    inbox: Any = Inbox()

    async def listen() -> list[EngineAnswer]:
        heard, asked = [], ask_in_parts(inbox, COMMAND)
        listening = asyncio.ensure_future(anext(asked))
        while not inbox.items:
            await asyncio.sleep(0)
        (item,) = inbox.items
        for each in says:
            if isinstance(each, list):
                item.progress(each)
            else:
                item.reply(*each)
        heard.append(await listening)
        heard += [told async for told in asked]
        return heard

    return asyncio.run(listen())


def test_parts_then_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = conversation(monkeypatch, 3600.0, [], [(0, "a"), (2, "c")], [(1, "b")], (["a", "b", "c"], None))
    assert heard == [EngineAnswer([(0, "a"), (2, "c"), (1, "b")]), EngineAnswer([], ["a", "b", "c"])]


def test_it_is_told_that_the_engine_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = conversation(monkeypatch, 0.0, [], ([], None))
    assert heard == [EngineAnswer([]), EngineAnswer([], [])]


def test_a_refusal_comes_after_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRequest, match="no such queue"):
        conversation(monkeypatch, 3600.0, (None, BadRequest("no such queue")))
