"""How soon the first page of `gsched web` is there, and how large it is, with 10,000 jobs and 200 hosts of 8 GPUs.

A real master with virtual agents (bench/virtual_agents.py); a plain client on a unix socket. The first page is the page
itself with its style sheet, scripts and icon, compressed as browsers want it, as a browser asks for them that was never
there. Goals: 300 kB, and 300 ms for the page.

    python bench/web.py [--jobs 10000] [--hosts 200] [--pages 200]

Then so many pages are kept open while jobs end and start, each of which asks for itself anew whenever it is told to, as
a browser does. The master's processor time, the durations of its scheduling cycles and the memory of `gsched web` are
compared with those before. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import msgspec
from private_cluster import BIN, client_of, end_only_afterwards, private_cluster, report, submission

from gsched.app.clusters import daemons
from gsched.config.configuration import load
from gsched.model.views.view import JobFilter, Submission
from gsched.wire.calls.client import Client

GPUS = 8
BATCH = 1_000
TIMES = 20
WATCHED_S = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


class Reader:
    """A browser's part of the talk."""

    def __init__(self, path: str, address: str) -> None:
        self._path = path
        self.pid = 0
        """Of gsched web."""
        self.cookie = ""
        self.cookie = self._connect("GET", address)[1].headers["set-cookie"].partition(";")[0]

    def _connect(self, method: str, path: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self._path)
        connection.request(method, path, headers={"cookie": self.cookie, "accept-encoding": "gzip"})
        return connection, connection.getresponse()

    def get(self, path: str) -> tuple[float, int, bytes]:
        """Milliseconds until all of it is there, bytes on the wire, and what it is."""
        began = time.perf_counter()
        connection, answer = self._connect("GET", path)
        data = answer.read()
        took = (time.perf_counter() - began) * 1000
        connection.close()
        assert answer.status == 200, (path, answer.status)
        size = len(data) + sum(len(name) + len(value) + 4 for name, value in answer.getheaders())
        return took, size, gzip.decompress(data) if answer.headers["content-encoding"] == "gzip" else data

    def open_page(self, ending: threading.Event) -> int:
        """A page that is kept up to date, until the end; so often it has asked for itself anew."""
        connection, stream = self._connect("GET", "/live?watch=cluster")
        count = 0
        while not ending.is_set() and (line := stream.readline()):
            if line.startswith(b"event: changed"):
                self.get("/")
                count += 1
        connection.close()
        return count


def main() -> int:
    """Print the figures; exit code 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--pages", type=int, default=200)
    asked = parser.parse_args()
    with private_cluster("--sim-gpus", "1:exclusive_process") as environment:
        conf = Path(environment["GSCHED_ENVDIR"])
        names = [f"v{number}" for number in range(1, asked.hosts + 1)]
        _add_hosts(conf, names, environment)
        with agents(conf, names, environment), client_of(environment) as client:
            _fill(client, asked.jobs, names)
            with web(environment) as reader:
                figures = first_page(reader) | open_pages(reader, client, conf, asked.pages)
    report("web", figures)
    return int(figures["first_page_kb"] >= 300 or figures["first_page_ms"] >= 300)


def _add_hosts(conf: Path, names: list[str], environment: dict[str, str]) -> None:
    path = next(conf.glob("lsf.cluster.*"))
    text = path.read_text()
    rows = "".join(f"{name} ! ! 1 ()\n" for name in names)
    changed, count = re.subn(r"(?m)^End\s+Host\b", f"{rows}End Host", text)
    assert count == 1, path
    path.write_text(changed)
    (conf / "lsb.hosts").write_text("Begin Host\nHOST_NAME MXJ\ndefault 64\nEnd Host\n")
    subprocess.run([str(BIN / "gadmin"), "reconfig"], env=environment, check=True, capture_output=True)


@contextlib.contextmanager
def agents(conf: Path, names: list[str], environment: dict[str, str]) -> Iterator[None]:
    """Their agents, all known to the master while the block runs."""
    script = str(Path(__file__).with_name("virtual_agents.py"))
    words = [sys.executable, script, str(conf), "--gpus", str(GPUS), "--run-s", "3600", *names]
    with end_only_afterwards():
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("ready"):
            assert process.poll() is None, "the agents have ended"
        yield
    finally:
        process.kill()
        process.wait()


def _fill(client: Client, jobs: int, names: list[str]) -> None:
    """So many jobs, each of one GPU: they start wherever there is room, the others wait. Returns when all is quiet.

    On the host that is a real one they would fail at once, one after the other.
    """
    client.host_control("close", [host.name for host in client.hosts() if host.name not in names])
    for start in range(0, jobs, BATCH):
        client.submit_many([_job(number) for number in range(start, min(start + BATCH, jobs))])
    deadline = time.monotonic() + 120
    while sum(queue.run for queue in client.queues()) < min(jobs, GPUS * len(names)):
        assert time.monotonic() < deadline, "jobs do not start"
        time.sleep(0.5)


def _job(number: int) -> Submission:
    plain = submission(f"./train.sh --seed {number}")
    spec = msgspec.structs.replace(plain.spec, name=f"sweep-{number}", res_req="rusage[ngpus_excl_p=1]")
    return Submission(spec=spec, environment=plain.environment)


@contextlib.contextmanager
def web(environment: dict[str, str]) -> Iterator[Reader]:
    """`gsched web` on a socket, and a reader that has come in."""
    path = f"{environment['GSCHED_ENVDIR']}/web.sock"
    words = [str(BIN / "gsched"), "web", "--print-url", "--socket", path]
    with end_only_afterwards():
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = None
        while found is None:
            found = re.search(r"/enter\?token=\S+", line := process.stdout.readline())
            assert line, "gsched web has ended"
        reader = Reader(path, found[0])
        reader.pid = process.pid
        yield reader
    finally:
        process.terminate()
        process.wait()


def first_page(reader: Reader) -> dict[str, float]:
    """How large it is with all that it loads, and how long pages take."""
    _, size, page = reader.get("/")
    for path in set(re.findall(rb'"(/assets/[^"]+)"', page)):
        size += reader.get(path.decode())[1]
    figures = {"first_page_kb": size / 1000}
    for name, path in (("first_page", "/"), ("jobs", "/jobs"), ("found", "/jobs?whose=all&states=any&text=777")):
        took = [reader.get(path)[0] for _ in range(TIMES)]
        figures |= {f"{name}_ms": statistics.median(took), f"{name}_max_ms": max(took)}
        print(f"{path:<40} {statistics.median(took):6.1f} ms, {max(took):6.1f} at most")
    print(f"the first page with all that it loads: {size / 1000:.1f} kB")
    return figures


def open_pages(reader: Reader, client: Client, conf: Path, count: int) -> dict[str, float]:
    """What so many open pages cost the master, while jobs end and others start."""
    pid = daemons.running_pid(load(str(conf)).required().locations.run_dir, "master")
    assert pid
    quiet, rss = _watched(pid, client), _rss_mib(reader.pid)
    ending = threading.Event()
    with futures.ThreadPoolExecutor(count) as pool:
        pages = [pool.submit(reader.open_page, ending) for _ in range(count)]
        busy = _watched(pid, client)
        ending.set()
    asked = sum(page.result() for page in pages)
    grown = _rss_mib(reader.pid) - rss
    print(f"without pages: {quiet}")
    print(f"with {count} pages, which asked {asked} times for themselves: {busy}")
    print(f"the memory of gsched web has grown by {grown:.1f} MiB")
    return {
        "refetched": float(asked),
        "web_grown_mib": grown,
        **{f"{name}_before": value for name, value in quiet.items()},
        **{f"{name}_with_pages": value for name, value in busy.items()},
    }


def _watched(pid: int, client: Client) -> dict[str, float]:
    """The master's processor time a second, and its cycles, for WATCHED_S."""
    before = _cycles(client)
    cpu = _load_of(pid, client)
    after = _cycles(client)
    counts = {bound: after[bound] - before.get(bound, 0) for bound in after}
    total = counts.pop("sum")
    number = counts["+Inf"]
    assert number, "no scheduling cycle was counted, though jobs were killed"
    p99 = _quantile({float(bound): count for bound, count in counts.items()}, 0.99)
    return {
        "master_cpu": cpu,
        "cycles": number,
        "cycle_mean_ms": 1000 * total / max(1, number),
        "cycle_p99_ms": 1000 * p99,
    }


def _cycles(client: Client) -> dict[str, float]:
    """Upper bound in seconds -> cycles that were no longer; `sum`: seconds of all of them. As they are now: while the
    page of a large cluster is made, which may take longer than anybody waits, the master gives out the one before.
    """
    asked_at, deadline = time.time(), time.monotonic() + 120
    text = ""
    while not text or _begun_at(text) < asked_at:
        assert time.monotonic() < deadline, "no new page of metrics is made"
        text = client.metrics(older=True).decode()
        time.sleep(0.1)
    found = dict(re.findall(r'(?m)^gsched_cycle_duration_seconds_bucket\{le="([^"]+)"\} (\S+)', text))
    found["sum"] = re.findall(r"(?m)^gsched_cycle_duration_seconds_sum (\S+)", text)[0]
    return {bound: float(count) for bound, count in found.items()}


def _begun_at(text: str) -> float:
    """When the page of metrics was begun, in UTC seconds."""
    return float(re.findall(r"(?m)^gsched_page_timestamp_seconds (\S+)", text)[0])


def _quantile(counts: dict[float, float], part: float) -> float:
    """As Prometheus estimates it, from cumulative counts by upper bound."""
    wanted = part * counts[math.inf]
    low, before = 0.0, 0.0
    for bound, count in sorted(counts.items()):
        if count >= wanted and count > before:
            return low if bound == math.inf else low + (bound - low) * (wanted - before) / (count - before)
        low, before = bound, count
    return low


def _rss_mib(pid: int) -> float:
    return float(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) / 1024


def _load_of(pid: int, client: Client) -> float:
    began, used = time.monotonic(), _cpu_s(pid)
    while time.monotonic() < began + WATCHED_S:
        jobs = [job.job_id for job, _ in zip(client.jobs(JobFilter(states=("RUN",))), range(2), strict=False)]
        client.control("kill", jobs)
        time.sleep(1.0)
    return (_cpu_s(pid) - used) / (time.monotonic() - began)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main())
