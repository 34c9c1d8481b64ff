"""`gbot` (bbot): move a pending job to the bottom of its queue."""

from __future__ import annotations

from gsched.cli.answers.queue_position import move, table
from gsched.cli.session.call import Call

TABLE = table("bottom")


def main(call: Call) -> int:
    """Run `gbot`."""
    return move(call, TABLE, "bottom", "bottom")
