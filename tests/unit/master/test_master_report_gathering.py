"""Reports that can wait reach the engine together; nothing is lost, and nothing changes places."""

from __future__ import annotations

import asyncio

from gsched.core.command import HostReported
from gsched.master.agents.report_gathering import ReportGathering
from gsched.master.engine_thread import InboxItem


def report(host: str) -> InboxItem:
    return InboxItem(HostReported(host, 1))


def test_they_come_together_in_their_order() -> None:
    async def story() -> None:
        handed: list[InboxItem] = []
        done = asyncio.Event()

        def put(item: InboxItem) -> None:
            handed.append(item)
            if len(handed) == len(asked):
                done.set()

        gathering = ReportGathering(put)
        asked = [report(host) for host in "abca"]
        for item in asked:
            gathering.add(item)
        assert handed == []
        await asyncio.wait_for(done.wait(), 60)
        assert handed == asked

    asyncio.run(story())


def test_what_cannot_wait_takes_them_along() -> None:
    async def story() -> None:
        handed: list[InboxItem] = []
        gathering = ReportGathering(handed.append)
        asked = [report("a"), report("b")]
        for item in asked:
            gathering.add(item)
        gathering.hand_over()
        assert handed == asked
        gathering.hand_over()
        assert handed == asked  # once
        gathering.add(asked[0])
        gathering.hand_over()
        assert handed == [*asked, asked[0]]

    asyncio.run(story())
