"""A listing shown anew whenever something changes: on a terminal in its place, else one below the other.

On a terminal it is shown on the terminal's other screen, as editors and pagers do it: what stood there before, and what
can be scrolled back to, is there again when it ends, or while it is stopped (^Z). It ends when the caller has enough
(^C). Nothing is asked while nothing happens.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from gsched.base.errors import GschedError
from gsched.cli.render.text.time_texts import long_stamp
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.session import Session, connected
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Option, Parsed

SHORTEST_S = 1.0
"""Between two listings: what happens meanwhile is shown together."""
AGAIN_S = 30.0
"""Use of resources and times left change without an event."""
REPORT_S = 5.0
"""The same for what hosts report by themselves: their load."""
WATCH = Option("-watch", help="show it anew whenever something changes, until ^C")
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?7l", "\x1b[?7h\x1b[?1049l"
"""To the other screen, where long lines are cut; and back."""
_CLEAR = "\x1b[H\x1b[2J"


def has_screen(call: Call) -> bool:
    """Whether standard output is a terminal that can do more than a teletype."""
    return call.stdout_is_tty and call.env.get("TERM", "dumb") not in ("", "dumb")


def shown(call: Call, options: Parsed, show: Callable[[Session], int], again_s: float = AGAIN_S) -> int:
    """What `show` writes: once, or with --watch again and again. To be called before anything has been said."""
    is_watched = options.has("-watch")
    if is_watched and has_screen(call):
        call.take_over()  # who leaves the terminal's other screen must live as long as the terminal shows it
    with connected(call) as session:
        return watch(call, session, lambda: show(session), again_s) if is_watched else show(session)


def watch(call: Call, session: Session, show: Callable[[], int], again_s: float) -> int:
    """Show until the call is cancelled (Cancelled is raised then, as everywhere)."""
    news = threading.Event()
    follower = threading.Thread(target=_follow, args=(session, news), daemon=True)
    follower.start()
    with _screen(call, news):
        while True:
            news.clear()
            _show_once(call, show)
            call.wait(SHORTEST_S)
            deadline = time.monotonic() + again_s
            while not news.wait(0.2) and time.monotonic() < deadline:
                call.raise_if_cancelled()


def _show_once(call: Call, show: Callable[[], int]) -> None:
    at = long_stamp(time.time(), zone_of(call.env))
    if not has_screen(call):
        show()
        call.write(f"-- {at}\n")
    else:
        with call.held_back() as written:
            show()
        text = b"".join(written).decode("utf-8", "surrogateescape")
        call.write(f"{_CLEAR}{_cut(text, _rows(call))}\n{at}: {call.hostname}; ^C ends this")
    call.flush()


def _cut(text: str, rows: int) -> str:
    """What there is room for above the last two lines of a screen of so many rows; 0: it is not known how many."""
    lines = text.splitlines(keepends=True)
    room = max(rows - 2, 1)
    if not rows or len(lines) <= room:
        return text
    return "".join(lines[: room - 1]) + f"... and {len(lines) - room + 1} lines more\n"


def _rows(call: Call) -> int:
    try:
        return os.get_terminal_size(1).lines if call.own_streams else 0
    except OSError:
        return 0


@contextmanager
def _screen(call: Call, news: threading.Event) -> Iterator[None]:
    """The terminal's other screen, where it has one; left again however this ends."""
    if not has_screen(call):
        yield
        return
    call.write(_ENTER)
    try:
        with _left_while_stopped(news) if call.own_streams else nullcontext():
            yield
    finally:
        call.write(_LEAVE)
        call.flush()


@contextmanager
def _left_while_stopped(news: threading.Event) -> Iterator[None]:
    """^Z gives the terminal's own screen back until the shell lets this process go on; all is shown anew then."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        os.write(1, _LEAVE.encode())
        os.kill(os.getpid(), signal.SIGSTOP)
        os.write(1, _ENTER.encode())
        news.set()

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def _follow(session: Session, news: threading.Event) -> None:
    try:
        for _ in session.follow(-1, ()):
            news.set()
    except (GschedError, Cancelled):
        news.set()  # the next listing meets the same trouble, and tells of it
