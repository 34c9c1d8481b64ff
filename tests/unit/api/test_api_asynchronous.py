"""AsyncCluster without a master: what is given up frees its thread, and a stream runs no further than it is taken."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import grpc
import pytest

from gsched.api.asynchronous import AsyncCluster, AsyncJob, calls_in_threads
from gsched.api.asynchronous.calls_in_threads import GivenUp
from gsched.base.errors import BadRequest, Unavailable
from gsched.wire.address import MASTER_FILE
from gsched.wire.breakable_channel import BreakableChannel

PATIENCE_S = 120


@pytest.fixture
def silent(folder: Path) -> Iterator[socket.socket]:
    """A master that takes connections and says nothing; `folder` is its configuration."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "master.sock"))
        server.listen()
        server.settimeout(PATIENCE_S)
        (folder / MASTER_FILE).write_text(f"unix:{folder}/master.sock\n")
        yield server


async def connected(server: socket.socket) -> socket.socket:
    """Until somebody has; to be kept, else the connection is closed."""
    return (await asyncio.to_thread(server.accept))[0]


def streams() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gsched-async-stream"]


def test_a_call_that_is_cancelled_frees_its_thread(
    silent: socket.socket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_in_threads, "MOST_CALLS", 1)

    async def main() -> None:
        async with AsyncCluster(folder, wait=100 * PATIENCE_S) as cluster, asyncio.timeout(PATIENCE_S):
            asked = asyncio.create_task(cluster.hosts())
            with await connected(silent):
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
                name = await cluster.calls.call(lambda _: threading.current_thread().name)
                assert name == "gsched-async_0"

    asyncio.run(main())


def test_who_waits_when_it_is_closed_is_told(silent: socket.socket, folder: Path) -> None:
    async def main() -> None:
        cluster = AsyncCluster(folder, wait=100 * PATIENCE_S)
        assert repr(cluster) == f"<gsched.AsyncCluster {folder}>"
        asked = asyncio.create_task(cluster.queues())
        waits = asyncio.create_task(cluster.job(7).wait())
        with await connected(silent):
            await cluster.close()
            for each in (asked, waits):
                with pytest.raises(Unavailable, match="closed"):
                    await each
        with pytest.raises(Unavailable, match="closed"):
            await cluster.hosts()
        with pytest.raises(Unavailable, match="closed"):
            await cluster.job(7)

    asyncio.run(main())


def test_a_stream_runs_no_further_than_it_is_taken(
    silent: socket.socket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_in_threads, "MOST_AHEAD", 3)
    made: list[int] = []

    def numbers() -> Iterator[int]:
        for number in itertools.count():
            made.append(number)
            yield number

    async def main() -> None:
        async with AsyncCluster(folder) as cluster:
            taken = []
            async for number in cluster.calls.stream(lambda _: numbers()):
                taken.append(number)
                if number == 10:
                    (thread,) = streams()
                    break
            await asyncio.sleep(0)  # the loop closes what was broken off
            await asyncio.to_thread(thread.join, PATIENCE_S)
            assert not thread.is_alive()
            assert taken == list(range(11)) and 11 <= len(made) <= 16

    asyncio.run(main())


def test_a_stream_ends_and_fails_as_what_it_is_made_of(silent: socket.socket, folder: Path) -> None:
    def two() -> Iterator[int]:
        yield from (1, 2)
        raise BadRequest("no third")

    async def main() -> None:
        async with AsyncCluster(folder) as cluster:
            assert [each async for each in cluster.calls.stream(lambda _: iter("ab"))] == ["a", "b"]
            found = []
            with pytest.raises(BadRequest, match="no third"):
                async for each in cluster.calls.stream(lambda _: two()):
                    found.append(each)
            assert found == [1, 2]

    asyncio.run(main())


def test_a_stream_of_a_silent_master_is_broken_off(silent: socket.socket, folder: Path) -> None:
    async def main() -> None:
        async with AsyncCluster(folder, wait=100 * PATIENCE_S) as cluster:
            events = cluster.events(after=0)
            first = asyncio.create_task(anext(events))
            with await connected(silent):
                (thread,) = streams()
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                await asyncio.to_thread(thread.join, PATIENCE_S)
            assert not thread.is_alive()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda cluster: cluster.wait("12"), "jobs='12': a job or a list of jobs"),
        (lambda cluster: cluster.wait([12], timeout="x"), "timeout='x': a number of seconds"),
        (lambda cluster: cluster.kill([12], sig=9), "kill has no option 'sig'; did you mean 'signal'"),
        (lambda cluster: cluster.submit("true", quueue="q"), "submit has no option 'quueue'; did you mean 'queue'"),
        (lambda cluster: anext(cluster.jobs(usr="ann")), "jobs has no option 'usr'; did you mean 'user'"),
        (lambda cluster: anext(cluster.as_completed(3)), "jobs=3: a list of jobs"),
    ],
)
def test_what_is_wrong_is_named_as_by_cluster(silent: socket.socket, folder: Path, call: object, text: str) -> None:
    async def main() -> None:
        async with AsyncCluster(folder) as cluster:
            await call(cluster)  # type: ignore[operator]

    with pytest.raises(BadRequest, match=text):
        asyncio.run(main())


def test_who_waits_for_a_connection_is_broken_off_whenever_that_is() -> None:
    cancelled = threading.Event()
    never_ready = Mock(spec=grpc.Channel)
    seen = BreakableChannel(never_ready, cancelled, GivenUp)
    before = grpc.channel_ready_future(seen)
    cancelled.set()
    seen.break_off()
    assert before.result(PATIENCE_S) is None
    assert grpc.channel_ready_future(seen).result(PATIENCE_S) is None


def test_a_job_of_an_event_loop_is_not_sent_elsewhere() -> None:
    with pytest.raises(
        BadRequest, match=r"<gsched.AsyncJob 7> belongs to the event loop .* cannot be pickled: send its id"
    ):
        pickle.dumps(AsyncJob(Mock(), 7))
