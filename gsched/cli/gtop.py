"""`gtop` (btop): move a pending job to the top of its queue."""

from __future__ import annotations

from gsched.cli.call import Call
from gsched.cli.moving import move, table

TABLE = table("top")


def main(call: Call) -> int:
    """Run `gtop`."""
    return move(call, TABLE, "top", "top")
