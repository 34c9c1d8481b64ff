"""`gugroup` (bugroup): the groups of users and who is in them."""

from __future__ import annotations

from gsched.cli.answers.group_list import chosen_groups, say_unknown
from gsched.cli.render.cluster.users import render_groups, render_groups_long
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="show the groups of users",
    operands="[GROUP ...]",
    options=(
        Option("r", help="the users of groups within groups, too"),
        Option("l", help="also shares and administrators"),
        Option("w", help="cut no names"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -r vision"),
)


def main(call: Call) -> int:
    """Run `gugroup`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        groups = session.client.catalogue.groupings("user")
    chosen, unknown = chosen_groups(groups, options.rest)
    names = [group.name for group in groups]
    if chosen and options.has("l"):
        call.write(render_groups_long(chosen, names, recursive=options.has("r")))
    elif chosen:
        call.write(render_groups(chosen, "USERS", names, recursive=options.has("r"), wide=options.has("w")))
    return say_unknown(call, unknown, "User group", is_empty=not chosen)
