"""`gbgdel` (bgdel): remove job groups that hold no jobs and no groups."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE
from gsched.cli.answers.group_control import EVERYBODY, named_groups, report_groups
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import Session, connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="remove job groups that hold no jobs and no groups",
    operands="GROUP ...   (0: all of yours that are empty)",
    options=(
        Option("c", help="of the named groups and those below them the ones that are empty, whoever owns them"),
        Option("u", "USER", "with 0: the empty groups of this user; all: of everybody", "-u ann"),
        *GENERAL,
        *unsupported("d", because="gbgdel -c and gbgdel 0 delete what is empty"),
    ),
    interspersed=True,
    examples=("PROGRAM /night/ann", "PROGRAM -c /night", "PROGRAM 0"),
)


def main(call: Call) -> int:
    """Run `gbgdel`."""
    options = read_options(call, TABLE)
    groups = named_groups(call, options.rest)
    with connected(call) as session:
        if groups == ("0",):
            groups = _empty(session, options.last("u") if options.has("u") else call.user)
        elif options.has("c"):
            groups = _empty(session, EVERYBODY, groups)
        if not groups:
            call.error("No job group found\n")
            return LSF_FAILURE
        return report_groups(call, session.client.group_control("remove", groups))


def _empty(session: Session, user: str, below: tuple[str, ...] = ("/",)) -> tuple[str, ...]:
    """The user's groups that no job is in or below, the deepest first, so that those above them empty out.

    `below`: only these and what is below them.
    """
    tops = tuple(f"{name.rstrip('/')}/" for name in below)
    found = [
        group.name
        for group in session.client.groups()
        if user in (group.owner, EVERYBODY) and not any(group.counts.values()) and f"{group.name}/".startswith(tops)
    ]
    return tuple(sorted(found, key=lambda name: (-name.count("/"), name)))
