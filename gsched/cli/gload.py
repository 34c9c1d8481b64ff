"""`gload` (lsload): load indices of the hosts, the least loaded first."""

from __future__ import annotations

import math

from gsched.cli.call import Call
from gsched.cli.command import GENERAL, read_options
from gsched.cli.projection import host_record
from gsched.cli.render import hosts
from gsched.cli.render.records import HostRecord
from gsched.cli.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the load of the hosts, the least loaded first",
    operands="[HOST ...]",
    options=(
        Option("w", help="cut no names"),
        Option("noheader", help="no heading"),
        *GENERAL,
        *unsupported("l", "o", "json", "I", "n", "R", "s", "N", "E", "gpu", "gpuload", "cname", "a"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM gpu01 gpu02"),
)


def main(call: Call) -> int:
    """Run `gload`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        records = [host_record(view) for view in session.client.hosts(options.rest)]
    records.sort(key=_busy)
    call.write(hosts.render_load(records, header=not options.has("noheader"), wide=options.has("w")))
    return 0


def _busy(host: HostRecord) -> tuple[bool, float, float]:
    """LSF's order r15s:pg; hosts that are gone, and unknown values, come last."""
    known = [host.load.get(name) for name in ("r15s", "pg")]
    first, second = (math.inf if value is None else value for value in known)
    return (hosts.load_status(host.status) != "ok", first, second)
