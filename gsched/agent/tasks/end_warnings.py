"""Which jobs were warned of their end on this host, their first: the master has their other hosts warn them too.

It warns nobody itself.
"""

from __future__ import annotations

from collections.abc import Callable

from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.v1 import agent_pb2


class EndWarnings:
    """Those of attempts that are there still. `send` puts a message to the master into the stream (or drops it)."""

    def __init__(self, send: Callable[[agent_pb2.AgentMessage], None]) -> None:
        self._send = send
        self._known: dict[AttemptKey, float | None] = {}
        """Attempt -> when it is ended, UTC seconds; None: it was not told."""

    def warned(self, job_id: int, attempt: int, ends_by: float | None) -> None:
        """The job was warned."""
        key = (job_id, attempt)
        if key not in self._known or self._known[key] != ends_by:
            self._known[key] = ends_by
            self._tell(key)

    def ended(self, key: AttemptKey) -> None:
        """The attempt is over: nothing more is to be said of it."""
        self._known.pop(key, None)

    def tell(self) -> None:
        """Tell a master that has just heard hello."""
        for key in self._known:
            self._tell(key)

    def _tell(self, key: AttemptKey) -> None:
        warned = agent_pb2.AttemptWarned(job_id=key[0], attempt=key[1], ends_by=self._known[key])
        self._send(agent_pb2.AgentMessage(warned=warned))
