"""Which notices of a host are due, and what looking for them costs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import FrameType

from gsched.agent.notices.notice_files import KeptNotice, NoticeOrder
from gsched.agent.notices.notice_queue import LONGEST_WAIT_S, NoticeQueue
from gsched.model.jobs.notice import Notice, NoticeEnd, NoticeJob

JOB = NoticeJob(label="17", name="train", queue="normal", state="DONE", submitted_at=1.0)


def kept(user: str, number: int, *, at: float = 0.0, due: float = 0.0, tries: int = 0) -> KeptNotice:
    notice = Notice(
        notice_id=f"{number:x}",
        job_id=17,
        job=JOB,
        user=user,
        event="end",
        at=at,
        way="webhook",
        place=0,
        targets="t",
        host="h",
    )
    return KeptNotice(order=NoticeOrder(notice=notice, cluster="night", to="https://site/x"), due=due, tries=tries)


def queue(*notices: KeptNotice) -> NoticeQueue:
    found = NoticeQueue()
    for each in notices:
        found.add(each)
    return found


def test_who_waits_longest_comes_first_and_who_is_busy_not_at_all() -> None:
    found = queue(kept("ann", 1, due=5.0), kept("bob", 2, due=3.0), kept("cy", 3, due=9.0), kept("dan", 4, due=1.0))
    assert found.users_due(5.0, {"dan"}) == ["bob", "ann"]
    assert found.next_due(5.0, {"dan"}) == 9.0
    assert found.next_due(5.0, {"dan", "cy"}) is None


def test_what_was_not_tried_yet_goes_first_in_the_order_of_what_it_tells() -> None:
    found = queue(
        kept("ann", 1, at=1.0, tries=2), kept("ann", 2, at=3.0), kept("ann", 3, at=2.0), kept("ann", 4, due=9.0)
    )
    assert [each.notice_id for each in found.batch("ann", 5.0, 9)] == ["3", "2", "1"]
    assert [each.notice_id for each in found.batch("ann", 5.0, 2)] == ["3", "2"]
    assert found.batch("bob", 5.0, 9) == []


def test_what_was_tried_is_due_anew_and_what_is_over_is_not() -> None:
    first, second = kept("ann", 1), kept("ann", 2)
    found = queue(first, second)
    first.due = 60.0
    second.end = NoticeEnd(notice_id="2", tries=1)
    found.renew("ann")
    assert found.users_due(5.0, ()) == [] and found.next_due(5.0, ()) == 60.0
    assert {each.notice_id for each in found} == {"1", "2"}  # what became of it is still to be told
    assert found.remove("1") is first and found.next_due(5.0, ()) is None
    assert found.remove("2") is second and found.remove("2") is None and list(found) == []


def test_a_clock_that_was_wrong_holds_up_nothing() -> None:
    """It was set back by years after a try: what is due that late is due now."""
    found = queue(kept("ann", 1, due=1e9 + LONGEST_WAIT_S))
    assert found.users_due(1e9, ()) == []
    assert found.users_due(5.0, ()) == ["ann"]
    assert [each.notice_id for each in found.batch("ann", 5.0, 9)] == ["1"]


@contextlib.contextmanager
def counted_calls() -> Iterator[list[str]]:
    """The functions that this thread calls meanwhile."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def test_looking_costs_as_much_as_there_are_users() -> None:
    def look(per_user: int) -> int:
        found = queue(*(kept(f"u{i % 5}", i, due=9.0) for i in range(5 * per_user)))
        with counted_calls() as calls:
            found.users_due(5.0, ())
            found.next_due(5.0, ())
        return len(calls)

    assert look(1000) == look(1) > 0
