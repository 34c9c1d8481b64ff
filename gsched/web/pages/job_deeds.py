"""What a page has done to jobs: kill, stop, resume, requeue, top, bottom. The master decides whether the user may."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.web.access.form_reading import Fields, one
from gsched.web.pages.page_context import WebContext, address, show
from gsched.web.shown.job_address import job_path, read_job
from gsched.wire.messages.control_action import ControlAction

ACTIONS: Mapping[str, ControlAction] = {
    "kill": ControlAction(action="kill"),
    "stop": ControlAction(action="stop"),
    "resume": ControlAction(action="resume"),
    # As grequeue without an option that says which: those that run.
    "requeue": ControlAction(action="requeue", states=("RUN", "USUSP", "SSUSP")),
    "requeue_finished": ControlAction(action="requeue", states=("DONE", "EXIT")),
    "top": ControlAction(action="top"),
    "bottom": ControlAction(action="bottom"),
}
MOST_JOBS = 10_000


def do_deed(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer a form with `action` and one or more `job`. Raises GschedError."""
    named = one(fields, "action")
    action = ACTIONS.get(named)
    if action is None:
        raise BadRequest("there is no such action")
    job_ids = [read_job(word) for word in dict.fromkeys(fields.get("job", []))]
    if not job_ids:
        raise BadRequest("choose a job first")  # without a number the master would take all of them
    if len(job_ids) > MOST_JOBS:
        raise BadRequest(f"choose {MOST_JOBS} jobs at most")
    said = named.partition("_")[0]
    refused = [result for result in context.client.control(action, job_ids) if result.error]
    if refused:
        lines = [(show_job(result.job_id), job_path(result.job_id), result.error) for result in refused]
        values = {"action": said, "done": len(job_ids) - len(refused), "refused": lines}
        return show(context, request, "refused.html", values, 409)
    if one(fields, "back") == "job" and len(job_ids) == 1:
        return RedirectResponse(address(job_path(job_ids[0]), {"said": said}), 303)
    return RedirectResponse(address("/jobs", {"whose": "all"} if one(fields, "whose") == "all" else {}), 303)
