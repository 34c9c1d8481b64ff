"""What fault tests share: submissions through the API, jobs that leave a line per start, and the ledger afterwards."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
from live_cluster import PATIENCE_S, Cluster

from gsched.app.clusters import daemons
from gsched.base.errors import GschedError
from gsched.config.configuration import load
from gsched.model.event import AnyEvent, JobDispatched, JobFinished, JobStarted, JobSubmitted, decode_event
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import JobFilter, JobView, Submission
from gsched.wire.calls.client import Client

COMMAND_WAIT_S = 120.0
MOST_HISTORIES = 5000
MOST_STREAMED = 60
"""Jobs of one Stream: where a round takes long, the next would else find more and more of them waiting."""
"""A query for histories answers about 10,000 jobs at most."""


def submission(command: str, folder: Path, **fields: Any) -> Submission:
    """A submission as gsub would send it; its output is thrown away."""
    spec = JobSpec(command=command, user="", queue="", cwd=str(folder), output_file="/dev/null", **fields)
    return Submission(spec=spec, environment=f"PATH={os.environ['PATH']}\0".encode())


class AcknowledgedJobs:
    """A file in which each start of a job writes one line, and how each job is to end."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.path = cluster.folder / "starts"
        self.path.unlink(missing_ok=True)
        with cluster.client() as client:
            known = [job.job_id for job in client.jobs(JobFilter(user="all", finished=True))]
        self.first = max(known, default=0) + 1
        """Jobs before this one are not ours."""
        self.expected: dict[int, tuple[str, int] | None] = {}
        """Job -> ("exit", code) or ("signal", number); None: it may end in any way (somebody kills it)."""

    def command(self, end: tuple[str, int], before: str = "") -> str:
        """A shell command line that writes its line, does `before`, and ends as said."""
        last = f"exit {end[1]}" if end[0] == "exit" else f"kill -{end[1]} $$"
        return f'echo "$LSB_JOBID.$GSCHED_ATTEMPT" >> {self.path}; {before + "; " if before else ""}{last}'

    def starts(self) -> collections.Counter[str]:
        """Lines per attempt `JOB.ATTEMPT`."""
        return collections.Counter(self.path.read_text().split()) if self.path.exists() else collections.Counter()

    def wait(self) -> list[JobView]:
        """All of them when they have ended: as long as some of them end, the others may take their time."""
        left = set(self.expected)
        while True:
            before = len(left)
            with contextlib.suppress(TimeoutError):
                return self.cluster.wait(*self.expected)
            with self.cluster.client() as client:
                left &= {job.job_id for job in client.jobs(JobFilter(user="all"))}
            assert len(left) < before, f"jobs {sorted(left)[:20]} do not end"

    def check(self) -> None:
        """No job lost, none made twice, none started twice, every end known, every history whole."""
        ids = sorted(self.expected)
        assert len(set(ids)) == len(ids)
        with self.cluster.client() as client:
            found = {job.job_id: job for job in client.jobs(JobFilter(user="all", finished=True))}
            jobs = {job_id: job for job_id, job in found.items() if job_id >= self.first}
            histories = {
                item.job_id: [decode_event(record.payload.encode()) for record in item.events]
                for start in range(0, len(ids), MOST_HISTORIES)
                for item in client.history(
                    JobFilter(ids=tuple(ids[start : start + MOST_HISTORIES]), user="all", finished=True)
                )
            }
        assert sorted(jobs) == ids, f"lost {set(ids) - set(jobs)}, never acknowledged {set(jobs) - set(ids)}"
        starts: dict[str, dict[str, int]] = collections.defaultdict(dict)
        for name, count in self.starts().items():
            starts[name.partition(".")[0]][name] = count
        for job_id, end in self.expected.items():
            check_history(job_id, histories[job_id])
            job = jobs[job_id]
            mine = starts[str(job_id)]
            assert all(count == 1 for count in mine.values()), mine
            if end is not None:
                assert end_of(job) == end, f"job {job_id}: {job.state} {job.result}"
                assert list(mine) == [f"{job_id}.{job.attempt}"], f"job {job_id} ran otherwise than once: {mine}"


def end_of(job: JobView) -> tuple[str, int] | None:
    """How a finished job ended; None when that is unknown."""
    assert job.state in ("DONE", "EXIT"), f"job {job.job_id} is {job.state}"
    assert job.result is not None
    if job.result.signal is not None:
        return ("signal", job.result.signal)
    return None if job.result.exit_code is None else ("exit", job.result.exit_code)


def check_history(job_id: int, events: Sequence[AnyEvent]) -> None:
    """Submitted first, attempts numbered without a gap, one dispatch and at most one start per attempt, one end."""
    assert isinstance(events[0], JobSubmitted), f"job {job_id} begins with {events[0]}"
    kinds = [type(event) for event in events]
    assert kinds.count(JobSubmitted) == 1
    assert kinds.count(JobFinished) == 1, f"job {job_id}: {kinds}"
    attempts = [event.attempt for event in events if isinstance(event, JobDispatched)]
    assert attempts == list(range(1, len(attempts) + 1)), f"job {job_id} was dispatched as {attempts}"
    started = [event.attempt for event in events if isinstance(event, JobStarted)]
    assert len(started) == len(set(started)), f"job {job_id} started as {started}"
    finish = kinds.index(JobFinished)
    assert all(kind not in kinds[finish:] for kind in (JobDispatched, JobStarted)), f"job {job_id}: {kinds}"
    end = events[finish]
    assert isinstance(end, JobFinished)
    if end.result.started:
        assert end.attempt in started, f"job {job_id} ended without a start: {kinds}"


class Stream:
    """Threads that submit, kill and ask until they are told to stop; what was acknowledged goes into the list."""

    def __init__(self, acknowledged: AcknowledgedJobs, rng: Any) -> None:
        self.acknowledged = acknowledged
        self.problems: list[str] = []
        self._rng = rng
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._noted = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Stream:
        for work in (self._submit_by_api, self._submit_by_gsub, self._kill):
            thread = threading.Thread(target=self._run, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._stop.set()
        if failure:
            return
        for thread in self._threads:
            thread.join(COMMAND_WAIT_S + 10)
            assert not thread.is_alive(), "a client hangs"
        assert not self.problems, self.problems

    def _run(self, work: Callable[[Client], None]) -> None:
        try:
            with self.acknowledged.cluster.client(wait_s=COMMAND_WAIT_S) as client:
                while not self._stop.is_set():
                    work(client)
                    if self._noted >= MOST_STREAMED:
                        self._stop.wait()
        except Exception as error:
            self.problems.append(f"{work.__name__}: {error!r}")

    def _end(self) -> tuple[str, int]:
        return self._rng.choice([("exit", 0), ("exit", 0), ("exit", 3), ("exit", 139), ("signal", 9), ("signal", 11)])

    def _submit_by_api(self, client: Client) -> None:
        ends = [self._end() for _ in range(self._rng.randint(1, 4))]
        pause = f"sleep {self._rng.choice(['0', '0', '0.1', '0.3'])}"
        jobs = [submission(self.acknowledged.command(end, pause), self.acknowledged.cluster.folder) for end in ends]
        for done, end in zip(client.submit_many(jobs), ends, strict=True):
            self._note(done.job_id, end)
        self._stop.wait(self._rng.random() * 0.03)

    def _submit_by_gsub(self, client: Client) -> None:
        end = self._end()
        done = self.acknowledged.cluster.run("gsub", "-o", "/dev/null", self.acknowledged.command(end), check=False)
        found = re.search(r"Job <(\d+)>", done.stdout)
        if found is None:
            self.problems.append(f"gsub: exit {done.returncode}: {done.stderr}")
            return
        self._note(int(found[1]), end)
        self._stop.wait(self._rng.random() * 0.05)

    def _kill(self, client: Client) -> None:
        command = self.acknowledged.command(("exit", 0), "sleep 600")
        job_id = client.submit(submission(command, self.acknowledged.cluster.folder)).job_id
        self._note(job_id, None)
        self._stop.wait(self._rng.random() * 0.2)
        results = client.control("kill", [job_id])
        if results[0].error not in ("", "Job has already finished"):
            self.problems.append(f"gkill {job_id}: {results[0].error}")

    def _note(self, job_id: int, end: tuple[str, int] | None) -> None:
        with self._lock:
            if job_id in self.acknowledged.expected:
                self.problems.append(f"job {job_id} was acknowledged twice")
            self.acknowledged.expected[job_id] = end
            self._noted += 1


@contextlib.contextmanager
def lent(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that several tests use one after the other: whole and idle before and after, its files as they were."""
    complete(cluster)
    with cluster.files_as_they_are():
        yield cluster
        complete(cluster)
    with cluster.client() as client:
        left = [job.job_id for job in client.jobs(JobFilter(user="all"))]
        if left:
            client.control("kill", left)
            client.wait(left, timeout_s=COMMAND_WAIT_S)
    for name in ("go", "end"):
        (cluster.folder / name).unlink(missing_ok=True)


def complete(cluster: Cluster) -> None:
    """Start what does not run."""
    names = ("master", *(f"agent-{host}" for host in load(str(cluster.conf)).required().hosts), "door")
    if not all(daemons.running_pid(str(run_dir(cluster)), name) for name in names):
        cluster.up()


def settings(cluster: Cluster, **values: object) -> None:
    """Change lsf.conf of a running cluster."""
    path = cluster.conf / "lsf.conf"
    lines = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in values]
    path.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in values.items())]) + "\n")
    cluster.run("gadmin", "reconfig")


def fork_server(cluster: Cluster) -> int:
    """Process id of the agent's fork server."""
    found = _fork_servers(cluster)
    assert found, "the agent has no fork server"
    return found[0]


def kill_fork_server(cluster: Cluster) -> None:
    """SIGKILL it and wait until it is gone, if it is there: after a first kill free supervisors may take all orders."""
    for pid in _fork_servers(cluster):
        kill_and_wait(pid)


def _fork_servers(cluster: Cluster) -> list[int]:
    found = []
    for child in psutil.Process(cluster.pid(f"agent-{cluster.host}")).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any("gsched.run.forkserver" in word for word in child.cmdline()):
                found.append(child.pid)
    return found


def supervisor_of(job: JobView) -> int:
    """Process id of the running job's supervisor."""
    assert job.pid is not None
    return psutil.Process(job.pid).ppid()


def kill_and_wait(pid: int) -> None:
    """SIGKILL a process that is not our child and wait until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while _lives(pid):
        assert time.monotonic() < deadline, f"process {pid} does not die"
        time.sleep(0.01)


def run_dir(cluster: Cluster) -> Path:
    return Path(load(str(cluster.conf)).required().locations.run_dir)


def kill_everything(cluster: Cluster) -> None:
    """kill -9 of all daemons at the same moment (jobs and their supervisors stay)."""
    names = ("master", f"agent-{cluster.host}", "door")
    pids = [cluster.pid(name) for name in names]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    cluster.until(lambda: not any(map(_lives, pids)), "a killed daemon lives")


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process is stopped inside the block and goes on afterwards."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_refused(call: Callable[[], object]) -> str:
    """The text with which the call is refused; empty when it is not."""
    try:
        call()
    except GschedError as error:
        return error.text
    return ""


def state_of(cluster: Cluster, job_id: int) -> str:
    return cluster.job(job_id).state


def payload_of(event: AnyEvent) -> dict[str, Any]:
    return msgspec.to_builtins(event)
