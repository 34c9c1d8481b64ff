"""`glshosts` (lshosts): what the hosts are made of: CPUs, memory, resources."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.cli.answers.gpu_answer import write_gpu_table
from gsched.cli.answers.shared_values import shared_resources
from gsched.cli.options.size_units import requirement_in
from gsched.cli.render.hosts.gpu_tables import MODELS, model_rows
from gsched.cli.render.hosts.host_info import MACHINE_FIELDS, render_hosts, render_hosts_long
from gsched.cli.render.hosts.shared_tables import render_values
from gsched.cli.render.hosts.topology import render_topologies
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, REQUIREMENT, answer_chosen, chosen_format, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the hosts with their CPUs, memory and static resources",
    operands="[HOST ...]",
    options=(
        Option("w", help="cut nothing"),
        Option("l", help="everything: processors, values, thresholds"),
        Option("T", help="NUMA nodes, sockets, cores and threads"),
        Option("gpu", help="a line per GPU: its model, driver, and the NUMA node it hangs on"),
        Option("s", help="values that hosts share; names behind it are those of resources"),
        REQUIREMENT,
        Option("a", help="taken for LSF's sake: all hosts are shown anyway"),
        Option("o", "FIELDS", "these fields (-o help lists them)", '-o "host_name ncpus maxmem"'),
        Option("noheader", help="no heading"),
        Option("json", help="with -gpu or -o: as JSON"),
        *GENERAL,
        *unsupported("cname"),
        *unsupported("e", "mig", because="-gpu, -l, -T and -json show all that is known of a host"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l gpu01", 'PROGRAM -R "select[maxmem>100000]"'),
)


def main(call: Call) -> int:
    """Run `glshosts`."""
    options = read_options(call, TABLE)
    if len([name for name in ("w", "l", "T", "s") if options.has(name)]) > 1 or (
        options.has("gpu") and options.has("l", "T", "s")
    ):
        raise BadRequest(f"{program(call)}: only one of -w, -l, -T and -s can be given, and -gpu only with -w")
    if options.has("json") and not options.has("gpu", "o"):
        raise BadRequest(f"{program(call)}: -json goes with -gpu and -o only")
    chosen = chosen_format(call, options, MACHINE_FIELDS, "", "w l T s gpu") if options.has("o") else None
    if options.has("s") and options.has("R"):
        raise BadRequest(f"{program(call)}: -s and -R cannot be given together")
    with connected(call) as session:
        client = session.client
        if options.has("s"):
            call.write(render_values(shared_resources(*client.sharing(), options.rest, static=True)))
            return 0
        wants_processors = options.has("l", "T")
        hosts = client.hosts(
            options.rest, topology=wants_processors, requirement=requirement_in(call, options.last("R"))
        )
        external = client.cluster().external_resources if options.has("l") else ()
    header = not options.has("noheader")
    if chosen is not None:
        answer_chosen(call, options, chosen, hosts, command="lshosts", counted="HOSTS")
    elif options.has("gpu"):
        write_gpu_table(call, options, MODELS, model_rows(hosts), command="lshosts")
    elif options.has("T"):
        call.write(render_topologies(hosts))
    elif options.has("l"):
        call.write(render_hosts_long(hosts, external))
    else:
        call.write(render_hosts(hosts, wide=options.has("w"), header=header))
    return 0
