"""Clients of a lab's cluster that submit, ask and kill all the time and write each call down, in a process of a host.

As a program it runs until its standard input ends, and prints a line of JSON for each call; the jobs themselves note
their starts and ends in a file of the user's home, which all hosts share. It judges nothing.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from netlab import BIN, Host
from netlab_cluster import PATIENCE_S, SharedCluster
from netlab_machine import REPOSITORY

from gsched import Cluster
from gsched.api.request import JobRequest, RequestReader
from gsched.base.errors import ResourceExhausted, Unavailable
from gsched.base.ids import new_token
from gsched.model.views.view import JobFilter, Submission
from tests.support.asking import pause_s
from tests.support.linearizable import ABSENT, FINISHED, OVER, Call, violations

CLIENTS = 3
PAUSE_S = 0.25
"""Between two calls of a client: four a second of each keep a cluster busy, and leave the processors to its daemons."""
NOTES = "starts"
JOB = (
    f"echo begin $LSB_JOBID $GSCHED_GPU_UUIDS $(date +%s%N) >>{NOTES}; sleep 0.4; "
    f"echo end $LSB_JOBID $(date +%s%N) >>{NOTES}"
)
AWAY = (Unavailable, ResourceExhausted)
"""No master was found, or one that waits for its database: the same may be asked again."""
_NEWEST = 12


# -- in the process of the host ---------------------------------------------------------------------------------------


class Client:
    """One of them; `jobs` are those of all, in the order in which they were acknowledged."""

    def __init__(self, cluster: Cluster, jobs: list[int], seed: int, write: Callable[[Call], None]) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self._rng = random.Random(seed)
        self._write = write

    def call(self) -> None:
        """Do one thing, and write down what was answered."""
        what = self._rng.choice([self._submit, self._query, self._query, self._kill])
        (what if self._jobs else self._submit)()

    def _submit(self) -> None:
        token, submission = new_token(), self._submission()
        answered = None
        while answered is None:
            began = time.monotonic()
            try:
                answered = self._cluster.client().submit(submission, token=token)
            except AWAY:  # the same again: it may have been stored
                self._write(Call(what="submit", begin=began, token=token))
                time.sleep(PAUSE_S)
        self._write(Call(what="submit", begin=began, end=time.monotonic(), token=token, job=answered.job_id))
        self._jobs.append(answered.job_id)

    def _submission(self) -> Submission:
        request = JobRequest(command=JOB, hosts="h3", gpus="num=1:j_exclusive=yes", output="/dev/null")
        return RequestReader(self._cluster.folder).submission(request)

    def _query(self) -> None:
        job = self._rng.choice(self._jobs[-_NEWEST:])
        began = time.monotonic()
        try:
            views = list(self._cluster.client().jobs(JobFilter(ids=(job,), user="all", finished=True)))
        except AWAY:
            return
        state, attempt = (str(views[0].state), views[0].attempt) if views else (ABSENT, 0)
        self._write(
            Call(what="query", begin=began, end=time.monotonic(), job=job, answer=_known(state), attempt=attempt)
        )

    def _kill(self) -> None:
        job = self._rng.choice(self._jobs[-_NEWEST:])
        began = time.monotonic()
        try:
            (answer,) = self._cluster.client().control("kill", [job])
        except AWAY:
            self._write(Call(what="kill", begin=began, job=job))
            return
        said = OVER if answer.error else "killed"
        self._write(Call(what="kill", begin=began, end=time.monotonic(), job=job, answer=said))


def _known(state: str) -> str:
    """A running job whose host is away is a running job."""
    return "RUN" if state in ("UNKWN", "ZOMBI") else state


def main() -> None:
    """Until standard input ends."""
    os.chdir(Path.home())
    over, lock = threading.Event(), threading.Lock()
    jobs: list[int] = []

    def say(line: bytes) -> None:
        with lock:
            os.write(1, line + b"\n")

    def run(seed: int) -> None:
        client = Client(cluster, jobs, seed, lambda call: say(msgspec.json.encode(call)))
        while not over.wait(PAUSE_S):
            try:
                client.call()
            except Exception as error:  # whatever it is, it must not be
                say(msgspec.json.encode({"problem": f"{type(error).__name__}: {error}"}))

    with Cluster() as cluster:
        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        over.set()
        for thread in threads:
            thread.join()


# -- in the test ------------------------------------------------------------------------------------------------------


class Recorded:
    """Such clients, of alice on this host, until the end of the block."""

    def __init__(self, cluster: SharedCluster, host: Host) -> None:
        self._cluster, self._host = cluster, host
        self._path = cluster.lab.folder / "calls"
        self._process: subprocess.Popen[Any] | None = None
        self._calls: list[Call] = []
        self._read = 0
        """Bytes of the file that are in `_calls`."""

    def __enter__(self) -> Recorded:
        here = Path(__file__)
        words = [str(BIN / "python"), str(here)]
        paths = f"{REPOSITORY}:{here.parent}"
        with self._path.open("wb") as out:
            self._process = self._host.popen(
                words, user="alice", env={"PYTHONPATH": paths}, stdin=subprocess.PIPE, stdout=out
            )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._process is not None
        self._process.communicate(b"", timeout=PATIENCE_S)
        assert kind is not None or self._process.returncode == 0, "the clients have failed"

    def calls(self) -> list[Call]:
        """What has been written down so far; nothing may be there but calls."""
        with self._path.open("rb") as written:
            written.seek(self._read)
            lines = written.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in lines[:-1])
        problems = [line.decode() for line in lines[:-1] if line.startswith(b'{"problem"')]
        assert not problems, problems
        self._calls += [msgspec.json.decode(line, type=Call) for line in lines[:-1]]
        return self._calls

    def more(self, count: int, since: float) -> None:
        """Wait until so many submissions that began after this time have been acknowledged."""
        until = time.monotonic() + PATIENCE_S
        while sum(call.begin > since for call in self._acknowledged()) < count:
            assert self._process is not None and self._process.poll() is None, "the clients have ended"
            assert time.monotonic() < until, "nothing is acknowledged"
            time.sleep(pause_s(0.0))

    def outage_s(self, since: float) -> float:
        """The longest time without an acknowledged submission, from shortly before `since` on."""
        ends = sorted(call.end or 0.0 for call in self._acknowledged())
        return max((b - a for a, b in pairwise(ends) if b > since), default=0.0)

    def _acknowledged(self) -> list[Call]:
        return [call for call in self.calls() if call.what == "submit" and call.end is not None]

    def check(self) -> int:
        """After the block: all that was told can be true, no job was lost or started twice, and no GPU had two jobs.

        Returns the number of jobs.
        """
        calls = self.calls()
        found = violations(calls)
        assert not found, found
        jobs = {call.job for call in calls if call.what == "submit" and call.end is not None}
        # Also by one that was told OVER: a call that broke off is made again, and may have been carried out.
        killed = {call.job for call in calls if call.what == "kill"}
        self._cluster.until(lambda: self._ends(jobs), "not all jobs end")
        ends = self._ends(jobs)
        assert set(ends) == jobs
        wrong = {job: state for job, state in ends.items() if state != "DONE" and job not in killed}
        assert not wrong, wrong
        _check_starts(self._host.run(["cat", NOTES], user="alice").stdout, ends)
        return len(jobs)

    def _ends(self, jobs: set[int]) -> dict[int, str]:
        """How each job ended, when all have."""
        words = ("gjobs", "-noheader", "-a", "-o", "jobid stat")
        lines = [line.split() for line in self._cluster.run(*words, host=self._host).stdout.splitlines()]
        ends = {int(job): state for job, state in lines if int(job) in jobs}
        return ends if all(state in FINISHED for state in ends.values()) else {}


def _check_starts(notes: str, ends: dict[int, str]) -> None:
    """By what the jobs themselves have written."""
    begun: Counter[int] = Counter()
    running: dict[str, int] = {}
    for line in notes.splitlines():
        words = line.split()
        job = int(words[1])
        if words[0] == "begin":
            begun[job] += 1
            gpu = words[-2]
            other = running.get(gpu)
            assert other is None or ends.get(other) != "DONE", f"jobs {other} and {job} had GPU {gpu} at once"
            running[gpu] = job
        else:
            running = {gpu: each for gpu, each in running.items() if each != job}
    twice = {job: count for job, count in begun.items() if count > 1}
    assert not twice, f"started more than once: {twice}"
    never = {job for job, state in ends.items() if state == "DONE" and job not in begun}
    assert not never, f"DONE, and never started: {never}"


if __name__ == "__main__":
    main()
