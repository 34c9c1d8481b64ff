"""A listing shown anew whenever something happens to jobs: on a terminal in its place, else one below the other.

It ends when the caller has enough (^C). Nothing is asked while nothing happens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gsched.base.errors import GschedError
from gsched.cli.call import Call, Cancelled
from gsched.cli.render.stamps import long_stamp
from gsched.cli.session import Session
from gsched.cli.zone import zone_of

SHORTEST_S = 1.0
"""Between two listings: what happens meanwhile is shown together."""
AGAIN_S = 30.0
"""Use of resources and times left change without an event."""
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(call: Call, session: Session, show: Callable[[], int]) -> int:
    """Show until the call is cancelled (Cancelled is raised then, as everywhere)."""
    news = threading.Event()
    follower = threading.Thread(target=_follow, args=(session, news), daemon=True)
    follower.start()
    while True:
        news.clear()
        at = long_stamp(time.time(), zone_of(call.env))
        call.write(_CLEAR if call.stdout_is_tty else "")
        show()
        call.write(f"\n{at}: {call.hostname}; ^C ends this\n" if call.stdout_is_tty else f"-- {at}\n")
        call.flush()
        call.wait(SHORTEST_S)
        deadline = time.monotonic() + AGAIN_S
        while not news.wait(0.2) and time.monotonic() < deadline:
            call.raise_if_cancelled()


def _follow(session: Session, news: threading.Event) -> None:
    try:
        for _ in session.follow(-1, ()):
            news.set()
    except (GschedError, Cancelled):
        news.set()  # the next listing meets the same trouble, and tells of it
