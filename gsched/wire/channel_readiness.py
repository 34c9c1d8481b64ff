"""Waiting for a connection that is not there yet.

gRPC watches a channel in a thread of its own, which looks up five times a second whether anybody still wants to know. A
channel that is closed before ends that thread by an error of gRPC's. It must never reach a user's terminal: the caller
has said what is wrong, in one line.
"""

from __future__ import annotations

import threading
from types import TracebackType

import grpc

_WATCHER = "_poll_connectivity"
"""The function of grpc's that the thread runs (grpc/_channel.py)."""
_lock = threading.Lock()
_is_expected = False


def wait_until_ready(channel: grpc.Channel, timeout_s: float) -> None:
    """Return when the channel is connected. Raises grpc.FutureTimeoutError."""
    _expect_closing()
    ready = grpc.channel_ready_future(channel)
    try:
        ready.result(timeout=timeout_s)
    finally:
        ready.cancel()  # the thread ends, whatever has ended the wait


def _expect_closing() -> None:
    """From now on a watching thread whose channel is closed ends without a word."""
    global _is_expected
    with _lock:
        if _is_expected:
            return
        _is_expected = True
        tell = threading.excepthook

    def told(args: threading.ExceptHookArgs) -> None:
        if not (args.exc_type is ValueError and _is_in_watcher(args.exc_traceback)):
            tell(args)

    threading.excepthook = told


def _is_in_watcher(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name == _WATCHER and traceback.tb_frame.f_globals.get("__name__") == "grpc._channel":
            return True
        traceback = traceback.tb_next
    return False
