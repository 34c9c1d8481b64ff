"""Commands whose answers are large: laid out in a process of their own, behind those that people wait for.

In the door a hundred thousand lines would take the interpreter from everybody else's commands.
"""

from __future__ import annotations

import contextlib
import os

from gsched.cli.call import Call

NICENESS = 10


def alone(call: Call) -> None:
    """Go on in the caller's own process, at a lower priority. To be called before anything has been done or said."""
    call.take_over()
    if call.own_streams:
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
