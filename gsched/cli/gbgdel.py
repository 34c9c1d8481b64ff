"""`gbgdel` (bgdel): remove job groups that hold no jobs and no groups."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE
from gsched.cli.call import Call
from gsched.cli.command import GENERAL, read_options
from gsched.cli.group_control import named_groups, report_groups
from gsched.cli.session import Session, connected
from gsched.dialect.options import OptionTable, unsupported

TABLE = OptionTable(
    summary="remove job groups that hold no jobs and no groups",
    operands="GROUP ...   (0: all of yours that are empty)",
    options=(*GENERAL, *unsupported("c", "d", "u")),
    interspersed=True,
    examples=("PROGRAM /night/ann", "PROGRAM 0"),
)


def main(call: Call) -> int:
    """Run `gbgdel`."""
    options = read_options(call, TABLE)
    groups = named_groups(call, options.rest)
    with connected(call) as session:
        if groups == ("0",):
            groups = _empty(session, call.user)
        if not groups:
            call.error("No job group found\n")
            return LSF_FAILURE
        return report_groups(call, session.client.group_control("remove", groups))


def _empty(session: Session, user: str) -> tuple[str, ...]:
    """The user's groups that no job is in or below, the deepest first, so that those above them empty out."""
    found = [group.name for group in session.client.groups() if group.owner == user and not any(group.counts.values())]
    return tuple(sorted(found, key=lambda name: (-name.count("/"), name)))
