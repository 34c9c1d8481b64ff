"""How long a cluster is without a leader: fail-overs between two master processes on one PostgreSQL, again and again.

From `kill -9` of the leader, or from the call that hands over, to the first submission that the other one acknowledges.
Both masters run on this machine, as two hosts by name, and so does the server: what a network adds is not in the
figures. A standby is given the time to watch the store (10 s), as any has that was not started a moment ago. Beside
pending jobs it is measured at rest first.

    python bench/failover.py --fail-overs 100 --pending 0,100000      # the figures of docs/reliability.md
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
from backlog import BATCH, batch
from private_cluster import BIN, end_in_good_order, end_only_afterwards, report, submission

from gsched.config.configuration import load
from gsched.master.store_lineage import FIRST_HELLOS_S
from gsched.wire.address import MASTER_SOCKET
from gsched.wire.calls.client import Client

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.neighbour_masters import configure_masters
from tests.support.postgresql_server import NoServer, PostgresqlServer

HOSTS = ("m1", "m2")
PATIENCE_S = 300.0
LOOK_S = 0.002
WATCHED_S = FIRST_HELLOS_S + 1.5
"""From then on a standby knows that the store has lost nothing, and takes jobs at once."""
QUIET_PERCENT = 5.0
"""A standby that uses less of a core within a second has read what there was to read."""


def main() -> int:
    """Print a line for each figure, then all of them; exit code 0, or 1 where there is no PostgreSQL."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fail-overs", type=int, default=20, help="of each kind")
    parser.add_argument("--pending", default="0", help="numbers of pending jobs, one after another")
    parser.add_argument("--kinds", default=",".join(KINDS), help="how the leader is lost")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds of a standby at rest; 0: not measured")
    asked = parser.parse_args()
    end_in_good_order()
    try:
        server = PostgresqlServer()
    except NoServer as problem:
        print(problem, file=sys.stderr)
        return 1
    figures: dict[str, float] = {}
    try:
        for pending in map(int, asked.pending.split(",")):
            for name, value in measured(server.new_url(), pending, asked).items():
                figures[f"{name}_{pending}_pending"] = value
    finally:
        server.close()
    report("failover", figures)
    return 0


def measured(url: str, pending: int, asked: argparse.Namespace) -> dict[str, float]:
    """All figures of a cluster with so many pending jobs."""
    with two_masters(url) as pair:
        pair.fail_over(Pair.kill)  # the new store takes its first job from a master that has watched it
        figures = filled(pair, pending) if pending else {}
        figures |= at_rest(pair, asked.idle) if asked.idle else {}
        for kind in asked.kinds.split(","):
            found = sorted(pair.fail_over(KINDS[kind]) for _ in range(asked.fail_overs))
            p90 = found[min(len(found) - 1, int(0.9 * len(found)))]
            kept = {"min": found[0], "median": statistics.median(found), "p90": p90, "max": found[-1]}
            words = ", ".join(f"{name} {value:.2f}" for name, value in kept.items())
            print(f"{pending} pending, {len(found)} by {kind}, s: {words}", flush=True)
            figures |= {f"{kind}_{name}_s": value for name, value in kept.items()}
    return figures


def filled(pair: Pair, pending: int) -> dict[str, float]:
    """Let so many jobs wait, as no host has an agent: what each costs a standby that follows."""
    pair.standby.until_quiet()
    before = pair.standby.cpu_s()
    with Client(pair.leader.address) as client:
        for first in range(0, pending, BATCH):
            client.submit_many(batch(first)[: pending - first])
    pair.standby.until_quiet()
    used_us = (pair.standby.cpu_s() - before) / pending * 1e6
    print(f"a standby that follows {pending} submissions: {used_us:.0f} us of a core each", flush=True)
    return {"standby_us_per_submission": used_us}


def at_rest(pair: Pair, seconds: float) -> dict[str, float]:
    """What the standby costs while nothing happens."""
    pair.standby.until_quiet()
    before = pair.standby.cpu_s()
    time.sleep(seconds)
    used = (pair.standby.cpu_s() - before) / seconds * 100
    mib = pair.standby.process.memory_info().rss / (1 << 20)
    print(f"a standby at rest: {used:.2f} % of a core, {mib:.0f} MiB resident", flush=True)
    return {"standby_percent": used, "standby_mib": mib}


# -- the masters ------------------------------------------------------------------------------------------------------


class Master:
    """One of the two, as a process. Who it tells that it is ready is this program."""

    def __init__(self, conf: Path, host: str) -> None:
        self.host = host
        self._conf = conf
        self._socket = Path(load(str(conf), host).required().folder_of("master")) / MASTER_SOCKET
        self.address = f"unix:{self._socket}"
        self._log = conf.parent / "log" / "master.log"
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._told.bind(str(conf.parent / "notify"))
        self._ready_at = 0.0
        self.process: psutil.Popen

    def start(self) -> None:
        """Returns when it leads, or waits to lead."""
        self._forget_told()
        environment = {"PATH": "/usr/bin:/bin", "NOTIFY_SOCKET": str(self._conf.parent / "notify")}
        words = [str(BIN / "gsched"), "master", "--envdir", str(self._conf), "--host", self.host]
        with self._log.open("ab") as log, end_only_afterwards():
            self.process = psutil.Popen(words, stdout=log, stderr=log, env=environment, start_new_session=True)
        self._told.settimeout(PATIENCE_S)
        while b"READY=1" not in self._told.recv(1 << 16):
            pass
        self._ready_at = time.monotonic()

    def _forget_told(self) -> None:
        self._told.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._told.recv(1 << 16)

    def until_quiet(self) -> None:
        """It has watched the store for long enough, and has nothing left to do."""
        time.sleep(max(0.0, self._ready_at + WATCHED_S - time.monotonic()))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            before = self.cpu_s()
            time.sleep(1.0)
            if (self.cpu_s() - before) * 100 < QUIET_PERCENT:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"the master of {self.host} does not come to rest")

    def leads(self) -> None:
        """Returns when a submission is acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the master of {self.host} does not lead: {self._log.read_text()[-2000:]}")
            time.sleep(LOOK_S)
        with Client(self.address) as client:
            client.submit(submission("true"))

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self._socket)) == 0

    def cpu_s(self) -> float:
        """Processor seconds so far, to the nanosecond: clock_getcpuclockid(3)."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def close(self) -> None:
        if hasattr(self, "process") and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self._told.close()


class Pair:
    """Who leads, and who waits."""

    def __init__(self, masters: Sequence[Master]) -> None:
        self.leader, self.standby = masters
        self.leader.start()
        self.standby.start()

    def fail_over(self, lose: Callable[[Pair], None]) -> float:
        """Seconds from the loss of the leader until the other one has acknowledged a submission; then it is back."""
        self.standby.until_quiet()
        began = time.monotonic()
        lose(self)
        self.standby.leads()
        took = time.monotonic() - began
        self.leader.process.wait(PATIENCE_S)
        self.leader, self.standby = self.standby, self.leader
        self.standby.start()
        return took

    def kill(self) -> None:
        """kill -9."""
        self.leader.process.send_signal(signal.SIGKILL)

    def hand_over(self) -> None:
        """As `gadmin failover` does it."""
        with Client(self.leader.address) as client:
            client.fleet.hand_over(self.standby.host)


KINDS: dict[str, Callable[[Pair], None]] = {"kill": Pair.kill, "hand_over": Pair.hand_over}


@contextlib.contextmanager
def two_masters(url: str) -> Iterator[Pair]:
    """Both, each with folders of its own, on the empty store at this address."""
    folder = Path(tempfile.mkdtemp(prefix="gsched-failover-"))
    masters: list[Master] = []
    try:
        for host, conf in zip(HOSTS, configure_masters(folder, HOSTS, url), strict=True):
            masters.append(Master(conf, host))
        yield Pair(masters)
    finally:
        for master in masters:
            master.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
