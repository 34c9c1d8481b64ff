"""A page that stays open for a day: as many changes as a day has seconds, and the server holds no more than before."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc

import pytest

from gsched.model.hosts.host import Gpu
from gsched.model.views.view import GpuView, HostView, QueueView
from gsched.web.access.sessions import WebSessions
from gsched.web.mirror import change_hub
from gsched.web.mirror.change_hub import JOBS, SHORTEST_S, ChangeHub
from gsched.web.mirror.cluster_load import MOST_SAMPLES as MOST_LOADS
from gsched.web.mirror.cluster_load import ClusterLoad
from gsched.web.mirror.gpu_samples import MOST_SAMPLES, GpuSamples
from gsched.web.pages import live_stream

DAY_S = 86_400
LEAST_GROWTH = 200_000
"""Bytes: what the machinery itself may hold at one time and not at another."""


@pytest.mark.slow
def test_a_day_of_changes_neither_grows_nor_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_hub, "SHORTEST_S", 0.0)
    monkeypatch.setattr(change_hub, "PAGES_IN_A_SECOND", 1e9)

    async def day() -> int:
        hub, sessions = ChangeHub(), WebSessions()
        hub.begin()
        session = sessions.find(sessions.open(sessions.new_token()))
        assert session is not None
        stream = live_stream.told(hub, session, JOBS, 7)
        assert (await anext(stream)).startswith(b"retry")
        told, before = 0, 0
        for second in range(DAY_S // 4):
            hub.tell(JOBS, {7, second})
            hub.tell(JOBS, {second + 100})
            assert await anext(stream) == live_stream.CHANGED
            told += 1
            if second == 1000:
                gc.collect()
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < LEAST_GROWTH, grown
        hub.close()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        return told

    assert asyncio.run(day()) == DAY_S // 4


def test_what_is_kept_for_curves_ends_to_grow() -> None:
    samples, load = GpuSamples(), ClusterLoad()
    views = tuple(GpuView(gpu=Gpu(uuid=f"GPU-{index}", index=index, utilization_percent=5)) for index in range(8))
    host = HostView(name="a", status="ok", gpus=views)
    queue = QueueView(name="q", priority=1)
    for second in range(0, 2 * DAY_S, 15):
        samples.add(float(second), [host])
        load.add(float(second), [host], [queue])
    assert all(len(list(samples.of(f"GPU-{index}", 0.0))) == MOST_SAMPLES for index in range(8))
    assert len(load._samples) == MOST_LOADS
    samples.add(2.0 * DAY_S, [])
    assert list(samples.of("GPU-0", 0.0)) == []


def test_very_many_pages_are_told_less_often() -> None:
    """Each asks for itself anew when it is told, so that this is what they cost together."""
    hub = ChangeHub()
    with contextlib.ExitStack() as stack:
        assert hub.rest_s == SHORTEST_S
        for _ in range(40):
            stack.enter_context(hub.watching(JOBS))
        assert hub.rest_s == SHORTEST_S
        for _ in range(160):
            stack.enter_context(hub.watching(JOBS))
        assert hub.rest_s == 5 * SHORTEST_S
    assert hub.rest_s == SHORTEST_S
