"""The few pages of the front itself: the form that asks for a password, and one line where something went wrong."""

from __future__ import annotations

import math
from datetime import UTC

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from gsched.base.errors import BadRequest, GschedError, PermissionDenied, ResourceExhausted
from gsched.web.pages.asset_files import AssetFiles
from gsched.web.pages.page_context import new_templates, words_of


class FrontPages:
    """Made once; from templates and the catalogue, as all pages."""

    def __init__(self, cluster: str) -> None:
        self._assets = AssetFiles()
        self._templates = new_templates(self._assets, UTC)
        self._cluster = cluster

    def asset(self, name: str, request: Request) -> Response:
        """A style sheet, a script or the icon."""
        request.scope["path_params"] = {"name": name}
        return self._assets.serve(request)

    def login(
        self,
        request: Request,
        status: int,
        problem: str = "",
        *,
        user: str = "",
        onward: str = "",
        wait_s: float = 0.0,
    ) -> Response:
        """The form. `problem`: the key of what went wrong; `onward`: where the browser wanted to go."""
        if request.method == "GET" and not onward:
            onward = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return self._page(
            request,
            "login.html",
            status,
            cluster=self._cluster,
            problem=problem,
            user=user,
            onward=onward,
            n=math.ceil(wait_s),
        )

    def problem(self, request: Request, error: GschedError) -> Response:
        """What went wrong, as a page for who looks at one and a line for what a page has asked for."""
        status = (
            403
            if isinstance(error, PermissionDenied)
            else 413
            if isinstance(error, ResourceExhausted)
            else 400
            if isinstance(error, BadRequest)
            else 503
        )
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{error.text}\n", status)
        return self._page(request, "front_problem.html", status, text=error.text)

    def _page(self, request: Request, template: str, status: int, **values: object) -> Response:
        text = self._templates.get_template(template).render(t=words_of(request), csrf="", path="", **values)
        return HTMLResponse(text, status)
