"""A daemon that lives without a part of its work would look well: what fails is told, and begins anew."""

from __future__ import annotations

import asyncio

import pytest

from gsched.base.errors import ResourceExhausted
from gsched.base.machine.endless_work import for_ever


def test_it_begins_anew_where_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    tries = iter((RuntimeError("never thought of"), ResourceExhausted("the disk is full"), None))

    async def work() -> None:
        problem = next(tries)
        if problem is not None:
            raise problem

    asyncio.run(for_ever(work, again_s=0.0))
    assert next(tries, "none") == "none"
    assert [record.exc_info is not None for record in caplog.records] == [True, False]
    assert "work has failed, and begins anew" in caplog.text and "never thought of" in caplog.text
    assert caplog.messages[1].endswith("work begins anew in 0 s: the disk is full")


def test_it_can_be_cancelled() -> None:
    async def story() -> None:
        task = asyncio.create_task(for_ever(asyncio.Event().wait))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
