"""A master that waits follows the store of one that leads; what it cannot follow costs it the replica and no more."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.event import listen
from sqlalchemy.exc import OperationalError

from gsched.base.errors import Unavailable
from gsched.master import following as following_module
from gsched.master import recovery
from gsched.master.following import Following
from gsched.master.recovery import CannotFollow, Replica, recover, state_of
from gsched.model.event import HostClosed, JobFinished, JobForgotten, JobNoted, JobSubmitted
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState
from gsched.store import log_tail
from gsched.store.eventlog import EventLog
from gsched.store.log_tail import Lineage, LogTail
from gsched.store.tables.schema import JobRow

PATIENCE_S = 60
SPEC = JobSpec(command="true", user="ann", queue="normal")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with closing(EventLog(tmp_path / "gsched.db")) as opened:
        yield opened


@pytest.fixture
def tail(log: EventLog) -> Iterator[LogTail]:
    with closing(LogTail(log.place)) as opened:
        yield opened


@pytest.fixture
def followers() -> Iterator[Callable[[str], Following]]:
    begun: list[Following] = []

    def begin(place: str) -> Following:
        begun.append(Following(place, follow_s=0.001))
        begun[-1].start()
        return begun[-1]

    yield begin
    for each in begun:
        each.finish()


def submit(log: EventLog, *numbers: int) -> None:
    log.append([JobSubmitted(at=100.0 + number, job_id=number, spec=SPEC) for number in numbers])


def end(log: EventLog, *numbers: int) -> None:
    result = AttemptResult(started=False)
    log.append([JobFinished(at=200.0, job_id=number, attempt=0, result=result) for number in numbers])


def damage(log: EventLog, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(log.place)) as connection, connection:
        connection.execute(statement, values)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def replica_of(tail: LogTail) -> Replica:
    lineage = tail.lineage()
    assert lineage is not None
    replica = Replica(lineage, *state_of(tail.checkpoint()))
    replica.follow(tail.page_from(replica.seq))
    return replica


def test_a_takeover_replays_what_has_come_since_alone(
    log: EventLog, followers: Callable[[str], Following], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(log, 1, 2)
    following = followers(log.place)
    until(lambda: following.followed == 2)
    submit(log, 3)
    end(log, 1)
    until(lambda: following.followed == 4)
    replica = following.finish()
    assert replica is not None and not replica.state.touched
    submit(log, 4)
    by_replay = recover(log)
    monkeypatch.setattr(log, "load_checkpoint", lambda: pytest.fail("the replica is not used"))
    assert recover(log, replica) is replica.state
    assert replica.state.dump() == by_replay.dump()
    assert {number: job.state for number, job in replica.state.jobs.items()} == {
        1: JobState.EXIT, 2: JobState.PEND, 3: JobState.PEND, 4: JobState.PEND,
    }  # fmt: skip


def test_it_begins_with_the_newest_checkpoint(log: EventLog, followers: Callable[[str], Following]) -> None:
    submit(log, 1, 2, 3)
    log.save_checkpoint(3, recover(log).dump())
    submit(log, 4)
    damage(log, "DELETE FROM event WHERE seq < 3")
    following = followers(log.place)
    until(lambda: following.followed == 4)
    replica = following.finish()
    assert replica is not None and sorted(replica.state.jobs) == [1, 2, 3, 4]


def test_a_database_that_fails_for_a_moment_does_not_make_a_checkpoint_damaged(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it would be followed from the first event on."""
    submit(log, 1, 2, 3)
    log.save_checkpoint(3, recover(log).dump())
    following = Following(log.place)
    failures = 1

    def fail(connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        nonlocal failures
        if failures and "checkpoint.payload" in statement:
            failures -= 1
            raise OperationalError(statement, {}, Exception("the connection is lost"))

    listen(following._tail._engine, "before_cursor_execute", fail)
    assert not following._is_behind() and following._replica is None
    assert "not followed for now" in caplog.text and "damaged" not in caplog.text
    damage(log, "DELETE FROM event WHERE seq < 3")
    following._is_behind()
    assert following.followed == 3 and not failures
    following._tail.close()


def test_a_replica_that_is_far_behind_a_checkpoint_is_not_replayed_up_to_it(
    log: EventLog, tail: LogTail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "MOST_BEHIND", 2)
    submit(log, 1)
    replica, other = replica_of(tail), replica_of(tail)
    submit(log, 2, 3)
    log.save_checkpoint(3, recover(log).dump())
    assert recover(log, other) is other.state, "it is near enough"
    submit(log, 4)
    log.save_checkpoint(4, recover(log).dump())
    found = recover(log, replica)
    assert found is not replica.state and sorted(found.jobs) == [1, 2, 3, 4]
    damage(log, "UPDATE checkpoint SET crc = crc + 1 WHERE seq = 4")
    assert recover(log, replica) is replica.state, "no whole one is that far"


@pytest.mark.parametrize("is_whole", [True, False], ids=["a checkpoint", "a damaged one"])
def test_who_is_far_behind_a_checkpoint_skips_to_it(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """Where it is damaged, all that lies between is applied."""
    monkeypatch.setattr(following_module, "MOST_BEHIND", 4)
    for module in (following_module, log_tail):
        monkeypatch.setattr(module, "PAGE", 2)
    submit(log, 1)
    following = Following(log.place)
    following._is_behind()
    submit(log, *range(2, 10))
    log.save_checkpoint(9, recover(log).dump())
    if not is_whole:
        damage(log, "UPDATE checkpoint SET crc = crc + 1")
    seen = []
    while following._is_behind():
        seen.append(following.followed)
    assert seen == ([9] if is_whole else list(range(2, 10)))
    replica = following._replica
    assert replica is not None and replica.state.dump() == recover(log).dump()
    following._tail.close()


def test_a_store_that_was_begun_anew_is_followed_anew(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    """What was followed of the old one can never be used; the numbers begin with the new one again."""
    submit(log, 1, 2)
    following = Following(log.place)
    following._is_behind()
    assert following.followed == 2
    damage(log, "INSERT OR REPLACE INTO meta (key, value) VALUES ('generation', '2')")
    damage(log, "DELETE FROM event")
    assert following._is_behind() and following._replica is None
    following._is_behind()
    assert following._replica is not None
    assert following._replica.lineage == Lineage(log.cluster_id, 2) and not following._replica.state.jobs
    assert caplog.text.count("was begun anew") == 1
    following._tail.close()


GAP = "DELETE FROM event WHERE seq = 2"
NEWER = 'UPDATE event SET payload = \'{"type":"job_teleported","job_id":2,"at":1.0}\' WHERE seq = 2'
TWICE = "UPDATE event SET job_id = 1, payload = (SELECT payload FROM event WHERE seq = 1) WHERE seq = 2"


@pytest.mark.parametrize(
    ("what", "why"),
    [(GAP, "event 2: record 2 is missing"), (NEWER, "event 2: record 2 (job_submitted)"), (TWICE, "does not fit")],
    ids=["a gap", "an event of a newer version", "an event that cannot be"],
)
def test_what_cannot_be_followed_is_left_to_the_replay(
    log: EventLog, followers: Callable[[str], Following], caplog: pytest.LogCaptureFixture, what: str, why: str
) -> None:
    """One line says so; when the leader has written a checkpoint beyond it, it is followed again."""
    submit(log, 1, 2, 3)
    damage(log, what)
    following = followers(log.place)
    until(lambda: bool(caplog.records) and "not followed until its next checkpoint" in caplog.messages[-1])
    assert why in caplog.messages[-1]
    by_replay = recover(log)
    lines = [line for line in caplog.messages if "not followed" in line]
    assert len(lines) == 1 and following.followed == 0
    log.save_checkpoint(3, by_replay.dump())
    submit(log, 4)
    until(lambda: following.followed == 4)
    replica = following.finish()
    assert replica is not None and recover(log, replica).dump() == recover(log).dump()


def test_a_job_that_was_set_aside_before_stays_so(log: EventLog, tail: LogTail) -> None:
    submit(log, 1, 2)
    damage(log, "UPDATE event SET payload = 'x' WHERE seq = 1")
    log.save_checkpoint(2, recover(log).dump())
    log.append([JobNoted(at=300.0, job_id=1, text="of the job that is set aside")])
    submit(log, 3)
    replica = replica_of(tail)
    assert replica.seq == 4 and sorted(replica.state.jobs) == [2, 3] and list(replica.state.quarantined) == [1]
    assert recover(log, replica).dump() == recover(log).dump()


@pytest.mark.parametrize("what", ["DELETE FROM event WHERE seq >= 2", "UPDATE event SET at = 7 WHERE seq = 2"])
def test_a_store_that_was_put_back_is_replayed(
    log: EventLog, tail: LogTail, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    submit(log, 1, 2)
    replica = replica_of(tail)
    damage(log, what)
    with pytest.raises(CannotFollow, match="event 2 is "):
        replica.check(log)
    log._last_seq = len(list(log.replay()))  # as of a store that was opened like this
    state = recover(log, replica)
    assert state is not replica.state and state.dump() == recover(log).dump()
    assert any("what this master has followed is not used: event 2 is " in line for line in caplog.messages)
    with pytest.raises(CannotFollow, match="event 2 is "):
        replica.follow(tail.page_from(2))


def test_another_store_is_replayed(log: EventLog, tail: LogTail, caplog: pytest.LogCaptureFixture) -> None:
    submit(log, 1)
    replica = replica_of(tail)
    assert replica.lineage == Lineage(log.cluster_id, 1)
    replica.lineage = Lineage(log.cluster_id, 2)
    assert recover(log, replica) is not replica.state
    assert "it is another store, or was begun anew" in caplog.text


def test_who_leads_has_read_all_of_the_store(log: EventLog) -> None:
    """What is read may come from a copy that lags behind."""
    submit(log, 1, 2)
    log._last_seq = 3
    with pytest.raises(Unavailable, match="has 3 events, and only 2 of them can be read"):
        recover(log)


def test_a_failure_that_nobody_thought_of_costs_the_replica(
    log: EventLog, followers: Callable[[str], Following], caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    def fail(self: Replica, records: object) -> int:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(Replica, "follow", fail)
    submit(log, 1)
    following = followers(log.place)
    until(lambda: "following has failed" in caplog.text)
    assert following.finish() is None and caplog.text.count("following has failed") == 1


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_a_database_that_was_away_is_followed_on(
    postgresql_server: Any, tmp_path: Path, followers: Callable[[str], Following]
) -> None:
    """Nothing there to be followed yet; then a store; then its sessions end, and the server is away for a moment."""
    url = postgresql_server.new_url()
    following = followers(url)
    with closing(LogTail(url)) as tail:
        assert tail.lineage() is None
    with closing(EventLog(url, folder=tmp_path)) as log:
        submit(log, 1, 2)
        until(lambda: following.followed == 2)
        postgresql_server.end_sessions(url, "gsched reader")
        submit(log, 3)
        until(lambda: following.followed == 3)
        replica = following.finish()
        assert replica is not None and recover(log, replica).dump() == recover(log).dump()


@pytest.mark.slow
@pytest.mark.needs_postgresql
def test_who_follows_cannot_write(postgresql_server: Any, tmp_path: Path) -> None:
    url = postgresql_server.new_url()
    with closing(EventLog(url, folder=tmp_path)), closing(LogTail(url)) as tail, tail._engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW default_transaction_read_only").scalar() == "on"


def test_a_replica_from_below_the_floor_is_not_used(log: EventLog, tail: LogTail) -> None:
    submit(log, 1, 2)
    replica = replica_of(tail)  # its last event, which is of job 2, stays
    end(log, 1)
    log.append([JobForgotten(at=300.0, job_id=1)], [over(1)])
    for _ in range(3):
        log.append([HostClosed(at=400.0, host="a", by="root")])
        log.save_checkpoint(log.last_seq, recover(log).dump())
    log.removal.raise_floor(log.last_seq - 1)
    assert log.removal.remove_finished_jobs(0.0, 350.0, 10).jobs == 1
    with pytest.raises(CannotFollow, match="all is kept from 6 on"):
        replica.check(log)
    assert set(recover(log, replica).jobs) == {2}, "job 1 has ended"


def test_a_replica_from_the_floor_itself_is_used(log: EventLog, tail: LogTail) -> None:
    submit(log, 1, 2)
    replica = replica_of(tail)
    log.save_checkpoint(log.last_seq, replica.state.dump())
    floor = log.last_seq
    submit(log, 3)
    log.save_checkpoint(log.last_seq, recover(log).dump())
    log.removal.raise_floor(floor)
    assert recover(log, replica) is replica.state


def over(number: int) -> JobRow:
    return JobRow(
        job_id=number, user="ann", queue="normal", state="EXIT", submitted_at=100.0 + number, finished_at=200.0
    )
