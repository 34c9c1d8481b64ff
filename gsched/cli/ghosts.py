"""`ghosts` (bhosts): the hosts, their slots, and with -l their load and their GPU counters."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.call import Call
from gsched.cli.command import CHOSEN_FIELDS, GENERAL, REQUIREMENT, answer_chosen, chosen_format, program, read_options
from gsched.cli.projection import host_record
from gsched.cli.render import hosts
from gsched.cli.render.host_fields import HOST_FIELDS
from gsched.cli.render.shared import render_reserved
from gsched.cli.render.topology import render_topologies
from gsched.cli.session import connected
from gsched.cli.sharing import shared_resources
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the hosts, their slots and what is left of their resources",
    operands="[HOST ...]",
    options=(
        Option("w", help="cut nothing, and say why a host is closed"),
        Option("l", help="load, resources left and reserved, and what is worth knowing of each host"),
        Option("aff", help="NUMA nodes, sockets, cores and threads, a * before what a job with affinity[] holds"),
        Option("s", help="resources with what is left and reserved of them; names behind it are those of resources"),
        REQUIREMENT,
        Option("a", help="taken for LSF's sake: all hosts are shown anyway"),
        Option("X", help="taken for LSF's sake: host groups are never condensed"),
        Option("noheader", help="no heading"),
        *CHOSEN_FIELDS,
        *GENERAL,
        *unsupported("e", "x", "gpu", "alloc", "rc", "cname", "noLim"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l gpu01"),
)


def main(call: Call) -> int:
    """Run `ghosts`."""
    options = read_options(call, TABLE)
    chosen = chosen_format(call, options, HOST_FIELDS, "LSB_BHOSTS_FORMAT", "l w")
    with_topology = options.has("aff")
    if with_topology and (chosen is not None or options.has("w")):
        raise BadRequest(f"{program(call)}: -aff stands alone or with -l")
    with connected(call) as session:
        if options.has("s"):
            if chosen is not None or options.has("l", "w", "R", "aff"):
                raise BadRequest(f"{program(call)}: -s stands alone")
            call.write(render_reserved(shared_resources(session.client.hosts(), options.rest)))
            return 0
        requirement = options.last("R")
        views = session.client.hosts(options.rest, topology=with_topology, requirement=requirement)
        records = [host_record(view) for view in views]
    if chosen is not None:
        answer_chosen(call, options, chosen, records, command="bhosts", counted="HOSTS")
        return 0
    header = not options.has("noheader")
    if options.has("l"):
        call.write(hosts.render_long(records, topology=with_topology))
    elif with_topology:
        call.write(render_topologies(records))
    elif options.has("w"):
        call.write(hosts.render_wide(records, header=header))
    else:
        call.write(hosts.render_short(records, header=header))
    return 0
