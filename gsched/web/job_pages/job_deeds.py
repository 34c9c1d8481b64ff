"""What a page has done to jobs: kill, stop, resume, requeue, top, bottom, switch. The master decides who may."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Control
from gsched.web.access.form_reading import Fields, one
from gsched.web.pages.page_context import WebContext, address, show
from gsched.web.shown.job_address import job_path, read_job
from gsched.web.shown.job_list import read_query
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
SWITCH = "switch"
MOST_JOBS = 10_000
SAID_OF_JOBS = frozenset({*(name.partition("_")[0] for name in ACTIONS), SWITCH})
"""What the list of jobs says after it was done to some of them."""


def do_deed(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer a form with `action` and one or more `job`: with the list of jobs that it came from, by the words of its
    query beside them. Raises GschedError.
    """
    named = one(fields, "action")
    if named not in ACTIONS and named != SWITCH:
        raise BadRequest("there is no such action")
    job_ids = [read_job(word) for word in dict.fromkeys(fields.get("job", []))]
    if not job_ids:
        raise BadRequest("choose a job first")  # without a number the master would take all of them
    if len(job_ids) > MOST_JOBS:
        raise BadRequest(f"choose {MOST_JOBS} jobs at most")
    said = named.partition("_")[0]
    results = (
        _switch(context, job_ids, one(fields, "to_queue")) if named == SWITCH else _control(context, job_ids, named)
    )
    refused = [result for result in results if result.error]
    done = len(results) - len(refused)
    words = read_query({name: values[0] for name, values in fields.items() if values}).words()
    if refused:
        lines = [(show_job(result.job_id), job_path(result.job_id), result.error) for result in refused]
        values = {"said": said, "done": done, "refused": lines, "list": address("/jobs", words)}
        return show(context, request, "refused.html", values, 409)
    if one(fields, "back") == "job" and len(job_ids) == 1:
        return RedirectResponse(address(job_path(job_ids[0]), {"said": said}), 303)
    return RedirectResponse(address("/jobs", {**words, "said": said, "count": str(done)}), 303)


def _control(context: WebContext, job_ids: list[int], named: str) -> list[Control]:
    return context.client.control(ACTIONS[named], job_ids)


def _switch(context: WebContext, job_ids: list[int], queue: str) -> list[Control]:
    """To another queue, as gswitch does it. Raises BadRequest."""
    if not queue:
        raise BadRequest("choose a queue first")
    return context.client.modify(job_ids, JobSpec(command="", user="", queue=queue), ("queue",))
