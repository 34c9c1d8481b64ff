"""The board of a time in the past: configuration, state and hosts as they were then, from the store.

The state is the newest checkpoint of that time and the events after it; what was seen of hosts is put back; then the
scheduler tells why jobs wait, and nothing comes of its plan. It belongs into a process of its own: it takes the memory
of a master, and as long as a start of one. One board is made at a time, and the last one is kept for a while.
It must never write.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from gsched.base.errors import BadRequest, Internal, ResourceExhausted, Unavailable
from gsched.base.moments import shown_utc
from gsched.config.kept_files import config_of
from gsched.core.engine import Engine
from gsched.core.resources.host_entries import HostEntries, unpack_entries
from gsched.core.resources.kept_observations import KeptObservation
from gsched.core.state.cluster_state import ClusterState
from gsched.master.recovery import apply_all, state_of
from gsched.master.views.board import Board
from gsched.master.views.gauges import Gauges
from gsched.model.config import ClusterConfig
from gsched.model.views.view import ShareView
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.quarantine import Quarantine

log = logging.getLogger(__name__)
KEPT_S = 60.0
"""How long a board is kept that nobody asks any more."""
MOST_WAITING = 4
"""Questions that may wait for another one's board."""
TRIES = 3
"""Looks begin again when the oldest events are taken away meanwhile."""
AHEAD_S = 1.0
"""A caller's clock may be ahead by so much."""


@dataclass(frozen=True, slots=True)
class PastBoard:
    """What was to be seen at `at`, UTC seconds."""

    at: float
    board: Board
    shares: Mapping[str, tuple[ShareView, ...]]
    """Of fairshare queues."""


class PastBoards:
    """Boards of one store, for any thread. `clock` gives UTC seconds."""

    def __init__(self, history: History, clock: Callable[[], float] = time.time) -> None:
        self._store = PastStore(history)
        self._clock = clock
        self._turn = threading.Lock()
        self._room = threading.BoundedSemaphore(1 + MOST_WAITING)
        self._kept: PastBoard | None = None
        self._forgetting: threading.Timer | None = None

    @contextmanager
    def at(self, at: float) -> Iterator[PastBoard]:
        """The board of that time. Raises BadRequest where there is none, ResourceExhausted when too many are wanted at
        once, Unavailable and Internal for a store that cannot be read.
        """
        if not self._room.acquire(blocking=False):
            raise ResourceExhausted("too many look at the past at once; try again later")
        try:
            with self._turn:
                if self._forgetting is not None:
                    self._forgetting.cancel()
                if self._kept is None or self._kept.at != at:
                    self._kept = None  # its memory first
                    self._kept = self._made(at)
                try:
                    yield self._kept
                finally:
                    self._forgetting = threading.Timer(KEPT_S, self._forget)
                    self._forgetting.daemon = True
                    self._forgetting.start()
        finally:
            self._room.release()

    def _forget(self) -> None:
        with self._turn:
            self._kept = None

    def _made(self, at: float) -> PastBoard:
        for _ in range(TRIES):
            config = self._config(at)
            state = self._state(at)
            if state is not None:
                return board_of(state, config, self._hosts(at), at)
        raise Unavailable(
            f"nothing can be said of {shown_utc(at)}: the checkpoint that a look begins with is not there"
        )

    def _state(self, at: float) -> ClusterState | None:
        """None: of the events after the checkpoint some are gone, which the state would not tell."""
        state, seq = state_of(self._store.checkpoint_before(at))
        if seq < self._store.floor().seq:
            return None
        quarantine = Quarantine(state.quarantined)
        count = apply_all(state, self._store.events(seq, quarantine), quarantine, until=at)
        if seq < self._store.floor().seq:  # it has risen meanwhile
            return None
        log.info("the state of %s: %d events after number %d", shown_utc(at), count, seq)
        return state

    def _config(self, at: float) -> ClusterConfig:
        """Raises BadRequest for a time of which nothing is kept, or that is still to come."""
        if at > self._clock() + AHEAD_S:
            raise BadRequest(f"{shown_utc(at)} is in the future")
        if gone := self._store.floor().why_not(at):
            raise BadRequest(gone)
        facts, hosts_since = self._store.configurations(), self._store.hosts_since()
        before = [fact for fact in facts if fact.at <= at]
        if not before or hosts_since is None or hosts_since > at:
            is_known = facts and hosts_since is not None
            since = f"begins at {shown_utc(max(facts[0].at, hosts_since or 0.0))}" if is_known else "has not begun"
            raise BadRequest(f"{shown_utc(at)} is before history begins: what a look at the past needs {since}")
        return config_of(before[-1], self._store.files_of(before[-1]))

    def _hosts(self, at: float) -> dict[str, KeptObservation]:
        """What was seen of each host."""
        entries = HostEntries()
        try:
            for row in self._store.host_rows(at):
                for host, when, _, delta in unpack_entries(row):
                    if when <= at:
                        entries.follow(host, delta)
            return dict(entries.all_seen())
        except ValueError as error:
            raise Internal(f"a record of hosts cannot be read: {error}") from None


def board_of(state: ClusterState, config: ClusterConfig, hosts: Mapping[str, KeptObservation], at: float) -> PastBoard:
    """What was to be seen of this state."""
    engine = Engine(state, config, at)
    engine.look_back(hosts, at)
    state.touched.update(state.jobs, state.arrays)
    state.touched_hosts.update(config.hosts)
    board, gauges = Board(config), Gauges()
    board.publish(engine)
    gauges.follow(engine, at)
    return PastBoard(at, board, gauges.readings.shares)
