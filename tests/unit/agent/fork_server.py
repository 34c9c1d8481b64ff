"""A fork server for tests of what the agent has it run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.run.fork_server_client import ForkServer
from gsched.run.program import Program, ProgramEnd


def nothing(*_: object) -> None:
    """Nobody asks it for supervisors."""


@contextlib.contextmanager
def fork_server() -> Iterator[ForkServer]:
    """One that ends with the block, inside of a running event loop."""
    server = ForkServer(
        Path("/nonexistent"),
        "test",
        GpuLockFolders("", "", False),
        on_forked=nothing,
        on_refused=nothing,
        on_started=nothing,
        on_over=nothing,
        on_lost=nothing,
    )
    try:
        yield server
    finally:
        server.close()


def run(program: Program, limit_s: float | None = None) -> ProgramEnd:
    """Run one program, as in a thread of the agent."""

    async def story() -> ProgramEnd:
        with fork_server() as server:
            return await server.run(program, limit_s)

    return asyncio.run(story())
