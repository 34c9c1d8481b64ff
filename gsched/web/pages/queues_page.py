"""The page "Queues and users": what queues allow and hold, shares, limits, users, GPU hours of the last week."""

from __future__ import annotations

import time

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from gsched.model.views.gpu_sums import GpuSumsQuery
from gsched.web.pages.page_context import WebContext, show, words_of

WEEK_S = 7 * 24 * 3600.0
AGAIN_S = 60.0
"""So old the hours of the week may be."""
MOST_ROWS = 200
"""Of each table."""


def queues_page(context: WebContext, request: Request) -> Response:
    """Answer `/queues`. Raises GschedError."""
    client = context.client
    queues = client.queues()
    users = [user for user in client.catalogue.users(["all"]) if not user.name.endswith("/")]
    values = {
        "queues": queues,
        "shared": [queue for queue in queues if queue.shares],
        "limits": [limit for limit in client.limits() if not limit.idle][:MOST_ROWS],
        "users": users[:MOST_ROWS],
        "week": _week(context, request),
    }
    return show(context, request, "queues.html", values)


def _week(context: WebContext, request: Request) -> Markup:
    """The hours of the week as a table: the history is read for them, so they may be a minute old."""
    t, now = words_of(request), time.time()

    def make() -> str:
        sums = context.client.past.gpu_sums(GpuSumsQuery(by="user", bounds=(now - WEEK_S, now)))
        week = sorted(sums, key=lambda each: -each.held_s)[:MOST_ROWS]
        return context.templates.get_template("week_table.html").render(t=t, week=week)

    return context.slow_parts.get((t.language,), int(now // AGAIN_S), make)
