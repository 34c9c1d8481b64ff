"""Scripts, environments and dictionaries that belong to removed jobs alone go too; whatever is still named stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from store_samples import SPEC, job_row
from stores import StoreAtHand

from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, HostClosed, JobForgotten, JobModified, JobSubmitted, SubmissionAccepted
from gsched.store.eventlog import blob_id
from gsched.store.packing import blob_packing
from gsched.store.retention.removable_jobs import FIRST
from gsched.store.retention.unused_contents import DAYS_LATER, EVENTS_EACH
from tests.support.manual_clock import ManualClock

BEGIN = 1_700_000_000.0
DAY_S = 86_400.0
STATE = ClusterState().dump()
ENVIRONMENT = b"HOME=/home/ann\0LANG=C\0"


def script(number: int) -> bytes:
    return b"#!/bin/sh\necho job %d\n" % number


class Filled:
    """A store to which jobs are added that are over at once."""

    def __init__(self, store: StoreAtHand) -> None:
        self.store = store
        self.clock = ManualClock(BEGIN)
        self.log = store.open(clock=self.clock)

    def submit(self, number: int, *contents: bytes, forgotten: bool = True, **changes: Any) -> None:
        """With the first as its script, the second as its environment."""
        names = [blob_id(each) for each in contents]
        spec = msgspec.structs.replace(SPEC, **dict(zip(("script", "environment"), names, strict=False)), **changes)
        at = self.clock.now()
        events: list[AnyEvent] = [JobSubmitted(at=at, job_id=number, spec=spec, token=f"t{number}")]
        events += [JobForgotten(at=at, job_id=number)] if forgotten else []
        row = job_row(number, state="DONE", submitted_at=at, finished_at=at)
        self.log.append(events, [row], dict(zip(names, contents, strict=True)))

    def remove(self, most: int = 2, **options: Any) -> int:
        """All jobs that are over, in slices."""
        for _ in range(2):
            self.log.append([HostClosed(at=self.clock.now(), host="a", by="root")])
            self.log.save_checkpoint(self.log.last_seq, STATE)
        seq = self.log.removal.next_floor(self.clock.now())
        if seq is not None:
            self.log.removal.raise_floor(seq)
        count, after = 0, FIRST
        while True:
            found = self.log.removal.remove_finished_jobs(0.0, self.clock.now() + 1, most, after=after, **options)
            count += found.jobs
            if found.last is None:
                return count
            after = found.last

    def clean(self, *held: bytes, days: int = DAYS_LATER, most: int = 2) -> int:
        """Some days later."""
        self.clock.advance(days * DAY_S)
        names, count = [blob_id(each) for each in held], 0
        for _ in range(1000):
            found = self.log.contents.remove_unused(most, names)
            count += found.blobs
            if not found.are_more:
                return count
        raise AssertionError("it never ends")

    def accept(self, first: int, contents: list[bytes]) -> None:
        """A submission of jobs with a script each, which are over at once."""
        names = {blob_id(each): each for each in contents}
        specs = [msgspec.structs.replace(SPEC, script=name) for name in names]
        raw, number = tuple(msgspec.Raw(msgspec.json.encode(each)) for each in specs), len(specs)
        at = self.clock.now()
        accepted = SubmissionAccepted(at=at, first_id=first, user="ann", specs=raw, jobs=number, slots=number)
        self.log.append([accepted], [], names)
        for place, spec in enumerate(specs):
            job = first + place
            row = job_row(job, state="DONE", submitted_at=at, finished_at=at)
            self.log.append([JobSubmitted(at=at, job_id=job, spec=spec), JobForgotten(at=at, job_id=job)], [row])

    def uses(self) -> int:
        """Rows that say what names what."""
        return int(self.store.rows("SELECT count(*) FROM blob_use WHERE seq > 0")[0][0])

    def has(self, content: bytes) -> bool:
        return bool(self.store.rows(f"SELECT 1 FROM blob WHERE id = '{blob_id(content)}'"))


@pytest.fixture
def filled(store: StoreAtHand, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    monkeypatch.setattr("gsched.store.checkpoint_retention.APART", 1)
    made = Filled(store)
    yield made
    made.log.close()


def test_what_belonged_to_removed_jobs_alone_goes(filled: Filled) -> None:
    for number in (1, 2, 3):
        filled.submit(number, script(number), ENVIRONMENT, forgotten=number != 3)
    assert filled.remove() == 2
    assert filled.clean() == 2
    assert [filled.has(script(number)) for number in (1, 2, 3)] == [False, False, True]
    assert filled.has(ENVIRONMENT), "a job that is kept has it"
    filled.log.append([JobForgotten(at=filled.clock.now(), job_id=3)])
    assert filled.remove() == 1
    assert filled.clean() == 2
    assert filled.store.rows("SELECT count(*) FROM blob WHERE id < 'P' OR id >= 'Q'") == [(0,)]
    assert filled.store.rows("SELECT count(*) FROM blob_use WHERE seq < 0") == [(0,)]


def test_an_archive_has_a_day_to_be_written(filled: Filled) -> None:
    filled.submit(1, script(1))
    filled.remove()
    assert filled.clean(days=DAYS_LATER - 1) == 0 and filled.has(script(1))
    assert filled.clean(days=1) == 1


def test_a_job_that_comes_meanwhile_keeps_it(filled: Filled) -> None:
    filled.submit(1, script(1), ENVIRONMENT)
    filled.remove()
    filled.submit(2, script(2), ENVIRONMENT)
    assert filled.clean() == 1
    assert filled.has(ENVIRONMENT) and filled.log.get_blob(blob_id(ENVIRONMENT)) == ENVIRONMENT


def test_a_content_that_is_submitted_again_is_there_again(filled: Filled) -> None:
    filled.submit(1, script(1))
    filled.remove()
    filled.clean()
    filled.submit(2, script(1))
    assert filled.log.get_blob(blob_id(script(1))) == script(1)
    assert filled.clean() == 0


def test_what_a_job_was_changed_to_is_its_own(filled: Filled) -> None:
    filled.submit(1, script(1))
    filled.submit(2, script(2), forgotten=False)
    spec = msgspec.structs.replace(SPEC, script=blob_id(script(1)))
    filled.log.append([JobModified(at=filled.clock.now(), job_id=2, by="ann", spec=spec)])
    filled.remove()
    assert filled.clean() == 0 and filled.has(script(1))


def test_events_may_go_before_rows_do(filled: Filled) -> None:
    filled.submit(1, script(1))
    assert filled.remove(keep_rows=True) == 1
    assert filled.clean() == 1


def test_what_somebody_else_names_is_looked_at_again(filled: Filled) -> None:
    filled.submit(1, script(1))
    filled.remove()
    assert filled.clean(script(1)) == 0 and filled.has(script(1))
    assert filled.clean() == 1


def test_as_long_as_an_event_cannot_be_read_nothing_goes(filled: Filled) -> None:
    filled.submit(1, script(1))
    filled.submit(2, script(2), forgotten=False)
    filled.store.damage("UPDATE event SET payload = ? WHERE job_id = 2", b"{damaged")
    filled.remove()
    assert filled.clean() == 0
    filled.store.damage("UPDATE event SET kind = 'job_noted' WHERE job_id = 2")
    filled.log.append([JobForgotten(at=filled.clock.now(), job_id=2)])
    filled.remove()
    assert filled.clean() == 1, "it is gone, and what it named may have been anything"


def test_a_large_content_goes_alone(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.retention.unused_contents.MOST_BYTES", 50)
    for number in range(1, 5):
        filled.submit(number, script(number) * 10)
    filled.remove()
    filled.clock.advance(DAYS_LATER * DAY_S)
    counts = []
    while (found := filled.log.contents.remove_unused(100, ())).are_more:
        counts.append(found.blobs)
    assert [count for count in counts if count] == [1, 1, 1, 1]


def test_nothing_is_noted_where_nothing_goes(filled: Filled) -> None:
    filled.submit(1, script(1))
    assert filled.clean() == 0 and not filled.log.contents.are_due()
    assert filled.store.rows("SELECT count(*) FROM blob_use") == [(0,)]


def test_what_many_jobs_were_made_of_at_once_is_noted_some_at_a_time(filled: Filled) -> None:
    most, scripts = 2, [script(number) for number in range(50)]
    filled.accept(100, scripts)
    filled.submit(1, script(1000))
    filled.remove(most=60)
    filled.submit(2, *scripts[:1], forgotten=False)
    filled.accept(200, scripts[1:41])
    filled.clock.advance(DAYS_LATER * DAY_S)
    noted, steps = filled.uses(), []
    while filled.log.contents.remove_unused(most, ()).are_more:
        steps.append(filled.uses() - noted)
        noted = filled.uses()
    assert 0 < max(steps) <= EVENTS_EACH * most
    assert [filled.has(each) for each in scripts] == [True] * 41 + [False] * 9, "those of the first submission alone go"


def test_events_are_read_by_their_size(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gsched.store.retention.unused_contents.MOST_READ_BYTES", 1)
    for number in range(1, 6):
        filled.submit(number, script(number), forgotten=number == 1)
    filled.remove()
    filled.clock.advance(DAYS_LATER * DAY_S)
    noted, steps = filled.uses(), []
    while filled.log.contents.remove_unused(100, ()).are_more:
        steps.append(filled.uses() - noted)
        noted = filled.uses()
    assert max(steps) == 1 and noted == 4


def of_family(family: int, number: int) -> bytes:
    """Those of a family resemble each other."""
    words = b"".join(b"export VARIABLE_%d_%d=something\n" % (family, place) for place in range(20))
    return words + b"echo %d\n" % number


def dictionaries(filled: Filled) -> list[int]:
    return [row[0] for row in filled.store.rows("SELECT number FROM dictionary ORDER BY number")]


def test_dictionaries_that_no_content_has_go(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_packing, "REMEMBERED", 2)
    for family in range(6):
        for each in (1, 2):
            filled.submit(10 * family + each, of_family(family, each), forgotten=family != 1)
    assert dictionaries(filled) == [1, 2, 3, 4, 5, 6]
    filled.remove()
    assert filled.clean() == 10
    while filled.log.contents.remove_dictionaries(1):
        pass
    assert dictionaries(filled) == [2, 5, 6], "one is in use, and two may be used next"
    assert filled.log.get_blob(blob_id(of_family(1, 2))) == of_family(1, 2)
    filled.submit(100, of_family(7, 1))
    filled.submit(101, of_family(7, 2))
    assert dictionaries(filled) == [2, 5, 6, 7], "no number is given twice"


def test_removed_dictionaries_make_room_for_others(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_packing, "REMEMBERED", 2)
    monkeypatch.setattr(blob_packing, "MOST_DICTIONARIES", 3)
    for family in range(4):
        for each in (1, 2):
            filled.submit(10 * family + each, of_family(family, each))
    assert dictionaries(filled) == [1, 2, 3]
    filled.remove()
    filled.clean()
    while filled.log.contents.remove_dictionaries(10):
        pass
    for each in (1, 2):
        filled.submit(100 + each, of_family(9, each))
    assert dictionaries(filled) == [2, 3, 4]
