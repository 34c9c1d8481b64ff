"""A replica that follows the store in portions of any size has the state that a replay gives: takeovers rest on it."""

from __future__ import annotations

import random
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from core_histories import Histories
from core_history_agents import held_by_jobs
from core_long_history import live

from gsched.core.engine import Engine
from gsched.core.state.cluster_state import ClusterState
from gsched.master.recovery import Replica, recover, state_of
from gsched.store import log_tail
from gsched.store.eventlog import EventLog
from gsched.store.log_tail import LogTail
from gsched.store.tables import records

STEPS = 120
_DERIVED = ("tokens", "avoiding", "deadlines", "suspended", "elastic", "saving", "group_members", "running", "accepted")
_WAITS = ("delayed", "held", "blocked", "dependents", "unjudged", "changing", "forced", "resized", "needs_changed")


class Unharmed(Histories):
    """No job is set aside: that is no event."""

    def restart_master(self, aside: int | None) -> None:
        super().restart_master(None)


def whole(state: ClusterState, world: Histories) -> dict[str, Any]:
    """All that decides what comes next."""
    state.let_go_on(world.now)  # what time brings about is no event
    state.give_back(world.now)
    return {
        "dump": msgspec.json.decode(state.dump()),
        **{name: getattr(state, name) for name in _DERIVED},
        **{f"waits.{name}": getattr(state.waits, name) for name in _WAITS},
        "pending": state.pending,
        "slots": state.tally.queue_slots,
        "holdings": held_by_jobs(state),
        "end": state.retention.first_end(),
    }


def begun(tail: LogTail) -> Replica:
    """As a master begins that starts to wait."""
    lineage = tail.lineage()
    assert lineage is not None
    return Replica(lineage, *state_of(tail.checkpoint()))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_state_by_following_is_that_by_replay(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for reading in (records, log_tail):
        monkeypatch.setattr(reading, "PAGE", 50)
    world, choice = Unharmed(), random.Random(seed)
    live(world, seed, STEPS)
    left = deque(world.events)
    path = tmp_path / "gsched.db"
    with closing(EventLog(path)) as log, closing(LogTail(str(path))) as tail:
        replica = begun(tail)
        begins = followed = 0
        while left:
            log.append([left.popleft() for _ in range(min(len(left), choice.choice([1, 1, 2, 5, 20])))])
            if choice.random() < 0.1:
                log.save_checkpoint(log.last_seq, recover(log).dump())
            if choice.random() < 0.05:
                replica, begins = begun(tail), begins + 1
            if choice.random() < 0.5:
                followed += replica.follow(tail.page_from(replica.seq))
            if choice.random() < 0.1:  # some time after the last look
                assert replica.seq <= log.last_seq
                assert whole(recover(log, copy_of(replica)), world) == whole(recover(log), world)
        assert begins and followed > len(world.events) // 2
        by_following, by_replay = recover(log, replica), recover(log)
        assert whole(by_following, world) == whole(by_replay, world)
        assert at_start(by_following, world) == at_start(by_replay, world)


def copy_of(replica: Replica) -> Replica:
    """One that may be led by; the first follows on."""
    again = Replica(replica.lineage, ClusterState.load(replica.state.dump()), replica.seq)
    again.last = replica.last
    return again


def at_start(state: ClusterState, world: Histories) -> list[Any]:
    """What a master does first: it judges all dependencies, ends what is overdue, forgets."""
    engine = Engine(state, world.config, world.now)
    events = list(engine.tick(world.now).events)
    while engine.unsettled:
        events += engine.settle(world.now).events
    return events
