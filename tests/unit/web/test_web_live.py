"""Pages that stay open: they are told that something has changed, whoever reads slowly costs nothing, and they end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from fake_master import FakeMaster, record, spec
from served_pages import COOKIE, HOST, Pages

from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult
from gsched.model.views.view import EventRecord, JobView
from gsched.web.mirror.cluster_mirror import MOST_NOTED
from gsched.wire.calls.changed_jobs import NotedChanges

NewPages = Callable[..., Pages]


@pytest.fixture
def pages(new_pages: NewPages) -> Pages:
    """A server of its own: two that follow one fake master would share its events."""
    return new_pages().entered()


def view(number: int, state: str = "RUN") -> JobView:
    return JobView(job_id=number, spec=spec(name=f"job{number}"), state=state, submitted_at=1.0)


def finished(number: int) -> EventRecord:
    result = AttemptResult(exit_code=0, ended_at=5.0)
    return record(9, events.JobFinished(at=5.0, job_id=number, attempt=1, result=result))


def test_a_change_wakes_the_pages_that_show_it(master: FakeMaster, new_pages: NewPages) -> None:
    master.views = [view(1), view(2)]
    pages = new_pages().entered()
    pages.until(lambda: pages.context.mirror.version >= 5, "the threads have not looked yet")
    connection, stream = pages.stream("/live?watch=1")
    assert stream.status == 200 and stream.headers["content-type"].startswith("text/event-stream")
    assert stream.readline() == b"retry: 2000\n"
    master.views = [view(1, "DONE"), view(2)]
    master.live.put(finished(1))
    assert b"event: changed\n" in (stream.readline(), stream.readline())
    pages.until(lambda: pages.context.mirror.row(1).state == "DONE", "the row is not brought up to date")  # type: ignore[union-attr]
    connection.close()


def test_a_job_that_is_gone_leaves_the_list(master: FakeMaster, new_pages: NewPages) -> None:
    master.views = [view(1), view(2)]
    pages = new_pages().entered()
    master.views = [view(2)]
    master.live.put(finished(1))
    pages.until(lambda: pages.context.mirror.row(1) is None, "the row stays")
    assert pages.context.mirror.row(2) is not None


def test_streams_end_with_the_server(pages: Pages) -> None:
    first, one = pages.stream("/live?watch=jobs")
    second, other = pages.stream("/live?watch=cluster")
    assert one.readline() and other.readline()
    pages.stop_serving()
    assert one.read() is not None and other.read() is not None, "both have come to their end"
    first.close()
    second.close()


def test_so_many_pages_may_stay_open(pages: Pages) -> None:
    pages.context.hub.MOST_PAGES = 3
    streams = [pages.stream("/live?watch=jobs") for _ in range(3)]
    assert [stream.readline() for _, stream in streams] == [b"retry: 2000\n"] * 3
    assert pages.get("/live?watch=jobs").status == 503
    streams[0][0].close()
    pages.context.hub.tell("jobs")  # what is sent finds out that nobody reads
    pages.until(lambda: not pages.context.hub.is_full, "a page that was closed is still counted")
    for connection, _ in streams:
        connection.close()


def test_an_unknown_topic_is_no_stream(pages: Pages) -> None:
    for wanted in ("", "x", "0", "%3Cb%3E"):
        assert pages.get(f"/live?watch={wanted}").status == 404


def test_a_reader_that_never_reads_holds_up_nobody(pages: Pages) -> None:
    idle = socket.socket(socket.AF_UNIX)
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    idle.connect(pages.path)
    idle.sendall(f"GET /live?watch=jobs HTTP/1.1\r\nHost: {HOST}\r\nCookie: {COOKIE}={pages.cookie}\r\n\r\n".encode())
    half = socket.socket(socket.AF_UNIX)
    half.connect(pages.path)
    half.sendall(b"GET / HTTP/1.1\r\nHost: ")
    for _ in range(2000):
        pages.context.hub.tell("jobs")
    assert pages.get("/jobs").status == 200
    idle.close()
    half.close()


def test_a_header_without_an_end_is_refused(pages: Pages) -> None:
    long = socket.socket(socket.AF_UNIX)
    long.settimeout(60)
    long.connect(pages.path)
    long.sendall(b"GET / HTTP/1.1\r\nX: ")
    answer = b""
    try:
        for _ in range(10):
            long.sendall(b"x" * 16_384)
        answer = long.recv(100)
    except OSError:
        pass  # closed in the middle
    assert answer == b"" or b" 400 " in answer
    long.close()


def test_a_master_that_is_away_is_told_of_and_what_was_known_stays(master: FakeMaster, new_pages: NewPages) -> None:
    master.views = [view(1)]
    pages = new_pages().entered()
    mirror = pages.context.mirror
    mirror._gone()
    text = pages.get("/jobs?whose=all").text
    assert "The master has not answered since" in text and "job1" in text
    mirror._answered()
    assert "The master has not answered since" not in pages.get("/").text


def test_changes_are_noted_by_number_up_to_a_limit() -> None:
    noted = NotedChanges(MOST_NOTED)
    assert noted.take() == (set(), True)
    noted.add(1)
    assert noted.take() == ({1}, False)
    for number in range(MOST_NOTED + 1):
        noted.add(number)
    noted.add(7)
    assert noted.take() == (set(), True) and noted.take() == (set(), False)
