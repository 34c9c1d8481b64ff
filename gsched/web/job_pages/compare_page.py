"""The page "Compare": numbers in the output of several jobs, drawn over each other by the browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import BadRequest
from gsched.base.ids import index_of, show_job
from gsched.model.jobs.job import PENDING, STARTED
from gsched.model.views.view import JobView
from gsched.web.job_pages.job_questions import find_job
from gsched.web.pages.page_context import WebContext, show
from gsched.web.shown.job_address import job_path, read_job
from gsched.web.shown.json_texts import json_text

MOST_COMPARED = 8


def compare_page(context: WebContext, request: Request) -> Response:
    """Answer `/compare?job=JOB&job=JOB`; of an array its first elements that have started. Raises GschedError."""
    numbers = [read_job(word) for word in dict.fromkeys(request.query_params.getlist("job"))]
    if not numbers:
        raise BadRequest("choose jobs first")
    job_ids = list(dict.fromkeys(job_id for number in numbers for job_id in _meant(context, number)))
    views = [view for job_id in job_ids[:MOST_COMPARED] if (view := find_job(context, job_id)) is not None]
    values = {
        "jobs": views,
        "left_out": max(0, len(job_ids) - MOST_COMPARED),
        "most": MOST_COMPARED,
        "data": json_text([_told(view) for view in views]),
    }
    return show(context, request, "compare.html", values)


def _meant(context: WebContext, number: int) -> Iterator[int]:
    """The job itself, or the elements of the array."""
    elements = [row.job_id for row in context.mirror.rows if row.array_id == number and row.state not in PENDING]
    yield from sorted(elements, key=index_of) if elements else [number]


def _told(view: JobView) -> dict[str, Any]:
    """What the browser must know of a job."""
    label = show_job(view.job_id)
    return {
        "label": f"{label} {view.spec.name}" if view.spec.name else label,
        "address": f"{job_path(view.job_id)}/output",
        "plots": [[plot.name, plot.pattern] for plot in view.spec.plots],
        "started": view.dispatched_at,
        "runs": view.state in STARTED,
    }
