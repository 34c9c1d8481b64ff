"""The page of the audit log: its last lines, as fields; the newest one first."""

from __future__ import annotations

import json
import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gsched.web.pages.page_context import WebContext, show

LONGEST_WORD = 200
_FIELD = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|\S*)')
_IN_COLUMNS = ("user", "host", "way", "action", "outcome", "why")


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log; what has no column of its own is in `rest`, as it was written."""

    at: str
    user: str = ""
    host: str = ""
    way: str = ""
    action: str = ""
    outcome: str = ""
    why: str = ""
    rest: str = ""


def audit_page(context: WebContext, request: Request) -> Response:
    """Answer `/administration/log`. Raises GschedError."""
    text = request.query_params.get("text", "").strip()[:LONGEST_WORD]
    lines = [read_line(line) for line in reversed(context.client.fleet.audit_log(text))]
    return show(context, request, "audit_log.html", {"lines": lines, "text": text, "tab": "log"})


def read_line(line: str) -> AuditLine:
    """The line's fields. One that is none of the log's form is all `rest`."""
    at, _, rest = line.partition(" ")
    fields = {name: _plain(value) for name, value in _FIELD.findall(rest)}
    if not fields:
        return AuditLine(at="", rest=line)
    others = [f"{name}={value}" for name, value in _FIELD.findall(rest) if name not in _IN_COLUMNS]
    return AuditLine(at=at, rest=" ".join(others), **{name: fields.get(name, "") for name in _IN_COLUMNS})


def _plain(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        return value
