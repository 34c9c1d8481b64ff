"""Tells an open page that something has changed which it shows, as server-sent events. It never tells what: the page
asks for itself anew, at most once a second, and less often where very many are open.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from gsched.base.errors import NotFound
from gsched.web.access.sessions import WebSession
from gsched.web.mirror.change_hub import CLUSTER, JOBS, SHORTEST_S, ChangeHub, PageWatch
from gsched.web.pages.page_context import WebContext
from gsched.web.shown.job_address import read_job

AGAIN_S = 15.0
"""Use of resources changes without an event; and who is gone is noticed when something is sent."""
CHANGED = b"event: changed\ndata:\n\n"
FULL = "So many pages are open that no further one can be kept up to date; load it again by hand.\n"


async def live_stream(context: WebContext, request: Request) -> Response:
    """Answer `/live?watch=cluster|jobs|JOB`."""
    wanted = request.query_params.get("watch", "")
    job_id = 0
    if wanted not in (CLUSTER, JOBS):
        try:
            job_id = read_job(wanted)
        except NotFound as error:
            return PlainTextResponse(f"{error.text}\n", 404)
    if context.hub.is_full:
        # A browser that is told so does not come back by itself.
        return PlainTextResponse(FULL, 503)
    events = told(context.hub, request.state.session, JOBS if job_id else wanted, job_id)
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def told(hub: ChangeHub, session: WebSession, topic: str, job_id: int = 0) -> AsyncIterator[bytes]:
    """Events for as long as the session lasts and the server runs."""
    with hub.watching(topic, job_id) as watch:
        yield b"retry: 2000\n\n"
        while await _changed(watch, hub, session):
            watch.changed.clear()
            yield CHANGED
            rest_s = hub.rest_s
            if rest_s > SHORTEST_S:  # not all in step, for then each change would be as much work at once as before
                rest_s *= random.uniform(0.8, 1.2)
            await asyncio.sleep(rest_s)


async def _changed(watch: PageWatch, hub: ChangeHub, session: WebSession) -> bool:
    """Wait until something has changed, or AGAIN_S have passed; False when the stream is over."""
    try:
        async with asyncio.timeout(AGAIN_S):
            await watch.changed.wait()
    except TimeoutError:
        pass
    return not (hub.is_closed or session.is_over)
