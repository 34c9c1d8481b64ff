"""Which agent speaks for a host when two machines bear its name: the one that is there, as long as it is there.

A host's own agent that comes back, after a restart, a reboot or a cut of the network, takes the place of the session
that it left behind; another machine's never does. Judges only: sessions are opened and closed elsewhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from gsched.base.coded_text import CodedText, coded
from gsched.wire.address import address_of

MOST_SAID = 1_000
MOST_REFUSALS = 1000
SAY_AGAIN_S = 600.0
"""An agent that is refused asks again and again: the log has it so often."""


@dataclass(frozen=True, slots=True)
class ConnectedAgent:
    """The agent at the other end of a session. `since` is UTC seconds."""

    journal: str
    """The mark of the folder that holds its journal; only one agent can hold it at a time. Empty: not told."""
    boot_id: str
    address: str
    """Where it connected from, without the port."""
    since: float

    def is_same(self, newcomer: ConnectedAgent) -> bool:
        """Whether the newcomer is this agent, come back. A machine copied with its disks boots elsewhere."""
        if not self.journal or not newcomer.journal:
            return True
        is_here = self.boot_id == newcomer.boot_id or self.address == newcomer.address
        return self.journal == newcomer.journal and is_here

    def refuses(self, host: str) -> CodedText:
        """What another agent is told that says hello as this host; the same text each time."""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return coded("agent.second", host, self.address or coded("agent.same_machine"), since)


class Refusals:
    """What has been said in the log about agents that are refused."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], float] = {}

    def is_news(self, peer: str, text: str, now: float) -> bool:
        """Whether the log is to have it: the first time, and again after a while. `now` in seconds of any clock."""
        key = (address_of(peer), text)
        if now - self._said.get(key, float("-inf")) < SAY_AGAIN_S:
            return False
        self._said = {each: at for each, at in self._said.items() if now - at < SAY_AGAIN_S}
        if len(self._said) >= MOST_REFUSALS:  # names that were made up must not fill the memory
            self._said.clear()
        if len(self._said) >= MOST_SAID:
            return False  # who is refused chooses words of the text: he does not fill the log
        self._said[key] = now
        return True
