"""`glimits` (blimits): the limits of lsb.resources, how much they allow and how much of it is in use."""

from __future__ import annotations

from gsched.cli.call import Call
from gsched.cli.command import GENERAL, read_options
from gsched.cli.render.limit_tables import render_limits
from gsched.cli.session import connected
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.model.view import LimitView

TABLE = OptionTable(
    summary="show the limits that are in use: used/allowed",
    operands="",
    options=(
        Option("n", "NAME", "only this limit"),
        Option("u", "USER", "only what holds for this user"),
        Option("q", "QUEUE", "only what holds for this queue"),
        Option("m", "HOST", "only what holds for this host"),
        Option("P", "PROJECT", "only what holds for this project"),
        *GENERAL,
        *unsupported("A", "a", "c", "fwd", "gl", "Lp", "o", "w"),
    ),
    examples=("PROGRAM", "PROGRAM -u ann"),
)


def main(call: Call) -> int:
    """Run `glimits`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        limits = [limit for limit in session.client.limits() if _is_wanted(limit, options)]
    call.write(render_limits(limits))
    return 0


def _is_wanted(limit: LimitView, options: Parsed) -> bool:
    """A limit that does not tell its members apart holds for each of them."""
    if options.has("n") and limit.name != options.last("n"):
        return False
    members = (("u", limit.user), ("q", limit.queue), ("m", limit.host), ("P", limit.project))
    return all(not options.has(name) or not member or options.last(name) in member.split() for name, member in members)
