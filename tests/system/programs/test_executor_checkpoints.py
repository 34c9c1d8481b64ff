"""Calls that save themselves, through real daemons: their futures wait for the end of all attempts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from counting_job import BY_REQUEUE, PREEMPTING
from live_cluster import PATIENCE_S
from live_cluster import Cluster as Live

import gsched

Maker = Callable[..., gsched.Executor]


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.nightly)], ids=["shared", "relayed"])
def make(request: pytest.FixtureRequest, cluster: gsched.Cluster, tmp_path: Path) -> Iterator[Maker]:
    """Executors whose hosts share their folder, and such whose calls go through the master."""
    made = []

    def maker(name: str = "", **options: Any) -> gsched.Executor:
        made.append(gsched.Executor(name, cluster=cluster, folder=tmp_path / "calls", shared=request.param, **options))
        return made[-1]

    yield maker
    for each in made:
        each.shutdown(cancel_futures=True)


def waiting(log: Path, stops: dict[str, int]) -> Any:
    """A call that waits, for each mark in so many attempts, until it is asked to save itself."""

    class Waiting:  # in here, so that it is sent with the call
        def __init__(self, done: int = 0) -> None:
            self.done = done

        def __call__(self, mark: str) -> tuple[str, int, str]:
            with log.open("a") as file:
                file.write(f"{mark}{self.done}\n")
            while self.done < stops.get(mark, 0):
                signal.pause()
            return mark, self.done, os.environ["GSCHED_ATTEMPT"]

        def checkpoint(self, mark: str) -> Any:
            return partial(Waiting(self.done + 1), mark)

    return Waiting()


def has_begun(live: Live, log: Path, *marks: str) -> None:
    live.until(lambda: log.exists() and log.read_text().split() == list(marks), f"{marks[-1]} does not begin")


def test_a_future_waits_for_the_last_attempt_whatever_is_killed_between(
    make: Maker, live: Live, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    future = make().submit(waiting(log, {"a": 2}), "a")
    has_begun(live, log, "a0")
    future.job.kill(signal.SIGUSR2)
    has_begun(live, log, "a0", "a1")
    for daemon in (f"agent-{live.host}", "master"):
        live.kill(daemon)
    live.up()
    assert not future.done()
    future.job.kill(signal.SIGUSR2)
    assert future.result(PATIENCE_S) == ("a", 2, "3")
    assert future.job.view().restarts == 2


def test_calls_of_a_batch_that_are_over_are_not_made_again(make: Maker, live: Live, tmp_path: Path) -> None:
    log = tmp_path / "log"
    executor = make()
    results = executor.map(waiting(log, {"b": 1}), "abc", chunksize=3)
    has_begun(live, log, "a0", "b0")
    executor.futures()[0].job.kill(signal.SIGUSR2)
    assert list(results) == [("a", 0, "1"), ("b", 1, "2"), ("c", 0, "2")]
    assert log.read_text().split() == ["a0", "b0", "b1", "c0"]


def test_a_call_is_run_again_as_often_as_it_may_be(make: Maker, live: Live, tmp_path: Path) -> None:
    log = tmp_path / "log"
    future = make(max_restarts=1).submit(waiting(log, {"a": 9}), "a")
    has_begun(live, log, "a0")
    future.job.kill(signal.SIGUSR2)
    has_begun(live, log, "a0", "a1")
    future.job.kill(signal.SIGUSR2)
    with pytest.raises(gsched.JobFailed, match="exit code 99"):
        future.result(PATIENCE_S)


def test_a_preempted_call_makes_room_and_goes_on(
    make: Maker, live: Live, cluster: gsched.Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with live.files_as_they_are():
        live.configure(lsb_queues=PREEMPTING, lsb_params=BY_REQUEUE.format(""))
        future = make(gpus=2, queue="normal").submit(waiting(log, {"a": 1}), "a")
        has_begun(live, log, "a0")
        urgent = cluster.submit("true", gpus=2, queue="urgent")
        assert urgent.wait(PATIENCE_S).succeeded
        assert future.result(PATIENCE_S) == ("a", 1, "2")
