"""When the master takes old jobs away: by the ages of lsb.params, in slices, and again where the store took none."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gsched.base.errors import NotFound
from gsched.core.records.accepted_submissions import AcceptedSubmission
from gsched.core.state.cluster_state import ClusterState
from gsched.master.past.answering import HistoriesServicer
from gsched.master.upkeep.history_retention import EVERY_S, LATER_S, PARTS_AT_ONCE, HistoryRetention
from gsched.master.upkeep.slices import FEWEST, PAUSE_S
from gsched.master.upkeep.store_upkeep import held_blobs
from gsched.model.config import Params
from gsched.model.event import (
    AnyEvent,
    HostClosed,
    JobForgotten,
    JobNoticeSettled,
    JobSubmitted,
    PastJobRecorded,
    SubmissionAccepted,
)
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import Notice, NoticeJob
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter
from gsched.store.backends.reading import reading
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.history_queries import History
from gsched.store.retention.removable_jobs import JobPlace
from gsched.store.retention.removal import RemovedJobs
from gsched.store.safeguards.failure import StoreBroken, StoreFull
from gsched.store.tables.schema import JobRow
from gsched.wire.messages.convert import to_proto
from gsched.wire.v1 import past_pb2
from tests.support.manual_clock import ManualClock

BEGIN = 1_700_000_000.0
DAY_S = 86_400.0
HOUR_S = 3_600.0
STATE = ClusterState().dump()
DAYS = 20
EACH_DAY = 3
SPEC = JobSpec(command="x", user="ann", queue="normal")


class Kept:
    """A store with some jobs each day and a checkpoint each evening, and what is done to it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(BEGIN)
        self.log = EventLog(folder / "store.db", clock=self.clock)
        self.held: frozenset[str] | None = frozenset()
        self.retention = HistoryRetention(self.log, lambda: self.held)
        for day in range(DAYS):
            at = BEGIN + (day + 0.5) * DAY_S
            for number in range(EACH_DAY * day + 1, EACH_DAY * (day + 1) + 1):
                self.live(number, at)
            self.clock.advance(at + 1000.0 - self.clock.now())
            self.log.save_checkpoint(self.log.last_seq, STATE)
        self.clock.advance(BEGIN + DAYS * DAY_S - self.clock.now())

    def restart(self) -> None:
        self.log.close()
        self.log = EventLog(self.log.place, clock=self.clock)
        self.retention = HistoryRetention(self.log, lambda: self.held)

    def live(self, number: int, at: float) -> None:
        events: list[AnyEvent] = [
            JobSubmitted(at=at, job_id=number, spec=SPEC), JobForgotten(at=at, job_id=number),
            HostClosed(at=at, host="a", by="root"),
        ]  # fmt: skip
        row = JobRow(job_id=number, user="ann", queue="normal", state="DONE", submitted_at=at, finished_at=at)
        self.log.append(events, [row])

    def run(self, params: Params) -> int:
        """Until there is nothing to do; says how many steps that took."""
        for steps in range(1000):
            self.retention.step(params, self.clock.now())
            due = self.retention.due_at(self.clock.now())
            if due == float("inf"):
                return steps
            self.clock.advance(max(0.0, due - self.clock.now()))
        raise AssertionError("it never ends")

    def jobs(self) -> int:
        with reading(self.log._backend) as connection:
            return int(connection.exec_driver_sql("SELECT count(*) FROM job").scalar_one())

    def kinds(self) -> set[str]:
        with reading(self.log._backend) as connection:
            return set(connection.exec_driver_sql("SELECT DISTINCT kind FROM event").scalars())

    def days(self, table: str) -> list[int]:
        column = "finished_at" if table == "job" else "at"
        with reading(self.log._backend) as connection:
            times = connection.exec_driver_sql(f"SELECT {column} FROM {table} WHERE job_id IS NOT NULL").all()
        return sorted({int((at - BEGIN) // DAY_S) for (at,) in times})


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.log.close()


def all_from(day: int) -> list[int]:
    return list(range(day, DAYS))


def test_everything_is_kept_unless_an_age_is_set(kept: Kept) -> None:
    assert kept.run(Params()) == 0
    assert kept.days("job") == kept.days("event") == all_from(0)
    assert kept.log.removal.floor().seq == 0


def test_jobs_go_at_their_age_in_slices(kept: Kept) -> None:
    steps = kept.run(Params(job_history_days=5))
    assert kept.days("job") == kept.days("event") == all_from(15)
    assert steps > 15 * EACH_DAY // (64 * FEWEST), "in more than one"
    kept.clock.advance(2 * DAY_S)
    kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(17)


def test_what_was_told_late_of_a_job_goes_though_nothing_is_kept_too_long(kept: Kept) -> None:
    kept.run(Params(job_history_days=5))
    at = BEGIN + 10 * DAY_S
    kept.log.append([JobNoticeSettled(at=at, job_id=1, notice_id="n", event="end", way="mail")])
    for _ in range(2):
        kept.log.append([HostClosed(at=kept.clock.now(), host="a", by="root")])
        kept.log.save_checkpoint(kept.log.last_seq, STATE)
    assert kept.days("event")[0] == 10
    kept.log.removal.raise_floor(kept.log.removal.next_floor(kept.clock.now()) or 0)
    kept.clock.advance(EVERY_S + 1.0)
    assert kept.run(Params()) > 0
    assert kept.days("event") == all_from(15)
    kept.clock.advance(EVERY_S + 1.0)
    assert kept.run(Params()) == 0, "all have been looked at"


def test_no_pass_begins_within_the_hour(kept: Kept) -> None:
    kept.run(Params(job_history_days=19))
    kept.clock.advance(EVERY_S / 2)
    assert kept.run(Params(job_history_days=5)) == 0
    kept.clock.advance(EVERY_S)
    kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(15)


def begin_to_remove(kept: Kept, params: Params) -> int:
    """Until the first slice has taken something; says how many jobs there are left."""
    while kept.jobs() == DAYS * EACH_DAY:
        kept.retention.step(params, kept.clock.now())
        kept.clock.advance(PAUSE_S)
    return kept.jobs()


def test_a_pass_ends_when_the_ages_are_taken_out(kept: Kept) -> None:
    left = begin_to_remove(kept, Params(job_history_days=2))
    kept.run(Params())
    assert kept.jobs() == left > 2 * EACH_DAY


def test_a_pass_goes_on_by_the_longer_age_that_is_set_meanwhile(kept: Kept) -> None:
    begin_to_remove(kept, Params(job_history_days=2))
    kept.run(Params(job_history_days=15))
    assert kept.days("job") == all_from(5)
    kept.clock.advance(EVERY_S + 1.0)
    kept.run(Params(job_history_days=2))
    assert kept.days("job") == all_from(DAYS - 2)


def test_a_pass_ends_when_more_is_to_be_kept_of_events_alone(kept: Kept) -> None:
    params = Params(job_history_days=19, event_history_days=2)
    events = kept.days("event")
    while kept.days("event") == events:
        kept.retention.step(params, kept.clock.now())
        kept.clock.advance(PAUSE_S)
    left = kept.days("event")
    kept.run(Params(job_history_days=19))
    assert kept.days("event") == left and len(left) > 2


def test_events_go_before_the_jobs(kept: Kept) -> None:
    params = Params(job_history_days=10, event_history_days=5)
    kept.run(params)
    assert (kept.days("job"), kept.days("event")) == (all_from(10), all_from(15))
    kept.clock.advance(2 * DAY_S)
    kept.run(params)
    assert (kept.days("job"), kept.days("event")) == (all_from(12), all_from(17))


def test_a_slice_that_takes_long_is_followed_by_smaller_ones(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    remove = kept.log.removal.remove_finished_jobs
    monkeypatch.setattr("gsched.master.upkeep.slices.SLICE_S", 0.0)

    def noted(since: float, until: float, most: int, **options: Any) -> RemovedJobs:
        sizes.append(most)
        return remove(since, until, most, **options)

    monkeypatch.setattr(kept.log.removal, "remove_finished_jobs", noted)
    kept.run(Params(job_history_days=5))
    assert sizes[0] == FEWEST == max(sizes)
    assert kept.days("job") == all_from(15)


def test_what_the_store_does_not_take_is_tried_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(kept.log.removal, "remove_finished_jobs", lambda *_, **__: fail(StoreFull("the disk is full")))
        kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(0)
    kept.clock.advance(LATER_S + PAUSE_S)
    kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(15)


def test_a_broken_store_ends_the_process(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept.log.removal, "next_floor", lambda _: fail(StoreBroken("gone")))
    with pytest.raises(StoreBroken):
        kept.run(Params(job_history_days=5))


def test_where_little_happens_a_checkpoint_is_asked_for(kept: Kept) -> None:
    kept.run(Params(job_history_days=5))
    assert not kept.retention.wants_checkpoint, "nothing has happened since"
    kept.live(1000, kept.clock.now())
    kept.clock.advance(DAY_S)
    kept.run(Params(job_history_days=5))
    assert kept.retention.wants_checkpoint


def test_a_checkpoint_that_is_written_meanwhile_does_not_end_the_engine(kept: Kept) -> None:
    params = Params(event_history_days=1)
    for hours, number in ((1, 1001), (2, 1002), (3, 1003)):
        kept.clock.advance(HOUR_S)
        kept.live(number, kept.clock.now())
        if hours < 3:
            kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.clock.advance(3 * DAY_S)
    kept.retention.step(params, kept.clock.now())
    assert kept.retention.wants_checkpoint
    kept.log.save_checkpoint(kept.log.last_seq, STATE)  # as the engine does: those before stand too near to each other
    kept.clock.advance(PAUSE_S)
    kept.run(params)
    assert kept.log.removal.floor().seq > 0
    assert kept.days("event")[-1] == DAYS


def test_a_checkpoint_that_is_gone_ends_the_pass_alone(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(kept.log.removal, "next_floor", lambda _: 7_777)
        patched.setattr(kept.log.removal, "looked_through", lambda _: iter([True]))
        kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(0)
    kept.clock.advance(LATER_S + PAUSE_S)
    kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(15)


def test_an_unexpected_error_is_logged_and_tried_again(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(
            kept.log.removal, "remove_finished_jobs", lambda *_, **__: fail(KeyError("what nobody expects"))
        )
        kept.run(Params(job_history_days=5))
    assert "old jobs are taken away later: an unexpected error" in caplog.text
    assert "what nobody expects" in caplog.text, "with its traceback"
    kept.clock.advance(LATER_S + PAUSE_S)
    kept.run(Params(job_history_days=5))
    assert kept.days("job") == all_from(15)


def test_a_restart_does_not_look_at_all_jobs_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    params = Params(job_history_days=15, event_history_days=5)
    kept.run(params)
    kept.restart()
    looked: list[JobPlace] = []
    remove = kept.log.removal.remove_finished_jobs

    def noted(*words: Any, after: JobPlace, **options: Any) -> RemovedJobs:
        looked.append(after)
        return remove(*words, after=after, **options)

    monkeypatch.setattr(kept.log.removal, "remove_finished_jobs", noted)
    kept.run(params)
    assert len(looked) == 2, "there is nothing to do for either kind"
    assert [int((place.finished_at - BEGIN) // DAY_S) for place in looked] == [4, 14]
    kept.clock.advance(2 * DAY_S)
    kept.run(params)
    assert (kept.days("job"), kept.days("event")) == (all_from(7), all_from(17))


def test_older_jobs_of_another_batch_system_are_looked_at_nevertheless(kept: Kept) -> None:
    params = Params(job_history_days=15)
    kept.run(params)
    at = BEGIN + DAY_S
    past = PastJobRecorded(
        at=kept.clock.now(), job_id=900, cluster="hpc", spec=SPEC, state="DONE", submitted_at=at, finished_at=at
    )
    row = JobRow(job_id=900, user="ann", queue="normal", state="DONE", submitted_at=at, finished_at=at)
    kept.log.append([past], [row])
    assert kept.days("job")[0] == 1
    for number in (901, 902):
        kept.live(number, kept.clock.now())
        kept.log.save_checkpoint(kept.log.last_seq, STATE)
        kept.clock.advance(8 * DAY_S)
    kept.run(params)
    assert kept.days("job")[0] > 1


def end_late(kept: Kept, number: int, day: float) -> None:
    """A job ended then; its host was away, and tells it now."""
    at = BEGIN + day * DAY_S
    row = JobRow(job_id=number, user="ann", queue="normal", state="DONE", submitted_at=BEGIN, finished_at=at)
    kept.log.append(
        [JobSubmitted(at=BEGIN, job_id=number, spec=SPEC), JobForgotten(at=kept.clock.now(), job_id=number)], [row]
    )


def two_evenings(kept: Kept) -> None:
    for number in (901, 902):
        kept.clock.advance(DAY_S)
        kept.live(number, kept.clock.now())
        kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.clock.advance(DAY_S)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_whose_end_is_told_late_goes_too(kept: Kept, *, restarts: bool) -> None:
    params = Params(job_history_days=10, event_history_days=5)
    kept.run(params)
    if restarts:
        kept.restart()
    end_late(kept, 999, 3.2)
    kept.clock.advance(EVERY_S)
    kept.run(params)
    assert (kept.days("job")[0], kept.days("event")[0]) == (3, 0), "it is not forgotten yet at the floor"
    two_evenings(kept)
    kept.clock.advance(5 * DAY_S)
    kept.run(params)
    assert (kept.days("job")[0], kept.days("event")[0]) == (18, 22)


def test_an_end_that_is_told_while_old_jobs_go_is_not_missed(kept: Kept) -> None:
    params = Params(job_history_days=5)
    while kept.days("job")[0] < 4:
        kept.retention.step(params, kept.clock.now())
        kept.clock.advance(PAUSE_S)
    end_late(kept, 999, 3.2)
    kept.run(params)
    assert kept.days("job")[:2] == [3, 15]
    two_evenings(kept)
    kept.clock.advance(5 * DAY_S)
    kept.run(params)
    assert kept.days("job")[0] == 22


@pytest.fixture
def of_day(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day's events are a MB."""
    with reading(kept.log._backend) as connection:
        size = connection.exec_driver_sql("SELECT sum(length(payload)) FROM event").scalar_one()
    monkeypatch.setattr("gsched.master.upkeep.history_retention.MIB", size // DAYS + 1)


def test_more_than_its_size_goes_the_oldest_first(kept: Kept, of_day: None) -> None:
    kept.run(Params(event_history_mb=DAYS + 1))
    assert kept.days("event") == all_from(0)
    kept.clock.advance(EVERY_S + 1.0)
    kept.run(Params(event_history_mb=8))
    assert kept.days("event") == all_from(0), "it is counted once a day"
    kept.clock.advance(DAY_S)
    kept.run(Params(event_history_mb=8))
    assert kept.days("job") == all_from(0)
    assert kept.days("event") == all_from(DAYS - 8)


def test_a_larger_size_counts_at_once(kept: Kept, of_day: None) -> None:
    for _ in range(4):  # it is counted, and not yet gone
        kept.retention.step(Params(event_history_mb=2), kept.clock.now())
        kept.clock.advance(PAUSE_S)
    left = kept.days("event")
    kept.run(Params(event_history_mb=DAYS + 1))
    assert kept.days("event") == left and len(left) > 2


def test_what_is_not_a_day_old_stays_however_large_it_is(kept: Kept, of_day: None) -> None:
    kept.log.append([HostClosed(at=kept.clock.now(), host="a", by="root", comment=os.urandom(10_000).hex())])
    kept.live(900, kept.clock.now())
    kept.clock.advance(DAY_S / 4)
    kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.live(901, kept.clock.now())
    kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.run(Params(event_history_mb=1))
    assert kept.days("event") == [DAYS - 1, DAYS], "but for the jobs of the last day"
    assert kept.days("job") == [*all_from(0), DAYS]


def in_parts(kept: Kept) -> tuple[int, list[str]]:
    """A checkpoint of many parts that becomes the floor."""
    kept.live(900, kept.clock.now())
    names = kept.log.put_parts(b"%d" % number for number in range(3 * PARTS_AT_ONCE))
    seq = kept.log.last_seq
    kept.log.save_checkpoint_of(seq, names)
    kept.live(901, kept.clock.now())
    kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.clock.advance(6 * DAY_S)
    return seq, names


def test_a_large_checkpoint_is_looked_through_some_parts_at_a_time(kept: Kept) -> None:
    seq, _ = in_parts(kept)
    for _ in range(3):
        kept.retention.step(Params(job_history_days=5), kept.clock.now())
        assert kept.log.removal.floor().seq == 0
        kept.clock.advance(PAUSE_S)
    kept.run(Params(job_history_days=5))
    assert kept.log.removal.floor().seq == seq


def test_a_checkpoint_of_which_a_part_is_damaged_is_not_the_floor(kept: Kept) -> None:
    _, names = in_parts(kept)
    with sqlite3.connect(kept.log.place) as connection:
        connection.execute("UPDATE blob SET data = 'x' WHERE id = ?", (names[5],))
    kept.run(Params(job_history_days=5))
    assert kept.log.removal.floor().seq == 0 and kept.days("job")[0] == 0


def test_contents_of_removed_jobs_go_a_day_later(kept: Kept) -> None:
    content = b"echo of a job that is over"
    spec = JobSpec(command="x", user="ann", queue="normal", script=blob_id(content))
    at = BEGIN + 0.5 * DAY_S
    row = JobRow(job_id=900, user="ann", queue="normal", state="DONE", submitted_at=at, finished_at=at)
    begun = [JobSubmitted(at=at, job_id=900, spec=spec), JobForgotten(at=at, job_id=900)]
    kept.log.append(begun, [row], {blob_id(content): content})
    kept.live(902, kept.clock.now())
    kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.clock.advance(DAY_S)
    kept.live(901, kept.clock.now())
    kept.log.save_checkpoint(kept.log.last_seq, STATE)
    kept.clock.advance(6 * DAY_S)
    kept.run(Params(job_history_days=5))
    assert kept.log.get_blob(blob_id(content)) == content
    kept.clock.advance(2 * DAY_S)
    kept.held = None
    kept.run(Params())
    assert kept.log.get_blob(blob_id(content)) == content, "nobody knows who names it"
    kept.held = frozenset()
    kept.clock.advance(EVERY_S + 1.0)
    assert kept.run(Params()) > 0, "though nothing is too old"
    with pytest.raises(NotFound):
        kept.log.get_blob(blob_id(content))


def test_notices_that_wait_hold_their_targets() -> None:
    state = ClusterState()
    about = NoticeJob(label="1", name="x", queue="normal", state="DONE", submitted_at=1.0)
    state.notices.add(
        Notice(
            notice_id="n",
            job_id=1,
            host="a",
            user="ann",
            event="end",
            at=1.0,
            way="mail",
            place=0,
            targets="t",
            job=about,
        )
    )
    assert held_blobs(state) == {"t"}
    event = SubmissionAccepted(at=1.0, first_id=1, user="ann", token="", specs=(), jobs=1, slots=1)
    state.accepted[1] = AcceptedSubmission(event)
    assert held_blobs(state) is None


def test_what_many_jobs_were_made_of_goes_behind_them_where_only_archives_take_jobs(kept: Kept) -> None:
    """Where events go by age it goes by its own."""
    kept.log.append([SubmissionAccepted(at=BEGIN, first_id=1, user="ann", specs=(), places=(0,) * 3, jobs=3, slots=3)])
    two_evenings(kept)
    kept.log.removal.raise_floor(kept.log.removal.next_floor(kept.clock.now()) or 0)
    last = kept.log.last_seq
    assert kept.log.removal.remove_archived_jobs({1: 2, 2: 2}, BEGIN + 5 * DAY_S, last).gone == 2
    assert kept.run(Params()) > 0 and "submission_accepted" in kept.kinds(), "one of its jobs is there"
    assert kept.log.removal.remove_archived_jobs({3: 2, 10: 2}, BEGIN + 5 * DAY_S, last).gone == 2
    kept.clock.advance(EVERY_S + 1.0)
    assert kept.run(Params()) > 0 and "submission_accepted" not in kept.kinds()
    kept.clock.advance(EVERY_S + 1.0)
    assert kept.run(Params()) == 0, "no job has gone since"


def test_since_when_history_is_kept_is_told(kept: Kept) -> None:
    kept.run(Params(job_history_days=10, event_history_days=5))
    history = History(kept.log.place)
    found = HistoriesServicer(history).Histories(to_proto(of_job(11 * EACH_DAY), past_pb2.HistoryQuery), None)
    *pages, told = found
    assert not any(page.histories for page in pages), "there is a row alone"
    assert (int((told.kept_from - BEGIN) // DAY_S), int((told.events_kept_from - BEGIN) // DAY_S)) == (9, 14)
    first, *_ = HistoriesServicer(history).Histories(to_proto(of_job(16 * EACH_DAY), past_pb2.HistoryQuery), None)
    assert len(first.histories) == 1
    history.close()


def of_job(number: int) -> HistoryQuery:
    return HistoryQuery(jobs=JobFilter(ids=(number,), user="all", finished=True))


def test_what_is_left_can_be_read(kept: Kept) -> None:
    kept.run(Params(job_history_days=5))
    history = History(kept.log.place)
    assert [record.kind for record in history.events_of(15 * EACH_DAY + 1)] == ["job_submitted", "job_forgotten"]
    assert history.events_of(1) == []
    history.close()


def fail(error: Exception) -> None:
    raise error
