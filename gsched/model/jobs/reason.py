"""Why a job waits: LSF's text, how many hosts say so, and the numbers behind it. Kept per class of equal jobs."""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText


class PendingReason(msgspec.Struct, frozen=True, gc=False):
    """One reason. `hosts` is 0 for a reason that is not a host's own; `detail` holds our numbers.

    `candidate`: the hosts are such that the job could ever use (right type, in its queue, asked for); reasons of the
    others are shown by -p3 only. `names`: the first few hosts, for the long form.
    """

    text: AnyText
    hosts: int = 0
    detail: AnyText = ""
    candidate: bool = True
    names: tuple[str, ...] = ()
    until: float | None = None
    """When it no longer holds, UTC seconds, where that is known."""


NEVER, UNKNOWN = "planned.never", "planned.unknown"
"""Codes of what is said of a planned start without a time; the parameter says why."""


class PlannedStart(msgspec.Struct, frozen=True):
    """When a waiting job is expected to start, UTC seconds, and where; `text` says what it waits for.

    `at` is None when nobody can say: `text` then names the job without a run limit, or why it can never start.
    With a time it says on whose estimated end that rests, if it does.
    """

    at: float | None = None
    hosts: tuple[str, ...] = ()
    text: AnyText = ""
