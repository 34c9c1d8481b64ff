"""From store to state: the newest checkpoint, then every event after it. One bad record sets one job aside, no more."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from gsched.base.errors import GschedError
from gsched.core.state.apply_events import IllegalEvent
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent
from gsched.store.eventlog import EventLog
from gsched.store.safeguards.quarantine import Quarantine, Quarantined

log = logging.getLogger(__name__)


def recover(store: EventLog) -> ClusterState:
    """The state that the store adds up to. Raises StoreBroken if the file cannot be read at all."""
    state, seq = state_of(store.load_checkpoint())
    quarantine = Quarantine(state.quarantined)
    count = apply_all(state, store.read(seq, quarantine), quarantine)
    log.info("replayed %d events after number %d: %d jobs", count, seq, len(state.jobs))
    return state


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
