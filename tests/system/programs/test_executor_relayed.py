"""`gsched.Executor(shared=False)` against real daemons: calls and results go through the master."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S
from live_cluster import Cluster as Live

import gsched
from gsched.api.executor import CallFailed
from gsched.base.errors import BadRequest, NotFound
from gsched.model.views.message_boxes import RESULT_BOX


@pytest.fixture
def executor(cluster: gsched.Cluster, tmp_path: Path) -> Iterator[gsched.Executor]:
    # Where no PATH leads to gsched's commands they are found all the same.
    surroundings = {"PATH": os.defpath, "HOME": str(tmp_path)}
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls", shared=False, env=surroundings) as made:
        yield made


def test_values_and_exceptions_come_back(executor: gsched.Executor, tmp_path: Path) -> None:
    power = executor.submit(pow, 7, -1, mod=11)
    broken = executor.submit(lambda text: int(text), "seven")
    where = executor.submit(lambda: (os.getcwd(), sys.stdin.read(), print("said")))
    assert power.result(PATIENCE_S) == 8
    with pytest.raises(ValueError, match=r"invalid literal for int.*seven") as caught:
        broken.result(PATIENCE_S)
    assert "in <lambda>" in str(caught.value.__cause__)
    assert where.result(PATIENCE_S) == ("/tmp", "", None)
    assert where.job.output() == "said\n"
    (message,) = (each for each in where.job.view().messages if each.box == RESULT_BOX)
    assert message.text.startswith(("how its calls have ended (", "its results were fetched"))
    assert str(tmp_path) not in where.job.view().spec.command


def test_a_job_needs_nothing_of_the_programs_folder(cluster: gsched.Cluster, tmp_path: Path) -> None:
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls", shared=False, hold=True) as executor:
        call = executor.submit(pow, 2, 3)
        job = call.job
        for each in (tmp_path / "calls").glob("*.calls"):
            each.unlink()
        job.resume()
        assert call.result(PATIENCE_S) == 8


def test_a_map_with_large_arguments_is_several_arrays(executor: gsched.Executor) -> None:
    texts = [letter * 100_000 for letter in "abcdef"]
    assert list(executor.map(lambda text: text[0], texts)) == list("abcdef")
    assert len({future.job.id & 0xFFFFFFFF for future in executor.futures()}) == 3


def test_what_is_too_large_is_told_with_its_size(executor: gsched.Executor) -> None:
    with pytest.raises(BadRequest, match=r"of 1 call hold 20.0 MiB: 8.0 MiB are the most that go through the master"):
        executor.submit(len, b"x" * (20 << 20))
    large = executor.submit(bytes, 300 << 20)
    with pytest.raises(
        CallFailed, match=r"its result holds 300.0 MiB: 8.0 MiB are the most that go through the master"
    ):
        large.result(PATIENCE_S)
    assert executor.submit(bytes, 7 << 20).result(PATIENCE_S) == bytes(7 << 20)


def test_a_job_that_was_killed_has_no_result(executor: gsched.Executor) -> None:
    killed = executor.submit(os.kill, 0, signal.SIGKILL)
    with pytest.raises(gsched.JobFailed, match="signal 9"):
        killed.result(PATIENCE_S)
    with pytest.raises(NotFound, match="No attachment available in message box 127"):
        executor.cluster.client().attachment(killed.job.id, RESULT_BOX)


PROGRAM = """
    import os, signal, sys
    import gsched

    GATE = sys.argv[2]

    def slow(number):
        with open(GATE) as gate:  # a FIFO: until it is opened on the other side
            gate.read()
        return number * 10

    if __name__ == "__main__":
        executor = gsched.Executor("sweep", folder=sys.argv[1], shared=False)
        made = executor.map(slow, range(2))
        print([future.job.id for future in executor.futures()], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_that_was_killed_finds_its_calls_again(live: Live, cluster: gsched.Cluster, tmp_path: Path) -> None:
    program, gate, folder = tmp_path / "program.py", tmp_path / "gate", tmp_path / "calls"
    program.write_text(textwrap.dedent(PROGRAM))
    os.mkfifo(gate)
    environment = {**os.environ, "GSCHED_ENVDIR": str(live.conf)}
    ended = subprocess.run(
        [sys.executable, program, folder, gate], env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    for known in folder.glob("*.job"):
        known.unlink()  # as if it had been killed before it heard of the job
    with gsched.Executor("sweep", cluster=cluster, folder=folder, shared=False) as again:
        calls = again.futures()
        assert str([call.job.id for call in calls]) == ended.stdout.strip()
        for call in calls:
            live.starts(call.job.id)
        live.kill("master")
        os.close(os.open(gate, os.O_WRONLY))
        live.up()
        assert [call.result(PATIENCE_S) for call in calls] == [0, 10]
    with gsched.Executor("sweep", cluster=cluster, folder=folder, shared=False) as third:
        assert [call.result(0) for call in third.futures()] == [0, 10]
        third.clear()
    assert list(folder.iterdir()) == []


def test_the_store_keeps_neither_results_that_were_fetched_nor_calls_of_forgotten_jobs(
    live: Live, executor: gsched.Executor
) -> None:
    word = os.urandom(16).hex()

    def kept() -> int:
        with closing(sqlite3.connect(f"file:{live.folder}/state/gsched.db?mode=ro", uri=True)) as store:
            return int(store.execute("SELECT count(*) FROM blob WHERE instr(data, ?)", (word.encode(),)).fetchone()[0])

    with live.files_as_they_are():
        live.configure(lsb_params="=Begin Parameters\nCLEAN_PERIOD = 86400\nEnd Parameters\n")
        calls = [executor.submit(lambda text: text * 2, word) for _ in range(2)]
        assert [call.result(PATIENCE_S) for call in calls] == [word * 2] * 2
        live.until(lambda: kept() == 1, "the results are still there")  # the calls are the same
        again = calls[0].job.id
        live.run("grequeue", "-d", str(again))  # what it was given to read is there for another run
        live.until(lambda: kept() == 2, "it does not run again")
        assert [job.state for job in live.wait(again)] == ["DONE"]
        live.configure(lsb_params="=Begin Parameters\nCLEAN_PERIOD = 0\nEnd Parameters\n")
        live.until(lambda: kept() == 0, "calls and results are still there")


def test_a_folder_that_the_host_does_not_have_is_named(cluster: gsched.Cluster, tmp_path: Path) -> None:
    with gsched.Executor(cluster=cluster, folder=tmp_path / "calls", hold=True) as executor:
        call = executor.submit(pow, 2, 3)
        job = call.job
        for each in (tmp_path / "calls").glob("*.calls"):
            each.unlink()
        job.resume()
        with pytest.raises(CallFailed, match=r"does not find .*/calls: .*folder= has to be .*; shared=False sends"):
            call.result(PATIENCE_S)
