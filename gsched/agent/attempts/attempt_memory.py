"""What an agent remembers of each attempt beside its order: start, end, and what was found out in between.

It is in memory alone: an agent that starts again makes it anew from the journal (`host_attempts`). It decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gsched.base.coded_text import AnyText
from gsched.model.jobs.job import AttemptResult
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.order import StartedInfo
from gsched.wire.v1 import agent_pb2


@dataclass(slots=True)
class AttemptMemory:
    """What is remembered of all attempts of a host, each until the master has its result on disk."""

    elsewhere: set[AttemptKey] = field(default_factory=set)
    """Attempts whose jobs have their first host elsewhere: here is a part of them."""
    started: dict[AttemptKey, StartedInfo] = field(default_factory=dict)
    ended: dict[AttemptKey, AttemptResult] = field(default_factory=dict)
    stores: dict[AttemptKey, agent_pb2.StoreMark] = field(default_factory=dict)
    """Whose store has ordered an attempt, where that is known."""
    reasons: dict[AttemptKey, str] = field(default_factory=dict)
    """LSF's keywords for attempts that are being ended."""
    blames: dict[AttemptKey, AnyText] = field(default_factory=dict)
    """What was on the GPUs of attempts that have failed."""
    failed: set[AttemptKey] = field(default_factory=set)
    """Parts whose jobs have failed elsewhere."""
    unwritten: set[AttemptKey] = field(default_factory=set)
    """Attempts that have ended, and about which something is being written."""

    def forget(self, key: AttemptKey) -> bool:
        """Forget one that has ended; False where there is none, and nothing is forgotten then."""
        if self.ended.pop(key, None) is None:
            return False
        for table in (self.started, self.stores, self.blames):
            table.pop(key, None)
        self.elsewhere.discard(key)
        self.failed.discard(key)
        return True
