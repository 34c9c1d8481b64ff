"""`glimits` (blimits): the limits of lsb.resources, how much they allow and how much of it is in use."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.render.cluster.limit_tables import render_limits, render_sections
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.model.views.room_view import LimitView

TABLE = OptionTable(
    summary="show the limits that are in use: used/allowed",
    operands="",
    options=(
        Option("n", "NAME", "only this limit"),
        Option("u", "USER", "only what holds for this user"),
        Option("q", "QUEUE", "only what holds for this queue"),
        Option("m", "HOST", "only what holds for this host"),
        Option("P", "PROJECT", "only what holds for this project"),
        Option("A", "PROFILE", "only what holds for this application profile"),
        Option("a", help="also limits that nobody uses anything of"),
        Option("c", help="the limits as they are configured in lsb.resources; only -n goes with it"),
        Option("w", help="cut nothing, which is so in any case"),
        *GENERAL,
        *unsupported("cname", "fwd", "gl", "Lp"),
        *unsupported("o", because="its columns are fixed; -w cuts nothing"),
    ),
    examples=("PROGRAM", "PROGRAM -u ann", "PROGRAM -c"),
)


def main(call: Call) -> int:
    """Run `glimits`."""
    options = read_options(call, TABLE)
    if options.has("c") and options.has("u", "q", "m", "P", "A"):
        raise BadRequest(f"{program(call)}: -c shows limits as they are written; only -n chooses among them")
    with connected(call) as session:
        if options.has("c"):
            sections = session.client.limit_sections()
            call.write(render_sections(each for each in sections if options.last("n") in ("", each.name)))
            return 0
        shown = (limit for limit in session.client.limits() if options.has("a") or not limit.idle)
        limits = [limit for limit in shown if _is_wanted(limit, options)]
    call.write(render_limits(limits))
    return 0


def _is_wanted(limit: LimitView, options: Parsed) -> bool:
    """Whether it is a line for those who are asked for."""
    if options.has("n") and limit.name != options.last("n"):
        return False
    members = (("u", limit.user), ("q", limit.queue), ("m", limit.host), ("P", limit.project), ("A", limit.application))
    return all(not options.has(option) or _has(member.split(), options.last(option)) for option, member in members)


def _has(consumers: list[str], name: str) -> bool:
    """Whether the name is one of `ann bob` or of `all ~ann`; none stands for all."""
    if not consumers or consumers[0] == "all":
        return f"~{name}" not in consumers
    return name in consumers
