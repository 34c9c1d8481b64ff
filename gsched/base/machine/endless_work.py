"""Work of a daemon that goes on as long as it does: it must never end unnoticed, as tasks of asyncio do that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from gsched.base.errors import GschedError

log = logging.getLogger(__name__)
AGAIN_S = 10.0
"""Seconds after which work that has failed is begun anew."""


async def for_ever(work: Callable[[], Coroutine[Any, Any, None]], again_s: float = AGAIN_S) -> None:
    """Do it until it returns or is cancelled. Where it fails the log says so, and it begins anew after `again_s`
    seconds: a daemon without it would look well, and do only a part of its own.
    """
    name = getattr(getattr(work, "func", work), "__qualname__", "work of this daemon")
    while True:
        try:
            return await work()
        except GschedError as error:
            log.error("%s begins anew in %g s: %s", name, again_s, error.text)
        except Exception:
            log.exception("%s has failed, and begins anew in %g s", name, again_s)
        await asyncio.sleep(again_s)
