"""An event loop with a time limit for the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T], limit_s: float = 60.0) -> T:
    """Run a coroutine to its end; a test that hangs fails instead."""

    async def bounded() -> T:
        async with asyncio.timeout(limit_s):
            return await work

    return asyncio.run(bounded())
