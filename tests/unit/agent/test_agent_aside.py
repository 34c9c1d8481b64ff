"""Work beside the loop: what hangs is nobody else's problem."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from gsched.agent import blocking_pool as module
from gsched.agent.blocking_pool import BlockingPool
from gsched.base.errors import ResourceExhausted
from gsched.run.account import UnixAccount

NOBODY = UnixAccount(name="ann", uid=54321, gid=54321)


def test_results_and_errors_come_back() -> None:
    async def story() -> None:
        aside = BlockingPool()
        assert await aside.run("ann", lambda: 7, 5) == 7
        with pytest.raises(ZeroDivisionError):
            await aside.run("ann", lambda: 1 // 0, 5)

    asyncio.run(story())


def test_many_pieces_wait_for_each_other_and_all_are_done() -> None:
    busy, most = 0, 0
    lock, two = threading.Lock(), threading.Barrier(2)

    def work() -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        two.wait(60)  # one by itself waits for a second
        with lock:
            busy -= 1

    async def story() -> None:
        aside = BlockingPool(3)
        await asyncio.gather(*(aside.run("ann", work, 60) for _ in range(40)))

    asyncio.run(story())
    assert 1 < most <= 3


def test_what_hangs_keeps_nobody_else_waiting_nor_the_end() -> None:
    hangs = threading.Event()

    async def story() -> None:
        aside = BlockingPool(2)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await aside.run("ann", lambda: hangs.wait(120), 0.05)
        assert await aside.run("bob", lambda: "done", 60) == "done"

    began = time.monotonic()
    asyncio.run(story())
    assert time.monotonic() - began < 60
    hangs.set()


@pytest.mark.needs_root
def test_a_users_paths_are_looked_up_in_that_users_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    (tmp_path / "inside").mkdir()
    tmp_path.chmod(0o700)

    async def story() -> None:
        aside = BlockingPool()
        assert not await aside.as_user(NOBODY, lambda: os.path.isdir(tmp_path / "inside"))
        assert await aside.as_user(None, lambda: os.path.isdir(tmp_path / "inside"))
        monkeypatch.setattr(module, "PATH_PATIENCE_S", 0.05)
        with pytest.raises(ResourceExhausted, match="a file system of user ann does not answer"):
            await aside.as_user(NOBODY, hangs.wait)

    asyncio.run(story())
    hangs.set()
