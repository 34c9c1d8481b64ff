"""`gclusters` (lsclusters): the cluster's name, state, master and administrator."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.render.cluster import parameters
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="show the cluster, its master and how many hosts it has",
    operands="[CLUSTER ...]",
    options=(
        Option("w", help="cut nothing"),
        Option("l", help="also its administrators, version, default queues and resources"),
        *GENERAL,
    ),
    examples=("PROGRAM", "PROGRAM -w"),
)


def main(call: Call) -> int:
    """Run `gclusters`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        cluster, hosts = session.client.cluster(), session.client.hosts()
    for name in options.rest:
        if name != cluster.cluster:
            raise BadRequest(f"{program(call)}: {name}: unknown cluster name")
    if options.has("l"):
        call.write(parameters.render_cluster_long(cluster, hosts))
    else:
        call.write(parameters.render_cluster(cluster, len(hosts), wide=options.has("w")))
    return 0
