"""What agents are told of the master's store, and what it means when one knows of another store or a later one.

An agent's word raises job numbers and sets its own attempts aside. Only as long as a new store has given out no number
at all is it believed that this store should not be there. So the first number after a start waits for their words.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from gsched.base.errors import Conflict
from gsched.core.state.cluster_state import ClusterState
from gsched.model.store_url import is_store_url
from gsched.store.eventlog import EventLog
from gsched.store.mark import StoreMark
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)

BLOCK = 1_000
"""Agents are told of numbers in blocks, ahead of their use: a message for each job would be too many."""
AHEAD = 200
FIRST_HELLOS_S = 10.0
"""After the first hello to a new store, for the others: agents ask twice a second for a master that is away."""
HOW = (
    "nothing was changed. {back} with `gadmin restore FILE`; or begin a new generation with `{command}`: jobs that are "
    "not in the store are given up, but those of them that run go on until `gadmin orphans --end` ends them, and no "
    "number is used again"
)
_FILE_BACK = "Put the file back with its -wal, as it was; or put a copy in its place"
_DATABASE_BACK = "Let GSCHED_STORE name the database that it was, as it was; or put a copy into an empty one"


def how_to_go_on(place: str, *, is_shared: bool) -> str:
    """What an administrator may do about the store at this place, which is lost."""
    return HOW.format(
        back=_DATABASE_BACK if is_store_url(place) else _FILE_BACK,
        command="gadmin newstore" if is_shared else "gsched up --new-store",
    )


class FirstNumber:
    """Keeps the first job number after a start back until the agents could say that they know of later ones.

    The store may be new, or an older copy with all that lies beside it (a disk that was put back to an earlier state).
    All hosts have said hello, or one has and the others had FIRST_HELLOS_S: some may be away, or not installed yet.
    Lives in the gRPC loop's thread.
    """

    def __init__(self, hosts: Collection[str], *, is_new: bool = True, patience_s: float = FIRST_HELLOS_S) -> None:
        """`hosts`: those whose agents are waited for; none: the number is free. `is_new`: the store has no jobs yet;
        of one in use the number is free after FIRST_HELLOS_S, though no host is there.
        """
        self._is_new = is_new
        self._silent = set(hosts)
        self._patience_s = patience_s
        self._free: asyncio.Event | None = asyncio.Event() if hosts else None
        self._ending: asyncio.TimerHandle | None = None

    def came(self, host: str) -> None:
        """The agent of this host has said hello, and knows of no older store."""
        if self._free is None:
            return
        self._silent.discard(host)
        if not self._silent:
            self._free.set()
        elif self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(self._patience_s, self._free.set)

    async def wait(self) -> None:
        """Return when a number may be given out. Raises Conflict when no host says hello."""
        if self._free is None or self._free.is_set():
            return
        try:
            async with asyncio.timeout(self._patience_s):
                await self._free.wait()
        except TimeoutError:
            if self._ending is not None:  # the others still have time
                await self._free.wait()
                return
            if not self._is_new:
                self._free.set()
                return
            raise Conflict(
                "the store of this cluster is new, and no host has said hello yet: jobs are taken when one has, for it "
                "may know of an older store, whose job numbers are not used again"
            ) from None


class StoreLineage:
    """The store of one master as agents know it. Lives in the gRPC loop's thread."""

    def __init__(
        self,
        store: EventLog,
        state: ClusterState,
        disown: Callable[[str], None],
        hosts: Collection[str] = (),
    ) -> None:
        """`disown(text)`: the master ends, as its store is not to be there. `hosts`: those with agents whose memory
        does not lie on this machine.
        """
        is_new = store.generation == 1 and state.next_job_id == 1 and store.numbers_from == 1
        self.first_number = FirstNumber(hosts, is_new=is_new)
        self._store = store
        self._state = state
        self._disown = disown
        self._told_below = 0

    def message(self) -> agent_pb2.StoreMark:
        """What an agent is to remember now."""
        mark = StoreMark(
            cluster_id=self._store.cluster_id,
            generation=self._store.generation,
            seq=self._store.last_seq,
            next_job_id=self._bound(),
            epoch=self._store.epoch,
        )
        return to_message(mark)

    def has_news(self) -> bool:
        """Whether all agents are to be told again, as numbers come near to what they know."""
        return 0 < self._told_below < self._state.next_job_id + AHEAD

    def _bound(self) -> int:
        needed = self._state.next_job_id + AHEAD
        if needed > self._told_below:
            self._told_below = (needed // BLOCK + 1) * BLOCK + 1
        return self._told_below

    def is_foreign(self, of: agent_pb2.StoreMark) -> bool:
        """Whether another store than this one, or a later generation of it, is meant."""
        store = self._store
        return bool(of.cluster_id) and (of.cluster_id != store.cluster_id or of.generation > store.generation)

    def numbers_from(self, host: str, known: agent_pb2.StoreMark) -> int:
        """The first job number that may be given out as far as this agent knows more than the store; else 1."""
        if not known.cluster_id:
            return 1
        store = self._store
        is_same = (known.cluster_id, known.generation) == (store.cluster_id, store.generation)
        if is_same and known.seq <= store.last_seq:
            return 1
        if is_same:
            first, last = store.last_seq + 1, known.seq
            log.error("the store has lost events %d to %d, of which the agent of %s knows", first, last, host)
        elif self.is_foreign(known):
            log.error(
                "the agent of %s knows another store (cluster id %s, generation %d) than this one (%s, %d)",
                *(host, known.cluster_id[:8], known.generation, store.cluster_id[:8], store.generation),
            )
        return int(known.next_job_id)

    def contradicts(self, host: str, known: agent_pb2.StoreMark) -> str:
        """Why this store, which is new and unused, should not be there; then the master ends. Empty: all is well."""
        is_new = self._store.generation == 1 and self._state.next_job_id == 1
        mark = from_message(known)
        if not is_new or mark.is_empty or not self.is_foreign(known):
            return ""
        what = f"{mark.seq} events, job numbers below {mark.next_job_id}"
        text = (
            f"the store {self._store.name} was made anew, but the agent of {host} knows of an older one "
            f"({what}): {how_to_go_on(self._store.place, is_shared=True)}"
        )
        self._store.disown(mark)
        self._disown(text)
        return text


def to_message(mark: StoreMark) -> agent_pb2.StoreMark:
    """As it travels."""
    return agent_pb2.StoreMark(
        cluster_id=mark.cluster_id,
        generation=mark.generation,
        seq=mark.seq,
        next_job_id=mark.next_job_id,
        epoch=mark.epoch,
    )


def from_message(message: agent_pb2.StoreMark) -> StoreMark:
    """What an agent knows."""
    return StoreMark(
        cluster_id=message.cluster_id,
        generation=message.generation,
        seq=message.seq,
        next_job_id=max(1, message.next_job_id),
        epoch=message.epoch,
    )
