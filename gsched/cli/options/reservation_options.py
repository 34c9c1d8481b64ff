"""What grsvadd and grsvmod share: how a command line describes an advance reservation.

Source of the options: brsvadd(8), brsvmod(8); -gpu is gsched's own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, tzinfo

from gsched.base.errors import BadRequest
from gsched.cli.options.size_units import requirement_in
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, Parsed
from gsched.dialect.times import parse_time
from gsched.model.views.room_view import ReservationView

MOST = 1_000_000

WHAT = (
    Option("n", "SLOTS", "how many job slots", "-n 32"),
    Option("gpu", "GPUS", "how many GPUs", "-gpu 8"),
    Option("m", "HOSTS", "on these hosts, filled in this order", '-m "gpu01 gpu02"'),
    Option("R", "REQUIREMENT", "on hosts that meet this requirement", '-R "select[mem>1000]"'),
    Option("b", "TIME", "when it begins: [[[year:]month:]day:]hour:minute", "-b 18:00"),
    Option("e", "TIME", "when it ends; without a day, on the day it begins", "-e 22:30"),
    Option("u", "USERS", "who may use it: users and user groups", '-u "ann bob"'),
    Option("g", "GROUPS", "the same, for user groups"),
    Option("o", help="jobs that run at its end go on as others do, which is so in any case"),
    Option("nosusp", help="no job is suspended for it, which is so in any case"),
)
"""Options that say what is reserved, when and for whom."""


@dataclass(frozen=True, slots=True)
class ReservationRequest:
    """The advance reservation that the options ask for. Times of 0 and empty fields were not given."""

    view: ReservationView
    slots: int
    gpus: int
    hosts: tuple[str, ...]
    requirement: str


def read_reservation(call: Call, options: Parsed, name: str, least: int = 1) -> ReservationRequest:
    """The reservation that the options describe. `least`: of an amount. Raises BadRequest naming what is wrong."""
    zone, now = zone_of(call.env), time.time()
    start = parse_time(options.last("b"), now, zone) if options.has("b") else 0.0
    end = _end(options, max(now, start), zone) if options.has("e") else 0.0
    users = (*options.last("u").split(), *options.last("g").split())
    return ReservationRequest(
        view=ReservationView(name=name, users=tuple(dict.fromkeys(users)), start=start, end=end),
        slots=_count(call, options, "n", least),
        gpus=_count(call, options, "gpu", least),
        hosts=tuple(options.last("m").split()),
        requirement=requirement_in(call, options.last("R")),
    )


def _end(options: Parsed, start: float, zone: tzinfo) -> float:
    """When -e says; without a day it is on the day of the beginning. Raises BadRequest for one that is not after it."""
    text = options.last("e")
    end = parse_time(text, start, zone)
    if options.has("b") and ":" not in text.strip().partition(":")[2]:
        first, last = (datetime.fromtimestamp(at, zone).date() for at in (start, end))
        if first != last:
            other = f"the end of another day is written with it, as -e {last.day}:{text.strip()}"
            raise BadRequest(f"Start time is later than termination time: -b {options.last('b')}, -e {text}; {other}")
    return end


def _count(call: Call, options: Parsed, name: str, least: int) -> int:
    if not options.has(name):
        return 0
    text = options.last(name)
    if text.isascii() and text.isdigit() and least <= int(text[:8]) <= MOST:
        return int(text)
    raise BadRequest(f"{program(call)}: -{name} {text}: not a number from {least} to {MOST}")
