"""The page "Jobs": a list that is filtered, sorted, searched and paged here."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import GschedError
from gsched.cli.render.text.reason_texts import reason_text
from gsched.model.views.view import JobFilter, JobView
from gsched.web.job_pages.job_deeds import SAID_OF_JOBS
from gsched.web.pages.page_context import WebContext, show
from gsched.web.shown.job_list import GROUPS, SORTS, ListLine, number_of, page_of, read_query


def jobs_page(context: WebContext, request: Request) -> Response:
    """Answer `/jobs`."""
    mirror = context.mirror
    query = read_query(request.query_params)
    page = page_of(mirror.rows, query, context.me, time.time())
    values = {
        "query": query,
        "page": page,
        "groups": list(GROUPS),
        "sorts": SORTS,
        "queues": [queue.name for queue in mirror.queues],
        "reasons": _reasons(context, page.lines),
        **_said(request),
    }
    return show(context, request, "jobs.html", values)


def _said(request: Request) -> dict[str, str | int]:
    """What was done to jobs of the list, and to how many; nothing by a word that no form has sent."""
    said, count = request.query_params.get("said", ""), number_of(request.query_params.get("count", ""), 0)
    return {"said": said if said in SAID_OF_JOBS and count else "", "said_count": count}


def _reasons(context: WebContext, lines: tuple[ListLine, ...]) -> dict[int, tuple[str, float | None]]:
    """Of the shown jobs that wait: why, and when they are planned to start. Asked anew, for cycles change it."""
    waiting = tuple(line.row.job_id for line in lines if line.row.state == "PEND")
    if not waiting or context.mirror.away_since is not None:
        return {}
    try:
        views = list(context.client.jobs(JobFilter(ids=waiting, user="all")))
    except GschedError:
        return {}  # what is not known is not shown
    return {view.job_id: (_main_reason(view), view.planned.at if view.planned is not None else None) for view in views}


def _main_reason(view: JobView) -> str:
    return reason_text(view.pending_reasons[0]) if view.pending_reasons else ""
