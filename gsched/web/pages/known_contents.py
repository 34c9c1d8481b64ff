"""What a browser has already is not sent again: an answer has a mark of its contents (ETag), and a request that names
it (If-None-Match) is answered in a few bytes. Source of the words: RFC 9110, sections 8.8.3 and 13.1.2.
"""

from __future__ import annotations

import hashlib

from starlette.requests import Request
from starlette.responses import Response

MOST_NAMED = 1_000
"""Characters of If-None-Match that are looked at."""


def mark_of(data: bytes) -> str:
    """An ETag for these contents, however they are packed."""
    return f'W/"{hashlib.sha256(data).hexdigest()[:24]}"'


def is_known(request: Request, mark: str) -> bool:
    """Whether the request says that its browser has what the mark is of. Compared weakly, as for a GET."""
    named = ",".join(request.headers.getlist("if-none-match"))[:MOST_NAMED]
    return mark.removeprefix("W/") in {each.strip().removeprefix("W/") for each in named.split(",")}


def not_again(headers: dict[str, str]) -> Response:
    """The answer in place of the contents; `headers`: those that the contents would have had, with the mark."""
    return Response(status_code=304, headers=headers)
