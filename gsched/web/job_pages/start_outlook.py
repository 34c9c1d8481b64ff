"""When the job of a form could start if it were sent now: the master plans it and forgets it again."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gsched.base.errors import GschedError
from gsched.cli.commands.submission.gsub import submission_of
from gsched.cli.render.text.reason_texts import ALL_HOSTS, planned_text, reason_texts
from gsched.web.job_pages.new_job import read_form_words
from gsched.web.pages.page_context import WebContext, packed, words_of
from gsched.web.shown.job_form import read_job_form

MOST_HOSTS = 8
MOST_REASONS = 5


def start_outlook(context: WebContext, request: Request) -> Response:
    """Answer `/new/when` with a part of a page. It changes nothing."""
    words = request.query_params
    try:
        form = read_job_form({name: words.getlist(name) for name in words})
        call, asked = read_form_words(context, form)
        values = _outlook(context, submission_of(call, asked).spec)
    except GschedError as error:
        values = {"problem": error.text}
    template = context.templates.get_template("start_outlook.html")
    return packed(request, template.render(t=words_of(request), **values).encode(), "text/html; charset=utf-8")


def _outlook(context: WebContext, spec: Any) -> dict[str, Any]:
    """Raises GschedError for a job that would be refused."""
    found = context.client.forecast(spec)
    planned = found.planned
    hosts = found.hosts if planned is None else planned.hosts
    return {
        "problem": "",
        "waits_for": found.waits_for,
        "is_alone": found.is_alone,
        "ahead": sum(queue.pend for queue in context.mirror.queues),
        "starts_now": found.starts_now,
        "at": planned.at if planned is not None else None,
        "planned": planned_text(planned, unknown=planned.at is None) if planned is not None else "",
        "hosts": hosts[:MOST_HOSTS],
        "reasons": reason_texts(found.reasons, ALL_HOSTS, with_hosts=True)[:MOST_REASONS],
        "now": time.time(),
    }
