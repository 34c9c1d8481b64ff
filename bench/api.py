"""What programs that ask cost the scheduler: 200 open connections of the Python API, and ten commands a second.

Cycles of the real master are timed inside it while small jobs come and go 20 times a second before a backlog of 5,000
that waits. Four kinds of spells alternate, so that the machine's other work falls on all alike: nobody asks; nobody
asks again (what chance makes of it); 200 connections wait for a job each and ask for its state once a second; ten
commands a second. A cycle's time is counted without what its thread waited for a processor that another process had,
since that is the machine's; with it the figures stand beside. Goal: neither raises the p99 by more than a tenth.

    python bench/api.py [--rounds 6] [--spell 5]

The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
from listing import fill
from private_cluster import BIN, client_of, private_cluster, report, submission

from gsched.app.clusters.daemons import holding_lock, running_pid, stop
from gsched.app.clusters.private_home import host_name
from gsched.base.errors import GschedError
from gsched.config.configuration import load
from gsched.core.engine import Engine
from gsched.master import daemon
from gsched.model.views.view import JobFilter
from gsched.wire.address import read_address
from gsched.wire.calls.client import Client
from gsched.wire.channel import CHANNEL_OPTIONS

BACKLOG = 5_000
CONNECTIONS = 200
COMMANDS = 10
CYCLES_PER_S = 20
KINDS = ("quiet", "quiet_again", "connections", "commands")
Cycle = tuple[float, float]
"""Milliseconds of one, with and without waiting for a processor."""
_RECORD = struct.Struct("ddd")


def main() -> int:
    """Print the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--spell", type=float, default=5.0, help="seconds")
    parser.add_argument("--serve", nargs=2, metavar=("CONF", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--ask", metavar="CONF", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(*options.serve)
    if options.ask:
        return ask(options.ask)
    with private_cluster("--sim-gpus", "8:exclusive_process") as environment:
        spells = measure(environment, options.rounds, options.spell)
    report("api", show(spells))
    return 0


def serve(conf: str, times: str) -> int:
    """The master, which writes down when each cycle began and how long it took."""
    cycle = Engine.cycle
    out = os.open(times, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def timed(self: Engine, *arguments: float) -> object:
        waited, start = _waited_s(), time.perf_counter()
        decision = cycle(self, *arguments)  # type: ignore[arg-type]
        took = time.perf_counter() - start
        os.write(out, _RECORD.pack(time.time(), took, _waited_s() - waited))
        return decision

    Engine.cycle = timed  # type: ignore[method-assign,assignment]
    with holding_lock(load(conf).required().locations.run_dir, "master"):
        return daemon.run(conf, host_name())


def _waited_s() -> float:
    """Seconds that this thread was ready to run and had no processor. Source: Linux's sched-stats document."""
    with open("/proc/thread-self/schedstat", "rb") as file:
        return int(file.read().split()[1]) / 1e9


def ask(conf: str) -> int:
    """200 connections: each waits for a job of its own all the time; told `on`, each asks for it once a second."""
    address = read_address(conf)
    options = (*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1))  # else they would share one connection
    clients = [Client(address, channel=grpc.insecure_channel(address, options=options)) for _ in range(CONNECTIONS)]
    for number, client in enumerate(clients, 1):
        call = client.ends()
        call.ask([number])
        threading.Thread(target=_wait_quietly, args=(call,), daemon=True).start()
    is_on = threading.Event()
    threading.Thread(target=_ask_in_turn, args=(clients, is_on), daemon=True).start()
    print("ready", flush=True)
    for word in sys.stdin:
        (is_on.set if word.strip() == "on" else is_on.clear)()
    os._exit(0)


def _wait_quietly(call: Iterator[object]) -> None:
    with contextlib.suppress(GschedError):
        for _ in call:
            pass


def _ask_in_turn(clients: list[Client], is_on: threading.Event) -> None:
    for number, client in itertools.cycle(enumerate(clients, 1)):
        is_on.wait()
        started = time.perf_counter()
        if next(client.jobs(JobFilter(ids=(number,), user="all"))).state != "PEND":
            raise SystemExit(f"job {number} does not wait")
        time.sleep(max(0.0, 1 / CONNECTIONS - (time.perf_counter() - started)))


def measure(environment: dict[str, str], rounds: int, spell_s: float) -> dict[str, list[Cycle]]:
    """Kind of spell -> milliseconds of its cycles."""
    conf = environment["GSCHED_ENVDIR"]
    times = Path(conf).parent / "cycles"
    run_dir = load(conf).required().locations.run_dir
    stop(run_dir, "master")
    words = [sys.executable, __file__, "--serve", conf, str(times)]
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as master:
        while running_pid(run_dir, "master") != master.pid or not times.exists():
            time.sleep(0.05)
        try:
            with client_of(environment) as client:
                fill(client, BACKLOG)
                return _alternate(client, environment, times, rounds, spell_s)
        finally:
            master.terminate()


def _alternate(
    client: Client, environment: dict[str, str], times: Path, rounds: int, spell_s: float
) -> dict[str, list[Cycle]]:
    words = [sys.executable, __file__, "--ask", environment["GSCHED_ENVDIR"]]
    found: dict[str, list[Cycle]] = {kind: [] for kind in KINDS}
    ending = threading.Event()
    coming = threading.Thread(target=_come_and_go, args=(client, ending))
    coming.start()
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdin is not None and asker.stdout is not None
        asker.stdout.readline()
        for turn in range(rounds):
            for kind in KINDS[turn % 4 :] + KINDS[: turn % 4]:
                asker.stdin.write("on\n" if kind == "connections" else "off\n")
                asker.stdin.flush()
                time.sleep(0.5)
                began = time.time()
                if kind == "commands":
                    _command_for(environment, spell_s)
                else:
                    time.sleep(spell_s)
                found[kind] += _cycles(times, began, time.time())
        asker.stdin.close()
    ending.set()
    coming.join()
    return found


def _come_and_go(client: Client, ending: threading.Event) -> None:
    while not ending.is_set():
        started = time.perf_counter()
        job = client.submit(submission("true"))
        client.control("kill", [job.job_id])
        ending.wait(max(0.0, 2 / CYCLES_PER_S - (time.perf_counter() - started)))


def _command_for(environment: dict[str, str], seconds: float) -> None:
    """Ten commands a second, of the kinds that people and their scripts run."""
    begun = time.perf_counter()
    running: list[subprocess.Popen[bytes]] = []
    commands = itertools.cycle(
        (("gjobs", "17"), ("gid",), ("gjobs", "-l", "18"), ("ghosts",), ("gsub", "true"), ("gqueues",))
    )
    for number in range(int(seconds * COMMANDS)):
        time.sleep(max(0.0, begun + number / COMMANDS - time.perf_counter()))
        words = next(commands)
        out = subprocess.DEVNULL
        running.append(subprocess.Popen([str(BIN / words[0]), *words[1:]], env=environment, stdout=out))
    for each in running:
        each.wait()


def _cycles(times: Path, began: float, ended: float) -> list[Cycle]:
    data = times.read_bytes()
    records = _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])
    return [(took * 1000, (took - waited) * 1000) for at, took, waited in records if began <= at < ended]


def show(spells: dict[str, list[Cycle]]) -> dict[str, float]:
    """Print a line for each kind; returns the figures."""
    figures: dict[str, float] = {}
    for kind, cycles in spells.items():
        walls, owns = [wall for wall, _ in cycles], [own for _, own in cycles]
        p50, p99, wall = quantile(owns, 0.5), quantile(owns, 0.99), quantile(walls, 0.99)
        figures |= {f"{kind}_median_ms": p50, f"{kind}_p99_ms": p99, f"{kind}_p99_wall_ms": wall}
        ratio, wall_ratio = p99 / figures["quiet_p99_ms"], wall / figures["quiet_p99_wall_ms"]
        figures |= {f"{kind}_p99_ratio": ratio, f"{kind}_p99_wall_ratio": wall_ratio}
        print(
            f"{kind:<12} {len(cycles):5} cycles, median {p50:5.2f} ms, p99 {p99:6.2f} ms ({ratio:4.2f} x quiet); "
            f"p99 with waiting for a processor {wall:6.2f} ms ({wall_ratio:4.2f} x)"
        )
    return figures


def quantile(values: list[float], part: float) -> float:
    """The value that this part of all does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


if __name__ == "__main__":
    sys.exit(main())
