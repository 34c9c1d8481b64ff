"""`gqueues` (bqueues): the queues, their limits and how many slots their jobs use."""

from __future__ import annotations

from gsched.cli.call import Call
from gsched.cli.command import CHOSEN_FIELDS, GENERAL, answer_chosen, chosen_format, read_options
from gsched.cli.projection import queue_record
from gsched.cli.render import queues
from gsched.cli.render.host_fields import QUEUE_FIELDS
from gsched.cli.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported

TABLE = OptionTable(
    summary="show the queues",
    operands="[QUEUE ...]",
    options=(
        Option("w", help="cut nothing, and show reserved slots and how many jobs wait"),
        Option("l", help="everything about each queue: limits, thresholds, policies, shares"),
        Option("r", help="the same, with the shares of all levels of the share tree"),
        Option("noheader", help="no heading"),
        *CHOSEN_FIELDS,
        *GENERAL,
        *unsupported("alloc", "m", "u"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l normal", "PROGRAM -r fair"),
)


def main(call: Call) -> int:
    """Run `gqueues`."""
    options = read_options(call, TABLE)
    chosen = chosen_format(call, options, QUEUE_FIELDS, "LSB_BQUEUES_FORMAT", "l r w")
    with connected(call) as session:
        views = session.client.queues(options.rest)
        if options.has("l", "r"):
            cluster = session.client.cluster()
            defaults = cluster.default_queue.split()
            records = [queue_record(view, defaults, cluster.external_resources) for view in views]
            call.write(queues.render_long(records, whole_tree=options.has("r")))
            return 0
    records = [queue_record(view) for view in views]
    if chosen is not None:
        answer_chosen(call, options, chosen, records, command="bqueues", counted="QUEUES")
        return 0
    call.write(queues.render_short(records, header=not options.has("noheader"), wide=options.has("w")))
    return 0
