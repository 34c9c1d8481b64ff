"""Orders about one attempt are carried out one after another; nothing else waits for them."""

from __future__ import annotations

import asyncio

from gsched.agent.background_tasks import BackgroundTasks


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
