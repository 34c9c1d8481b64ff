"""`gsla` (bsla): service classes, what is guaranteed to them, and their jobs."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE
from gsched.cli.options.named_operands import chosen_by_name
from gsched.cli.render.cluster.guarantee_tables import NO_CLASSES, render_classes
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import GENERAL, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable

TABLE = OptionTable(
    summary="show service classes, what is guaranteed to them, and their jobs",
    operands="[CLASS ...]",
    options=(
        Option("N", help="slots instead of jobs"),
        Option("w", help="cut nothing, which is so in any case"),
        *GENERAL,
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -N gold"),
)


def main(call: Call) -> int:
    """Run `gsla`."""
    options = read_options(call, TABLE)
    with connected(call) as session:
        classes, pools = session.client.service_classes()
    chosen, all_known = chosen_by_name(call, classes, options.rest, "service class")
    if chosen:
        call.write(render_classes(chosen, pools, in_slots=options.has("N")))
    elif all_known:
        call.error(NO_CLASSES)
    return 0 if all_known and chosen else LSF_FAILURE
