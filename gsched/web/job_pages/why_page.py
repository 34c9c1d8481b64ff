"""The page that explains why a job waits: who is in its way, when it is expected to start, what would start it now.

Asked for by a person each time, never by a page that keeps itself up to date: each answer costs the master plans of
its own.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gsched.base.ids import show_job
from gsched.cli.render.explaining.explanation_text import (
    change_text,
    hosts_lines,
    provided_lines,
    start_text,
    usual_lines,
)
from gsched.cli.render.explaining.measure_text import measure_words, moved_text
from gsched.cli.render.text.reason_texts import ALL_HOSTS, reason_texts
from gsched.model.views.explanation import AdminMeasure, StartSuggestion
from gsched.web.pages.page_context import WebContext, show
from gsched.web.shown.job_address import read_job


def why_page(context: WebContext, request: Request) -> Response:
    """Answer `/jobs/JOB/why`. Raises NotFound; Conflict for a job that does not wait."""
    found = context.client.explain(read_job(request.path_params["job"]))
    values: dict[str, Any] = {
        "found": found,
        "label": show_job(found.job_id),
        "reasons": reason_texts(found.reasons, ALL_HOSTS, zone=context.zone),
        "start": start_text(found, context.zone),
        "usual": [*provided_lines(found), *usual_lines(found, context.zone)],
        "changes": [_shown(each) for each in found.suggestions],
        "measures": [_measure(each) for each in found.measures],
        "is_cut": found.measures_cut,
        "hosts": list(hosts_lines(found.hosts, context.zone)),
    }
    return show(context, request, "why.html", values)


def _shown(each: StartSuggestion) -> dict[str, str]:
    return {
        "words": ", ".join(change_text(change) for change in each.changes),
        "hosts": ", ".join(each.hosts),
        "command": each.command,
    }


def _measure(each: AdminMeasure) -> dict[str, Any]:
    return {
        "words": measure_words(each),
        "hosts": ", ".join(each.hosts),
        "commands": each.commands,
        "jobs": [moved_text(job) for job in each.jobs],
    }
