"""What a failed call means: the typed error behind a gRPC status, with what the master said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc

from gsched.base.errors import (
    BadRequest,
    Conflict,
    GschedError,
    Internal,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from gsched.wire.messages.protocol import ABOUT, RETRY_AFTER_MS
from gsched.wire.messages.refusal_code import SAID, said_in


class NotThere(Internal):
    """The other side, of another version, knows no such call."""


_ERRORS: dict[grpc.StatusCode, type[GschedError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: BadRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: Conflict,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.UNIMPLEMENTED: NotThere,
}

THE_MASTER = "the master"
DOOR_OF_THIS_HOST = "the door of this host (service gsched-door)"


def silent_one(error: grpc.RpcError) -> str:
    """Who does not answer: the master, unless the call did not come as far as that (door_relay.DoorAway)."""
    return str(getattr(error, "silent", THE_MASTER))


def tried_before(error: grpc.RpcError) -> str:
    """Which other way to the master was tried before this one, and why in vain; mostly empty."""
    return str(getattr(error, "tried", ""))


def error_from_rpc(error: grpc.RpcError) -> GschedError:
    """The typed error of a failed call: what the master said, in the words of this side where it told the code."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unavailable("the master did not answer in time; the request may still be carried out")
    said = said_in(_trailers(error, SAID), details or f"the master answered {code.name}")
    problem = _ERRORS.get(code, Internal)(said)
    problem.about = tuple(name for told in _trailers(error, ABOUT) for name in told.split(","))
    return problem


def retry_after_s(error: grpc.RpcError) -> float | None:
    """When the master wants to be asked again by a caller who asks too much; None: it did not say."""
    said = _trailers(error, RETRY_AFTER_MS)
    return int(said[0]) / 1000 if said and said[0].isdigit() else None


def _trailers(error: grpc.RpcError, name: str) -> list[str]:
    trailers: Iterable[Any] = error.trailing_metadata() or ()
    return [str(value) for key, value in trailers if key == name]
