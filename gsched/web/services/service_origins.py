"""Which requests to a job's service come from its own pages, or from its user: all others are refused.

In a shared cluster names of services are of one site, so browsers send the cookie of a service (SameSite=Strict) with
requests that a page of another job makes. Browsers say where a request comes from: in Origin, and in Sec-Fetch-Site,
-Mode and -Dest (Fetch Metadata, W3C), which no script can write. One that does not is judged by Origin alone.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from gsched.web.services.service_names import OWN_PATH

NOT_OF_SERVICE = "The request does not come from a page of this service.\n"
NO_WORKER = "Services of jobs have no service workers.\n"
_FROM_ITSELF = frozenset({"same-origin", "none"})
"""A page of the very service; or none: a bookmark, or what was typed."""
_READING = frozenset({"GET", "HEAD"})


def refusal(scope: Scope, scheme: str) -> str:
    """Why an HTTP request to a service, which has one Host, is not let through; empty for one that may go on."""
    headers = Headers(scope=scope)
    origins = headers.getlist("origin")
    if origins != [f"{scheme}://{headers['host']}"] and (origins or scope["method"] not in _READING):
        return NOT_OF_SERVICE
    opens_page = headers.getlist("sec-fetch-mode") == ["navigate"] and _destinations(headers) == ["document"]
    if not _FROM_ITSELF.issuperset(headers.getlist("sec-fetch-site")) and not opens_page:
        return NOT_OF_SERVICE
    # It would see the requests of all tabs of its name, also the one that has the token, and outlive the session.
    if "service-worker" in headers:
        return NO_WORKER
    if scope["path"] == OWN_PATH and _destinations(headers) not in ([], ["document"]):
        return NOT_OF_SERVICE
    return ""


def _destinations(headers: Headers) -> list[str]:
    return headers.getlist("sec-fetch-dest")
