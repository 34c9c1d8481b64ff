"""From store to state: the newest checkpoint, then every event after it. One bad record sets one job aside, no more.

A master that has waited has a replica, which is the state up to some record: it replays what comes after that alone.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence

from gsched.base.errors import GschedError, Unavailable
from gsched.core.state.apply_events import IllegalEvent
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent
from gsched.store.eventlog import EventLog
from gsched.store.log_tail import Lineage
from gsched.store.safeguards.failure import StoreDamaged
from gsched.store.safeguards.quarantine import Quarantine, Quarantined, read_events
from gsched.store.tables.records import StoredEvent

log = logging.getLogger(__name__)

MOST_BEHIND = 20_000
"""Events that a takeover replays between its replica and a checkpoint: about what lies between two checkpoints."""


class CannotFollow(Exception):
    """What the store holds does not follow from what was read of it before, which is of no use any more."""


class Replica:
    """The state up to one record of a store that another process writes. Not thread-safe."""

    def __init__(self, lineage: Lineage, state: ClusterState, seq: int) -> None:
        """`state`: that of the checkpoint of event `seq`, or an empty one for 0."""
        self.lineage = lineage
        self.state = state
        self.seq = seq
        """Number of the last record that is in the state."""
        self.last: StoredEvent | None = None
        """That record; None: it has not been seen, or there is none."""
        self.quarantine = Quarantine(state.quarantined)

    def follow(self, records: Sequence[StoredEvent]) -> int:
        """Apply what comes after the last record, with which `records` must begin; returns how many there were.

        Raises CannotFollow; the state is of no use any more then.
        """
        if self.seq:
            self._check_first(records[0] if records else None)
        news = records[1:] if self.seq else records
        for item in read_events(news, self.seq, self.quarantine):
            self._apply(item)
        if news:
            self.seq, self.last = news[-1].seq, news[-1]
            _drop_changes(self.state)
        return len(news)

    def check(self, store: EventLog) -> None:
        """Raises CannotFollow where the store does not go on from here."""
        if self.lineage != Lineage(store.cluster_id, store.generation):
            raise CannotFollow("it is another store, or was begun anew")
        floor = store.removal.floor().seq
        if self.seq < floor:  # what ended since may be gone, and would be waiting or running in this state for ever
            raise CannotFollow(f"it ends with event {self.seq}, and all is kept from {floor} on")
        if self.seq:
            self._check_first(next(iter(store.replay(self.seq - 1)), None))

    def _check_first(self, record: StoredEvent | None) -> None:
        """A database that was put back, or replaced by a copy, has another record there, or none."""
        if record is None or record.seq != self.seq:
            raise CannotFollow(f"event {self.seq} is not there")
        if self.last is not None and record != self.last:
            raise CannotFollow(f"event {self.seq} is another one than was read before")
        self.last = record

    def _apply(self, item: tuple[int, AnyEvent] | Quarantined) -> None:
        """What a replay would set aside is left to the replay, which says so."""
        if isinstance(item, Quarantined):
            if item.job_id not in self.state.quarantined:
                raise CannotFollow(f"event {item.seq}: {item.text}")
            return
        number, event = item
        try:
            self.state.apply(event)
        except IllegalEvent as error:
            raise CannotFollow(f"event {number} does not fit: {error}") from None


def _drop_changes(state: ClusterState) -> None:
    """Let go of what the state notes for a leader that looks at it: one that starts looks at everything, and this one
    may follow for months.
    """
    state.take_touched()
    for noted in (state.running_changed, state.changed_parents, state.given_up):
        noted.clear()
    # What is over by now is skipped where it comes up.
    state.waits.next_time()
    state.ledger.next_change()
    state.retention.first_end()


def recover(store: EventLog, replica: Replica | None = None) -> ClusterState:
    """The state that the store adds up to, from the replica on if there is one that fits.

    Raises StoreBroken if the file cannot be read at all, Unavailable where not all of it can be read.
    """
    state, seq, quarantine = _begin(store, replica)
    last = seq

    def read() -> Iterator[tuple[int, AnyEvent] | Quarantined]:
        nonlocal last
        for item in store.read(seq, quarantine):
            last = item.seq if isinstance(item, Quarantined) else item[0]
            yield item

    count = apply_all(state, read(), quarantine)
    if last < store.last_seq:  # a reader may be connected to a copy that lags behind
        raise Unavailable(f"the store {store.name} has {store.last_seq} events, and only {last} of them can be read")
    log.info("replayed %d events after number %d: %d jobs", count, seq, len(state.jobs))
    return state


def _begin(store: EventLog, replica: Replica | None) -> tuple[ClusterState, int, Quarantine]:
    """From what to replay: a state, and the number of the last event in it."""
    found = None
    if replica is not None:
        try:
            replica.check(store)
            found = _beyond(store, replica)
        except CannotFollow as problem:
            log.warning("what this master has followed is not used: %s", problem)
        else:
            if found is None:
                return replica.state, replica.seq, replica.quarantine
    state, seq = found or _newest_state(store)
    return state, seq, Quarantine(state.quarantined)


def _newest_state(store: EventLog) -> tuple[ClusterState, int]:
    """As `state_of`. Raises StoreDamaged where all events would have to be replayed, and not all are kept."""
    state, seq = state_of(store.load_checkpoint())
    floor = store.removal.floor()
    if seq < floor.seq:
        text = f"no checkpoint of the store {store.name} can be used, and its events are kept from {floor.seq} on"
        raise StoreDamaged(f"{text}: put a backup back (gadmin restore)")
    return state, seq


def _beyond(store: EventLog, replica: Replica) -> tuple[ClusterState, int] | None:
    """As `state_of`, of a checkpoint so far beyond the replica that to load it is quicker than to replay to there."""
    if store.newest_checkpoint() - replica.seq <= MOST_BEHIND:
        return None
    state, seq = state_of(store.load_checkpoint())
    if seq - replica.seq <= MOST_BEHIND:  # the newest one is damaged
        return None
    log.warning("what this master has followed is not used: it is %d events behind a checkpoint", seq - replica.seq)
    return state, seq


def apply_all(
    state: ClusterState,
    items: Iterable[tuple[int, AnyEvent] | Quarantined],
    quarantine: Quarantine,
    until: float = math.inf,
) -> int:
    """Apply the events, and say how many there were; only those before the first that happened after `until`."""
    count = 0
    for item in items:
        if isinstance(item, Quarantined):
            count += 1
            log.error("event %d: %s", item.seq, item.text)
            if item.job_id is not None:
                state.set_aside(item.job_id, item.text)
            continue
        number, event = item
        if event.at > until:
            break
        count += 1
        try:
            state.apply(event)
        except IllegalEvent as error:
            log.error("event %d does not fit: %s", number, error)
            job_id = getattr(event, "job_id", None)
            if job_id is not None:
                quarantine.add(job_id, str(error))
                state.set_aside(job_id, str(error))
    return count


def state_of(found: tuple[int, bytes] | None) -> tuple[ClusterState, int]:
    """The state of a checkpoint, and the number of the last event in it; an empty state where there is none."""
    if found is None:
        return ClusterState(), 0
    seq, payload = found
    try:
        return ClusterState.load(payload), seq
    except GschedError as error:
        log.error("%s; replaying everything instead", error.text)
        return ClusterState(), 0
