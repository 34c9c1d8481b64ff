"""Queues, a line for each: how much waits and runs in them."""

from __future__ import annotations

from gsched.top.drawing.styled_lines import Line, Piece, column, line
from gsched.top.watching.look import ClusterLook


def queue_lines(look: ClusterLook, most: int) -> list[Line]:
    """A heading, and at most so many queues; those in which something is come first."""
    found = [
        line(Piece(f"{'QUEUE':15} {'PRIO':>4} {'STATUS':15} {'NJOBS':>6} {'PEND':>6} {'RUN':>6} {'SUSP':>6}", "bold"))
    ]
    ordered = sorted(look.queues, key=lambda queue: not queue.njobs)
    for queue in ordered[:most]:
        counts = f"{queue.njobs:>6} {queue.pend:>6} {queue.run:>6} {queue.susp:>6}"
        is_open = queue.status == "Open:Active"
        status = Piece(column(queue.status, 15), "" if is_open else "yellow")
        found.append(line(f"{column(queue.name, 15)} {queue.priority:>4} ", status, f" {counts}"))
    if len(ordered) > most:
        found[-1] = (*found[-1], Piece(f"  and {len(ordered) - most} more", "dim"))
    return found
