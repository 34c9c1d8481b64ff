"""Who waits for the ends of many jobs keeps nobody else waiting meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from gsched.master.rpc.end_notices import Ends, WaitingServicer
from gsched.master.views.board import Board
from gsched.model.config import ClusterConfig, Locations
from gsched.model.views.view import JobEnd
from gsched.wire.v1 import waiting_pb2

PLACES = Locations(conf_dir="", state_dir="", log_dir="", server_dir="", run_dir="", spool_dir="")


class Nothing:
    """Histories without a job."""

    async def ends(self, job_ids: Sequence[int]) -> list[JobEnd]:
        return [JobEnd(job_id=job_id, state="") for job_id in job_ids]


def test_others_are_answered_while_many_numbers_are_gone_through() -> None:
    finished: Any = Nothing()
    service = WaitingServicer(Ends(Board(ClusterConfig(cluster="c", master_host="a", locations=PLACES))), finished)

    async def asked() -> AsyncIterator[Any]:
        yield waiting_pb2.EndsRequest(job_ids=range(1, 100_001))

    async def story() -> int:
        others = 0

        async def another() -> None:
            nonlocal others
            while True:
                others += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(another())
        ask = service._ends._end_of

        def end_of(job_id: int) -> JobEnd | None:
            at_one_go.append(others)
            return ask(job_id)

        at_one_go: list[int] = []
        service._ends._end_of = end_of  # type: ignore[method-assign]
        told = [end.job_id async for reply in service.Ends(asked(), None) for end in reply.ends]
        beside.cancel()
        assert told == list(range(1, 100_001))
        return max(at_one_go.count(turn) for turn in {*at_one_go})

    assert asyncio.run(story()) <= 1_000
