"""The process that reads histories and accounts for the master: `python -m gsched.master.past.reading STORE SOCKET`.

A thread of the master would take the interpreter from the scheduler for as long as it reads. This process reads
committed records only, at a lower priority, listens on a socket that the master alone is asked through, and ends with
the master, whose end it hears on its standard input. Of the master's rights it keeps those that reading takes. It must
never write to the store.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import threading
import time

from gsched.base.errors import GschedError, Unavailable
from gsched.model.store_url import is_store_url
from gsched.run.account import give_capabilities_up

AWAY, FAILED = 75, 1
"""Exit codes: the store's server does not answer now (EX_TEMPFAIL); the store cannot be opened."""
READERS = 8
"""Questions answered at a time; more wait for their turn."""
NICENESS = 10
SESSION_NICENESS = 5
"""Not more, and not idle (SCHED_IDLE): beside jobs that take every processor an answer would take minutes."""
_TRIES, _TRY_S = 5, 0.1
_PR_SET_NO_NEW_PRIVS = 38
_GARBAGE = (50_000, 20, 20)
"""Thresholds of the collector: the rows of an answer are many, and none of them is in a cycle."""


def main(store: str, socket: str) -> int:
    """Serve until standard input ends."""
    _give_up_rights(store)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the master, which tells
    # Only now, by a process that has given its rights up: it takes a while.
    import logging

    # The same.
    from gsched.base.machine.large_imports import LargeImport

    with LargeImport():
        from gsched.base.machine.log_file import FollowingHandler
        from gsched.master.past.past_server import open_server

    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(format=form, handlers=[FollowingHandler()])
    try:
        server = open_server(store, socket, READERS)
    except GschedError as error:
        logging.getLogger(__name__).error("%s", error.text)
        return AWAY if isinstance(error, Unavailable) else FAILED
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
    step_back()  # not before: beside jobs that take every processor a second of imports would take a minute then
    server.start()
    threading.Thread(target=_end_with_master, daemon=True).start()
    server.wait_for_termination()
    return 0


def _give_up_rights(store: str) -> None:
    """No core file, no file for others, no program with other rights; as root none of root's rights but its files."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if is_store_url(store):
        give_capabilities_up()
        return
    with contextlib.suppress(FileNotFoundError):  # said by who opens it
        if os.stat(store).st_uid == os.geteuid():  # else it takes a right of root's to read it
            give_capabilities_up()


def step_back() -> None:
    """Be nice, and so with the whole session, which this process leads.

    Linux weighs sessions against each other before it looks at their processes (autogroup): in a session of its own a
    nice process would be nice to nobody, in the master's to the master alone. What the system refuses or does not know
    is done without.
    """
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    for _ in range(_TRIES if os.getsid(0) == os.getpid() else 0):
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as group:
                group.write(str(SESSION_NICENESS))
            return
        except BlockingIOError:  # the kernel changes but a few in a second
            time.sleep(_TRY_S)
        except OSError:
            return


def _end_with_master() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
