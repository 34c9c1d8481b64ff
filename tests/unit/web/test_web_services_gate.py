"""What stands before services: requests that a page of somebody else makes in their user's browser are refused."""

from __future__ import annotations

import asyncio
from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest

from gsched.web.pages.asset_files import AssetFiles
from gsched.web.pages.page_context import new_templates
from gsched.web.services.service_gate import ServiceGate
from gsched.web.services.service_names import OWN_PATH, ServicePlace
from gsched.web.services.service_sessions import ServiceSessions

HOST = "job-7.localhost:8080"
ORIGIN = f"http://{HOST}"
OPENED = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
LET_IN = 401
"""What a request without a cookie is told that may ask."""


def answered(path: str = "/", method: str = "GET", **headers: str) -> int:
    """The status of the answer to a browser that has no session; `sec_fetch_site` is Sec-Fetch-Site."""
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("this is for a service")

    context: Any = SimpleNamespace(templates=new_templates(AssetFiles(), UTC))
    gate = ServiceGate(pages, context, SimpleNamespace(), ServiceSessions(), "cookie", ServicePlace())  # type: ignore[arg-type]
    given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    asyncio.run(gate(scope, receive, send))
    return int(said[0]["status"])


@pytest.mark.parametrize("site", ["same-site", "cross-site", "nonsense"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [
        *(("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("websocket", "websocket")),
        *(("navigate", "iframe"), ("navigate", "frame"), ("navigate", "object"), ("navigate", "embed")),
        *(("no-cors", "document"), ("navigate", "")),
    ],
)
def test_a_page_of_another_job_asks_for_nothing(site: str, mode: str, dest: str) -> None:
    asked = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
    assert answered(**asked) == answered(OWN_PATH, **asked) == answered("/", "HEAD", **asked) == 403
    assert answered(sec_fetch_site=site) == 403


@pytest.mark.parametrize("site", ["same-site", "cross-site", "same-origin", "none"])
@pytest.mark.parametrize("path", ["/", OWN_PATH])
def test_a_link_leads_to_a_service(site: str, path: str) -> None:
    assert answered(path, sec_fetch_site=site, **OPENED) == LET_IN


@pytest.mark.parametrize("site", ["same-origin", "none"])
@pytest.mark.parametrize("dest", ["iframe", "empty", "image", "worker", "audioworklet"])
def test_a_service_uses_itself_as_it_likes(site: str, dest: str) -> None:
    assert answered(sec_fetch_site=site, sec_fetch_mode="cors", sec_fetch_dest=dest) == LET_IN
    assert answered("/", "POST", origin=ORIGIN, sec_fetch_site=site, sec_fetch_dest=dest) == LET_IN


def test_a_browser_that_does_not_say_is_judged_by_its_origin() -> None:
    assert answered() == answered(OWN_PATH) == answered(origin=ORIGIN) == LET_IN
    assert answered("/", "POST", origin=ORIGIN) == LET_IN
    assert answered("/", "POST") == answered(origin="http://job-8.localhost:8080") == answered(origin="null") == 403
    assert answered("/", "POST", sec_fetch_site="same-site", **OPENED) == 403


@pytest.mark.parametrize("dest", ["empty", "iframe", "serviceworker", "image"])
def test_only_a_tab_is_handed_over(dest: str) -> None:
    """Not a script of the service, which would have the token."""
    assert answered(OWN_PATH, sec_fetch_site="same-origin", sec_fetch_dest=dest) == 403


def test_a_service_has_no_service_worker() -> None:
    """One would see the token in the address by which the next tab comes in."""
    asked = {"sec_fetch_site": "same-origin", "sec_fetch_mode": "same-origin", "sec_fetch_dest": "serviceworker"}
    assert answered("/worker.js", service_worker="script", **asked) == 403
    assert answered("/worker.js", service_worker="script") == 403
