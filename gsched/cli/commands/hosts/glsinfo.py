"""`glsinfo` (lsinfo): which resources, host types and host models the cluster knows."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.render.hosts.host_info import render_models, render_resources, render_resources_long, render_types
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the resources that requirements may name, the host types and the host models",
    operands="[RESOURCE ...]",
    options=(
        Option("l", help="all about each resource"),
        Option("r", help="resources only"),
        Option("t", help="host types only"),
        Option("m", help="host models only"),
        Option("M", help="the same: all models that lsf.shared knows, whether a host is one or not"),
        Option("w", help="cut nothing, which is so in any case"),
        *GENERAL,
        *unsupported("cname"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l ngpus mem", "PROGRAM -m"),
)


def main(call: Call) -> int:
    """Run `glsinfo`."""
    options = read_options(call, TABLE)
    if options.rest and options.has("t", "m", "M"):
        raise BadRequest(f"{program(call)}: names behind it are those of resources; -t and -m take none")
    with connected(call) as session:
        found = session.client.catalogue.definitions()
    names = options.rest
    resources = [each for each in found.resources if not names or each.name in names]
    everything = not names and not options.has("r", "t", "m", "M")
    parts = []
    if (resources and names) or everything or options.has("r"):
        parts.append(render_resources_long(resources) if options.has("l") else render_resources(resources))
    if everything or options.has("t"):
        parts.append(render_types(found.types))
    if everything or options.has("m", "M"):
        parts.append(render_models(found.models))
    call.write("\n".join(parts))
    known = {each.name for each in resources}
    unknown = [name for name in names if name not in known]
    for name in unknown:
        call.error(f"{name}: resource name not found.\n")
    return LSF_FAILURE if unknown else 0
