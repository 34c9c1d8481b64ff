"""Orders about one attempt are carried out one after another; nothing else waits for them."""

from __future__ import annotations

import asyncio

import pytest

from gsched.agent.background_tasks import BackgroundTasks, for_ever


def test_orders_about_one_attempt_keep_their_order_and_hold_up_no_other() -> None:
    async def story() -> None:
        background, done, gate = BackgroundTasks(), list[str](), asyncio.Event()
        other = asyncio.Event()

        async def slow() -> None:
            await gate.wait()
            done.append("start")

        async def quick(name: str) -> None:
            done.append(name)
            other.set()

        background.beside(slow(), (7, 1))
        background.beside(quick("signal"), (7, 1))
        background.beside(quick("other"), (8, 1))
        await other.wait()
        assert done == ["other"]
        gate.set()
        other.clear()
        await other.wait()
        assert done == ["other", "start", "signal"]

    asyncio.run(story())


def test_an_order_that_fails_does_not_keep_the_next_from_being_carried_out() -> None:
    async def story() -> None:
        background, reached = BackgroundTasks(), asyncio.Event()

        async def fails() -> None:
            raise RuntimeError("no luck")

        async def goes() -> None:
            reached.set()

        background.beside(fails(), (7, 1))
        background.beside(goes(), (7, 1))
        async with asyncio.timeout(60):
            await reached.wait()

    asyncio.run(story())


def test_what_goes_on_for_ever_begins_anew_where_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    """An agent that lives without its sessions, or without its watch over disks, would look well."""
    tries = iter((RuntimeError("never thought of"), OSError("nor of this"), None))

    async def work() -> None:
        problem = next(tries)
        if problem is not None:
            raise problem

    asyncio.run(for_ever(work, again_s=0.0))
    assert next(tries, "none") == "none"
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert "work has failed, and begins anew" in caplog.text and "never thought of" in caplog.text
