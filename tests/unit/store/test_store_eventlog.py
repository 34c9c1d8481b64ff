"""What goes in comes out: events, rows, blobs, checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection
from store_samples import SPEC, batch_of, job_row, noted, submitted
from stores import SqliteStore, StoreAtHand

from gsched.base.errors import BadRequest, Internal, NotFound
from gsched.model.event import AnyEvent, ConfigApplied, HostClosed, JobDispatched, JobFinished, JobNoted, JobSubmitted
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.store.checkpoint_parts import part_id
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.passing_blobs import content_of, given_input, own_message
from gsched.store.tables.schema import event
from tests.support.property_examples import examples

times = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.integers(1, 2**53)
# Everything that Python holds as text and UTF-8 can say, NUL included.
texts = st.text(st.characters(codec="utf-8"))
specs = st.builds(JobSpec, command=texts, user=texts, queue=texts, slots=st.integers(1, 10**6), hosts=st.tuples(texts))
results = st.builds(
    AttemptResult, exit_code=st.none() | st.integers(0, 255), problem=texts, usage=st.builds(Usage, cpu_s=times)
)
gpus = st.builds(HeldGpu, uuid=texts, index=st.integers(0, 15), claim=texts)
hosts = st.builds(
    HostAllocation,
    host=texts,
    slots=st.integers(1, 64),
    gpus=st.lists(gpus, max_size=3).map(tuple),
    amounts=st.dictionaries(texts, times, max_size=2),
)
allocations = st.builds(Allocation, hosts=st.lists(hosts, min_size=1, max_size=3).map(tuple))
events: st.SearchStrategy[AnyEvent] = st.one_of(
    st.builds(JobSubmitted, at=times, job_id=numbers, spec=specs, token=texts, place=st.integers(0, 10)),
    st.builds(JobDispatched, at=times, job_id=numbers, attempt=numbers, allocation=allocations, effective_req=texts),
    st.builds(JobNoted, at=times, job_id=numbers, text=texts),
    st.builds(JobFinished, at=times, job_id=numbers, attempt=numbers, result=results),
    st.builds(HostClosed, at=times, host=texts, by=texts, comment=texts),
    st.builds(ConfigApplied, at=times, digest=texts, by=texts),
)


@pytest.fixture(scope="module")
def shared_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventLog]:
    opened = EventLog(tmp_path_factory.mktemp("store") / "store.db")
    yield opened
    opened.close()


@settings(max_examples=examples(20), deadline=None)
@given(batches=st.lists(st.lists(events, max_size=6), max_size=4))
def test_replay_yields_what_was_appended(shared_log: EventLog, batches: list[list[AnyEvent]]) -> None:
    before = shared_log.last_seq
    for batch in batches:
        expected = shared_log.last_seq + len(batch)
        assert shared_log.append(batch) == expected == shared_log.last_seq
    flat = [entry for batch in batches for entry in batch]
    assert list(shared_log.read(before)) == list(enumerate(flat, before + 1))


def test_any_number_of_passing_blobs_is_dropped(shared_log: EventLog) -> None:
    """An array whose program is gone leaves one or two for each element."""
    kept = own_message(b"kept")
    shared_log.append(batch_of(1), blobs={blob_id(kept): kept})
    shared_log.append(batch_of(1), dropped=[*(f"{number:064x}" for number in range(300_000)), blob_id(kept)])
    with pytest.raises(NotFound):
        shared_log.get_blob(blob_id(kept))


def test_passing_blobs_are_dropped_and_no_others(shared_log: EventLog) -> None:
    content = b"print('hello')"
    given, own, again = given_input(content), own_message(content), own_message(content)
    names = [blob_id(each) for each in (content, given, own, again)]
    assert given == given_input(content) and len(set(names)) == 4
    assert {content_of(each) for each in (content, given, own, again)} == {content}
    assert own_message(b"") == b"" and content_of(given_input(b"")) == b""
    shared_log.append(batch_of(1), blobs=dict(zip(names, (content, given, own, again), strict=True)))
    # What is dropped and comes with the same batch is there.
    shared_log.append(batch_of(2), blobs={names[3]: again}, dropped=names)
    assert shared_log.get_blob(names[0]) == content and shared_log.get_blob(names[3]) == again
    for name in names[1:3]:
        with pytest.raises(NotFound):
            shared_log.get_blob(name)


def test_numbers_go_on_after_a_restart(store: StoreAtHand) -> None:
    log = store.open()
    assert log.append(batch_of(1)) == 3
    log.close()
    log = store.open()
    assert log.last_seq == 3
    assert log.append(batch_of(2)) == 6
    assert list(log.read(3)) == list(enumerate(batch_of(2), 4))
    assert [record.seq for record in log.replay()] == [1, 2, 3, 4, 5, 6]
    log.close()


def test_the_columns_say_what_the_payload_says(log: EventLog) -> None:
    log.append([submitted(7, at=5.5), HostClosed(at=6.5, host="h1", by="root")])
    first, second = log.replay()
    assert first[:4] == (1, 5.5, "job_submitted", 7)
    assert second[:4] == (2, 6.5, "host_closed", None)
    assert b'"kind":"host_closed"' in second.payload


def test_a_replay_longer_than_a_page_while_the_log_grows(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.tables.records.PAGE", 10)
    log.append([noted(1, str(n)) for n in range(25)])
    seen = []
    for record in log.replay(2):
        seen.append(record.seq)
        if record.seq == 3:
            log.append([noted(1, "late")])
    assert seen == list(range(3, 27))


def test_nothing_to_store_is_no_commit(store_file: Path) -> None:
    log = EventLog(store_file)
    log.append([submitted(1)])
    before = Path(f"{store_file}-wal").stat().st_size
    assert log.append([]) == 1
    assert Path(f"{store_file}-wal").stat().st_size == before
    log.close()


def test_a_row_is_replaced_whole(store: StoreAtHand, log: EventLog) -> None:
    log.append([submitted(1)], [job_row(1, dispatched_at=5.0)])
    log.append([noted(1)], [job_row(1, state="DONE", finished_at=9.0, exit_code=0), job_row(2)])
    rows = store.rows("select job_id, state, dispatched_at, finished_at from job")
    assert rows == [(1, "DONE", None, 9.0), (2, "PEND", None, None)]


def put_blob(log: EventLog, data: bytes) -> str:
    """Store content that belongs to no event."""
    log.append([], blobs={blob_id(data): data})
    return blob_id(data)


def test_threads_may_append_at_once(log: EventLog) -> None:
    def work(start: int) -> None:
        for number in range(start, start + 20):
            log.append(batch_of(number), [job_row(number)])
            put_blob(log, str(number).encode())

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = list(log.replay())
    assert [record.seq for record in records] == list(range(1, 241))
    for start in range(0, 240, 3):
        assert len({record.job_id for record in records[start : start + 3]}) == 1


def test_readers_see_only_what_is_committed(log: EventLog) -> None:
    log.append([submitted(1)])
    history = History(log.place)
    seen: list[int] = []

    def write(connection: Connection) -> None:
        values = {"seq": 2, "at": 1.0, "kind": "job_noted", "job_id": 1, "payload": b"{}"}
        connection.execute(event.insert(), values)
        seen.append(history.last_seq())

    log._backend.transact(write)
    seen.append(history.last_seq())
    assert seen == [1, 2]
    history.close()


def test_an_exception_in_between_stores_nothing(log: EventLog) -> None:
    def write(connection: Connection) -> None:
        values = {"seq": 1, "at": 1.0, "kind": "job_noted", "job_id": 1, "payload": b"{}"}
        connection.execute(event.insert(), values)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        log._backend.transact(write)
    assert log.append([submitted(1)]) == 1
    assert list(log.read()) == [(1, submitted(1))]


def test_blobs_come_with_the_batch_or_alone(store: StoreAtHand, log: EventLog) -> None:
    script = b"#!/bin/sh\nexit 0\n"
    log.append([submitted(1)], blobs={blob_id(script): script})
    log.append([submitted(2)], blobs={blob_id(script): script})
    assert log.get_blob(blob_id(script)) == script
    put_blob(log, b"")
    put_blob(log, script)
    assert log.get_blob(blob_id(b"")) == b""
    assert store.rows("select count(*) from blob") == [(2,)]


def test_a_blob_under_a_wrong_name_is_refused_with_its_batch(log: EventLog) -> None:
    with pytest.raises(ValueError, match="does not have the content"):
        log.append([submitted(1)], blobs={"0" * 64: b"x"})
    assert log.last_seq == 0


def test_a_blob_that_is_missing_or_damaged_is_said(store: StoreAtHand) -> None:
    log = store.open()
    name = put_blob(log, b"precious")
    log.close()
    store.damage("update blob set data = ?", b"precioux")
    log = store.open()
    with pytest.raises(Internal, match=f"blob {name} of the store .* is damaged"):
        log.get_blob(name)
    with pytest.raises(NotFound, match="has no blob abc"):
        log.get_blob("abc")
    log.close()


def test_what_is_too_large_is_refused_before_it_is_tried(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.eventlog.MAX_BYTES", 10)
    with pytest.raises(BadRequest, match="a checkpoint of 11 bytes is too large"):
        log.save_checkpoint(0, b"x" * 11)
    with pytest.raises(BadRequest, match="a script or environment of 11 bytes"):
        log.append([submitted(1)], blobs={blob_id(b"x" * 11): b"x" * 11})


def test_the_newest_two_checkpoints_are_kept(store: StoreAtHand, log: EventLog) -> None:
    assert log.load_checkpoint() is None
    log.append([noted(1) for _ in range(9)])
    for seq in (3, 5, 5, 9):
        log.save_checkpoint(seq, f"state {seq}".encode())
    assert log.load_checkpoint() == (9, b"state 9")
    assert store.rows("select seq from checkpoint order by seq") == [(3,), (5,), (9,)]  # the first stands for its day


def test_a_checkpoint_of_the_future_is_refused(log: EventLog) -> None:
    with pytest.raises(ValueError, match="a checkpoint of event 1, but 0 is the newest"):
        log.save_checkpoint(1, b"state")


WRONG_TYPES = ("payload = 17", "crc = 'nonsense'")
"""SQLite alone keeps these."""


@pytest.mark.parametrize(
    "harm",
    [
        "update checkpoint set payload = substr(payload, 2) where seq = 4",
        *(f"update checkpoint set {values} where seq = 4" for values in WRONG_TYPES),
        "update checkpoint set seq = 5 where seq = 4",
        "update checkpoint set seq = 3 where seq = 4",
    ],
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(store: StoreAtHand, harm: str) -> None:
    log = store.open()
    log.append([noted(1) for _ in range(4)])
    log.save_checkpoint(2, b"older")
    log.save_checkpoint(4, b"newer")
    log.close()
    if not isinstance(store, SqliteStore) and any(values in harm for values in WRONG_TYPES):
        pytest.skip("this database keeps no value of another type")
    store.damage(harm)
    log = store.open()
    assert log.load_checkpoint() == (2, b"older")
    log.close()
    store.damage("update checkpoint set crc = crc + 1")
    log = store.open()
    assert log.load_checkpoint() is None
    assert len(list(log.read())) == 4
    log.close()


def test_the_spec_survives_every_field(log: EventLog) -> None:
    log.append([submitted(1)])
    (_, stored), *_ = [entry for entry in log.read() if isinstance(entry, tuple)]
    assert isinstance(stored, JobSubmitted)
    assert stored.spec == SPEC


def test_a_checkpoint_in_parts_is_the_parts_together(log: EventLog) -> None:
    log.append([submitted(1)])
    names = [log.put_part(data) for data in (b'{"a":', b"1", b"}")]
    assert not any(name in {blob_id(b"1"), blob_id(b"}")} for name in names)
    assert log.load_checkpoint() is None, "nothing counts before its row is there"
    log.save_checkpoint_of(1, names)
    assert log.load_checkpoint() == (1, b'{"a":1}')


def test_parts_that_no_checkpoint_needs_go_and_nothing_else(log: EventLog) -> None:
    log.append([submitted(1), submitted(2), submitted(3), submitted(4)])
    kept = put_blob(log, b"a script")
    for seq in (1, 2, 3, 4):
        log.save_checkpoint_of(seq, [log.put_part(b"same"), log.put_part(b"%d" % seq)])
    orphan = log.put_part(b"of one that was never finished")
    assert not log.drop_parts(9)
    assert log.load_checkpoint() == (4, b"same4")
    assert log.get_blob(kept) == b"a script"
    with pytest.raises(NotFound):
        log.get_blob(orphan)
    with pytest.raises(NotFound):
        log.get_blob(part_id(b"2"))
    assert log.drop_parts(9) is False


def test_a_damaged_part_makes_the_checkpoint_before_it_count(store: StoreAtHand, log: EventLog) -> None:
    log.append([submitted(1), submitted(2)])
    log.save_checkpoint(1, b"older")
    name = log.put_part(b"newer")
    log.save_checkpoint_of(2, [name])
    log.close()
    store.damage("UPDATE blob SET data = ? WHERE id = ?", b"", name)
    with closing(store.open()) as again:
        assert again.load_checkpoint() == (1, b"older")
