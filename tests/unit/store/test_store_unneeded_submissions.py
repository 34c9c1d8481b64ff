"""What a submission of many jobs was made of goes from the store behind the last of them, where nothing goes by age."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from filled_store import Filled, at_day
from store_samples import SPEC
from stores import StoreAtHand

from gsched.model.event import HostClosed, SubmissionAccepted
from gsched.store.tables.schema import event

RAW = msgspec.Raw(msgspec.json.encode(SPEC))


def accepted(first: int, count: int, day: float, size: int = 0) -> SubmissionAccepted:
    raw = msgspec.Raw(msgspec.json.encode(msgspec.structs.replace(SPEC, command="x" * size))) if size else RAW
    return SubmissionAccepted(
        at=at_day(day), first_id=first, user="ann", specs=(raw,), places=(0,) * count, jobs=count, slots=count
    )


@pytest.fixture
def filled(store: StoreAtHand, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    """Jobs 1 to 7, of three submissions, one that ends each day."""
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 1)
    made = Filled(store)
    made.log.append([accepted(1, 2, 0.1), accepted(3, 2, 0.2, size=2 << 20), accepted(5, 3, 0.3)])
    for number in range(1, 8):
        made.live(number, number)
        made.checkpoint(number + 0.5)
    yield made
    made.log.close()


def raise_floor(filled: Filled, day: float) -> None:
    filled.log.removal.raise_floor(filled.log.removal.next_floor(at_day(day)) or 0)


def look(filled: Filled, most: int = 2) -> int:
    count, after = 0, 0
    while True:
        found = filled.log.removal.remove_unneeded_submissions(after, most)
        count += found.removed
        if found.last is None:
            return count
        assert found.last > after, "no slice looks at the same again"
        after = found.last


def kept(filled: Filled) -> int:
    return len(filled.store.rows(f"SELECT seq FROM {event.name} WHERE kind = 'submission_accepted'"))


def test_it_goes_when_all_of_its_jobs_have_gone(filled: Filled) -> None:
    raise_floor(filled, 6.6)
    assert look(filled) == 0, "no job has gone"
    for day, gone in ((2.5, 1), (3.5, 0), (4.5, 1), (5.5, 0)):
        filled.remove(day)
        assert look(filled) == gone, day
    assert kept(filled) == 1


def test_what_is_above_the_floor_or_younger_than_what_has_gone_stays(filled: Filled) -> None:
    filled.log.append([accepted(100, 5, 1.9), accepted(200, 5, 2.2)])
    raise_floor(filled, 3.6)
    filled.remove(2.5)
    assert look(filled) == 1 and kept(filled) == 4, "above the floor, though no job of theirs is there"
    filled.move_on(9, 10)
    raise_floor(filled, 9.1)
    assert look(filled) == 1 and kept(filled) == 3, "the second one is younger"
    filled.remove(3.5)
    assert look(filled) == 1


def test_what_cannot_be_read_stays(filled: Filled) -> None:
    raise_floor(filled, 6.6)
    filled.remove(5.5)
    filled.store.damage("UPDATE event SET payload = ? WHERE seq = 1", b"xyz")
    assert look(filled) == 1 and kept(filled) == 2


def test_other_events_are_not_looked_at(filled: Filled) -> None:
    filled.log.append([HostClosed(at=at_day(0.4), host="a", by="root")])
    raise_floor(filled, 6.6)
    hosts = filled.store.rows("SELECT seq FROM event WHERE kind = 'host_closed'")
    filled.remove(5.5)
    assert look(filled) == 2
    assert filled.store.rows("SELECT seq FROM event WHERE kind = 'host_closed'") == hosts
