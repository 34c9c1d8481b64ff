"""`gsched top` itself: a screen where there is a terminal, else one plain listing.

textual is loaded for the screen alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

from gsched.base.errors import BadRequest
from gsched.cli.session.time_zone import zone_of
from gsched.top.drawing.plain_listing import plain_listing
from gsched.top.watching.live_source import LiveSource
from gsched.top.watching.look import ClusterLook
from gsched.top.watching.recording import Recorder, Recording
from gsched.top.watching.replay_source import ReplaySource
from gsched.wire.identity.caller_identity import user_name

PrintLine = Callable[[str], object]


def has_screen() -> bool:
    """Whether this process is at a terminal that can do more than a teletype."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") not in ("", "dumb")


def run(conf_dir: str, record: str, replay: str, say: PrintLine) -> int:
    """Show until the person has enough; `record` and `replay` name files. Returns the exit code. Raises GschedError."""
    if record and replay:
        raise BadRequest("--record and --replay cannot be given together")
    if replay:
        return _replay(ReplaySource(Recording(replay)), say)
    source = LiveSource(conf_dir, user_name(os.getuid()))
    try:
        first = source.ask()  # what keeps it from beginning is said before there is a screen
        with _recorder(record) as recorder:
            if recorder is not None:
                recorder.write(first)
            return _screen(source, recorder) if has_screen() else _plain(first, say)
    finally:
        source.stop()


def _replay(source: ReplaySource, say: PrintLine) -> int:
    try:
        return _screen(source, None) if has_screen() else _plain(source.last(), say)
    finally:
        source.stop()


def _plain(look: ClusterLook, say: PrintLine) -> int:
    for line in plain_listing(look):
        say(line)
    return 0


def _screen(source: LiveSource | ReplaySource, recorder: Recorder | None) -> int:
    # Not at the top: a plain listing has no use for it.
    app = import_module("gsched.top.screens.top_app").TopApp(source, zone_of(os.environ), recorder)
    app.run(mouse=False)
    return int(app.return_code or 0)


@contextmanager
def _recorder(path: str) -> Iterator[Recorder | None]:
    recorder = Recorder(path) if path else None
    try:
        yield recorder
    finally:
        if recorder is not None:
            recorder.close()
