"""`gslots` (bslots): how many slots are free, and for how long, for jobs that fit in between."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from gsched.base.errors import BadRequest
from gsched.cli.host_answers.backfill_windows import BackfillWindow, free_slots_of, windows_of
from gsched.cli.options.size_units import requirement_in
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, REQUIREMENT, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.job_limits import read_minutes
from gsched.dialect.options import Option, OptionTable, Parsed
from gsched.model.views.view import JobFilter

TABLE = OptionTable(
    summary="show how many slots are free, and for how long: until a planned start or a reservation needs them",
    operands="",
    options=(
        Option("n", "SLOTS", "only windows with so many slots", "-n 8"),
        Option("W", "[HOURS:]MINUTES", "only windows that are so long", "-W 1:30"),
        REQUIREMENT,
        Option("l", help="on which hosts the slots are"),
        *GENERAL,
    ),
    examples=("PROGRAM", "PROGRAM -n 8 -W 60", 'PROGRAM -l -R "select[ngpus>0]"'),
)
NONE = "No backfill window exists at this time\n"


def main(call: Call) -> int:
    """Run `gslots`."""
    options = read_options(call, TABLE)
    if options.rest:
        raise BadRequest(f"{program(call)}: {options.rest[0][:60]}: it takes no words")
    least = _slots(call, options)
    seconds = read_minutes(options.last("W"), "a run time")[0] if options.has("W") else 0
    now = time.time()
    with connected(call) as session:
        hosts = session.client.hosts(requirement=requirement_in(call, options.last("R")))
        waiting = session.client.jobs(JobFilter(user="all", states=("PEND",)))
        free = free_slots_of(hosts, waiting, session.client.reservations(), now)
    fitting = [each for each in windows_of(free, now) if each.total >= least and each.seconds >= seconds]
    call.write("".join(_long(fitting) if options.has("l") else _short(fitting)) if fitting else NONE)
    return 0


def _slots(call: Call, options: Parsed) -> int:
    text = options.last("n", "1")
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise BadRequest(f"{program(call)}: -n {text[:20]}: not a number of slots")
    return int(text[:9])


def _short(windows: Iterable[BackfillWindow]) -> Iterable[str]:
    yield "SLOTS          RUNTIME\n"
    for each in windows:
        yield f"{each.total:<14d} {_length(each.seconds)}\n"


def _long(windows: Iterable[BackfillWindow]) -> Iterable[str]:
    for each in windows:
        hosts = " ".join(f"{count}*{host}" for host, count in each.slots)
        yield f"\nSLOTS: {each.total}\nRUNTIME: {_length(each.seconds)}\nHOSTS: {hosts}\n"


def _length(seconds: float) -> str:
    """`1 hour 39 minutes 23 seconds`; `UNLIMITED`."""
    if math.isinf(seconds):
        return "UNLIMITED"
    whole = int(seconds)
    parts = ((whole // 3600, "hour"), (whole // 60 % 60, "minute"), (whole % 60, "second"))
    return " ".join(f"{count} {unit}{'s' * (count != 1)}" for count, unit in parts if count) or "0 seconds"
