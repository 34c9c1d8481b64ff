"""`gjgroup` (bjgroup): the job groups, the jobs in them and below them, and their limits."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE
from gsched.cli.call import Call
from gsched.cli.command import GENERAL, read_options
from gsched.cli.render.groups import render_groups
from gsched.cli.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show job groups with the jobs in them and below them",
    operands="[GROUP ...]",
    options=(
        Option("s", help="by name, which is the order in any case"),
        Option("noheader", help="no heading"),
        *GENERAL,
        *unsupported("N"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM /night"),
)


def main(call: Call) -> int:
    """Run `gjgroup`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        groups = session.client.groups(options.rest)
    if not groups:
        call.error("No job group found\n")
        return LSF_FAILURE
    call.write(render_groups(groups, header=not options.has("noheader")))
    return 0
