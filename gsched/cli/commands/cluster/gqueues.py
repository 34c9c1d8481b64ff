"""`gqueues` (bqueues): the queues, their limits and how many slots their jobs use."""

from __future__ import annotations

import time

from gsched.cli.answers.exceptions_of_jobs import exception_counts
from gsched.cli.options.past_time import AT, looked_at, past_time
from gsched.cli.render.cluster import queues
from gsched.cli.render.hosts.host_fields import QUEUE_FIELDS
from gsched.cli.render.text.output_formats import Format
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import CHOSEN_FIELDS, GENERAL, answer_chosen, chosen_format, read_options
from gsched.cli.session.watch import WATCH, shown
from gsched.dialect.options import Option, OptionTable, Parsed
from gsched.model.views.view import QueueView
from gsched.wire.calls.client import Client
from gsched.wire.calls.past_calls import PastLook

TABLE = OptionTable(
    summary="show the queues",
    operands="[QUEUE ...]",
    options=(
        Option("w", help="cut nothing, and show reserved slots and how many jobs wait"),
        Option("l", help="everything about each queue: limits, thresholds, policies, shares"),
        Option("r", help="the same, with the shares of all levels of the share tree"),
        Option("noheader", help="no heading"),
        *CHOSEN_FIELDS,
        AT,
        WATCH,
        *GENERAL,
        Option("u", "USER", "only queues that take jobs of this user", "-u ann"),
        Option("m", "HOST", "only queues whose jobs may run on this host or group", "-m gpu01"),
        Option("alloc", help="count slots, which is always so"),
    ),
    interspersed=True,
    examples=("PROGRAM", "PROGRAM -l normal", "PROGRAM -r fair"),
)


def main(call: Call) -> int:
    """Run `gqueues`."""
    options = read_options(call, TABLE)
    chosen = chosen_format(call, options, QUEUE_FIELDS, "LSB_BQUEUES_FORMAT", "l r w")
    at = past_time(call, options)
    return shown(call, options, lambda session: _show(call, options, chosen, looked_at(session, at), at))


def _show(
    call: Call, options: Parsed, chosen: Format[QueueView] | None, look: Client | PastLook, at: float | None
) -> int:
    """The queues, in the layout that was asked for; `at`: as they were then."""
    now = time.time() if at is None else at
    views = _usable(look.queues(options.rest), options, look)
    if options.has("l", "r"):
        cluster = look.cluster()
        call.write(
            queues.render_long(
                views,
                default_queues=cluster.default_queue.split(),
                external_indices=cluster.external_resources,
                whole_tree=options.has("r"),
                exceptions=exception_counts(look, views, now),
            )
        )
        return 0
    if chosen is not None:
        answer_chosen(call, options, chosen, views, command="bqueues", counted="QUEUES")
        return 0
    call.write(queues.render_short(views, header=not options.has("noheader"), wide=options.has("w")))
    return 0


def _usable(views: list[QueueView], options: Parsed, look: Client | PastLook) -> list[QueueView]:
    """Those that -u and -m admit. Raises NotFound for a host that there is none."""
    user, host = options.last("u"), options.last("m")
    if user not in ("", "all"):
        views = [view for view in views if _takes(view, user)]
    if host not in ("", "all"):
        wanted = {each.name for each in look.hosts([host])}
        views = [view for view in views if not view.hosts or wanted & {name.partition("+")[0] for name in view.hosts}]
    return views


def _takes(view: QueueView, user: str) -> bool:
    return (not view.users or user in view.users) and user not in view.facts.get("EXCLUDED_USERS", "").split()
