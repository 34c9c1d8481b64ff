"""Waiting for a connection without missing a signal, for the launcher of the commands.

A signal that arrives just before a read begins does not end that read: Python acts on it when the read returns, which
may be never. Here it writes into a pipe that is looked at as well. Imported by who has waited for some time already.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as the launcher: `signal` costs as much as all the rest
import posix
import select

_PIECE = 64


class SignalWait:
    """For the main thread. Signals are heard as long as this object lives."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._signals, told = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        _signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._signals, select.POLLIN)

    def until_readable(self) -> None:
        """Wait until there is something to read, or an end. Handlers of signals run, and may raise."""
        while True:
            ready = dict(self._poll.poll())
            if self._signals in ready:
                posix.read(self._signals, _PIECE)
            if self._descriptor in ready:
                return
