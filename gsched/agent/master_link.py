"""How an agent stands with its master, told to its log and to the service manager: each thing once, not at each try.

It decides how long to wait before the next try. It never ends anything: jobs do not depend on the master.
"""

from __future__ import annotations

import logging
import random

import grpc

from gsched.base.machine.service import ServiceManager

log = logging.getLogger(__name__)

RECONNECT_S = 0.1
RECONNECT_MOST_S = 0.5
REFUSED_S = 2.0
"""Until an agent that was refused asks again: what is wrong is put right by people."""
_REFUSALS = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED)


class MasterLink:
    """The contact of one host's agent with its master."""

    def __init__(self, host: str, manager: ServiceManager) -> None:
        self._host = host
        self._manager = manager
        self._is_heard = False
        self._is_refused = False
        self._said = ""
        self._delay = RECONNECT_S

    def begin(self) -> None:
        """A session is tried."""
        self._is_heard = self._is_refused = False

    def heard(self) -> None:
        """The master has taken the hello."""
        if self._is_heard:
            return
        self._is_heard = True
        self._said, self._delay = "", RECONNECT_S
        log.info("the master has heard the hello of %s", self._host)
        self._manager.status(f"host {self._host}: in session with the master")

    def refused(self, text: str) -> None:
        """The master does not want this agent, and says why."""
        self._is_refused = True
        self._say(logging.ERROR, f"the master refuses this agent: {text}")
        self._manager.status(f"host {self._host}: refused by the master: {text}")

    def failed(self, code: grpc.StatusCode, details: str) -> None:
        """A session could not be had, or has ended so."""
        text = " ".join((details or code.name).split())
        if code in _REFUSALS:
            self.refused(text)
            return
        log.debug("no session: %s", text)
        if code is not grpc.StatusCode.OK and not self._is_heard and not self._is_refused:
            self._say(logging.WARNING, f"no session with the master: {text}", once=True)

    def ended(self) -> None:
        """There is no session any more."""
        if not self._is_refused:
            self._manager.status(f"host {self._host}: no session with the master")

    def pause_s(self) -> float:
        """How long to wait before the next try: nothing tells when the master comes back. Not all agents at once."""
        if self._is_refused:
            return REFUSED_S
        delay, self._delay = self._delay, min(self._delay * 2, RECONNECT_MOST_S)
        return delay * random.uniform(0.7, 1.3)

    def _say(self, level: int, text: str, *, once: bool = False) -> None:
        """Into the log, unless it stands there already; `once`: unless anything does."""
        if text != self._said and not (once and self._said):
            log.log(level, "%s", text)
            self._said = text
