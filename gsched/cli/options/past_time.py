"""`--at TIME`: a listing as it was to be seen then. What asks the master for it, and which time it is.

Options that can only be answered for now are refused beside it, by name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, tzinfo

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, Parsed
from gsched.dialect.times import parse_moment
from gsched.wire.calls.client import Client
from gsched.wire.calls.past_calls import KeptSince, PastLook

ROUNDED_S = 0.001
"""A time may be after now by so much: dates have microseconds, clocks parts of them."""
AT = Option(
    "-at",
    "TIME",
    "as it was to be seen then: YYYY-MM-DD HH:MM[:SS], or a time as ghist -S takes it (.-1 is a day ago)",
    "--at '2026-11-20 03:00'",
)


def past_time(call: Call, options: Parsed, not_with: Iterable[str] = ()) -> float | None:
    """The time of --at, UTC seconds; None without. Raises BadRequest for what is no time, and for --watch and options
    of `not_with` beside it.
    """
    if not options.has("-at"):
        return None
    clashing = next((name for name in ("-watch", *not_with) if options.has(name)), "")
    if clashing:
        raise BadRequest(f"{program(call)}: --at and -{clashing} cannot be given together: that is told of now alone")
    now = time.time()
    at = parse_moment(options.last("-at"), now, zone_of(call.env))
    if at > now + ROUNDED_S:
        raise BadRequest(f"{program(call)}: --at {options.last('-at')[:40]} is in the future")
    return min(at, now)


def looked_at(session: Session, at: float | None) -> Client | PastLook:
    """Whom to ask for jobs, hosts and queues."""
    return session.client if at is None else session.client.past.at(at)


def since_when(kept: KeptSince, zone: tzinfo) -> str:
    """Since when history is kept, in a line; empty where nothing was ever taken away."""
    if kept.events is not None and kept.jobs is not None and kept.jobs < kept.events:
        gone = f"Jobs that finished before {_shown(kept.jobs, zone)} are no longer kept, and what happened to those"
        gone = f"{gone} before {_shown(kept.events, zone)} is not"
    elif kept.jobs is not None:
        gone = f"Jobs that finished before {_shown(kept.jobs, zone)} are no longer kept"
    elif kept.events is not None:
        gone = f"What happened to jobs that finished before {_shown(kept.events, zone)} is no longer kept"
    else:
        return ""
    return f"{gone}; ghist --archive DIR reads archives of them\n"


def _shown(at: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%Y/%m/%d %H:%M:%S")
