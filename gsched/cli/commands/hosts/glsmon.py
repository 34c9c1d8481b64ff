"""`glsmon` (lsmon): the load of the hosts, shown anew whenever it changes, until Ctrl-C."""

from __future__ import annotations

from gsched.cli.host_answers.load_listing import check_load_options, show_load
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, REQUIREMENT, read_options
from gsched.cli.session.watch import REPORT_S, WATCH, shown
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported

TABLE = OptionTable(
    summary="show the load of the hosts until Ctrl-C, as gload --watch does",
    operands="[HOST ...]",
    options=(
        Option("I", "INDICES", "these load indices only", "-I r1m:ut:mem"),
        Option("n", "COUNT", "so many hosts at most", "-n 4"),
        REQUIREMENT,
        Option("N", help="CPU run queues for each CPU of the host, divided by its CPU factor"),
        Option("i", "SECONDS", "taken for LSF's sake: it is shown anew when something changes"),
        *GENERAL,
        *unsupported("L", because="gload prints what a file is to hold"),
    ),
    interspersed=True,
    examples=("PROGRAM", 'PROGRAM -R "select[ngpus>0]" -n 8'),
)


def main(call: Call) -> int:
    """Run `glsmon`."""
    options = read_options(call, TABLE)
    check_load_options(call, options)
    watched = Parsed((*options.given, (WATCH.name, "")), options.rest)
    return shown(call, watched, lambda session: show_load(call, watched, session), REPORT_S)
