"""`gadmin versions`: the daemons of all hosts with what they are, and what keeps them from working together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from gsched.base.coded_text import sentence
from gsched.cli.render.text.text_columns import left, printable, width
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.hosts.fleet import DaemonView

_HEADER = ("HOST_NAME", "DAEMON", "STATE", "VERSION", "PROTOCOL", "PID", "SINCE")


def render_versions(daemons: Iterable[DaemonView], zone: tzinfo) -> str:
    """A row per daemon in the order given, then a line for each that is refused and one for mixed versions."""
    found = list(daemons)
    rows = [_HEADER, *(_row(each, zone) for each in found)]
    widths = [max(width(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = ["  ".join(map(left, row, widths)).rstrip() for row in rows]
    lines += [printable(sentence(each.problem)) for each in found if each.problem]
    versions = {each.version for each in found if each.version}
    if len(versions) > 1:
        lines.append(f"mixed versions: {', '.join(printable(each) for each in sorted(versions))}")
    return "".join(f"{line}\n" for line in lines)


def _row(each: DaemonView, zone: tzinfo) -> tuple[str, ...]:
    return (
        printable(each.host),
        each.kind,
        each.state,
        printable(each.version) or "-",
        str(each.protocol or "-"),
        str(each.pid or "-"),
        "-" if each.since is None else long_stamp(each.since, zone),
    )
