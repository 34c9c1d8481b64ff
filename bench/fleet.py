"""1,000 virtual hosts: what they cost the master at rest, how soon a job starts on one, how fast a wave goes through.

The agents are played by one process beside the master (virtual_agents.py): sessions, heartbeats, loads and readings of
8 GPUs per host at the rates of a plain configuration (15 s), starts and ends without any host behind them. So what is
measured is the master alone; both share this machine's processors. A job of the wave wants one GPU.

    python bench/fleet.py --hosts 100,300,1000 --wave 10000      # the figures of docs/scale.md
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
from private_cluster import BIN, end_in_good_order, end_only_afterwards, report, set_plain, submission

from gsched.app.installation.authority import make_authority, make_host
from gsched.config.configuration import load
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import Locations
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.calls.client import Client

PATIENCE_S = 120.0
CALL = 1_000
"""Jobs of the wave that are submitted in one call."""
ASK_S = 0.1
HERE = Path(__file__).parent


def main() -> int:
    """Print a line for each figure, then all of them; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="1000", help="sizes of the fleet, one after another")
    parser.add_argument("--gpus", type=int, default=8, help="of each host")
    parser.add_argument("--idle", type=float, default=15.0, help="seconds at rest; a multiple of 15")
    parser.add_argument("--jobs", type=int, default=50, help="jobs one by one, for the latency")
    parser.add_argument("--wave", type=int, default=2000, help="jobs of the wave; 0: none")
    parser.add_argument("--run-s", type=float, default=0.0, help="how long each job runs")
    parser.add_argument("--tls", action="store_true", help="a shared cluster: a TCP port, mutual TLS, each its own key")
    parser.add_argument("--steady", action="store_true", help="readings of GPUs never change")
    asked = parser.parse_args()
    sizes = [int(word) for word in asked.hosts.split(",")]
    figures: dict[str, float] = {}
    for size in sizes:
        for name, value in measured(size, asked).items():
            figures[name if len(sizes) == 1 else f"{name}_{size}"] = value
    report("fleet", figures)
    return 0


def measured(size: int, asked: argparse.Namespace) -> dict[str, float]:
    """All figures of a fleet of that size."""
    with cluster(size, shared=asked.tls) as conf, Master(conf) as master, Agents(conf, size, asked) as agents:
        agents.ready()
        figures = restarted(master, agents)
        text = "listens {listen_s:.2f} s after its start, all have said hello {hello_s:.2f} s later"
        print(f"{size} hosts: a new master {text.format(**figures)}")
        figures |= at_rest(master, asked.idle)
        rest = "{idle_percent:.1f} % of a core, {rss_mib:.0f} MiB resident, {pss_mib:.0f} MiB its own share"
        print(f"  at rest: {rest.format(**figures)}")
        with Client(master.address) as client:
            figures |= latency(client, agents, asked.jobs)
            start = "median {start_ms:.1f} ms, p99 {start_p99_ms:.1f} ms"
            print(f"  submit -> the order at the agent: {start.format(**figures)}")
            if asked.wave:
                figures |= wave(client, master, asked.wave)
                text = "{wave_s:.1f} s, {wave_jobs_per_s:.0f} jobs/s, {wave_ms_per_job:.2f} ms of the master for each"
                print(f"  a wave of {asked.wave} jobs: {text.format(**figures)}")
                text = "median {ask_ms:.1f} ms, p99 {ask_p99_ms:.1f} ms"
                print(f"  a question for one job meanwhile: {text.format(**figures)}")
    return figures


# -- the pieces -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cluster(size: int, *, shared: bool) -> Iterator[str]:
    """The configuration folder of a cluster with so many hosts, v1 and so on."""
    end_in_good_order()
    folder = Path(tempfile.mkdtemp(prefix="gsched-fleet-"))
    names = ("state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")
    places = Locations(conf_dir=str(folder / "conf"), **{name: str(folder / name[:-4]) for name in names})
    for name in names:
        (folder / name[:-4]).mkdir(mode=0o700)
    hosts = [f"v{number}" for number in range(1, size + 1)]
    write_private(
        places.conf_dir, NewConfiguration(cluster="private", hosts=hosts, slots=64, folders=places, gpu_provider="none")
    )  # the agents say what GPUs they have
    set_plain(Path(places.conf_dir))
    if shared:
        share(places.conf_dir, hosts)
    try:
        yield places.conf_dir
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def share(conf: str, hosts: list[str]) -> None:
    """Make it a shared cluster: a port, a CA, a certificate for each host."""
    with socket.socket() as probe, (Path(conf) / "lsf.conf").open("a") as file:
        probe.bind(("", 0))
        file.write(f"LSB_MBD_PORT={probe.getsockname()[1]}\n")
    folder = load(conf).required().network.tls_dir
    authority = make_authority(folder, "private", 10)
    for host in hosts:
        make_host(folder, authority, host, 10)


class Master:
    """The real one, as a process."""

    def __init__(self, conf: str) -> None:
        self._conf = conf
        self._socket = Path(load(conf).required().folder_of("master")) / "master.sock"
        self.address = f"unix:{self._socket}"
        self._log = Path(conf).parent / "master.log"
        self._process: psutil.Popen | None = None

    def __enter__(self) -> Master:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(30)

    @property
    def process(self) -> psutil.Popen:
        """The one that was started last."""
        assert self._process
        return self._process

    def start(self) -> None:
        """Returns when it answers."""
        with self._log.open("ab") as log:
            words = [str(BIN / "gsched"), "master", "--envdir", self._conf]
            with end_only_afterwards():
                self._process = psutil.Popen(words, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE_S
        while not self._socket.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the master does not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        self._socket.unlink()

    def cpu_s(self) -> float:
        """Processor seconds so far, to the nanosecond: clock_getcpuclockid(3)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)


class Agents:
    """The process that plays the agents, and what it says."""

    def __init__(self, conf: str, size: int, asked: argparse.Namespace) -> None:
        words = [sys.executable, str(HERE / "virtual_agents.py"), conf, f"v1..{size}"]
        words += ["--gpus", str(asked.gpus), "--run-s", str(asked.run_s), *(["--steady"] if asked.steady else [])]
        self._words = words
        self._ready: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._starts: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
        self._process: subprocess.Popen[str]

    def __enter__(self) -> Agents:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with end_only_afterwards():
            self._process = subprocess.Popen(self._words, stdout=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            match line.split():
                case ["ready", _, at]:
                    self._ready.put(float(at))
                case ["start", job, at]:
                    self._starts.put((int(job), float(at)))
        self._ready.put(None)

    def ready(self) -> float:
        """When all have got the master's answer to their hello; waits for it."""
        at = self._ready.get(timeout=PATIENCE_S)
        if at is None:
            raise RuntimeError("the virtual agents have ended")
        return at

    def started(self, job: int) -> float:
        """When the order to start this job came; waits for it."""
        while (found := self._starts.get(timeout=PATIENCE_S))[0] != job:
            pass
        return found[1]


# -- what is measured -------------------------------------------------------------------------------------------------


def restarted(master: Master, agents: Agents) -> dict[str, float]:
    """Seconds from the start of a new master, after kill -9, until it listens; from there until it has answered all."""
    master.kill()
    begin = time.monotonic()
    master.start()
    listening = time.monotonic()
    return {"listen_s": listening - begin, "hello_s": agents.ready() - listening}


def at_rest(master: Master, seconds: float) -> dict[str, float]:
    """Nothing runs and nothing is asked."""
    time.sleep(5.0)  # what came with the hellos is over
    before = master.cpu_s()
    time.sleep(seconds)
    used = master.cpu_s() - before
    memory = master.process.memory_full_info()
    mib = 1 << 20
    return {"idle_percent": used / seconds * 100, "rss_mib": memory.rss / mib, "pss_mib": memory.pss / mib}


def latency(client: Client, agents: Agents, count: int) -> dict[str, float]:
    """Milliseconds from the call of submit to the order at the agent, the fleet being idle but for its reports."""
    found = []
    for _ in range(count):
        begin = time.monotonic()
        job = client.submit(one_gpu()).job_id
        found.append((agents.started(job) - begin) * 1000)
        client.wait([job], timeout_s=PATIENCE_S)
        time.sleep(0.1)
    return {"start_ms": statistics.median(found), "start_p99_ms": p99(found)}


def wave(client: Client, master: Master, jobs: int) -> dict[str, float]:
    """Many jobs at once, from the first call of submit to the last end."""
    asker = Asker(master.address)
    with asker:
        before, begin = master.cpu_s(), time.monotonic()
        ids = [
            job.job_id
            for start in range(0, jobs, CALL)
            for job in client.submit_many([one_gpu() for _ in range(min(CALL, jobs - start))])
        ]
        asker.job = ids[-1]
        client.wait(ids, timeout_s=600)
        wall, used = time.monotonic() - begin, master.cpu_s() - before
    figures = {"wave_s": wall, "wave_jobs_per_s": jobs / wall, "wave_ms_per_job": used / jobs * 1000}
    return figures | {"ask_ms": statistics.median(asker.found), "ask_p99_ms": p99(asker.found)}


class Asker:
    """Asks for one job ten times a second, as `gjobs JOB` does, and notes how long the answers take."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.job = 1
        self.found: list[float] = []

    def __enter__(self) -> Asker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _ask(self) -> None:
        with Client(self._address) as client:
            while not self._ending.wait(ASK_S):
                begin = time.monotonic()
                list(client.jobs(JobFilter(ids=(self.job,), user="all", finished=True)))
                self.found.append((time.monotonic() - begin) * 1000)


def one_gpu() -> Submission:
    """A job that wants one GPU for itself."""
    plain = submission("/bin/true")
    spec = msgspec.structs.replace(plain.spec, res_req="select[ngpus>0] rusage[ngpus_excl_p=1]")
    return Submission(spec=spec, environment=plain.environment)


def p99(found: list[float]) -> float:
    return sorted(found)[min(len(found) - 1, round(len(found) * 0.99))] if found else 0.0


if __name__ == "__main__":
    sys.exit(main())
