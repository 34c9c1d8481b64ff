"""A store that lets old jobs go adds up to the same from every checkpoint that it keeps, and checks clean meanwhile."""

from __future__ import annotations

import random
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from core_histories import Histories
from core_long_history import live
from core_world import START

from gsched.app.stores.store_checks import check_store
from gsched.base.ids import array_of
from gsched.core.state.cluster_state import ClusterState
from gsched.master.past.history_rows import array_row, irregular_jobs, job_row
from gsched.master.recovery import apply_all, recover
from gsched.model.event import AnyEvent
from gsched.store.backends.reading import reading
from gsched.store.checkpoint_parts import whole_checkpoint
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.past_queries import PastStore
from gsched.store.retention.removable_jobs import FIRST
from gsched.store.safeguards.quarantine import Quarantine
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow
from tests.support.manual_clock import ManualClock

STEPS = 250
PAUSE_S = 30.0


class Unharmed(Histories):
    """No job is set aside: that is no event."""

    def restart_master(self, aside: int | None) -> None:
        super().restart_master(None)


def rows_after(state: ClusterState, events: list[AnyEvent]) -> Iterator[JobRow]:
    """As the master makes them."""
    irregular = irregular_jobs(events)
    for number in state.touched:
        job, array = state.jobs.get(number), state.arrays.get(number)
        traits = IRREGULAR if number in irregular else 0
        if job is not None:
            yield job_row(job, traits)
        elif array is not None:
            yield array_row(array, traits | ARRAY)
    state.take_touched()


def said_of(path: Path) -> list[str]:
    lines: list[str] = []
    locations = SimpleNamespace(store_place=str(path), state_dir=str(path.parent), spool_dir=str(path.parent / "none"))
    config: Any = SimpleNamespace(locations=locations)
    check_store(config, lines.append)
    return [line for line in lines if "blob" not in line]  # the specifications of these histories name none that exist


def damage_in(path: Path) -> list[str]:
    return [line for line in said_of(path) if line.startswith("attention") and "more of that kind" not in line]


def adds_up(path: Path, final: object) -> int:
    """Replays from each checkpoint; says how many there are."""
    history = History(path)
    past = PastStore(history)
    with closing(past), closing(history):
        with sqlite3.connect(path) as database:
            numbers = [seq for (seq,) in database.execute("SELECT seq FROM checkpoint")]
        for seq in numbers:
            payload = whole_checkpoint(past._engine, seq, history.last_seq())
            assert payload is not None
            state = ClusterState.load(payload)
            quarantine = Quarantine(state.quarantined)
            items = list(past.events(seq, quarantine))
            assert all(isinstance(item, tuple) for item in items), "nothing is missing above the floor"
            apply_all(state, iter(items), quarantine)
            assert comparable(state) == final
        return len(numbers)


def comparable(state: ClusterState) -> object:
    """What a checkpoint would say of it, whatever the order of specifications and tokens."""
    held = msgspec.json.decode(state.dump())
    held["jobs"] = sorted(
        [number, held["specs"][spec], *rest[:2], held["tokens"][rest[2]], *rest[3:]]
        for number, spec, *rest in held["jobs"]
    )
    del held["specs"], held["tokens"]
    return held


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_replay_above_the_floor_gives_the_same(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 30)
    world, choice = Unharmed(), random.Random(seed)
    live(world, seed, STEPS)
    left = deque(world.events)
    path, clock, state = tmp_path / "gsched.db", ManualClock(START), ClusterState()
    removed = kept_jobs = floors = 0
    with closing(EventLog(path, clock=clock)) as log:
        while left:
            batch = [left.popleft() for _ in range(min(len(left), choice.choice([1, 2, 5, 20])))]
            for event in batch:
                state.apply(event)
            log.append(batch, list(rows_after(state, batch)), next_job_id=state.next_job_id)
            clock.advance(max(0.0, batch[-1].at - clock.now()))
            if choice.random() < 0.2:
                log.save_checkpoint(log.last_seq, state.dump())
            if choice.random() < 0.05:
                cutoff = batch[-1].at - choice.choice([0.0, PAUSE_S, 300.0])
                seq = log.removal.next_floor(cutoff)
                if seq is not None:
                    floors += log.removal.raise_floor(seq).seq == seq
                after = FIRST
                while True:
                    slice_ = log.removal.remove_finished_jobs(
                        0.0, cutoff, choice.choice([1, 3, 50]), after=after, keep_rows=choice.random() < 0.2
                    )
                    removed += slice_.jobs
                    if slice_.last is None:
                        break
                    after = slice_.last
                log.removal.remove_other_events(cutoff, 5)
                assert damage_in(path) == []
                final = comparable(state)
                assert adds_up(path, final)
                assert comparable(recover(log)) == final
        assert floors and removed
        with reading(log._backend) as connection:  # what the state knows has all its events
            numbers = {row[0] for row in connection.exec_driver_sql("SELECT DISTINCT job_id FROM event")}
        for number in [*state.jobs, *state.arrays]:
            kept_jobs += 1
            assert {number, array_of(number)} & numbers
    assert kept_jobs
