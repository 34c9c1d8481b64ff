"""Whether the loop of the RPC services goes round, as the thread learns that keeps the lease."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from gsched.master.rpc.loop_pulse import LoopPulse

PATIENCE_S = 60.0


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.001)  # nothing tells that the loop has gone round, or that time has passed


def test_a_loop_that_hangs_is_noticed_and_one_that_goes_on_is_well() -> None:
    loop = asyncio.new_event_loop()
    pulse = LoopPulse(loop)
    running = threading.Thread(target=loop.run_forever)
    running.start()
    hangs, may_go_on = threading.Event(), threading.Event()
    for _ in range(3):
        assert pulse.is_beating(PATIENCE_S)
        until(lambda: pulse.is_beating(0.0))  # answered, so that it is asked again
    loop.call_soon_threadsafe(lambda: (hangs.set(), may_go_on.wait(PATIENCE_S)))
    assert hangs.wait(PATIENCE_S)
    until(lambda: not pulse.is_beating(0.05))
    assert not pulse.is_beating(0.05) and pulse.is_beating(PATIENCE_S), "it depends on how long it may take"
    may_go_on.set()
    until(lambda: pulse.is_beating(0.05))
    loop.call_soon_threadsafe(loop.stop)
    running.join()
    loop.close()
    until(lambda: not pulse.is_beating(0.05))
