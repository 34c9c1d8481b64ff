"""`grsvs` (brsvs): the advance reservations, what they keep where, and how much of it is in use."""

from __future__ import annotations

from gsched.cli.render.cluster.reservations import render_long, render_reservations
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the advance reservations",
    operands="[NAME ...]",
    options=(
        Option("l", help="everything about each reservation"),
        Option("w", help="cut nothing, which is so in any case"),
        Option("noheader", help="no heading"),
        *GENERAL,
        *unsupported("c", "p", "z", because="-l shows all of each reservation"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l demo"),
)


def main(call: Call) -> int:
    """Run `grsvs`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        found = session.client.reservations(options.rest)
    if not found:
        call.error("No reservation found\n")
        return 0
    zone = zone_of(call.env)
    if options.has("l"):
        call.write(render_long(found, zone))
    else:
        call.write(render_reservations(found, zone, header=not options.has("noheader")))
    return 0
