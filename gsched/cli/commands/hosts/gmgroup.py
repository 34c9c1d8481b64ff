"""`gmgroup` (bmgroup): the groups of hosts, or the compute units, and what is in them."""

from __future__ import annotations

from gsched.cli.answers.group_list import chosen_groups, say_unknown
from gsched.cli.render.cluster.users import render_groups, render_host_groups_long
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the groups of hosts",
    operands="[GROUP ...]",
    options=(
        Option("r", help="the hosts of groups within groups, too"),
        Option("w", help="cut no names"),
        Option("l", help="everything about each: type of a compute unit, administrators, members"),
        Option("cu", help="compute units instead of groups"),
        *GENERAL,
        *unsupported("cname"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -w -r", "PROGRAM -cu"),
)


def main(call: Call) -> int:
    """Run `gmgroup`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        groups = session.client.catalogue.groupings("unit" if options.has("cu") else "host")
    chosen, unknown = chosen_groups(groups, options.rest)
    names = [group.name for group in groups]
    if chosen and options.has("l"):
        call.write(render_host_groups_long(chosen, names, recursive=options.has("r")))
    elif chosen:
        call.write(render_groups(chosen, "HOSTS", names, recursive=options.has("r"), wide=options.has("w")))
    return say_unknown(call, unknown, "Compute unit" if options.has("cu") else "Host group", is_empty=not chosen)
