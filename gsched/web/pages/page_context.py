"""What every page has at hand, and how it becomes an answer: a template with everything escaped, in the reader's
language.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from starlette.requests import Request
from starlette.responses import Response

from gsched import __version__
from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied, ResourceExhausted
from gsched.base.errors import Unavailable as MasterAway
from gsched.base.ids import show_job
from gsched.web.access.web_place import READING
from gsched.web.mirror.change_hub import ChangeHub
from gsched.web.mirror.cluster_mirror import ClusterMirror
from gsched.web.pages.asset_files import AssetFiles
from gsched.web.pages.known_contents import is_known, mark_of, not_again
from gsched.web.pages.part_cache import PartCache
from gsched.web.shown import amounts
from gsched.web.shown.job_address import job_path, job_word
from gsched.web.texts.catalogue import Words, words_for
from gsched.wire.calls.client import Client

OK = 200
LEAST_PACKED = 1_000
"""Bytes: what is shorter is not worth being compressed."""
_STATUS: tuple[tuple[type[GschedError], int], ...] = (
    (NotFound, 404),
    (BadRequest, 400),
    (PermissionDenied, 403),
    (Conflict, 409),
    (ResourceExhausted, 413),
    (MasterAway, 503),
)


@dataclass(frozen=True, slots=True)
class WebContext:
    """One for the whole server. `me`: the user of this process, whose jobs are "mine"."""

    client: Client
    mirror: ClusterMirror
    hub: ChangeHub
    assets: AssetFiles
    me: str
    conf_dir: str
    umask: int
    """Of this process: only all threads together could ask for it later."""
    zone: tzinfo
    is_read_only: bool
    may_leave: bool
    """Whether there is a session of its own that can be ended."""
    services: Client | None
    """By which jobs' services are reached, where they are: who may use one may change everything that its owner can."""
    templates: jinja2.Environment
    parts: PartCache = field(default_factory=PartCache)
    slow_parts: PartCache = field(default_factory=PartCache)
    """Those for which the history is read: others do not wait for them."""

    @property
    def has_services(self) -> bool:
        """Whether jobs' services are reached by way of it."""
        return self.services is not None


def new_templates(assets: AssetFiles, zone: tzinfo) -> jinja2.Environment:
    """The templates, in which every value is escaped and an unknown name is an error."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent.parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.globals.update(
        asset=assets.address,
        version=__version__,
        address=address,
        job_path=job_path,
        job_word=job_word,
        job_label=show_job,
        stamp=lambda at: datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d %H:%M:%S"),
        clock=lambda at: datetime.fromtimestamp(at, zone).strftime("%H:%M:%S"),
        iso=lambda at: datetime.fromtimestamp(at, zone).isoformat(timespec="seconds"),
    )
    found.filters.update(size=amounts.size, short_size=amounts.short_size, span=amounts.span, step=amounts.step)
    return found


def address(path: str, words: dict[str, str]) -> str:
    """A path with these words behind it."""
    return f"{path}?{urlencode(words)}" if words else path


def words_of(request: Request) -> Words:
    """The catalogue in the reader's language."""
    return words_for(request.headers.get("accept-language", ""))


def show(context: WebContext, request: Request, template: str, values: dict[str, Any], status: int = 200) -> Response:
    """The template as an answer."""
    session = getattr(request.state, "session", None)
    mirror = context.mirror
    text = context.templates.get_template(template).render(
        t=words_of(request),
        csrf=session.csrf if session is not None else "",
        path=request.url.path,
        me=context.me,
        cluster=mirror.cluster,
        away_since=mirror.away_since,
        told_at=mirror.hosts_at,
        may_write=not context.is_read_only and session is not None,
        may_leave=context.may_leave,
        has_services=context.has_services,
        now=time.time(),
        **values,
    )
    return packed(request, text.encode(), "text/html; charset=utf-8", status)


def packed(request: Request, data: bytes, kind: str, status: int = 200) -> Response:
    """The bytes, compressed where the browser takes that; nothing but their mark where a page has them already."""
    headers = {"vary": "accept-encoding, accept-language"}
    if status == OK and request.method in READING:
        headers["etag"] = mark_of(data)
        if is_known(request, headers["etag"]):
            return not_again(headers)
    if len(data) >= LEAST_PACKED and "gzip" in request.headers.get("accept-encoding", ""):
        data = gzip.compress(data, 5, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(data, status, headers, kind)


def status_of(error: GschedError) -> int:
    """HTTP's number for it."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


WebPage = Callable[[WebContext, Request], Response]


def show_error(context: WebContext, request: Request, error: GschedError) -> Response:
    """The error as a page of its own: one line, as a command would say it."""
    status = status_of(error)
    return show(context, request, "error.html", {"text": error.text, "status": status}, status)
