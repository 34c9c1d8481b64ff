"""A store in PostgreSQL: who may write, what a broken connection leaves behind, what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from store_samples import batch_of, job_row, noted, submitted
from stores import PostgresqlStore, until

from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, Unavailable
from gsched.model.store_url import parse_store_url
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.backends import leadership
from gsched.store.backends.leadership import LeadershipLock, begin_epoch
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.mark import MARK_NAME
from gsched.store.safeguards.continuity import StoreLost
from gsched.store.safeguards.failure import StoreBroken, StoreFull, StoreInUse
from gsched.store.tables.postgresql import connect

pytestmark = [pytest.mark.slow, pytest.mark.needs_postgresql]


@pytest.fixture
def store(postgresql_server: Any, tmp_path: Path) -> PostgresqlStore:
    return PostgresqlStore(postgresql_server.new_url(), tmp_path, postgresql_server)


@pytest.fixture
def log(store: PostgresqlStore) -> Iterator[EventLog]:
    opened = store.open()
    yield opened
    opened.close()


def terminate(store: PostgresqlStore, which: str = "%") -> None:
    """End the store's sessions from the server's side."""
    store.server.end_sessions(store.place, which)


def seqs(store: PostgresqlStore) -> list[int]:
    return [row[0] for row in store.rows("select seq from event order by seq")]


def settings_of(store: PostgresqlStore) -> dict[str, str]:
    """Of the tables that grow with jobs: what the server was told of them."""
    chosen = "relnamespace = current_schema()::regnamespace and relname in ('job', 'event')"
    found = store.rows(f"select relname, array_to_string(reloptions, ' ') from pg_class where {chosen}")
    return {str(name): str(said) for name, said in found}


def test_the_server_tidies_up_what_grows_for_ever_in_small_steps(store: PostgresqlStore, log: EventLog) -> None:
    assert settings_of(store) == {
        "job": "autovacuum_vacuum_scale_factor=0.02 autovacuum_analyze_scale_factor=0.02",
        "event": "autovacuum_vacuum_insert_scale_factor=0.02 autovacuum_analyze_scale_factor=0.02",
    }


def test_what_an_administrator_has_said_of_a_table_stays(store: PostgresqlStore) -> None:
    store.open().close()
    store.damage("alter table job reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor)")
    store.damage("alter table job set (autovacuum_vacuum_scale_factor = 0.1)")
    store.damage("drop table blob_use")
    store.damage("update meta set value = '8' where key = 'schema_version'")
    store.open().close()
    assert settings_of(store)["job"] == "autovacuum_vacuum_scale_factor=0.1 autovacuum_analyze_scale_factor=0.02"


def test_a_second_master_is_told_who_has_the_store(store: PostgresqlStore, log: EventLog, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()} on "):
        EventLog(store.place, folder=other)
    assert log.append([submitted(1)]) == 1, "the attempt took nothing away"
    with pytest.raises(StoreInUse, match=r"the store in .* is in use"):
        store.open()


def test_a_session_that_was_ended_is_replaced_without_a_word(store: PostgresqlStore, log: EventLog) -> None:
    log.append(batch_of(1))
    history = store.history()
    assert history.last_seq() == 3
    assert {"gsched master", "gsched master's lock"} <= set(store.server.sessions(store.place))
    terminate(store)
    assert not store.server.sessions(store.place)
    assert log.append(batch_of(2)) == 6
    assert history.last_seq() == 6
    assert seqs(store) == [1, 2, 3, 4, 5, 6]
    history.close()


def breaking(log: EventLog, monkeypatch: pytest.MonkeyPatch, before: Callable[[], Any], *, commits: bool) -> None:
    """The next COMMIT is carried out or not, then `before` is done, and no answer arrives."""
    dialect = log._backend._engine.dialect  # type: ignore[attr-defined]
    real = dialect.do_commit

    def commit(connection: Any) -> None:
        monkeypatch.undo()
        if commits:
            real(connection)
        before()
        connection.execute("SELECT 1")  # the connection is gone

    monkeypatch.setattr(dialect, "do_commit", commit)


@pytest.mark.parametrize("commits", [True, False])
def test_what_became_of_a_commit_without_an_answer_is_looked_up(
    store: PostgresqlStore, log: EventLog, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    log.append(batch_of(1))
    breaking(log, monkeypatch, lambda: terminate(store), commits=commits)
    if commits:
        assert log.append(batch_of(2), [job_row(2)]) == 6
    else:
        with pytest.raises(StoreFull, match="did not keep the last batch"):
            log.append(batch_of(2), [job_row(2)])
        assert log.last_seq == 3
        assert log.append(batch_of(2), [job_row(2)]) == 6
    assert list(log.read()) == list(enumerate(batch_of(1) + batch_of(2), 1))
    assert log.append(batch_of(3)) == 9


@pytest.mark.parametrize("commits", [True, False])
def test_it_is_looked_up_when_the_server_is_back(
    own_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)
    with closing(store.open()) as log:
        log.append(batch_of(1))
        breaking(log, monkeypatch, lambda: own_server.stop("immediate"), commits=commits)
        with pytest.raises(StoreFull, match=r"whether the store .* kept the last batch is looked up when it answers"):
            log.append(batch_of(2))
        with pytest.raises(StoreFull, match="cannot be reached"):
            log.append(batch_of(2))
        with pytest.raises(Unavailable):
            log.get_blob("x")
        own_server.start()
        assert log.append(batch_of(2)) == 6
        assert list(log.read()) == list(enumerate(batch_of(1) + batch_of(2), 1))


def test_another_batch_than_the_one_in_doubt_is_not_taken_for_it(
    own_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)
    with closing(store.open()) as log:
        log.append(batch_of(1))
        breaking(log, monkeypatch, lambda: own_server.stop("immediate"), commits=True)
        with pytest.raises(StoreFull):
            log.append(batch_of(2))
        own_server.start()
        with pytest.raises(StoreBroken, match="kept a batch that was given up"):
            log.append(batch_of(3))


def test_while_the_server_is_away_nothing_is_stored_and_then_all_goes_on(own_server: Any, tmp_path: Path) -> None:
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)
    with closing(store.open()) as log:
        log.append(batch_of(1))
        history = store.history()
        own_server.kill()
        for _ in range(2):
            with pytest.raises(StoreFull, match="cannot be") as refused:
                log.append(batch_of(2))
            assert "\n" not in refused.value.text
        with pytest.raises(Unavailable, match="cannot be read"):
            history.last_seq()
        with pytest.raises(Unavailable, match="cannot be read as a store") as told:
            store.history()
        assert "\n" not in told.value.text
        own_server.start()
        assert log.append(batch_of(2)) == 6
        assert history.last_seq() == 6
        history.close()


def test_a_server_that_dies_in_the_middle_of_a_batch_has_none_of_it(own_server: Any, tmp_path: Path) -> None:
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)

    def write(connection: Connection) -> None:
        connection.exec_driver_sql("INSERT INTO event VALUES (1, 1.0, 'job_noted', 1, '')")
        own_server.stop("immediate")
        connection.exec_driver_sql("INSERT INTO event VALUES (2, 1.0, 'job_noted', 1, '')")

    with closing(store.open()) as log:
        with pytest.raises(StoreFull, match="cannot be written now"):
            log._backend.transact(write)
        with pytest.raises(StoreFull, match="cannot be reached"):
            log.append(batch_of(1))
        own_server.start()
        assert log.append(batch_of(1)) == 3
        assert seqs(store) == [1, 2, 3]


def test_a_master_that_was_replaced_commits_nothing(store: PostgresqlStore, log: EventLog) -> None:
    log.append([submitted(1)])
    with store.engine().begin() as connection:
        begin_epoch(connection)
    for _ in range(2):
        with pytest.raises(StoreBroken, match=f"was taken over by process {os.getpid()} on"):
            log.append([submitted(2)])
    assert seqs(store) == [1]


def test_one_that_is_replaced_in_the_middle_of_a_batch_may_finish_it_and_no_other(
    store: PostgresqlStore, log: EventLog
) -> None:
    """Whoever takes over sees everything that was acknowledged before."""
    log.append([submitted(1)])
    with store.engine().begin() as connection:
        begin_epoch(connection)
        before = connection.exec_driver_sql("select max(seq) from event").scalar()
    with pytest.raises(StoreBroken):
        log.append([submitted(2)])
    assert seqs(store) == [1] and before == 1


def test_the_lock_is_taken_again_where_nobody_has_it(store: PostgresqlStore, log: EventLog) -> None:
    terminate(store, "%lock")
    assert "gsched master's lock" not in store.server.sessions(store.place)
    assert log.append([submitted(1)]) == 1
    assert "gsched master's lock" in store.server.sessions(store.place)


def test_the_lock_of_another_master_ends_this_one(store: PostgresqlStore, log: EventLog, tmp_path: Path) -> None:
    log.append([submitted(1)])
    terminate(store, "%lock")
    other = tmp_path / "other"
    other.mkdir()
    with closing(EventLog(store.place, folder=other)) as new:
        with pytest.raises(StoreBroken, match=f"was taken over by process {os.getpid()} on"):
            log.append([submitted(2)])
        assert new.append([submitted(2)]) == 2


def test_a_session_of_its_own_that_the_server_still_holds_is_waited_for(
    store: PostgresqlStore, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a network that failed for a moment: the lock is taken, but no other master has an epoch."""
    log.append([submitted(1)])
    terminate(store)
    left = LeadershipLock(parse_store_url(store.place))
    left.take()
    with monkeypatch.context() as patch:
        patch.setattr(leadership, "_PATIENCE_MS", 1)
        for _ in range(2):
            with pytest.raises(StoreFull, match=r"is in use by .* nobody else leads it: it is asked for again"):
                log.append([submitted(2)])
    left.release()
    assert log.append([submitted(2)]) == 2


def test_a_commit_that_no_standby_has_is_not_acknowledged_by_looking_it_up(own_server: Any, tmp_path: Path) -> None:
    """A session that is ended while it waits for a standby has committed on its own machine alone."""
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid <> %s"
    with closing(store.open()) as log, ThreadPoolExecutor(1) as pool:
        own_server.configure(synchronous_standby_names="none_here")
        append = pool.submit(log.append, batch_of(1))

        def waits(but: int) -> int:
            """The session that waits for the standby; 0: the batch was acknowledged."""
            found: list[int] = []

            def looked() -> bool:
                found.extend(int(row[0]) for row in connection.execute(waiting, (but,)).fetchall())
                return bool(found) or append.done()

            with own_server.admin() as connection:
                until(looked)
            return found[0] if found else 0

        try:
            first = waits(0)
            terminate(store, "gsched master")
            assert first and waits(first)
        finally:
            own_server.configure(synchronous_standby_names=None)
        assert append.result() == 3


def test_a_promise_that_is_taken_back_does_not_count_for_the_session_that_writes(
    own_server: Any, tmp_path: Path
) -> None:
    store = PostgresqlStore(own_server.new_url(), tmp_path, own_server)
    found = []
    with closing(store.open()) as log:
        log.append(batch_of(1))
        own_server.configure(synchronous_commit="off", statement_timeout="1h")
        try:
            for setting in ("synchronous_commit", "statement_timeout"):
                log._backend.transact(
                    lambda connection, name=setting: found.append(connection.exec_driver_sql(f"SHOW {name}").scalar())
                )
        finally:
            own_server.configure(synchronous_commit=None, statement_timeout=None)
        assert found == ["on", "0"]
        assert log.append(batch_of(2)) == 6


def test_a_connection_is_set_up_by_one_question(store: PostgresqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master opens several when it takes over, and on a busy machine each answer takes its time."""
    from gsched.store.tables.answer_limit import LimitedConnection  # needs psycopg

    asked: list[object] = []
    wait = LimitedConnection.wait

    def counted(self: Any, gen: Any, *limits: Any, **named: Any) -> Any:
        asked.append(gen)
        return wait(self, gen, *limits, **named)

    monkeypatch.setattr(LimitedConnection, "wait", counted)
    with closing(connect(parse_store_url(store.place), "master")) as connection:
        assert len(asked) == 1
        names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
        assert [connection.execute(f"SHOW {name}").fetchone() for name in names] == [("10s",), ("0",), ("15s",), ("0",)]


def limit(connection: Any, seconds: float) -> None:
    connection.connection.driver_connection.answer_s = seconds


def test_a_server_that_hangs_is_given_up_and_connected_anew(store: PostgresqlStore, log: EventLog) -> None:
    """Its kernel keeps the connections of a stopped process, so nothing but the silence tells."""
    log.append(batch_of(1), blobs={blob_id(b"x"): b"x"})
    limit(log._backend._writer._connection, 0.5)  # type: ignore[attr-defined]
    with log._backend.readers.connect() as connection:
        limit(connection, 0.5)
    with store.server.stopped_sessions(store.place):
        with pytest.raises(StoreFull, match=r"cannot be written now: the server has not answered for 0\.5 seconds"):
            log.append(batch_of(2))
        assert log.get_blob(blob_id(b"x")) == b"x"
        assert log.append(batch_of(2)) == 6
    assert log.append(batch_of(3)) == 9
    assert seqs(store) == list(range(1, 10))


def test_a_commit_whose_answer_does_not_come_is_looked_up(
    store: PostgresqlStore, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(batch_of(1))
    limit(log._backend._writer._connection, 0.5)  # type: ignore[attr-defined]
    with ExitStack() as stack:
        stopping = store.server.stopped_sessions(store.place)
        breaking(log, monkeypatch, lambda: stack.enter_context(stopping), commits=True)
        assert log.append(batch_of(2)) == 6
        log.close()
    assert seqs(store) == list(range(1, 7))


CHILD = """
import sys
from pathlib import Path
from gsched.store.eventlog import EventLog
log = EventLog(sys.argv[1], folder=Path(sys.argv[2]))
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_master_that_is_killed_leaves_the_store_free(store: PostgresqlStore, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    words = [sys.executable, "-c", CHILD, store.place, str(folder)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "open\n"
    with pytest.raises(StoreInUse, match=f"process {child.pid} on"):
        store.open()
    child.kill()
    child.communicate()
    with closing(store.open()) as log:
        assert log.append([submitted(1)]) == 1


def test_a_store_that_has_gone_back_in_time_is_noticed_while_it_is_used(store: PostgresqlStore, log: EventLog) -> None:
    log.append([submitted(1)])
    store.damage("update leader set batch = batch - 1")
    with pytest.raises(StoreBroken, match="has gone back in time"):
        log.append([submitted(2)])


def test_and_by_the_next_start(store: PostgresqlStore) -> None:
    with closing(store.open()) as log:
        for number in (1, 2, 3):
            log.append([submitted(number)], next_job_id=number + 1)
        mark = log.mark
    assert (store.folder / MARK_NAME).exists()
    store.damage("delete from event where seq = 3")
    with pytest.raises(StoreLost, match=r"has lost events 3 to 3, of which STORE\.mark knows$"):
        store.open()
    with closing(store.open(renew=True)) as log:
        assert (log.last_seq, log.generation, log.numbers_from) == (2, mark.generation + 1, 4)
        assert log.renewed is not None and log.renewed.goes_on
    with closing(store.open()) as log:
        assert log.generation == mark.generation + 1


def test_an_empty_database_in_place_of_one_that_is_known_is_refused(
    store: PostgresqlStore, postgresql_server: Any
) -> None:
    with closing(store.open()) as log:
        log.append([submitted(1)], next_job_id=2)
        cluster_id = log.cluster_id
    empty = PostgresqlStore(postgresql_server.new_url(), store.folder, postgresql_server)
    with pytest.raises(StoreLost, match=r"is missing or empty, but STORE\.mark knows of one"):
        empty.open()
    assert not empty.rows("select 1 from pg_tables where schemaname = current_schema()")
    with closing(empty.open(renew=True)) as log:
        assert (log.cluster_id, log.generation, log.last_seq) == (cluster_id, 2, 0)


def test_another_clusters_store_is_never_gone_on_with(store: PostgresqlStore, postgresql_server: Any) -> None:
    with closing(store.open()) as log:
        log.append([submitted(1)], next_job_id=2)
    elsewhere = store.folder / "elsewhere"
    elsewhere.mkdir()
    other = PostgresqlStore(postgresql_server.new_url(), elsewhere, postgresql_server)
    other.open().close()
    other.folder = store.folder
    for renew in (False, True):
        with pytest.raises(Conflict, match="is not the one that"):
            other.open(renew=renew)


def test_a_server_that_keeps_no_promises_is_refused(store: PostgresqlStore, postgresql_server: Any) -> None:
    user = store.place.partition("//")[2].partition("@")[0]
    with postgresql_server.admin() as connection:
        connection.execute(f"ALTER ROLE {user} SET synchronous_commit = off")
    with pytest.raises(Conflict) as refused:
        store.open()
    assert refused.value.text.endswith("has synchronous_commit = off, so a commit would be acknowledged too early")
    assert not store.rows("select 1 from pg_tables where schemaname = current_schema()")


def test_a_server_that_breaks_its_promise_later_is_not_written(
    store: PostgresqlStore, log: EventLog, postgresql_server: Any
) -> None:
    user = store.place.partition("//")[2].partition("@")[0]
    with postgresql_server.admin() as connection:
        connection.execute(f"ALTER ROLE {user} SET synchronous_commit = off")
        terminate(store)
        with pytest.raises(StoreFull, match="has synchronous_commit = off"):
            log.append([submitted(1)])
        connection.execute(f"ALTER ROLE {user} RESET synchronous_commit")
    assert log.append([submitted(1)]) == 1


def test_a_database_closed_for_writing_is_a_reason_to_wait(
    store: PostgresqlStore, log: EventLog, postgresql_server: Any
) -> None:
    user = store.place.partition("//")[2].partition("@")[0]
    with postgresql_server.admin() as connection:
        connection.execute(f"ALTER ROLE {user} SET default_transaction_read_only = on")
        terminate(store)
        with pytest.raises(StoreFull, match="read-only transaction"):
            log.append([submitted(1)])
        connection.execute(f"ALTER ROLE {user} RESET default_transaction_read_only")
    terminate(store)
    assert log.append([submitted(1)]) == 1


def test_somebody_elses_tables_are_left_alone(store: PostgresqlStore) -> None:
    store.damage("create table customers (name text)")
    with pytest.raises(Conflict, match="is a database, but not a gsched store"):
        store.open()
    with pytest.raises(Conflict, match="is a database, but not a gsched store"):
        store.history()
    assert store.rows("select tablename from pg_tables where schemaname = current_schema()") == [("customers",)]


def test_a_newer_store_is_refused(store: PostgresqlStore) -> None:
    store.open().close()
    epoch = store.rows("select epoch from leader")
    store.damage("update meta set value = '99' where key = 'schema_version'")
    for attempt in (store.open, store.history):
        with pytest.raises(Conflict, match="has format 99, made by a newer gsched"):
            attempt()
    assert store.rows("select epoch from leader") == epoch


def test_a_database_that_is_not_there_is_said_in_one_line(postgresql_server: Any, tmp_path: Path) -> None:
    place = postgresql_server.new_url().replace("/tests?", "/none?")
    for attempt in (lambda: EventLog(place, folder=tmp_path), lambda: History(place)):
        with pytest.raises(GschedError, match='database "none" does not exist') as refused:
            attempt()
        assert "\n" not in refused.value.text
    EventLog(postgresql_server.new_url(), folder=tmp_path).close()  # the folder is free again


def test_nothing_there_is_no_store(store: PostgresqlStore) -> None:
    with pytest.raises(NotFound, match="the database is empty"):
        store.history()


def test_texts_are_kept_and_compared_as_in_a_file(store: PostgresqlStore, log: EventLog) -> None:
    names = ["a b", "a-b", "aB", "ab", "a_b", "é", "Ä" * 300, "none\0of this"]
    log.append([noted(1)], [job_row(number, name=name, user="u" * 300) for number, name in enumerate(names, 1)])
    history = store.history()

    def found(pattern: str) -> list[int]:
        wanted = HistoryQuery(jobs=JobFilter(name=pattern, finished=True))
        return sorted(number for number, _ in history.newest(wanted, 100))

    assert [row.name for row in history.rows_of([8])] == ["none�of this"]
    assert found("a*") == [1, 2, 3, 4, 5] and found("a_b") == [5] and found("aB*") == [3] and found("Ä*") == [7]
    assert len(history.rows_of(range(1, 9))) == 8
    history.close()


def test_a_full_batch_of_every_kind_is_one_transaction(store: PostgresqlStore, log: EventLog) -> None:
    def write(connection: Connection) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log._backend.transact(write)
    assert log.append(batch_of(1)) == 3
    assert store.rows("select batch from leader") == [(1,)]


def test_a_password_is_taken_from_its_file(postgresql_server: Any, tmp_path: Path) -> None:
    url = postgresql_server.new_url()
    user = url.partition("//")[2].partition("@")[0]
    with postgresql_server.admin() as connection:
        connection.execute(f"ALTER ROLE {user} PASSWORD 'open sesame'")
    with postgresql_server.asking_password(user):
        file = tmp_path / "password"
        file.write_text("open sesame\n")
        file.chmod(0o644)
        place = f"{url}&password_file={file}"
        for attempt in (lambda: EventLog(place, folder=tmp_path), lambda: History(place)):
            with pytest.raises(BadRequest, match=re.escape(f"chmod 600 {file}")):
                attempt()
        file.chmod(0o600)
        with closing(EventLog(place, folder=tmp_path)) as log:
            log.append([submitted(1)])
            assert "sesame" not in log.place + log.name
            history = History(log.place)
            assert history.last_seq() == 1
            history.close()
        file.write_text("wrong\n")
        with pytest.raises(GschedError, match="password authentication failed") as refused:
            EventLog(place, folder=tmp_path)
        assert "wrong" not in refused.value.text and "\n" not in refused.value.text
