"""`gsched.Executor` against real daemons: functions as jobs, their results, errors and ends."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from live_cluster import PATIENCE_S
from live_cluster import Cluster as Live

import gsched
from gsched.api.executor import CallFailed
from gsched.base.errors import BadRequest, GschedError

Maker = Callable[..., gsched.Executor]


@pytest.fixture
def make(cluster: gsched.Cluster, tmp_path: Path) -> Iterator[Maker]:
    made = []

    def maker(name: str = "", **options: Any) -> gsched.Executor:
        made.append(gsched.Executor(name, cluster=cluster, folder=tmp_path / "calls", **options))
        return made[-1]

    yield maker
    for each in made:
        each.shutdown(cancel_futures=True)


def test_calls_return_and_raise_as_in_the_program_itself(make: Maker, tmp_path: Path) -> None:
    with make(gpus=1) as executor:
        device = executor.submit(os.getenv, "CUDA_VISIBLE_DEVICES")
        power = executor.submit(pow, 7, -1, mod=11)
        broken = executor.submit(lambda text: int(text), "seven")
        assert device.result(PATIENCE_S) in ("0", "1")
        assert power.result(PATIENCE_S) == 8
        with pytest.raises(ValueError, match=r"invalid literal for int.*seven") as caught:
            broken.result(PATIENCE_S)
        assert "in <lambda>" in str(caught.value.__cause__)
        assert power.done() and not power.running() and not power.cancel()
        assert power.job.wait(PATIENCE_S).succeeded
    assert not (tmp_path / "calls").exists()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(pow, 1, 1)


def test_a_map_is_one_array_with_results_in_order(make: Maker) -> None:
    executor = make()
    found = executor.map(lambda one, other: one * other, range(7), range(100), chunksize=3)
    assert list(found) == [number * number for number in range(7)]
    jobs = {future.job.id for future in executor.futures()}
    assert len(jobs) == 3 and len({number & 0xFFFFFFFF for number in jobs}) == 1
    assert list(executor.map(pow, [])) == []


def test_output_and_ends_of_jobs(make: Maker) -> None:
    executor = make(name="told")
    spoken = executor.submit(print, "said within a job")
    assert spoken.result(PATIENCE_S) is None
    assert spoken.job.output() == "said within a job\n"
    assert spoken.job.view().spec.name == "told"
    killed = executor.submit(os.kill, 0, signal.SIGKILL)
    with pytest.raises(gsched.JobFailed, match="signal 9"):
        killed.result(PATIENCE_S)
    left = executor.submit(sys.exit, 3)
    with pytest.raises(SystemExit):
        left.result(PATIENCE_S)


def test_a_call_that_is_given_up_ends_its_job(make: Maker, live: Live) -> None:
    executor = make()
    running = executor.submit(signal.pause)
    live.starts(running.job.id)
    assert running.running()
    assert running.cancel() and running.cancelled()
    assert running.job.wait(PATIENCE_S).state == "EXIT"
    with pytest.raises(futures.CancelledError):
        running.result(PATIENCE_S)
    pair = [*make().map(pow, [2, 3], [4, 5], chunksize=2)]
    assert pair == [16, 243]


def test_many_come_as_completed(make: Maker) -> None:
    executor = make()
    many = [executor.submit(divmod, number, 7) for number in range(30)]
    assert {each.result() for each in futures.as_completed(many, PATIENCE_S)} == {divmod(n, 7) for n in range(30)}


def test_bad_calls_and_options(make: Maker, tmp_path: Path, cluster: gsched.Cluster) -> None:
    executor = make()
    with pytest.raises(BadRequest, match="an argument cannot be pickled: TypeError"):
        executor.submit(print, (number for number in range(2)))
    with pytest.raises(BadRequest, match=r"chunksize=0"):
        executor.map(pow, [1], [1], chunksize=0)
    with pytest.raises(BadRequest, match="no option 'array'"):
        make(array=3)
    with pytest.raises(BadRequest, match="no option 'gpu'; did you mean 'gpus'"):
        make(gpu=3)
    with pytest.raises(BadRequest, match="name='a/b'"):
        make(name="a/b")
    (tmp_path / "calls").chmod(0o777)
    with pytest.raises(BadRequest, match="others may write there"):
        make()
    (tmp_path / "calls").chmod(0o700)
    with pytest.raises(GschedError, match="nowhere"):
        make(queue="nowhere").submit(pow, 1, 1).result(PATIENCE_S)
    odd = executor.submit(lambda: (number for number in range(2)))
    with pytest.raises(CallFailed, match="its result, of type generator, cannot be pickled"):
        odd.result(PATIENCE_S)


def test_another_version_of_python_makes_no_call(make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 1, 0))
    executor = make()
    future = executor.submit(pow, 1, 1)
    monkeypatch.undo()
    with pytest.raises(CallFailed, match=r"is Python 3\.\d+, and the call was made by Python 3\.1$"):
        future.result(PATIENCE_S)


PROGRAM = """
    import os, signal, sys, time
    import gsched

    GATE = sys.argv[2]

    def slow(number):
        with open(GATE) as gate:  # a FIFO: until it is opened on the other side
            gate.read()
        return number * 10

    if __name__ == "__main__":
        executor = gsched.Executor("sweep", folder=sys.argv[1])
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
    again = gsched.Executor("sweep", cluster=cluster, folder=folder)
    calls = again.futures()
    assert str([call.job.id for call in calls]) == ended.stdout.strip()
    for call in calls:
        live.starts(call.job.id)
    os.close(os.open(gate, os.O_WRONLY))
    assert [call.result(PATIENCE_S) for call in calls] == [0, 10]
    again.shutdown()
    third = gsched.Executor("sweep", cluster=cluster, folder=folder)
    assert [call.result(0) for call in third.futures()] == [0, 10]
    third.clear()
    assert third.futures() == [] and list(folder.iterdir()) == []
    third.shutdown()


def test_files_of_results_that_nobody_can_read(make: Maker, tmp_path: Path) -> None:
    executor = make(name="odd")
    executor.submit(pow, 2, 3).result(PATIENCE_S)
    executor.shutdown()
    (result,) = (tmp_path / "calls").glob("*.result")
    result.write_bytes(pickle.dumps([("returned", b"no pickle", "")]))
    (found,) = make(name="odd").futures()
    with pytest.raises(CallFailed, match="its result cannot be read here"):
        found.result(0)
