"""The end of a connection of asyncio: what was said last is to arrive, and nobody is waited for without a limit."""

from __future__ import annotations

import asyncio


async def end_stream(writer: asyncio.StreamWriter, most_s: float) -> None:
    """Close it when all that was written has been taken, or when nobody has taken it for `most_s` seconds.

    Closing alone leaves the connection open as long as the other side does not read, and loses what is not yet taken
    when the loop ends. Cancelled meanwhile, it closes at once.
    """
    writer.close()
    try:
        async with asyncio.timeout(most_s):
            await writer.wait_closed()
    except TimeoutError:
        writer.transport.abort()
    except OSError:
        pass  # the other side has gone
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
