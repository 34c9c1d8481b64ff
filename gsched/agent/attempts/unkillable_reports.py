"""Processes that do not end by SIGKILL: they are named to the master and in what is said of the host.

Only what the executor has found, and only while the attempt is there; nothing here looks for any, or ends one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import show_job
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.v1 import agent_pb2


class UnkillableReports:
    """Reports of processes that SIGKILL does not end, for one host. `send` puts a message to the master into the stream
    (or drops it).
    """

    def __init__(self, send: Callable[[agent_pb2.AgentMessage], None]) -> None:
        self._send = send
        self._known: dict[AttemptKey, dict[int, str]] = {}
        """Of attempts that are there still: numbers and names of the processes."""

    def found(self, job_id: int, attempt: int, processes: Iterable[tuple[int, str]]) -> None:
        """Numbers and names of some that belong to the attempt."""
        self._known.setdefault((job_id, attempt), {}).update(processes)
        self._tell((job_id, attempt))

    def ended(self, key: AttemptKey) -> None:
        """The attempt is over: nothing more is to be said of it."""
        self._known.pop(key, None)

    def tell(self) -> None:
        """Tell a master that has just heard hello."""
        for key in self._known:
            self._tell(key)

    def remarks(self) -> tuple[AnyText, ...]:
        """What is to be said of the host: who hangs there."""
        return tuple(
            coded("remark.unkillable", pid, name, show_job(key[0]))
            for key, processes in sorted(self._known.items())
            for pid, name in sorted(processes.items())
        )

    def _tell(self, key: AttemptKey) -> None:
        message = agent_pb2.AgentMessage(unkillable=agent_pb2.Unkillable(job_id=key[0], attempt=key[1]))
        for pid, name in self._known[key].items():
            message.unkillable.processes.add(pid=pid, name=name)
        self._send(message)
