"""The lease of a master that others wait for: who may take it over, and how the one that leads no more finds out."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_samples import noted
from stores import PATIENCE_S, PostgresqlStore, until

from gsched.base.errors import Conflict, NotFound, Unavailable
from gsched.model.store_url import parse_store_url
from gsched.store.backends import lease, postgresql_backend
from gsched.store.backends.lease import Successor
from gsched.store.eventlog import EventLog
from gsched.store.mark import MarkFile, StoreMark
from gsched.store.safeguards.continuity import StoreLost
from gsched.store.safeguards.failure import StoreBroken, StoreInUse

pytestmark = [pytest.mark.slow, pytest.mark.needs_postgresql]


@pytest.fixture(autouse=True)
def quick_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease is renewed all the time, and is never over because this machine is slow."""
    monkeypatch.setattr(lease, "LEASE_S", 3600.0)
    monkeypatch.setattr(lease, "RENEW_S", 0.02)


@pytest.fixture
def store(postgresql_server: Any, tmp_path: Path) -> PostgresqlStore:
    return PostgresqlStore(postgresql_server.new_url(), tmp_path, postgresql_server)


class Leader:
    """A master that leads; `lost` has what it heard of its lease."""

    def __init__(self, store: PostgresqlStore, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.store = store
        self.lost: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.log = EventLog(store.place, folder=folder, lost=self.lost.put)


@pytest.fixture
def leader(store: PostgresqlStore, tmp_path: Path) -> Iterator[Leader]:
    made = Leader(store, tmp_path / "leader")
    yield made
    made.log.close()


@pytest.fixture
def successor(store: PostgresqlStore) -> Iterator[Successor]:
    made = Successor(parse_store_url(store.place), "h2")
    yield made
    made.close()


def until_free(successor: Successor) -> None:
    until(lambda: successor.look() is None)


def until_seen(successor: Successor, seq: int) -> None:
    """Wait until the leader has told that this event is acknowledged."""
    until(lambda: successor.look() is not None and successor.seen.seq >= seq)
    assert successor.seen.seq == seq


def test_an_empty_database_is_free(successor: Successor) -> None:
    assert successor.look() is None
    assert successor.has_watched(0.0) and not successor.has_watched(3600.0)


def test_a_lease_that_is_renewed_is_left_alone(leader: Leader, successor: Successor) -> None:
    seen: list[float] = []

    def was_renewed() -> bool:
        found = successor.look()
        assert found is not None and found.lease_age_s is not None and found.holder.startswith("process ")
        seen.append(found.lease_age_s)
        return len(seen) > 1 and seen[-1] < seen[-2]

    until(was_renewed)
    assert leader.lost.empty()


def test_who_closes_the_store_makes_room(leader: Leader, successor: Successor) -> None:
    assert successor.look() is not None
    leader.log.close()
    until_free(successor)


def test_a_lease_that_is_old_is_taken(
    leader: Leader, successor: Successor, store: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that had it is fenced off: it commits nothing more, and hears that it leads no more."""
    leader.log.append([noted(1)])
    renew = lease.LeaseKeeper._renew
    monkeypatch.setattr(lease.LeaseKeeper, "_renew", lambda self: True)  # as if it were stopped
    monkeypatch.setattr(lease, "LEASE_S", 0.5)

    def is_taken() -> bool:
        store.damage("UPDATE lease SET renewed_at = renewed_at - interval '2 hours'")
        return successor.look() is None

    until(is_taken)
    monkeypatch.setattr(lease, "LEASE_S", 3600.0)
    monkeypatch.setattr(lease.LeaseKeeper, "_renew", renew)
    later = Leader(store, tmp_path / "later")
    assert later.log.epoch > leader.log.epoch
    assert later.log.last_seq == 1
    assert "the lease on the store" in leader.lost.get(timeout=PATIENCE_S)
    with pytest.raises(StoreBroken, match="was taken over by process"):
        leader.log.append([noted(2)])
    later.log.append([noted(3)])
    later.log.close()


def test_a_master_that_cannot_renew_its_lease_hears_of_it(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: lease.LeaseKeeper) -> bool:
        raise Unavailable("no route")

    monkeypatch.setattr(lease.LeaseKeeper, "_renew", away)
    keeper = leader.log._backend._lease  # type: ignore[attr-defined]
    until(lambda: keeper._problem == "no route")  # one try has failed
    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    assert "could not be renewed for 0 seconds: no route" in leader.lost.get(timeout=PATIENCE_S)


def test_a_master_that_cannot_renew_its_lease_hears_of_it_when_it_is_over(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at some later time, when another one may lead already."""
    keeper = leader.log._backend._lease  # type: ignore[attr-defined]
    keeper.close()
    waits: list[float] = []

    class Waiting:
        """Time passes with each wait, and nothing else does."""

        now = keeper._renewed_at

        def wait(self, timeout: float) -> bool:
            waits.append(timeout)
            self.now += timeout
            return False

        def is_set(self) -> bool:
            return False

    waiting = Waiting()
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "_ended", waiting)
        patch.setattr(lease, "_now", lambda: waiting.now)
        patch.setattr(lease, "LEASE_S", 6.25)
        patch.setattr(lease, "RENEW_S", 1.0)
        keeper._watch()
    assert sum(waits) == pytest.approx(6.25)
    assert "could not be renewed for 6.25 seconds" in leader.lost.get(timeout=PATIENCE_S)


class Ending(threading.Event):
    """As `_ended` of a keeper; `waits` has one for each thread that waits for it without an end."""

    def __init__(self, waits: queue.SimpleQueue[str]) -> None:
        super().__init__()
        self._waits = waits

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            self._waits.put("waits")
        return super().wait(timeout)


def test_a_lease_that_is_over_keeps_everybody_from_answering(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once; whoever comes later is not let through, though another thread tells of it already."""
    monkeypatch.setattr(lease, "RENEW_S", 3600.0)
    leader.log.check_lease()
    assert leader.lost.empty()
    keeper = leader.log._backend._lease  # type: ignore[attr-defined]
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    keeper._ended = Ending(done)
    monkeypatch.setattr(lease, "LEASE_S", 0.0)

    def ask() -> None:
        try:
            leader.log.check_lease()
            done.put("is let through")
        except Unavailable as error:
            done.put(error.text)

    for _ in range(2):
        threading.Thread(target=ask, daemon=True).start()
        assert done.get(timeout=PATIENCE_S) == "waits"
    assert "could not be renewed for 0 seconds" in leader.lost.get(timeout=PATIENCE_S)
    assert leader.lost.empty(), "it is told once"
    keeper.close()
    for _ in range(2):
        assert "does not lead the store" in done.get(timeout=PATIENCE_S)


def test_a_lease_that_another_master_has_is_over_at_once(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for whoever asks before the process has ended."""
    keeper = leader.log._backend._lease  # type: ignore[attr-defined]
    monkeypatch.setattr(lease.LeaseKeeper, "_renew", lambda self: False)
    assert leader.lost.get(timeout=PATIENCE_S).endswith("is lost: another master leads")
    assert keeper._has_ended() and leader.lost.empty()


def test_a_lease_begins_no_later_than_in_the_database(
    store: PostgresqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may take long, and the database counts from before it."""
    granted: list[float] = []

    def granting(*what: Any, **how: Any) -> float:
        began = grant(*what, **how)
        granted.append(lease._now())
        return began

    monkeypatch.setattr(lease, "RENEW_S", 3600.0)
    grant = lease.grant
    monkeypatch.setattr(postgresql_backend, "grant", granting)
    with closing(Leader(store, tmp_path / "leader").log) as log:
        assert log._backend._lease._renewed_at < granted[0]  # type: ignore[attr-defined]


def test_who_knows_no_such_format_does_not_wait_to_lead(leader: Leader, successor: Successor) -> None:
    assert successor.look() is not None
    leader.store.damage("update meta set value = '99' where key = 'schema_version'")
    with pytest.raises(Conflict, match="has format 99, made by a newer gsched"):
        successor.look()


def test_who_waits_knows_how_far_the_store_was(
    leader: Leader, successor: Successor, store: PostgresqlStore, tmp_path: Path
) -> None:
    """A database that fails over to an older state is refused by a master that has never led."""
    folder = tmp_path / "waiting"
    folder.mkdir()
    mark = MarkFile(folder)
    for number in (1, 2, 3):
        leader.log.append([noted(number)])
        until_seen(successor, number)
        mark.witness(successor.seen)
    leader.log.close()
    store.damage("delete from event where seq > 1")
    assert successor.look() is None
    mark.witness(successor.seen)
    mark.close(clean=False)
    with pytest.raises(StoreLost, match=r"has lost events 2 to 3, of which STORE\.mark knows"):
        EventLog(store.place, folder=folder)


def test_what_nobody_has_acknowledged_may_be_lost(own_server: Any, tmp_path: Path) -> None:
    """A commit that waits for a standby is there for all to see when its session is ended."""
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)
    (tmp_path / "waiting").mkdir()
    mark = MarkFile(tmp_path / "waiting")
    leader = Leader(store, tmp_path / "leader")
    with closing(Successor(parse_store_url(store.place), "h2")) as successor, ThreadPoolExecutor(1) as pool:
        leader.log.append([noted(1)])
        until_seen(successor, 1)
        own_server.configure(synchronous_standby_names="none_here")
        append = pool.submit(leader.log.append, [noted(2)])
        try:
            waiting_for_standby(store)
            store.server.end_sessions(store.place, "gsched master")
            until(lambda: store.rows("SELECT max(seq) FROM event") == [(2,)])
            assert successor.look() is not None
            assert successor.seen.seq == 1 and not append.done()
            mark.witness(successor.seen)
        finally:
            own_server.configure(synchronous_standby_names=None)
        assert append.result() == 2
        until_seen(successor, 2)
    leader.log.close()
    store.damage("DELETE FROM event WHERE seq = 2")  # as the standby would have it
    mark.close(clean=False)
    later = EventLog(store.place, folder=tmp_path / "waiting")
    assert later.last_seq == 1
    later.close()


def waiting_for_standby(store: PostgresqlStore) -> None:
    """Wait until a commit of the leader waits for a standby."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'gsched master'"
    with store.server.admin() as connection:
        until(lambda: connection.execute(query).fetchone() == (1,))


def test_a_leader_of_an_earlier_version_says_nothing_of_what_it_acknowledged(
    leader: Leader, successor: Successor, store: PostgresqlStore, tmp_path: Path
) -> None:
    """It is waited for, and the next leader makes the column."""
    leader.log.append([noted(1)])
    until_seen(successor, 1)
    leader.log.close()
    store.damage("ALTER TABLE lease DROP COLUMN acknowledged")
    store.damage("INSERT INTO lease SELECT id, epoch, clock_timestamp(), '' FROM leader")
    assert successor.look() is None and successor.seen.seq == 0
    later = Leader(store, tmp_path / "later")
    until_seen(successor, 1)
    later.log.close()


@pytest.mark.parametrize(
    ("seen", "seq"),
    [
        (StoreMark(), 7),
        (StoreMark(cluster_id="ours", seq=6), 7),
        (StoreMark(cluster_id="ours", seq=8), 8),
        (StoreMark(cluster_id="ours", generation=2, seq=3), 3),
        (StoreMark(cluster_id="theirs", seq=9), 7),
        (StoreMark(cluster_id="theirs", generation=2, seq=9), 7),
    ],
)
def test_a_mark_is_never_taken_back(tmp_path: Path, seen: StoreMark, seq: int) -> None:
    before = MarkFile(tmp_path)
    before.begin(StoreMark(cluster_id="ours", seq=7, next_job_id=5))
    before.close(clean=True)
    mark = MarkFile(tmp_path)
    mark.witness(seen)
    mark.close(clean=False)
    found = MarkFile(tmp_path).mark
    assert found is not None and (found.seq, found.next_job_id) == (seq, 5)


def test_the_lease_of_a_master_that_hangs_is_not_renewed(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that goes on in time keeps it."""
    keeper = leader.log._backend._lease  # type: ignore[attr-defined]
    hangs = True
    leader.log.lead_while(lambda: not hangs)
    until(lambda: keeper._problem == lease.HANGS)
    before = keeper._renewed_at
    hangs = False
    until(lambda: keeper._renewed_at != before)
    assert not keeper._problem and leader.lost.empty()
    hangs = True
    until(lambda: keeper._problem == lease.HANGS)
    monkeypatch.setattr(lease, "LEASE_S", 0.0)
    assert "could not be renewed for 0 seconds: this master hangs" in leader.lost.get(timeout=PATIENCE_S)


def test_without_successors_there_is_no_lease(store: PostgresqlStore, tmp_path: Path, successor: Successor) -> None:
    """Nobody takes the store from such a master, however long it hangs."""
    only = EventLog(store.place, folder=tmp_path)
    found = successor.look()
    assert found is not None and found.lease_age_s is None
    only.close()


@pytest.mark.parametrize("host", ["h2", "h" * 60])
def test_a_promise_is_kept_for_a_while(
    leader: Leader, store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    with pytest.raises(NotFound, match=f"no master waits on {host}"):
        leader.log.hand_over([host])
    with closing(Successor(parse_store_url(store.place), host)) as one:
        one.look()
        with pytest.raises(NotFound, match="no master waits on h3 or h4"):
            leader.log.hand_over(["h3", "h4"])
        assert leader.log.hand_over(["h3", host]) == host
        leader.log.close()
        until_free(one)
        with closing(Successor(parse_store_url(store.place), "h1")) as other:
            found = other.look()
            assert found is not None and f"hands over to {host}" in found.holder
            monkeypatch.setattr(lease, "LEASE_S", 0.0)  # whom it was promised to has not come
            assert other.look() is None


def test_an_end_leaves_no_lease(leader: Leader, store: PostgresqlStore) -> None:
    """Else whoever has the store next, a copy say, could be taken for a master that is lost."""
    until(lambda: store.rows("SELECT count(*) FROM lease") == [(1,)])
    leader.log.close()
    assert store.rows("SELECT count(*) FROM lease") == [(0,)]


def test_a_database_that_was_put_back_has_a_later_epoch(leader: Leader, store: PostgresqlStore, tmp_path: Path) -> None:
    """Agents may have heard of masters that it does not know."""
    before = leader.log.epoch
    leader.log.close()
    store.damage("UPDATE leader SET epoch = 7")
    again = Leader(store, tmp_path / "leader")
    assert again.log.epoch >= before
    again.log.close()


def test_a_database_that_does_not_answer_is_told(successor: Successor, store: PostgresqlStore) -> None:
    successor.look()
    store.server.end_sessions(store.place, "gsched standby%")
    with pytest.raises(Unavailable, match="cannot be reached"):
        successor.look()
    assert not successor.has_watched(0.0)
    assert successor.look() is None  # it begins anew


def test_a_second_one_is_kept_out_as_long_as_the_lock_is_held(
    leader: Leader, store: PostgresqlStore, tmp_path: Path
) -> None:
    with pytest.raises(StoreInUse):
        Leader(store, tmp_path / "other")
