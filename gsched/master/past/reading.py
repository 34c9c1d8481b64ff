"""The process that reads histories and accounts for the master: `python -m gsched.master.past.reading STORE SOCKET`.

A thread of the master would take the interpreter from the scheduler for as long as it reads. This process reads
committed records only, at a lower priority, listens on a socket that the master alone is asked through, and ends with
the master, whose end it hears on its standard input. It must never write to the store.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading

READERS = 8
"""Questions answered at a time; more wait for their turn."""
NICENESS = 10


def main(store: str, socket: str) -> int:
    """Serve until standard input ends."""
    with contextlib.suppress(PermissionError):  # the master's unit of systemd forbids it to change priorities
        os.nice(NICENESS)  # first of all: what is imported takes a while
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the master, which tells
    import gc
    import logging

    from gsched.master.past.answering import open_server

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    server = open_server(store, socket, READERS)
    gc.freeze()
    server.start()
    threading.Thread(target=_end_with_master, daemon=True).start()
    server.wait_for_termination()
    return 0


def _end_with_master() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
