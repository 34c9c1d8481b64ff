"""`gload` and `glsmon`: which hosts are shown in which order, and in which layout.

A host that is gone, and a value that is not known, come last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.cli.answers.gpu_answer import write_gpu_table
from gsched.cli.answers.shared_values import shared_resources
from gsched.cli.options.size_units import requirement_in
from gsched.cli.render.hosts import gpu_tables, load
from gsched.cli.render.hosts.shared_tables import render_values
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import (
    answer_chosen,
    chosen_format,
    program,
    size_unit,
)
from gsched.cli.session.session import Session
from gsched.dialect.options import Parsed
from gsched.model.views.view import HostView

_LONG_NAME = 23
_ORDER = re.compile(r"\border\s*\[")


def show_load(call: Call, options: Parsed, session: Session) -> int:
    """The load, or resources or GPUs, in the layout that was asked for."""
    if options.has("s"):
        call.write(render_values(shared_resources(*session.client.sharing(), options.rest)))
        return 0
    requirement = requirement_in(call, options.last("R"))
    views = session.client.hosts(options.rest, requirement=requirement)
    if options.has("gpu", "gpuload"):
        _show_gpus(call, options, views)
        return 0
    hosts = [_loaded(view) for view in views]
    external = tuple(dict.fromkeys(value.name for host in hosts for value in host.externals))
    chosen = chosen_format(call, options, load.load_fields(external), "LSF_LSLOAD_FORMAT", "l w I")
    if options.has("E", "N"):
        hosts = [load.adjusted(host, normalized=options.has("N")) for host in hosts]
    hosts = best_first(hosts, requirement)
    hosts = hosts[: _count(call, options) or None]
    if chosen is not None:
        # IBM's lsf-prometheus-exporter 1.0.2 takes every size of lsload -json for a number of megabytes.
        unit = "M" if options.has("json") else ""
        answer_chosen(call, options, chosen, hosts, command="lsload", counted="HOSTS", unit=unit)
        return 0
    is_long = options.has("l")
    columns = _columns(call, options, external)
    name_width = _LONG_NAME if is_long else 15
    header, wide = not options.has("noheader"), options.has("w")
    call.write(
        load.render_load(hosts, header=header, wide=wide, columns=columns, name_width=name_width, unit=size_unit(call))
    )
    return 0


def _loaded(view: HostView) -> HostView:
    """The host without static resources that are its own: they are no load."""
    static = view.values.keys() - {each.name for each in view.shared}
    return msgspec.structs.replace(view, externals=tuple(each for each in view.externals if each.name not in static))


def _show_gpus(call: Call, options: Parsed, hosts: Sequence[HostView]) -> None:
    if options.has("gpuload"):
        write_gpu_table(call, options, gpu_tables.LOAD, gpu_tables.load_rows(hosts), command="lsload")
    else:
        write_gpu_table(call, options, gpu_tables.SUMMARY, gpu_tables.summary_rows(hosts), command="lsload")


def check_load_options(call: Call, options: Parsed) -> None:
    """Raises BadRequest for options that cannot stand beside each other."""
    if options.has("E") and options.has("N"):
        raise BadRequest(f"{program(call)}: -E and -N cannot be given together")
    if options.has("gpu", "gpuload") and options.has("l", "I", "n", "E", "N", "o"):
        raise BadRequest(f"{program(call)}: -gpu and -gpuload go with -w, -R, -json and -noheader only")
    if options.has("s") and options.has("gpu", "gpuload", "l", "w", "I", "n", "R", "E", "N", "o", "json"):
        raise BadRequest(f"{program(call)}: -s stands alone")


def _count(call: Call, options: Parsed) -> int:
    """-n; 0 without it."""
    text = options.last("n")
    if not options.has("n"):
        return 0
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise BadRequest(f"{program(call)}: -n {text[:20]}: not a number of hosts")
    return int(text[:9])


def _columns(call: Call, options: Parsed, external: Sequence[str]) -> dict[str, int]:
    if not options.has("I"):
        return load.columns_of((*load.LONG, *external), external) if options.has("l") else load.SHORT
    names = options.last("I").split(":")
    found = load.columns_of(names, external)
    for name in names:
        if name not in found:
            raise BadRequest(f"{program(call)}: {name or options.last('I')}: unknown load index")
    return found


def best_first(hosts: Sequence[HostView], requirement: str) -> list[HostView]:
    """The hosts in the order that the requirement names, as they have come; else the least loaded first."""
    return list(hosts) if _ORDER.search(requirement) else sorted(hosts, key=_busy)


def _busy(host: HostView) -> tuple[bool, float, float]:
    """LSF's order r15s:pg; hosts that are gone, and unknown values, come last."""
    known = [host.load.get(name) for name in ("r15s", "pg")]
    first, second = (math.inf if value is None else value for value in known)
    return (load.load_status(host.status) != "ok", first, second)
