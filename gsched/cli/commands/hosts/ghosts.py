"""`ghosts` (bhosts): the hosts, their slots, and with -l their load and their GPU counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.cli.answers.gpu_answer import write_gpu_table
from gsched.cli.answers.shared_values import shared_resources
from gsched.cli.options.past_time import AT, looked_at, past_time
from gsched.cli.options.size_units import requirement_in
from gsched.cli.render.gpu_use.gpus_json import host_gpu_records
from gsched.cli.render.hosts import gpu_tables, host_tables
from gsched.cli.render.hosts.gpu_long import render_long_gpus
from gsched.cli.render.hosts.host_fields import HOST_FIELDS
from gsched.cli.render.hosts.shared_tables import render_reserved
from gsched.cli.render.hosts.topology import render_topologies
from gsched.cli.render.text.output_formats import Format, json_pieces
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import (
    CHOSEN_FIELDS,
    GENERAL,
    REQUIREMENT,
    answer_chosen,
    chosen_format,
    program,
    read_options,
)
from gsched.cli.session.time_zone import zone_of
from gsched.cli.session.watch import REPORT_S, WATCH, shown
from gsched.dialect.options import Option, OptionTable, Parsed, unsupported
from gsched.model.jobs.job import FINISHED
from gsched.model.ledgers.devices import ALONE_CLAIMS
from gsched.model.views.view import HostView, JobFilter
from gsched.wire.calls.client import Client
from gsched.wire.calls.past_calls import PastLook

TABLE = OptionTable(
    summary="show the hosts, their slots and what is left of their resources",
    operands="[HOST ...]",
    options=(
        Option("alloc", help="count slots, which is always so"),
        Option("w", help="cut nothing, and say why a host is closed"),
        Option("l", help="load, resources left and reserved, and what is worth knowing of each host"),
        Option("aff", help="NUMA nodes, sockets, cores and threads, a * before what a job with affinity[] holds"),
        Option(
            "gpu", help="a line per GPU: its memory, and the jobs on it; with -l all of each, and the processes on it"
        ),
        Option("s", help="resources with what is left and reserved of them; names behind it are those of resources"),
        REQUIREMENT,
        Option("a", help="taken for LSF's sake: all hosts are shown anyway"),
        Option("x", help="only hosts on which more jobs fail than EXIT_RATE allows"),
        Option("X", help="taken for LSF's sake: host groups are never condensed"),
        Option("noLim", help="taken for LSF's sake: the master answers, and load that it does not know is shown as -"),
        Option("noheader", help="no heading"),
        *CHOSEN_FIELDS,
        AT,
        WATCH,
        *GENERAL,
        *unsupported("rc", "rconly"),
        *unsupported("cname", "e", because="there is one cluster"),
        *unsupported(
            "attr", because="hosts have no attributes of users; a Boolean resource in lsf.shared does the same"
        ),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l gpu01"),
)


def main(call: Call) -> int:
    """Run `ghosts`."""
    options = read_options(call, TABLE)
    chosen = None if options.has("gpu") else chosen_format(call, options, HOST_FIELDS, "LSB_BHOSTS_FORMAT", "l w")
    if options.has("aff") and (chosen is not None or options.has("w")):
        raise BadRequest(f"{program(call)}: -aff stands alone or with -l")
    if options.has("s") and (chosen is not None or options.has("l", "w", "R", "aff")):
        raise BadRequest(f"{program(call)}: -s stands alone")
    at = past_time(call, options, ("x",))
    return shown(call, options, lambda session: _show(call, options, chosen, looked_at(session, at)), REPORT_S)


def _show(call: Call, options: Parsed, chosen: Format[HostView] | None, look: Client | PastLook) -> int:
    """The hosts, or their resources or GPUs, in the layout that was asked for."""
    if options.has("s"):
        call.write(render_reserved(shared_resources(*look.sharing(), options.rest)))
        return 0
    with_topology = options.has("aff")
    requirement = requirement_in(call, options.last("R"))
    views = look.hosts(options.rest, topology=with_topology, requirement=requirement)
    if isinstance(look, PastLook):  # nobody has kept how many jobs had failed
        views = [msgspec.structs.replace(host, exit_limit=None) for host in views]
    if options.has("x"):
        views = [host for host in views if host.is_beyond_exit_limit]
        if not views and not options.has("json"):
            call.write("There is no exceptional host found\n")
            return 0
    if options.has("gpu"):
        _show_gpus(call, options, views, _uses(look, views))
        return 0
    if chosen is not None:
        answer_chosen(call, options, chosen, views, command="bhosts", counted="HOSTS")
        return 0
    header = not options.has("noheader")
    if options.has("l"):
        call.write(host_tables.render_long(views, topology=with_topology))
    elif with_topology:
        call.write(render_topologies(views))
    elif options.has("w"):
        call.write(host_tables.render_wide(views, header=header))
    else:
        call.write(host_tables.render_short(views, header=header))
    return 0


def _show_gpus(call: Call, options: Parsed, hosts: Sequence[HostView], uses: gpu_tables.Uses) -> None:
    if options.has("aff", "o") or (options.has("l") and options.has("w", "noheader")):
        raise BadRequest(f"{program(call)}: -gpu goes with -R, -json and -l, or with -w, -json and -noheader")
    zone = zone_of(call.env)
    if options.has("l") and options.has("json"):
        call.write("".join(json_pieces(host_gpu_records(hosts, uses), command="bhosts", counted="GPUS")))
        return
    if options.has("l"):
        call.write(render_long_gpus(hosts, uses, zone))
        return
    write_gpu_table(call, options, gpu_tables.USE, gpu_tables.use_rows(hosts, uses, zone), command="bhosts")
    if not options.has("json", "noheader"):
        call.write(gpu_tables.closed_gpus(hosts, zone))


def _uses(look: Client | PastLook, hosts: Iterable[HostView]) -> dict[tuple[str, str], gpu_tables.GpuUse]:
    """(host, UUID) -> what jobs have of that GPU, its parts by MIG among it, and of each such part."""
    numbers = {int(holder.partition(".")[0]) for host in hosts for gpu in host.gpus for holder in gpu.holders}
    uses: dict[tuple[str, str], gpu_tables.GpuUse] = {}
    for job in look.jobs(JobFilter(ids=tuple(sorted(numbers)), user="all")) if numbers else ():
        name = (show_job(job.job_id),)
        is_suspended = job.state in ("SSUSP", "USUSP")
        for part in job.allocation.hosts if job.allocation is not None and job.state not in FINISHED else ():
            for held, uuid in ((each, uuid) for each in part.gpus for uuid in {each.uuid, each.board}):
                before = uses.get((part.host, uuid), gpu_tables.GpuUse())
                is_known = name[0] in before.running + before.suspended  # it has several parts of one GPU
                uses[part.host, uuid] = gpu_tables.GpuUse(
                    running=before.running + (() if is_suspended or is_known else name),
                    suspended=before.suspended + (name if is_suspended and not is_known else ()),
                    reserved_mib=before.reserved_mib + held.gmem_mib,
                    alone=before.alone or (held.uuid == uuid and held.claim in ALONE_CLAIMS),
                )
    return uses
