"""Pages of the configuration: its files with what is wrong by file and line; one file, and a change of it.

A change is tried first, as `gadmin ckconfig` does; only where nothing is wrong the file is written and the master told
to switch, as `gadmin reconfig` does. What the master refuses is taken back.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gsched.base.errors import BadRequest, Conflict, GschedError, Problem
from gsched.model.views.view import ReconfigResult
from gsched.web.access.form_reading import Fields, one
from gsched.web.administration.configuration_files import (
    errors_in,
    findings_of,
    mark_of,
    names_in,
    read_configuration,
    replace_configuration,
    written_text,
)
from gsched.web.pages.page_context import WebContext, address, show
from gsched.wire.address import is_shared

FILES = "/administration/files"


def files_page(context: WebContext, request: Request) -> Response:
    """Answer `/administration/files`. Raises GschedError."""
    return _files(context, request)


def _files(context: WebContext, request: Request, result: ReconfigResult | None = None, status: int = 200) -> Response:
    problems = findings_of(context.conf_dir)
    names = names_in(context.conf_dir)
    values = {
        "conf_dir": context.conf_dir,
        "files": [(name, _of_file(problems, name)) for name in names],
        "problems": [(problem, _name_in(problem, names)) for problem in problems],
        "error_count": len(errors_in(problems)),
        "result": result,
        "elsewhere": _elsewhere(context),
        "said": request.query_params.get("said") == "applied",
        "tab": "files",
    }
    return show(context, request, "configuration.html", values, status)


def file_page(context: WebContext, request: Request) -> Response:
    """Answer `/administration/files/NAME`. Raises GschedError."""
    name = request.path_params["file"]
    text = read_configuration(context.conf_dir, name)
    problems = _of_file(findings_of(context.conf_dir), name)
    return _file(context, request, name, {"text": text.text, "problems": problems})


def _file(context: WebContext, request: Request, name: str, values: dict[str, Any], status: int = 200) -> Response:
    """The file as it is, with a form that holds `values["text"]`."""
    now = read_configuration(context.conf_dir, name)
    usual = {"file": now, "mark": now.mark, "tried": "", "others": [], "elsewhere": _elsewhere(context), "tab": "files"}
    shown = {**usual, **values}
    lines = shown["text"].splitlines()
    wrong = {problem.line for problem in shown["problems"]}
    shown["lines"] = [(number, line, number in wrong) for number, line in enumerate(lines, 1)]
    return show(context, request, "configuration_file.html", shown, status)


def change_file(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer a form with `text`, `mark` and `action` (try, apply). Raises GschedError."""
    name, action, mark = request.path_params["file"], one(fields, "action"), one(fields, "mark")
    if action not in ("try", "apply"):
        raise BadRequest("there is no such action")
    data = written_text(fields.get("text", [""])[-1])
    read_configuration(context.conf_dir, name)  # whether there is such a file is said first
    problems = findings_of(context.conf_dir, {name: data})
    is_wrong = bool(errors_in(problems))
    if action == "try" or is_wrong:
        values = {
            "text": data.decode(),
            "mark": mark,
            "problems": _of_file(problems, name),
            "others": [problem for problem in problems if not _is_in(problem, name)],
            "tried": "wrong" if is_wrong else "clean",
        }
        return _file(context, request, name, values, 400 if is_wrong else 200)
    if elsewhere := _elsewhere(context):
        raise Conflict(f"the master reads the files of its own host: change them on {elsewhere}")
    before = replace_configuration(context.conf_dir, name, data, mark)
    return _switched(context, request, name, data, before)


def _switched(context: WebContext, request: Request, name: str, data: bytes, before: bytes) -> Response:
    """Have the master switch to the file that was written, or have it again as it was."""
    try:
        result = context.client.reconfigure(apply=True)
    except GschedError:
        replace_configuration(context.conf_dir, name, before, mark_of(data))
        raise
    if result.problems or not result.applied:
        replace_configuration(context.conf_dir, name, before, mark_of(data))
        problems = [Problem(os.path.join(context.conf_dir, name), 0, text) for text in result.problems]
        values = {"text": data.decode(), "problems": problems, "tried": "refused"}
        return _file(context, request, name, values, 409)
    return _files(context, request, result)


def apply_files(context: WebContext, request: Request, fields: Fields) -> Response:
    """Answer a form that has the master switch to the files as they are (`gadmin reconfig`). Raises GschedError."""
    del fields  # its token is all that it needs
    result = context.client.reconfigure(apply=True)
    if result.notes or result.problems or not result.applied:
        return _files(context, request, result, 200 if result.applied else 409)
    return RedirectResponse(address(FILES, {"said": "applied"}), 303)


def _elsewhere(context: WebContext) -> str:
    """The master's host where this is another one: its files are those that count; empty here."""
    host = context.mirror.cluster.master_host
    is_here = host in (socket.gethostname(), socket.gethostname().partition(".")[0])
    return "" if is_here or not is_shared(context.conf_dir) else host


def _of_file(problems: Sequence[Problem], name: str) -> list[Problem]:
    return [problem for problem in problems if _is_in(problem, name)]


def _is_in(problem: Problem, name: str) -> bool:
    return os.path.basename(problem.path) == name


def _name_in(problem: Problem, names: Sequence[str]) -> str:
    name = os.path.basename(problem.path)
    return name if name in names else ""
