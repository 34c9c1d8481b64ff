"""`gapp` (bapp): the application profiles, and the slots of their jobs."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE
from gsched.cli.render.cluster.applications import render_applications, render_applications_long
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="show the application profiles",
    operands="[PROFILE ...]",
    options=(
        Option("l", help="limits and other parameters of each"),
        Option("w", help="cut no names"),
        *GENERAL,
        Option("alloc", help="count slots, which is always so"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l training"),
)


def main(call: Call) -> int:
    """Run `gapp`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        profiles = session.client.catalogue.applications()
    known = {each.name: each for each in profiles}
    chosen = [known[name] for name in options.rest if name in known] if options.rest else profiles
    if chosen:
        long = options.has("l")
        call.write(render_applications_long(chosen) if long else render_applications(chosen, wide=options.has("w")))
    unknown = [name for name in options.rest if name not in known]
    for name in unknown:
        call.error(f"{name}: No such application profile\n")
    if not profiles and not unknown:
        call.error("No application profile found\n")
    return LSF_FAILURE if unknown or not profiles else 0
