"""Forms that pages of this server send: read with limits, and refused unless they bear the session's token."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request

from gsched.base.errors import BadRequest, PermissionDenied, ResourceExhausted
from gsched.web.access.sessions import WebSession

MOST_BYTES = 1 << 20
MOST_FIELDS = 20_000
"""As many jobs as may be chosen on a page, and more."""
TOKEN_FIELD = "csrf"
_TYPE = "application/x-www-form-urlencoded"

Fields = dict[str, list[str]]
"""Name -> values, in their order."""


async def read_form(request: Request) -> Fields:
    """The fields of the form. Raises BadRequest, PermissionDenied (not from one of our pages), ResourceExhausted."""
    fields = await read_fields(request, MOST_BYTES)
    session: WebSession = request.state.session
    if not session.has_sent("".join(fields.pop(TOKEN_FIELD, []))):
        raise PermissionDenied("the form is not from a page of this session: load the page again")
    return fields


async def read_fields(request: Request, most: int) -> Fields:
    """The fields of a form of `most` bytes, whoever has sent it. Raises BadRequest, ResourceExhausted."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise BadRequest("only forms are taken")
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise ResourceExhausted(f"a form may have {most} bytes")
    try:
        pairs = parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            encoding="utf8",
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise BadRequest("the form cannot be read") from None
    fields: Fields = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


def one(fields: Fields, name: str) -> str:
    """The field's last value, without blanks around it; empty when it is not there."""
    return fields.get(name, [""])[-1].strip()
