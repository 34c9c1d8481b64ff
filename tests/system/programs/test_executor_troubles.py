"""`gsched.Executor` where something goes wrong in the middle: nobody waits for ever, and no call is made twice."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from live_cluster import PATIENCE_S

import gsched
from gsched.api.executor.call_folder import CallFolder
from gsched.base.errors import Conflict, GschedError, Unavailable


class Submissions:
    """What the executor hands to the cluster: the first step is held until `go`, the later ones raise `problem`."""

    def __init__(self, cluster: gsched.Cluster, monkeypatch: pytest.MonkeyPatch, problem: Exception | None) -> None:
        self.sizes: list[int] = []
        self.has_begun, self.go = threading.Event(), threading.Event()
        submit = cluster.submit_many

        def submit_many(jobs: list[Any]) -> list[gsched.Job]:
            self.sizes.append(len(jobs))
            self.has_begun.set()
            assert self.go.wait(PATIENCE_S)
            if problem is not None and len(self.sizes) > 1:
                raise problem
            return submit(jobs)

        monkeypatch.setattr(cluster, "submit_many", submit_many)


@pytest.mark.parametrize("problem", [Unavailable("nobody answers"), ValueError("odd")])
def test_after_an_unclear_error_nothing_is_submitted_again(
    cluster: gsched.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    submissions = Submissions(cluster, monkeypatch, problem)
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls") as executor:
        first = executor.submit(pow, 2, 3)
        assert submissions.has_begun.wait(PATIENCE_S)
        others = [executor.submit(pow, 2, number) for number in range(3)]
        submissions.go.set()
        assert first.result(PATIENCE_S) == 8
        for each in others:
            assert each.exception(PATIENCE_S) is problem
    assert submissions.sizes == [1, 3]


def test_calls_are_given_up_before_they_are_submitted(
    cluster: gsched.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submissions = Submissions(cluster, monkeypatch, None)
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls") as executor:
        first = executor.submit(signal.pause)
        assert submissions.has_begun.wait(PATIENCE_S)
        other = executor.submit(signal.pause)
        assert not other.running() and first.cancel() and other.cancel()
        submissions.go.set()
        assert [each.job.wait(PATIENCE_S).state for each in (first, other)] == ["EXIT", "EXIT"]


def test_results_come_where_the_number_of_the_job_cannot_be_noted(
    cluster: gsched.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CallFolder, "note_job", full)
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls") as executor:
        assert executor.submit(pow, 2, 3).result(PATIENCE_S) == 8


def test_a_folder_that_is_gone(cluster: gsched.Cluster, tmp_path: Path) -> None:
    with gsched.Executor("gone", cluster=cluster, folder=tmp_path / "calls") as executor:
        assert executor.submit(pow, 2, 3).result(PATIENCE_S) == 8
        shutil.rmtree(tmp_path / "calls")
        with pytest.raises(GschedError, match="No such file or directory: the call was not submitted"):
            executor.submit(pow, 2, 3)
        executor.clear()


def test_a_forked_process_is_told_that_the_executor_is_not_its_own(cluster: gsched.Cluster, tmp_path: Path) -> None:
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls") as executor:
        child = os.fork()
        if child == 0:
            try:
                executor.submit(pow, 2, 3)
            except RuntimeError:
                executor.shutdown()
                os._exit(7)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_nobody_else_can_put_files_in_the_place_of_its_own(
    cluster: gsched.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0)
    try:
        executor = gsched.Executor("own", cluster=cluster, folder=tmp_path / "new" / "above" / "calls")
    finally:
        os.umask(before)
    for each in ("new", "new/above", "new/above/calls"):
        assert stat.S_IMODE((tmp_path / each).stat().st_mode) == 0o700
    with executor:
        executor.submit(pow, 2, 3).result(PATIENCE_S)
        (batch,) = executor._folder.batches()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with pytest.raises(GschedError, match="it belongs to uid"):
            executor._folder.outcomes(batch, 0, 1)


def test_one_program_at_a_time_has_an_executor_of_a_name(cluster: gsched.Cluster, tmp_path: Path) -> None:
    with gsched.Executor("sweep", cluster=cluster, folder=tmp_path / "calls") as first:
        with pytest.raises(Conflict, match=r"executor sweep .* is in use"):
            gsched.Executor("sweep", cluster=cluster, folder=tmp_path / "calls")
        first.submit(pow, 2, 3)
    with gsched.Executor("sweep", cluster=cluster, folder=tmp_path / "calls") as second:
        assert [call.result(0) for call in second.futures()] == [8]


def test_files_of_calls_that_go_on_are_kept_where_no_master_answers(
    cluster: gsched.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_: object) -> None:
        raise Unavailable("nobody answers")

    monkeypatch.setattr(cluster, "futures", nobody)
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls") as executor:
        call = executor.submit(pow, 2, 3)
        assert isinstance(call.exception(PATIENCE_S), Unavailable)
    assert len(list((tmp_path / "calls").glob("*.calls"))) == 1
