"""Fixture: a host whose attempts never outlive the test."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from run_host import CLUSTER, Host

from gsched.run import contain


@pytest.fixture
def on_host(tmp_path: Path):
    """Run `scenario(host)` in an event loop; afterwards nothing of its attempts may be alive."""

    def run(scenario: Callable[[Host], Awaitable[None]]) -> None:
        async def main() -> None:
            host = Host(tmp_path)
            try:
                await scenario(host)
            finally:
                names = [path.name for path in (host.spool / "attempts").iterdir()]
                host.executor.close()
                table = contain.scan()
                for name in names:
                    for process in contain.marked(f"{CLUSTER}/{name}", table):
                        contain.send(process, signal.SIGKILL)

        asyncio.run(main())

    return run
