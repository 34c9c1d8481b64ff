"""Rows are small, what is in them comes out again, and rows of before are still read."""

from __future__ import annotations

import random
import zlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import SPEC, job_row, noted, submitted
from stores import SqliteStore, StoreAtHand

from gsched.base.errors import Internal
from gsched.master.upkeep.store_upkeep import LATER_S, PACKING_PAUSE_S, StoreUpkeep
from gsched.model.config import Params
from gsched.model.event import AnyEvent, JobDispatched, JobSubmitted, encode_event
from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.integrity import Integrity
from gsched.store.packing import blob_packing
from gsched.store.packing.blob_packing import BlobPacking
from gsched.store.packing.packed_blobs import pack, unpack
from gsched.store.packing.packed_events import _DICTIONARY, pack_event, unpack_event
from gsched.store.passing_blobs import given_input
from gsched.store.safeguards.failure import StoreBroken, StoreFull
from gsched.store.safeguards.quarantine import Quarantine, Quarantined, read_events
from gsched.store.tables.records import StoredEvent
from gsched.store.transfer import copy_whole_store
from tests.support.property_examples import examples

WORDS = [f"VARIABLE_{number}=/opt/software/{number * 7}/lib".encode() for number in range(60)]
"""What environments have in common, 2 kB."""


def environment(number: int) -> bytes:
    own = random.Random(number).randbytes(8).hex().encode()
    return b"".join(each + b"\0" for each in [*WORDS[:30], b"RUN=" + own, *WORDS[30:]])


def dispatched(job_id: int) -> JobDispatched:
    host = HostAllocation(host="gpu01", slots=1, amounts={"mem": 100.0})
    return JobDispatched(at=1001.5, job_id=job_id, attempt=1, allocation=Allocation(hosts=(host,)), effective_req="")


def put(log: EventLog, *contents: bytes) -> list[str]:
    """As a submission of its own for each."""
    for content in contents:
        log.append([submitted(log.last_seq + 1)], blobs={blob_id(content): content})
    return [blob_id(content) for content in contents]


def bytes_of_blobs(store: StoreAtHand) -> int:
    return int(store.rows("select sum(length(data)) from blob")[0][0])


# -- events ------------------------------------------------------------------------------------------------------------


@given(payload=st.binary())
@settings(max_examples=examples(50), deadline=None)
def test_any_payload_comes_out_as_it_went_in(payload: bytes) -> None:
    assert unpack_event(pack_event(payload)) == payload


def test_an_event_takes_a_third_of_its_json_at_most(log: EventLog, store: StoreAtHand) -> None:
    events: list[AnyEvent] = [submitted(1), dispatched(1)]
    log.append(events)
    (stored,) = store.rows("select sum(length(payload)) from event")
    assert int(stored[0]) < sum(len(encode_event(each)) for each in events) / 3
    assert list(log.read()) == list(enumerate(events, 1))


def test_the_first_dictionary_stays_as_it_was_released() -> None:
    """What was packed with it could not be read otherwise."""
    assert (len(_DICTIONARY), zlib.crc32(_DICTIONARY)) == (2836, 3766577274)


def test_events_of_before_are_read_beside_those_of_now(log: EventLog, store: StoreAtHand) -> None:
    log.append([submitted(1), noted(1)])
    store.damage("update event set payload = ? where seq = 1", encode_event(submitted(1)))
    assert list(log.read()) == [(1, submitted(1)), (2, noted(1))]


def test_a_damaged_event_sets_its_job_aside_and_ends_no_start() -> None:
    data = pack_event(encode_event(noted(1)))
    for place in range(len(data)):
        for damaged in (data[:place], data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]):
            record = StoredEvent(1, 1001.0, "job_noted", 1, unpack_event(damaged))
            assert len(list(read_events([record], 0, Quarantine()))) == 1
    (cut,) = read_events([StoredEvent(1, 1001.0, "job_noted", 1, unpack_event(data[:-1]))], 0, Quarantine())
    assert isinstance(cut, Quarantined)


# -- blobs -------------------------------------------------------------------------------------------------------------


@given(contents=st.lists(st.binary() | st.sampled_from([environment(n) for n in range(5)]), max_size=20))
@settings(max_examples=examples(50), deadline=None)
def test_any_content_comes_out_as_it_went_in(contents: list[bytes]) -> None:
    packing = BlobPacking()
    rows = [packing.pack(each) for each in contents]
    words = dict(packing.unsaved)
    assert [unpack(row, words.__getitem__) for row in rows] == contents


def test_a_content_that_looks_packed_is_what_it_is(log: EventLog) -> None:
    content = pack(b"echo\n" * 100)
    short = content[:8]
    names = put(log, content, short)
    assert [log.get_blob(name) for name in names] == [content, short]


def test_what_differs_in_little_from_what_is_there_takes_little(log: EventLog, store: StoreAtHand) -> None:
    put(log, environment(0), environment(1))
    before = bytes_of_blobs(store)
    names = put(log, *[environment(number) for number in range(2, 12)])
    assert bytes_of_blobs(store) - before < 10 * 120 < 10 * len(zlib.compress(environment(2), 9))
    assert [log.get_blob(name) for name in names] == [environment(number) for number in range(2, 12)]


def test_a_dictionary_has_what_several_share_and_nothing_of_one_alone() -> None:
    packing = BlobPacking()
    for number in range(3):
        packing.pack(environment(number))
    ((_, words),) = packing.unsaved
    assert words == b"".join(each + b"\0" for each in WORDS)


def test_the_same_content_again_makes_no_dictionary() -> None:
    packing = BlobPacking()
    assert packing.pack(environment(1)) == packing.pack(environment(1))
    assert packing.unsaved == []


def test_what_is_alike_is_found_after_a_restart(log: EventLog, store: StoreAtHand) -> None:
    put(log, environment(0), environment(1))
    log.close()
    before = bytes_of_blobs(store)
    with closing(store.open()) as again:
        (name,) = put(again, environment(2))
        assert again.get_blob(name) == environment(2)
    assert bytes_of_blobs(store) - before < 120
    assert store.rows("select count(*) from dictionary") == [(1,)]


def test_a_dictionary_goes_with_the_batch_that_needs_it(
    log: EventLog, store: StoreAtHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that was not stored is given again: its dictionary is not there yet."""
    put(log, environment(0))
    refused = RuntimeError("before the commit")

    def full(*_: object, **__: object) -> None:
        raise refused

    batch = {blob_id(environment(1)): environment(1)}
    with monkeypatch.context() as once, pytest.raises(RuntimeError):
        once.setattr("gsched.store.eventlog.put_jobs", full)
        log.append([submitted(7)], [job_row(7)], batch)
    log.append([submitted(7)], [job_row(7)], batch)
    log.close()
    with closing(store.open()) as again:
        assert again.get_blob(blob_id(environment(1))) == environment(1)


def test_there_is_a_limit_to_dictionaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_packing, "MOST_DICTIONARIES", 2)
    packing = BlobPacking()
    for kind in range(4):
        for number in range(3):
            packing.pack(bytes(random.Random(kind).choices(b"abcdefgh \n", k=2000)) + b"%d\n" % number)
    assert [number for number, _ in packing.unsaved] == [1, 2]


def test_what_is_passing_stays_as_it_is(log: EventLog, store: StoreAtHand) -> None:
    """The store drops nothing whose mark it does not see."""
    given_text = given_input(b"line\n" * 1000)
    (name,) = put(log, given_text)
    assert bytes(store.rows("select data from blob")[0][0]) == given_text
    log.append([], dropped=[name])
    assert store.rows("select count(*) from blob") == [(0,)]


def test_blobs_of_before_are_read(log: EventLog, store: StoreAtHand) -> None:
    store.damage("insert into blob (id, data) values (?, ?)", blob_id(environment(1)), environment(1))
    assert log.get_blob(blob_id(environment(1))) == environment(1)


def test_a_lost_dictionary_is_told_and_gives_nobody_a_wrong_content(log: EventLog, store: StoreAtHand) -> None:
    names = put(log, environment(0), environment(1), environment(2))
    log.close()
    store.damage("delete from dictionary")
    with closing(store.open()) as again, pytest.raises(Internal, match=f"blob {names[2]} of the store .* is damaged"):
        again.get_blob(names[2])
    with closing(store.history()) as history, closing(Integrity(history)) as integrity:
        assert sorted(integrity.damaged_blobs()) == sorted(f"blob {name} is not what was stored" for name in names[1:])


def test_a_whole_store_is_sound_and_its_copy_is_read_as_well(log: EventLog, store: StoreAtHand) -> None:
    names = put(log, environment(0), environment(1), environment(2), SPEC.command.encode())
    with closing(store.history()) as history, closing(Integrity(history)) as integrity:
        assert list(integrity.damaged_blobs()) == []
    log.close()
    (store.folder / "copy").mkdir()
    copy_whole_store(store.place, str(store.folder / "copy" / "store.db"))
    with closing(EventLog(store.folder / "copy" / "store.db")) as copy:
        assert copy.get_blob(names[2]) == environment(2)


# -- later -------------------------------------------------------------------------------------------------------------


def large_batch(first: int, count: int) -> tuple[list[AnyEvent], dict[str, bytes]]:
    spec = msgspec.structs.replace(SPEC, environment="0" * 64, cwd="/home/ann/" + "experiments/" * 30)
    events: list[AnyEvent] = [
        JobSubmitted(at=1000.0, job_id=first + at, spec=spec, token=f"t{first + at}") for at in range(count)
    ]
    contents = [environment(first + at) for at in range(count)]
    return events, {blob_id(each): each for each in contents}


def pack_all(log: EventLog) -> int:
    """How many pieces that took."""
    pieces = 0
    while log.has_unpacked:
        log.pack_some()
        pieces += 1
    return pieces


def test_a_large_batch_is_packed_afterwards(log: EventLog, store: StoreAtHand) -> None:
    events, blobs = large_batch(1, 120)
    log.append(events, blobs=blobs)
    before = bytes_of_blobs(store)
    assert before == sum(map(len, blobs.values())), "nobody waits for that"
    assert pack_all(log) == 3
    assert bytes_of_blobs(store) < before / 10
    (stored,) = store.rows("select sum(length(payload)) from event")
    assert int(stored[0]) < sum(len(encode_event(each)) for each in events) / 3
    assert list(log.read()) == list(enumerate(events, 1))
    assert all(log.get_blob(name) == content for name, content in blobs.items())
    log.pack_some()  # of nothing


def test_packing_afterwards_gives_pages_back_to_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with closing(store.open()) as log:
        events, blobs = large_batch(1, 500)
        log.append(events, blobs=blobs)
        ((before,),) = store.rows("select sum(pgsize) from dbstat where name in ('event', 'blob')")
        pack_all(log)
        ((after,),) = store.rows("select sum(pgsize) from dbstat where name in ('event', 'blob')")
    assert after < before / 4


def test_what_is_there_already_is_not_packed_twice(log: EventLog) -> None:
    events, blobs = large_batch(1, 60)
    for name, content in blobs.items():
        log.append([submitted(log.last_seq + 1)], blobs={name: content})
    log.append(events, blobs=blobs)
    pack_all(log)
    assert all(log.get_blob(name) == content for name, content in blobs.items())


def test_a_large_batch_with_what_looks_packed(log: EventLog) -> None:
    contents = [pack(b"%d " % number * 500) for number in range(60)]
    log.append([submitted(1)], blobs={blob_id(each): each for each in contents})
    for _ in range(2):
        assert [log.get_blob(blob_id(each)) for each in contents] == contents
        pack_all(log)


def test_a_piece_that_is_not_stored_comes_again(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    events, blobs = large_batch(1, 60)
    log.append(events, blobs=blobs)

    def full(*_: object) -> None:
        raise StoreFull("no room")

    with monkeypatch.context() as once, pytest.raises(StoreFull):
        once.setattr("gsched.store.packing.row_packing.PackedPiece.write", full)
        log.pack_some()
    upkeep = StoreUpkeep(log, lambda *_: None)
    now = 5.0
    while log.has_unpacked:
        assert upkeep.due_at(now) <= now + PACKING_PAUSE_S
        now = upkeep.due_at(now)
        upkeep.step(Params(), now)
    assert list(log.read()) == list(enumerate(events, 1))
    assert all(log.get_blob(name) == content for name, content in blobs.items())


def test_the_master_waits_with_packing_after_a_piece_that_was_refused(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events, blobs = large_batch(1, 60)
    log.append(events, blobs=blobs)
    upkeep = StoreUpkeep(log, lambda *_: None)

    def full(*_: object) -> None:
        raise StoreFull("no room")

    with monkeypatch.context() as once:
        once.setattr("gsched.store.packing.row_packing.PackedPiece.write", full)
        upkeep.step(Params(), 5.0)
    assert "rows of large submissions are packed later: no room" in caplog.text
    upkeep.step(Params(), 5.0 + LATER_S / 2)
    assert log.has_unpacked and upkeep.due_at(5.0) == 5.0 + LATER_S
    upkeep.step(Params(), 5.0 + LATER_S + 1)
    upkeep.step(Params(), 5.0 + LATER_S + 2)
    assert not log.has_unpacked


def test_a_master_that_does_not_know_what_is_stored_goes_on_with_nothing(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, blobs = large_batch(1, 60)
    log.append(events, blobs=blobs)
    upkeep = StoreUpkeep(log, lambda *_: None)

    def broken(*_: object, **__: object) -> None:
        raise StoreBroken("the commit has failed")

    monkeypatch.setattr(log._backend, "transact", broken)
    with pytest.raises(StoreBroken):
        upkeep.step(Params(host_history_days=0), 5.0)
    with pytest.raises(StoreBroken):
        upkeep.step(Params(host_history_days=1), 5.0)
