"""`gusers` (busers): users and user groups, their limits, and the slots of their jobs."""

from __future__ import annotations

from gsched.cli.render.cluster.users import USER_FIELDS, render_pending, render_users
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import CHOSEN_FIELDS, GENERAL, answer_chosen, chosen_format, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="show limits and slots of users and user groups: without a name, yours",
    operands="[USER|GROUP ...|all]",
    options=(
        Option("w", help="cut nothing, and show how many jobs wait and how many may"),
        Option("noheader", help="no heading"),
        *CHOSEN_FIELDS,
        *GENERAL,
        Option("alloc", help="count slots, which is always so"),
        Option("pl", help="how many slots and jobs wait, and how many may"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM all", 'PROGRAM -o "user njobs ngpus" all'),
)


def main(call: Call) -> int:
    """Run `gusers`."""
    options = read_options(call, TABLE)
    chosen = chosen_format(call, options, USER_FIELDS, "LSB_BUSERS_FORMAT", "w pl")
    with connected(call) as session:
        users = session.client.catalogue.users(options.rest or [call.user])
    if chosen is not None:
        answer_chosen(call, options, chosen, users, command="busers", counted="USERS")
    elif options.has("pl"):
        call.write(render_pending(users, header=not options.has("noheader"), wide=options.has("w")))
    else:
        call.write(render_users(users, header=not options.has("noheader"), wide=options.has("w")))
    return 0
