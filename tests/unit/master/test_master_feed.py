"""Followers of events: who does not read is cut off, and costs the others and the engine nothing."""

from __future__ import annotations

import asyncio

import pytest

from gsched.master import feed
from gsched.master.feed import Feed
from gsched.model.event import HostOpened


def test_a_follower_that_never_reads_is_cut_off_and_the_others_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "FOLLOWER_LIMIT", 100)

    async def main() -> None:
        news = Feed()
        idle, busy = news.follow(), news.follow()
        read = 0
        for number in range(1, 301):
            news.publish(number, [HostOpened(at=0.0, host="a", by="boss")])
            record = busy.get_nowait()
            assert record is not None and record.seq == number
            read += 1
        assert read == 300
        kept = [idle.get_nowait() for _ in range(idle.qsize())]
        assert len(kept) == 102 and kept[-1] is None  # it is told, and may come back with the last number that it saw
        news.publish(301, [HostOpened(at=0.0, host="a", by="boss")])
        assert idle.empty()

    asyncio.run(main())


def test_a_record_is_made_once_for_all_followers() -> None:
    async def main() -> None:
        news = Feed()
        first, second = news.follow(), news.follow()
        news.publish(1, [HostOpened(at=0.0, host="a", by="boss")])
        assert first.get_nowait() is second.get_nowait()

    asyncio.run(main())
