"""`gbgadd` (bgadd): make job groups, with a limit of the jobs that are started in them at a time."""

from __future__ import annotations

from gsched.cli.answers.group_control import NO_LIMIT, limit_of, named_groups, report_groups
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="make job groups; a group counts with all groups below it",
    operands="GROUP ...   (gsub -g makes groups too, without a limit)",
    options=(
        Option("L", "JOBS", "most jobs that are started in it and below it at a time", "-L 10"),
        *GENERAL,
        *unsupported("sla"),
    ),
    interspersed=True,
    examples=("PROGRAM -L 10 /night", "PROGRAM /night/ann /night/bob"),
)


def main(call: Call) -> int:
    """Run `gbgadd`."""
    options = read_options(call, TABLE)
    groups = named_groups(call, options.rest)
    limit = limit_of(options.last("L")) if options.has("L") else NO_LIMIT
    with connected(call) as session:
        return report_groups(call, session.client.group_control("add", groups, limit))
