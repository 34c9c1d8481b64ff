"""A screen without a terminal, its text, and how a test waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC

from fake_master import allocation, spec
from textual.pilot import Pilot

from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.views.view import GpuView, HostView, JobView
from gsched.top.screens.top_app import TopApp
from gsched.top.watching.live_source import LiveSource
from gsched.top.watching.recording import Recorder
from gsched.top.watching.replay_source import ReplaySource

PATIENCE_S = 60.0
ME = "test"


class Screen:
    """What a person sees, and the keys."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def lines(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, *wanted: str, gone: str = "") -> str:
        """Wait until all of it is there."""
        return await self.until_true(
            lambda: all(each in self.text for each in wanted) and not (gone and gone in self.text)
        )

    async def until_true(self, is_true: Callable[[], object]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while not is_true():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.02)
        return self.text


def on_screen(
    source: LiveSource | ReplaySource,
    test: Callable[[Screen], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    recorder: Recorder | None = None,
) -> None:
    """Run the test with a screen of that size."""

    async def run() -> None:
        app = TopApp(source, UTC, recorder)
        async with app.run_test(size=size) as pilot:
            await test(Screen(app, pilot))

    try:
        asyncio.run(run())
    finally:
        source.stop()


def job(number: int, state: str = "RUN", *, gpus: tuple[int, ...] = (), user: str = ME, **changes: object) -> JobView:
    values: dict[str, object] = {
        "job_id": number,
        "spec": spec(name=f"job{number}", user=user),
        "state": state,
        "submitted_at": 1.0,
        "attempt": 1,
    }
    if gpus:
        values |= {"allocation": allocation(*gpus, host="gpu01"), "dispatched_at": 2.0}
    return JobView(**(values | changes))  # type: ignore[arg-type]


def gpu(index: int, *, holders: tuple[str, ...] = (), **changes: object) -> GpuView:
    values: dict[str, object] = {"uuid": f"GPU-{index}", "index": index, "mode": ComputeMode.EXCLUSIVE_PROCESS}
    return GpuView(gpu=Gpu(**(values | changes)), holders=holders)  # type: ignore[arg-type]


def host(*gpus: GpuView, name: str = "gpu01") -> HostView:
    return HostView(name=name, status="ok", max_slots=16, gpus=gpus)
