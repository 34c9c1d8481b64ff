"""`gbot` (bbot): move a pending job to the bottom of its queue."""

from __future__ import annotations

from gsched.cli.call import Call
from gsched.cli.moving import move, table

TABLE = table("bottom")


def main(call: Call) -> int:
    """Run `gbot`."""
    return move(call, TABLE, "bottom", "bottom")
