"""Followers of events: who does not read is cut off, and costs the others and the engine nothing."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from gsched.master import event_feed
from gsched.master.event_feed import EventFeed
from gsched.master.rpc.scheduler_service import MOST_PAGING, SchedulerServicer
from gsched.model.event import HostOpened, JobGpuCurves
from gsched.model.views.view import EventRecord
from gsched.wire.v1 import scheduler_pb2

EVENTS = 40


def test_a_follower_that_never_reads_is_cut_off_and_the_others_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "FOLLOWER_LIMIT", 100)

    async def main() -> None:
        news = EventFeed()
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
        news = EventFeed()
        first, second = news.follow(), news.follow()
        news.publish(1, [HostOpened(at=0.0, host="a", by="boss")])
        assert first.get_nowait() is second.get_nowait()

    asyncio.run(main())


def test_the_use_of_gpus_over_time_is_for_the_history_alone() -> None:
    async def main() -> None:
        news = EventFeed()
        follower = news.follow()
        curves = JobGpuCurves(at=0.0, job_id=7, attempt=1, host="a", data=b"x")
        news.publish(8, [curves, HostOpened(at=0.0, host="a", by="boss")])
        record = follower.get_nowait()
        assert record is not None and (record.seq, record.kind) == (8, "host_opened") and follower.empty()

    asyncio.run(main())


def test_readers_of_old_events_leave_the_threads_to_others() -> None:
    """All queries that look at much share some threads: fifty readers of all that ever happened take two of them."""

    class Store:
        def __init__(self) -> None:
            self.reading = self.most = 0

        def events_after(self, seq: int, limit: int) -> list[EventRecord]:
            self.reading += 1
            self.most = max(self.most, self.reading)
            time.sleep(0.002)
            self.reading -= 1
            return [EventRecord(seq=seq + 1, at=0.0, kind="x", job_id=0, payload="")] if seq < 3 else []

    async def main() -> None:
        store = Store()
        services = SimpleNamespace(loop=None, board=None, store=SimpleNamespace(last_seq=3), auth=None)
        servicer = SchedulerServicer(services, store, None, None, EventFeed())  # type: ignore[arg-type]

        async def read() -> int:
            request = scheduler_pb2.EventsRequest(after_seq=0)
            return len([record async for record in servicer.Events(request, None)])

        assert await asyncio.gather(*[read() for _ in range(50)]) == [4] * 50
        assert store.most <= MOST_PAGING

    asyncio.run(main())


def test_who_wants_few_records_gets_the_newest_of_those_that_came() -> None:
    async def main() -> None:
        news, store = EventFeed(), SimpleNamespace(events_after=lambda seq, limit: [])
        services = SimpleNamespace(loop=None, board=None, store=SimpleNamespace(last_seq=0), auth=None)
        servicer = SchedulerServicer(services, store, None, None, news)  # type: ignore[arg-type]

        async def told(pause_s: float) -> list[int]:
            request = scheduler_pb2.EventsRequest(after_seq=0, follow=True, pause_s=pause_s)
            records = servicer.Events(request, None)
            found = [(await anext(records)).seq, (await anext(records)).seq]
            while found[-1] < EVENTS:
                found.append((await anext(records)).seq)
            await records.aclose()
            return found

        readers = [asyncio.create_task(told(pause_s)) for pause_s in (0.0, 0.001)]
        async with asyncio.timeout(60):
            while len(news._followers) < len(readers):
                await asyncio.sleep(0)
            for seq in range(1, EVENTS + 1):
                news.publish(seq, [HostOpened(at=0.0, host="a", by="boss")])
            each, few = await asyncio.gather(*readers)
        assert each == list(range(EVENTS + 1))
        assert few == [0, EVENTS]
        assert not news._followers

    asyncio.run(main())
