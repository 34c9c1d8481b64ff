"""What a daemon tells the service manager that started it: ready, stopping, a line of status, and that it is alive.

Source of the protocol: sd_notify(3) and sd_watchdog_enabled(3) of systemd. A daemon that nobody watches tells nobody;
nothing here ever raises or waits, for a daemon must not fail because its manager is busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, MutableMapping

FEEDS_PER_TIMEOUT = 4
"""The watchdog is fed so often within the time after which it bites."""
LONGEST_STATUS = 400
TOLD_TO_STOP, TOLD_TO_RESTART = 77, 78
"""What a daemon returns that an administrator has told to: nobody starts it again, or it is to begin anew."""
_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


class ServiceManager:
    """The service manager (systemd) that a daemon reports to. Without an `address` there is none."""

    def __init__(self, address: str = "", timeout_s: float = 0.0) -> None:
        self._address = address
        self._told = ""
        self.feed_s = timeout_s / FEEDS_PER_TIMEOUT
        """Seconds between two feeds of the watchdog; 0 where there is none."""

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """The manager of this process. Its variables are removed: what the daemon starts may not speak for it."""
        address, pid, usec = (environment.pop(name, "") for name in _VARIABLES)
        if not address.startswith(("/", "@")):
            return cls()
        is_watched = usec.isdigit() and pid in ("", str(os.getpid()))
        return cls(address, int(usec) / 1e6 if is_watched else 0.0)

    @property
    def is_there(self) -> bool:
        """Whether a manager started this process, and starts it again when it ends."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """The daemon does its work from now on."""
        self._told = status
        self._tell("READY=1", status)

    def status(self, text: str) -> None:
        """How it stands, as `systemctl status` shows it; told when it is another than before."""
        if text != self._told:
            self._told = text
            self._tell("", text)

    def stopping(self) -> None:
        """The daemon has begun to end."""
        self._tell("STOPPING=1")

    def feed(self) -> None:
        """Keep the watchdog quiet for another while."""
        self._tell("WATCHDOG=1")

    def _tell(self, word: str, status: str = "") -> None:
        if not self._address:
            return
        line = f"STATUS={' '.join(status.split())[:LONGEST_STATUS]}" if status else ""
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto("\n".join(part for part in (word, line) if part).encode(), address)


NOBODY = ServiceManager()
"""For a daemon that a person or a private cluster has started."""


async def keep_fed(manager: ServiceManager, is_well: Callable[[], bool]) -> None:
    """Feed the watchdog from the running loop for as long as `is_well` says yes. Ends at once where there is none."""
    while manager.feed_s:
        if is_well():
            manager.feed()
        await asyncio.sleep(manager.feed_s)
