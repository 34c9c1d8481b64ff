"""`gjgroup` (bjgroup): the job groups, the jobs in them and below them, and their limits."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import LSF_FAILURE, NotFound
from gsched.cli.render.jobs.job_groups import render_group_slots, render_groups
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable
from gsched.model.views.view import JobGroupView

TABLE = OptionTable(
    summary="show job groups with the jobs in them and below them",
    operands="[GROUP ...]   (/night: it and those below it; /night/: it alone)",
    options=(
        Option("s", help="each group followed by those below it; without -s those of a level stand together"),
        Option("N", help="slots instead of jobs"),
        Option("noheader", help="no heading"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -s /night", "PROGRAM -N"),
)


def main(call: Call) -> int:
    """Run `gjgroup`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        groups = _chosen(session.client.groups(), options.rest)
    if not groups:
        call.error("No job group found\n")
        return LSF_FAILURE
    if not options.has("s"):
        groups.sort(key=lambda group: (group.name.count("/"), group.name))
    render = render_group_slots if options.has("N") else render_groups
    call.write(render(groups, header=not options.has("noheader")))
    return 0


def _chosen(groups: list[JobGroupView], words: Sequence[str]) -> list[JobGroupView]:
    """The groups that the words mean, each once, every group before those below it. Raises NotFound."""
    groups = sorted(groups, key=lambda group: group.name.split("/"))
    if not words:
        return groups
    wanted: set[str] = set()
    for word in words:
        name = word.rstrip("/")
        found = {each.name for each in groups if each.name == name}
        if not found and name:
            raise NotFound(f"No job group {word} found")
        below = {each.name for each in groups if each.name.startswith(name + "/")}
        wanted |= found | (below if name == word or not name else set())
    return [group for group in groups if group.name in wanted]
