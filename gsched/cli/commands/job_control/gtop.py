"""`gtop` (btop): move a pending job to the top of its queue."""

from __future__ import annotations

from gsched.cli.answers.queue_position import move, table
from gsched.cli.session.call import Call

TABLE = table("top")


def main(call: Call) -> int:
    """Run `gtop`."""
    return move(call, TABLE, "top", "top")
