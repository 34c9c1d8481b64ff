"""`gadmin check-store`: can all of a store be read, and does it add up? It changes nothing.

What is missing altogether it knows of events alone: not of scripts, and not of the rows that queries of the past read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from gsched.core.audit import audit
from gsched.master.recovery import apply_all, state_of
from gsched.model.config import ClusterConfig
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.quarantine import Quarantine, Quarantined

MOST_SAID = 20
"""Problems of one kind that are told one by one."""


def check_store(config: ClusterConfig, say: Callable[[str], None]) -> bool:
    """Say what is wrong with the store, and what is in it; returns whether all is well. The master may run.

    Raises GschedError for a store that cannot be read at all.
    """
    told: set[int] = set()
    history = History(config.locations.store_place)
    past = PastStore(history)
    try:
        problems = [*past.damage(), *_of_events(past, told), *_of_state(past, told)]
        last = history.last_seq()
    finally:
        past.close()
        history.close()
    for text in problems[:MOST_SAID]:
        say(f"attention: {text}")
    if len(problems) > MOST_SAID:
        say(f"attention: {len(problems) - MOST_SAID} more of that kind")
    say(f"the store {history.name}: {last} events, {f'{len(problems)} problems' if problems else 'all is well'}")
    return not problems


def _of_events(past: PastStore, told: set[int]) -> Iterator[str]:
    """Every event is read; of a job that is set aside the first is told, and its number noted."""
    for item in past.events(0, Quarantine()):
        if isinstance(item, Quarantined) and (item.job_id is None or item.job_id not in told):
            told.add(item.job_id or 0)
            yield item.text if item.job_id is None else f"job {item.job_id} is set aside: {item.text}"


def _of_state(past: PastStore, told: set[int]) -> Iterator[str]:
    """What a master would begin with is in order, and has all jobs but those that were `told`."""
    state, seq = state_of(past.checkpoint_before(math.inf))
    quarantine = Quarantine(state.quarantined)
    apply_all(state, past.events(seq, quarantine), quarantine)
    for job_id, text in state.quarantined.items():
        if job_id not in told:
            yield f"job {job_id} is set aside: {text}"
    yield from audit(state)
