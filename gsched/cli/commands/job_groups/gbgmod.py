"""`gbgmod` (bgmod): change the limit of job groups."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.answers.group_control import EVERYBODY, NO_LIMIT, limit_of, named_groups, not_owned, report_groups
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="change the limit of job groups",
    operands="GROUP ...",
    options=(
        Option("L", "JOBS", "most jobs that are started in it and below it at a time", "-L 10"),
        Option("Ln", help="no limit any more"),
        Option("u", "USER", "only if this user owns them; all: whoever does", "-u ann"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM -L 20 /night", "PROGRAM -Ln /night"),
)


def main(call: Call) -> int:
    """Run `gbgmod`."""
    options = read_options(call, TABLE)
    groups = named_groups(call, options.rest)
    if options.has("L") == options.has("Ln"):
        raise BadRequest(f"{program(call)}: say either -L JOBS or -Ln")
    limit = limit_of(options.last("L")) if options.has("L") else NO_LIMIT
    owner = options.last("u") if options.has("u") else EVERYBODY
    with connected(call) as session:
        others = not_owned(session, groups, owner)
        owned = tuple(group for group in groups if group not in {each.name for each in others})
        answers = session.client.group_control("modify", owned, limit) if owned else []
        return report_groups(call, [*answers, *others])
