"""`gid` (lsid): the version, the name of the cluster, and where its master runs."""

from __future__ import annotations

from gsched.cli.render.cluster import queues
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import OptionTable

TABLE = OptionTable(
    summary="show the cluster's name, its master and the version",
    operands="",
    options=GENERAL,
    examples=("PROGRAM",),
)


def main(call: Call) -> int:
    """Run `gid`."""
    read_options(call, TABLE)
    with connected(call) as session:
        cluster = session.client.cluster()
    call.write(queues.identity(cluster.version, cluster.cluster, cluster.master_host, as_lsf=program(call) == "lsid"))
    return 0
