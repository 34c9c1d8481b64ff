"""The page "New job": a form, the gsub line that it stands for, and what is wrong with it; and its submission.

The form is read by the very code that reads gsub's command line, and the master decides as for any submission.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import new_token
from gsched.cli.commands.submission.gsub import read_words, submission_of
from gsched.cli.session.call import Call, read_regular_file
from gsched.dialect.bsub import ParsedSubmission
from gsched.model.jobs.notice import EVENTS
from gsched.web.access.form_reading import Fields, one
from gsched.web.job_pages.job_questions import find_job, texts_of
from gsched.web.pages.page_context import WebContext, address, packed, show
from gsched.web.shown.job_address import job_path, read_job
from gsched.web.shown.job_form import AFTER, JobForm, form_of, read_job_form
from gsched.web.shown.job_list import ListQuery, page_of
from gsched.web.shown.json_texts import json_bytes

MOST_CHOICES = 50
_TOKEN = re.compile(r"[0-9a-f]{32}")


class FormCall(Call):
    """A gsub command line that was filled in on a page: it runs as this process's user, from its directory."""

    def __init__(self, form: JobForm, conf_dir: str, umask: int) -> None:
        environment = {**os.environ, "GSCHED_ENVDIR": conf_dir}
        argv = ["gsub", *form.words()]
        super().__init__(argv, cwd=os.getcwd(), env=environment, uid=os.getuid(), gid=os.getgid(), umask=umask)
        self._script = form.command.encode() if form.is_script else b""

    def _put(self, stream: int, data: bytes) -> None:
        """What an esub says is not told."""

    def _fetch(self, path: str | None) -> tuple[bytes, int | None]:
        if path is None:
            return self._script, None
        return read_regular_file(path, self.cwd)


def new_job(context: WebContext, request: Request) -> Response:
    """Answer `/new`; `?from=JOB` fills it in with a job of one's own. Raises GschedError."""
    like = request.query_params.get("from", "")
    return _form_page(context, request, _form_like(context, read_job(like)) if like else JobForm(cwd=os.getcwd()))


def _form_like(context: WebContext, job_id: int) -> JobForm:
    view = find_job(context, job_id)
    if view is None or view.spec.user != context.me:
        raise BadRequest("only single jobs of your own can be submitted again")
    texts = texts_of(context, job_id)
    return form_of(view.spec, texts.script if texts is not None else b"")


def _form_page(
    context: WebContext, request: Request, form: JobForm, problem: str = "", *, token: str = "", status: int = 200
) -> Response:
    line, wrong = checked(context, form) if form.command else ("", "")
    values = {
        "form": form,
        "token": token or new_token(),
        "queues": [queue.name for queue in context.mirror.queues],
        "choices": list(_choices(context, form)),
        "conditions": AFTER,
        "events": EVENTS,
        "line": line,
        "problem": problem or wrong,
    }
    return show(context, request, "new_job.html", values, status)


def _choices(context: WebContext, form: JobForm) -> Iterator[tuple[str, str]]:
    """Jobs that one may wait for, number and name: one's own that have not ended, the newest first; those chosen."""
    found = dict.fromkeys(form.after, "")
    lines = page_of(context.mirror.rows, ListQuery(), context.me, time.time()).lines
    found |= {line.label: line.row.name for line in lines[:MOST_CHOICES]}
    yield from found.items()


def job_line(context: WebContext, request: Request) -> Response:
    """Answer `/new/line`, which changes nothing: the form's command line, and what is wrong with it."""
    words = request.query_params
    try:
        line, problem = checked(context, read_job_form({name: words.getlist(name) for name in words}))
    except GschedError as error:
        line, problem = "", error.text
    return packed(request, json_bytes({"line": line, "problem": problem}), "application/json")


def checked(context: WebContext, form: JobForm) -> tuple[str, str]:
    """The command line, and what is wrong with it as far as can be said without the master; empty when nothing is."""
    try:
        read_form_words(context, form)
        return form.line(), ""
    except GschedError as error:
        return _line(form), error.text


def _line(form: JobForm) -> str:
    try:
        return form.line()
    except GschedError:
        return ""


def read_form_words(context: WebContext, form: JobForm) -> tuple[FormCall, ParsedSubmission]:
    """What gsub would read from the form's line. Raises BadRequest."""
    call = FormCall(form, context.conf_dir, context.umask)
    asked = read_words(call, call.argv[1:], call.read_stdin)
    if asked.is_for_terminal or asked.pack:
        raise BadRequest("-h, -V, -K, -I, --test-only, --dry-run and -pack are for the command line")
    return call, asked


def submit_job(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer the form: the job's page, or the form again with what is wrong. Sent twice, it makes one job."""
    form, token = read_job_form(fields), one(fields, "token")
    if not _TOKEN.fullmatch(token):
        raise BadRequest("the form is not complete: load the page again")
    try:
        call, asked = read_form_words(context, form)
        submitted = context.client.submit(submission_of(call, asked), token=token)
    except GschedError as error:
        return _form_page(context, request, form, error.text, token=token, status=400)
    if form.array:
        return RedirectResponse(address("/jobs", {"array": str(submitted.job_id), "states": "any"}), 303)
    return RedirectResponse(address(job_path(submitted.job_id), {"said": "submitted"}), 303)
