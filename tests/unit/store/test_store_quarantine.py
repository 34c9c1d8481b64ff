"""One bad record costs one job, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_samples import noted, submitted
from stores import SqliteStore, StoreAtHand

from gsched.model.event import HostClosed, encode_event, kind_of
from gsched.store.safeguards.quarantine import Quarantine, Quarantined, read_events
from gsched.store.tables.records import StoredEvent

HARM = {
    "cut short": "update event set payload = substr(payload, 1, 10) where seq = 3",
    "not UTF-8": """update event set payload = x'7b226b696e64223a22ff227d' where seq = 3""",
    "of no known kind": 'update event set payload = cast(\'{"kind":"job_painted"}\' as blob) where seq = 3',
    "without its fields": 'update event set payload = cast(\'{"kind":"job_noted"}\' as blob) where seq = 3',
    "a number": "update event set payload = 17 where seq = 3",
    "empty": "update event set payload = x'' where seq = 3",
    "deeply nested": "update event set payload = cast(replace(hex(zeroblob(50000)), '00', '[') as blob) where seq = 3",
    "of another kind than its row": "update event set kind = 'job_started' where seq = 3",
    "of a kind that is no text": "update event set kind = cast(x'ff' as text) where seq = 3",
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_a_bad_record_sets_its_job_aside_and_no_other(store_file: Path, harm: str) -> None:
    store = SqliteStore(store_file)
    log = store.open()
    events = [submitted(1), submitted(2), noted(1), noted(2), noted(1), HostClosed(at=1.0, host="h", by="root")]
    log.append(events)
    log.close()
    store.damage(harm)
    log = store.open()
    quarantine = Quarantine()
    found = list(log.read(0, quarantine))
    log.close()
    assert [entry for entry in found if isinstance(entry, tuple)] == [(seq, events[seq - 1]) for seq in (1, 2, 4, 6)]
    aside = [entry for entry in found if isinstance(entry, Quarantined)]
    assert [(entry.seq, entry.job_id) for entry in aside] == [(3, 1), (5, 1)]
    assert set(quarantine.reasons) == {1}
    assert quarantine.reasons[1].startswith("record 3 (")
    assert aside[0].text == aside[1].text == quarantine.reasons[1]


@pytest.mark.parametrize("payload", [b"{", b"", b'{"kind":"job_painted"}', b"\xff", b"[" * 50_000])
def test_a_bad_payload_sets_its_job_aside_in_either_database(store: StoreAtHand, payload: bytes) -> None:
    log = store.open()
    log.append([submitted(1), submitted(2), noted(1), noted(2)])
    log.close()
    store.damage("update event set payload = ? where seq = 3", payload)
    log = store.open()
    found = list(log.read())
    log.close()
    assert [entry.seq for entry in found if isinstance(entry, Quarantined)] == [3]
    assert (4, noted(2)) in found


def test_odd_values_in_other_columns_stop_nothing(store_file: Path) -> None:
    store = SqliteStore(store_file)
    log = store.open()
    log.append([submitted(1), noted(1), submitted(2)])
    log.close()
    store.damage("update event set at = 'yesterday' where seq = 1")
    store.damage("update event set job_id = 'one' where seq = 2")
    log = store.open()
    quarantine = Quarantine()
    found = list(log.read(0, quarantine))
    assert [record.at for record in log.replay()] == [0.0, 1001.0, 1000.0]
    log.close()
    assert found[0] == (1, submitted(1))
    assert isinstance(found[1], Quarantined)
    assert found[2] == (3, submitted(2))


def test_a_payload_repaired_as_text_is_read(store_file: Path) -> None:
    store = SqliteStore(store_file)
    log = store.open()
    log.append([noted(1, "old")])
    log.close()
    store.damage("update event set payload = ?", encode_event(noted(1, "new")).decode())
    log = store.open()
    assert list(log.read()) == [(1, noted(1, "new"))]
    log.close()


def test_a_record_of_no_job_is_reported_alone() -> None:
    records = [StoredEvent(1, 0.0, "host_closed", None, b"?"), record(2, submitted(1))]
    quarantine = Quarantine()
    found = list(read_events(records, 0, quarantine))
    assert isinstance(found[0], Quarantined)
    assert (found[0].seq, found[0].job_id) == (1, None)
    assert found[1] == (2, submitted(1))
    assert not quarantine.reasons


def test_a_record_of_two_jobs_sets_both_aside() -> None:
    records = [
        record(1, submitted(1)),
        record(2, submitted(2)),
        record(3, noted(1))._replace(job_id=2),
        record(4, noted(1)),
        record(5, noted(2)),
    ]
    quarantine = Quarantine()
    found = list(read_events(records, 0, quarantine))
    assert [entry.seq for entry in found if isinstance(entry, Quarantined)] == [3, 4, 5]
    assert set(quarantine.reasons) == {1, 2}


def test_a_hole_in_the_numbers_is_reported() -> None:
    records = [record(2, submitted(1)), record(3, noted(1)), record(7, noted(1))]
    found = list(read_events(records, 0, Quarantine()))
    assert [entry for entry in found if isinstance(entry, Quarantined)] == [
        Quarantined(1, None, "record 1 is missing"),
        Quarantined(4, None, "records 4 to 6 are missing"),
    ]
    assert len(found) == 5


def test_a_job_set_aside_before_the_checkpoint_stays_aside() -> None:
    quarantine = Quarantine({1: "record 3 was bad"})
    found = list(read_events([record(9, noted(1)), record(10, noted(2))], 8, quarantine))
    assert found == [Quarantined(9, 1, "record 3 was bad"), (10, noted(2))]


def test_who_applies_the_events_can_set_a_job_aside_meanwhile() -> None:
    quarantine = Quarantine()
    found = []
    for entry in read_events([record(1, submitted(1)), record(2, noted(1)), record(3, noted(2))], 0, quarantine):
        found.append(entry)
        if entry == (1, submitted(1)):
            quarantine.add(1, "does not apply")
            quarantine.add(1, "a later reason")
    assert found[1:] == [Quarantined(2, 1, "does not apply"), (3, noted(2))]
    assert quarantine.holds(1)
    assert not quarantine.holds(2)
    assert quarantine.lines() == ("job 1: does not apply",)


@given(payloads=st.lists(st.one_of(st.binary(max_size=40), st.just(encode_event(noted(1)))), max_size=8))
def test_no_payload_stops_a_replay(payloads: list[bytes]) -> None:
    records = [StoredEvent(seq, 0.0, "job_noted", 1, payload) for seq, payload in enumerate(payloads, 1)]
    records.append(record(len(payloads) + 1, submitted(99)))
    found = list(read_events(records, 0, Quarantine()))
    assert len(found) == len(records)
    assert found[-1] == (len(records), submitted(99))


def record(seq: int, event: object) -> StoredEvent:
    job_id = getattr(event, "job_id", None)
    return StoredEvent(seq, 1.0, kind_of(event), job_id, encode_event(event))  # type: ignore[arg-type]
