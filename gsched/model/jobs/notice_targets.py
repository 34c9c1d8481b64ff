"""Where notices of a job go, and the checks of what was asked for.

A target is a secret (whoever knows the URL of a webhook can write there), so it is in no field that others are shown: a
NoticeTarget travels and is stored beside the job, as its environment is. Nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.model.jobs.notice import EVENTS, WAYS, NoticeWish

FORMS = ("json", "slack")
"""What is sent to a webhook."""
MOST_TARGETS = 8
"""Of one job."""
LONGEST_TARGET = 2048
"""Characters of a URL, a command line or an address."""


class NoticeTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where notices of the wish at the same place go."""

    way: str
    to: str = ""
    """The URL of a webhook; a command line; an address, where an empty one is the user's own (LSB_MAILTO)."""
    form: str = "json"


def packed_targets(targets: Sequence[NoticeTarget]) -> bytes:
    """The targets as they travel; empty where there are none."""
    return msgspec.json.encode(list(targets)) if targets else b""


def read_targets(data: bytes) -> tuple[NoticeTarget, ...]:
    """What `packed_targets` has made. Raises BadRequest."""
    try:
        return tuple(msgspec.json.decode(data, type=list[NoticeTarget])) if data else ()
    except msgspec.DecodeError:
        raise BadRequest("the targets of the job's notices cannot be read") from None


def check_wishes(wishes: Sequence[NoticeWish]) -> None:
    """Raise BadRequest for what no command of gsched asks for."""
    if len(wishes) > MOST_TARGETS:
        raise BadRequest(f"{len(wishes)} notices of each event: {MOST_TARGETS} are the most")
    for wish in wishes:
        if wish.way not in WAYS or not wish.events or not {*wish.events} <= {*EVENTS}:
            raise BadRequest(f"Bad argument: notices of {', '.join(wish.events)[:100]} by '{wish.way[:40]}'")


def check_targets(wishes: Sequence[NoticeWish], targets: Sequence[NoticeTarget]) -> None:
    """Raise BadRequest unless there is one target for each wish, of the same kind, and none is too long."""
    if [wish.way for wish in wishes] != [target.way for target in targets]:
        raise BadRequest("the targets of the job's notices are not those of its wishes")
    if any(len(target.to) > LONGEST_TARGET or target.form not in FORMS for target in targets):
        raise BadRequest(f"a target of notices has more than {LONGEST_TARGET} characters, or a form that is unknown")
