"""`gparams` (bparams): the cluster's parameters as they count."""

from __future__ import annotations

from gsched.cli.render.cluster import parameters
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="show the parameters of lsb.params as they count",
    operands="",
    options=(
        Option("a", help="all of them, as NAME = value"),
        Option("l", help="all of them, with what they mean"),
        *GENERAL,
    ),
    examples=("PROGRAM", "PROGRAM -a", "PROGRAM -l"),
)


def main(call: Call) -> int:
    """Run `gparams`. -l wins over -a."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        found = session.client.cluster(parameters=True).parameters
    if options.has("l"):
        call.write(parameters.render_long(found))
    elif options.has("a"):
        call.write(parameters.render_all(found))
    else:
        call.write(parameters.render_short(found))
    return 0
