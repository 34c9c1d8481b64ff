"""A private cluster of real daemon processes, as the system tests use it: through the installed commands."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from gsched.app.clusters import daemons
from gsched.base.coded_text import coded, sentence
from gsched.config.configuration import load
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import JobFilter, JobView
from gsched.wire.address import read_address
from gsched.wire.calls.client import Client
from tests.support.asking import pause_s
from tests.support.fakecuda import devices_of
from tests.support.reports import has_report, printed_in

BIN = Path(sys.executable).parent
PATIENCE_S = 120.0
"""Catches a hang only: a machine may be slow, and busy with other tests."""


def told(reason: PendingReason) -> str:
    """A reason as a line: text, hosts, numbers."""
    hosts = f": {reason.hosts} host{'s' if reason.hosts > 1 else ''}" if reason.hosts else ""
    return sentence(reason.text) + hosts + (f" ({sentence(reason.detail)})" if reason.detail else "")


def printed(path: Path) -> str:
    """What a job with -o has written until its end, without the report that stands in the file."""
    text = path.read_text()
    assert has_report(text), f"no report in {path}"
    return printed_in(text)


class Cluster:
    """One private cluster, made with `gsched up` and used through the installed commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.conf = folder / "conf"
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith(("GSCHED_", "LSF_", "LSB_"))
        }
        # Whoever runs the tests wants to hear nothing of their jobs.
        self.env.update(GSCHED_NOTIFY_FILE="")
        self.env.update(GSCHED_ENVDIR=str(self.conf), TZ="UTC", LC_ALL="C.UTF-8", PATH=f"{BIN}:{os.environ['PATH']}")

    def run(self, *words: str, stdin: str = "", check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        """Run an installed command to its end; with `check` its exit code must be 0."""
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            env={**self.env, **env},
            cwd=self.folder,
            timeout=PATIENCE_S,
        )
        if check:
            assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def up(self, *words: str) -> str:
        return self.run("gsched", "up", "--dir", str(self.folder), *words).stdout

    def down(self) -> None:
        self.run("gsched", "down", "--dir", str(self.folder), "--kill", check=False)

    def submit(self, *words: str, **env: str) -> int:
        """gsub; returns the job's number."""
        done = self.run("gsub", *words, stdin="", check=True, **env)  # named, or mypy takes `env` for them too
        found = re.search(r"Job <(\d+)>", done.stdout)
        assert found is not None, done.stdout + done.stderr
        return int(found[1])

    def starts(self, job_id: int, timeout_s: float = PATIENCE_S) -> JobView:
        """Wait until the job's first process runs; RUN it is from its dispatch on."""

        def has_started() -> bool:
            view = self.job(job_id)
            return view.state == "RUN" and view.pid is not None

        self.until(has_started, f"job {job_id} does not run", timeout_s)
        return self.job(job_id)

    def granted(self, environment: Mapping[str, str]) -> str:
        """Indexes of the GPUs that a job with this environment was given, as `0,2`; checks what CUDA is told.

        In a fence CUDA counts what the job can open, without one all GPUs of the host.
        """
        uuids = environment["GSCHED_GPU_UUIDS"].split(",")
        with self.client() as client:
            hosts = [{each.gpu.uuid: each.gpu for each in host.gpus} for host in client.hosts()]
        gpus = next(gpus for gpus in hosts if uuids[0] in gpus)
        addresses = {uuid: gpu.pci_bus_id for uuid, gpu in gpus.items()}
        assert devices_of(environment, addresses, uuids if self.is_fenced() else None) == uuids
        assert environment["CUDA_VISIBLE_DEVICES"].replace(",", "").isdigit(), "programs read numbers"
        return ",".join(map(str, sorted(gpus[uuid].index for uuid in uuids)))

    def is_fenced(self) -> bool:
        """Whether jobs are kept from GPUs that are not theirs."""
        return "no fence" not in self.run("ghosts", "-l").stdout

    def why_pending(self, job_id: int) -> str:
        """Wait until a cycle has looked at the job and left it; returns its main reason with its numbers."""

        def reasons() -> tuple[PendingReason, ...]:
            view = self.job(job_id)
            assert view.state in ("PEND", "PSUSP"), view
            return view.pending_reasons

        self.until(
            lambda: (found := reasons()) and found[0].text != coded("pending.new"), f"job {job_id} is not looked at"
        )
        return told(reasons()[0])

    def configure(self, **texts: str) -> None:
        """Append to configuration files (`lsb_queues="..."`) and reconfigure; a text that begins with = replaces."""
        for name, text in texts.items():
            path = self.conf / name.replace("_", ".", 1)
            old = "" if text.startswith("=") or not path.exists() else path.read_text()
            path.write_text(old + "\n" + text.removeprefix("="))
        done = self.run("gadmin", "reconfig", check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    @contextlib.contextmanager
    def files_as_they_are(self) -> Iterator[None]:
        """What the block changes in the configuration is undone at its end."""
        before = self._files()
        try:
            yield
        finally:  # a test that fails must not spoil those that follow
            after = self._files()
            for path in after.keys() - before.keys():
                path.unlink()
            for path, data in before.items():
                path.write_bytes(data)
            if after != before:
                self.run("gadmin", "reconfig")

    def _files(self) -> dict[Path, bytes]:
        paths = (path for path in self.conf.iterdir() if path.is_file() and not path.name.startswith("."))
        return {path: path.read_bytes() for path in paths}

    def state(self, job_id: int) -> str:
        """STAT of the job."""
        return self.job(job_id).state

    def becomes(self, job_id: int, state: str) -> JobView:
        """Wait until the job is in the state."""
        self.until(lambda: self.state(job_id) == state, f"job {job_id} does not become {state}")
        return self.job(job_id)

    def client(self, wait_s: float = PATIENCE_S) -> Client:
        return Client(read_address(str(self.conf)), wait_s=wait_s)

    def job(self, job_id: int) -> JobView:
        with self.client() as client:
            return next(iter(client.jobs(JobFilter(ids=(job_id,), user="all", finished=True))))

    def wait(self, *job_ids: int, timeout_s: float = PATIENCE_S) -> list[JobView]:
        """Wait until the jobs have finished (driven by events). Where they do not, what is known of them is printed."""
        try:
            with self.client() as client:
                done = client.wait(job_ids, timeout_s=timeout_s)
        except TimeoutError:
            print(self.run("ghist", "-l", *map(str, job_ids), check=False).stdout, self.logs()[-20000:], sep="\n")
            raise
        return [done[job_id] for job_id in job_ids]

    def end_jobs(self) -> None:
        """End whatever has not finished, at once, and wait until it has."""
        with self.client() as client:
            left = [view.job_id for view in client.jobs()]
        if not left:
            return
        told = self.run("gkill", "-r", *map(str, left), check=False)  # one may have ended meanwhile
        try:
            self.wait(*left)
        except TimeoutError:
            print(told)
            raise

    def pid(self, name: str) -> int:
        """Process id of the daemon `master`, `door` or `agent-HOST`."""
        pid = daemons.running_pid(self.run_dir, name)
        assert pid, f"the {name} does not run"
        return pid

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Kill a daemon and wait until it is gone."""
        pid = self.pid(name)
        os.kill(pid, number)
        run_dir = self.run_dir
        self.until(lambda: daemons.running_pid(run_dir, name) != pid, f"{name} still runs")

    def until(self, is_true: Callable[[], object], complaint: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for something that no event tells of."""
        began = time.monotonic()
        while not is_true():
            waited = time.monotonic() - began
            assert waited < timeout_s, complaint
            time.sleep(pause_s(waited))

    def logs(self) -> str:
        """All that the daemons have logged."""
        return "".join(path.read_text("utf8", "replace") for path in sorted((self.folder / "log").glob("*.log")))

    @property
    def run_dir(self) -> str:
        """Where sockets and lock files lie."""
        return load(str(self.conf)).required().locations.run_dir

    @property
    def host(self) -> str:
        return next(iter(load(str(self.conf)).required().hosts))
