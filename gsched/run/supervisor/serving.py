"""A supervisor's life: one attempt after another, of one user, for as long as its agent has any for it.

A fork of the fork server copies each page that it uses, which costs more than all else that is done for a short job. So
a supervisor whose job is over without a trace takes the next order. It has one job at a time: what becomes of it
reaches no other. Never goes on where anything of a job may be left in this process.

Runs in the fork server's bare interpreter: standard library and msgspec only.
"""

from __future__ import annotations

import gc
import os
import sys

from gsched.run.agent_line import OVER, next_name, tell
from gsched.run.supervisor.opening import SupervisorSettings
from gsched.run.supervisor.supervisor import Supervisor
from gsched.run.supervisor.supervisor_signals import detach

MOST_ORDERS = 1000
"""Then another process takes its place: memory in pieces is not given back."""
_COLLECT_EVERY = 32
"""Orders between two collections of garbage, which the fork server has turned off."""


def supervise(settings: SupervisorSettings, name: str, orders: int = -1) -> None:
    """Body of a freshly forked supervisor. `orders`: where the names of further attempts come from; -1: there are none.
    Never returns.
    """
    try:
        detach(settings.become_subreaper)
        is_in_a_row = False
        for count in range(1, MOST_ORDERS + 1):
            is_as_before = Supervisor(settings, name, is_in_a_row=is_in_a_row).run()
            if not is_as_before or orders < 0 or count == MOST_ORDERS:
                break
            tell(settings.notify_fd, name, OVER)
            if count % _COLLECT_EVERY == 0:
                gc.collect()
            name, is_in_a_row = next_name(orders)
            if not name:
                break
    except BaseException as error:
        sys.stderr.write(f"gsched: supervisor of {name}: {type(error).__name__}: {error}\n")
    finally:
        os._exit(0)
