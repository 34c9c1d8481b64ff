"""What a store adds up to, printed so that two of them can be compared: the state, as a replay from the newest
checkpoint and one from the first event make it, and the row and the history of each job.

A program, run as the user of the master while none runs: `replayed_store.py PLACE`. It changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator

from gsched.core.state.cluster_state import ClusterState
from gsched.master.recovery import apply_all, state_of
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore
from gsched.store.safeguards.quarantine import Quarantine

AT_ONCE = 500


def replayed(past: PastStore, found: tuple[int, bytes] | None) -> str:
    """The state from this checkpoint on, None being the empty one; a digest of all that a checkpoint of it holds."""
    state, seq = state_of(found)
    quarantine = Quarantine(state.quarantined)
    apply_all(state, past.events(seq, quarantine), quarantine)
    assert not state.quarantined, state.quarantined
    # As a checkpoint of it is read again: the order in which specs were numbered is no part of the state.
    told = json.loads(ClusterState.load(state.dump()).dump())
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def histories(history: History) -> Iterator[tuple[int, str]]:
    """Each job with a digest of its events; 0: what belongs to no job."""
    digests: dict[int, hashlib._Hash] = {}
    seq = 0
    while records := history.events_after(seq, AT_ONCE):
        for record in records:
            digests.setdefault(record.job_id, hashlib.sha256()).update(repr(record).encode())
        seq = records[-1].seq
    yield from ((job, digest.hexdigest()) for job, digest in digests.items())


def main() -> None:
    """The place is the argument."""
    history = History(sys.argv[1])
    past = PastStore(history)
    jobs = dict(histories(history))
    print(f"events {history.last_seq()}")
    print(f"state-by-checkpoint {replayed(past, past.checkpoint_before(math.inf))}")
    print(f"state-by-events {replayed(past, None)}")
    rows = history.rows_of(job for job in jobs if job)
    for job, digest in jobs.items():
        print(f"job {job} {digest} {next((row for row in rows if row.job_id == job), None)!r}")
    past.close()
    history.close()


if __name__ == "__main__":
    main()
