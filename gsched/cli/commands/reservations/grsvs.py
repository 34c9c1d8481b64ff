"""`grsvs` (brsvs): the advance reservations, what they keep where, and how much of it is in use."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.render.cluster.reservations import render_long, render_policies, render_reservations
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the advance reservations",
    operands="[NAME ...]",
    options=(
        Option("l", help="everything about each reservation"),
        Option("w", help="cut nothing, which is so in any case"),
        Option(
            "c",
            "all|POLICY",
            "the policies by which users make reservations: all, or the named ones; it goes alone",
            '-c "lab night"',
        ),
        Option("noheader", help="no heading"),
        *GENERAL,
        *unsupported("p", "z", because="-l shows all of each reservation"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l demo", "PROGRAM -c all"),
)


def main(call: Call) -> int:
    """Run `grsvs`."""
    options = read_options(call, TABLE)
    if options.has("c"):
        if options.rest or options.has("l", "w", "noheader"):
            raise BadRequest(f"{program(call)}: -c shows policies, and goes with no reservation or other option")
        return _show_policies(call, options.last("c").split())
    with connected(call) as session:
        found = session.client.reservations(options.rest)
    if not found:
        call.error("No reservation found\n")
        return 0
    zone = zone_of(call.env)
    if options.has("l"):
        call.write(render_long(found, zone))
    else:
        call.write(render_reservations(found, zone, header=not options.has("noheader")))
    return 0


def _show_policies(call: Call, names: list[str]) -> int:
    """-c: those of these names, in the order of lsb.resources; `all` of them."""
    with connected(call) as session:
        policies = session.client.reservation_policies()
    wanted = {each.name for each in policies} if names == ["all"] else {*names}
    call.write(render_policies(each for each in policies if each.name in wanted))
    unknown = sorted(wanted - {each.name for each in policies})
    for name in unknown:
        call.error(f"{name}: there is no such policy of reservations\n")
    if not (policies or unknown):
        call.error("No reservation policy found\n")
    return LSF_FAILURE if unknown else 0
