"""`gresources` (bresources): guaranteed pools as they are now; without -g the limits as they are configured."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.options.named_operands import chosen_by_name
from gsched.cli.render.cluster.guarantee_tables import NO_POOLS, render_pools, render_pools_long
from gsched.cli.render.cluster.limit_tables import render_sections
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the pools of resources that are guaranteed to service classes",
    operands="[POOL ...]   (without -g the limits of lsb.resources, as glimits -c shows them)",
    options=(
        Option("g", help="guaranteed pools: what they have, what is free, guaranteed, in use and lent"),
        Option("l", help="with -g: all of each pool, and what each service class uses"),
        Option("m", help="with -g -l: also each host of a pool"),
        *GENERAL,
        *unsupported("s", because="gparams and lsb.resources tell how resources are reserved"),
        *unsupported("p", because="gjobs -l tells when a job that waits is planned to start"),
        *unsupported("q", because="what a pool lends to a queue stands in its LOAN_POLICIES"),
        *unsupported("o", "json", because="its columns are fixed"),
    ),
    interspersed=True,
    examples=("PROGRAM -g", "PROGRAM -g -l -m a100"),
)


def main(call: Call) -> int:
    """Run `gresources`."""
    options = read_options(call, TABLE)
    if not options.has("g"):
        if options.has("l", "m") or options.rest:
            raise BadRequest(f"{program(call)}: -l, -m and names of pools belong to -g")
        with connected(call) as session:
            call.write(render_sections(session.client.limit_sections()))
        return 0
    if options.has("m") and not options.has("l"):
        raise BadRequest(f"{program(call)}: -m belongs to -g -l")
    with connected(call) as session:
        pools = session.client.pools()
    chosen, all_known = chosen_by_name(call, pools, options.rest, "guaranteed resource pool")
    if chosen:
        call.write(render_pools_long(chosen, hosts=options.has("m")) if options.has("l") else render_pools(chosen))
    elif all_known:
        call.error(NO_POOLS)
    return 0 if all_known and chosen else LSF_FAILURE
