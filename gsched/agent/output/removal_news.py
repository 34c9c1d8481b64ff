"""Tells the master which outputs this host no longer keeps, so much at a time, until it has them in its histories."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gsched.agent.output.kept_outputs import KeptOutputs
from gsched.base.ids import attempt_name
from gsched.model.hosts.kept_output import MOST_TOLD
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2


class RemovalNews:
    """Of one host. `send` puts a message into the stream, or drops it."""

    def __init__(self, outputs: KeptOutputs, send: Callable[[agent_pb2.AgentMessage], None]) -> None:
        self._outputs = outputs
        self._send = send
        self._unanswered: set[AttemptKey] = set()
        """Nothing is told again, and nothing more, as long as the master has these to answer."""

    def begin_session(self) -> None:
        """What the master has not answered yet is lost."""
        self._unanswered.clear()

    def tell(self) -> None:
        """Tell the next ones, unless the master has some already."""
        if self._unanswered or not self._outputs.untold:
            return
        message = agent_pb2.AgentMessage()
        for gone in list(self._outputs.untold.values())[:MOST_TOLD]:
            fill(message.outputs_removed.outputs.add(), gone)
            self._unanswered.add((gone.job_id, gone.attempt))
        self._send(message)

    def are_known(self, keys: Iterable[AttemptKey]) -> None:
        """The master has these; tell the next ones."""
        known = list(keys)
        self._outputs.are_told([attempt_name(*key) for key in known])
        self._unanswered.difference_update(known)
        self.tell()
