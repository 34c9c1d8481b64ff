"""The store in PostgreSQL beside the store in a file of SQLite: a private cluster on each, measured in turns.

The server is one of its own (Debian's `postgresql`), as durable as a real one, on a unix socket of this machine: what a
network adds is not in the figures. Goals: start latency at most 1.5 times that with a file, bulk submissions at least
0.7 times as many.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from latency import one
from private_cluster import client_of, private_cluster, report, submission

from gsched.wire.calls.client import Client

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.postgresql_server import NoServer, PostgresqlServer

STARTS, SINGLES, BULK, ROUNDS = 40, 200, 1000, 3


def main() -> int:
    """Print both, and the ratios; exit code 0, or 1 where there is no PostgreSQL."""
    try:
        server = PostgresqlServer()
    except NoServer as problem:
        print(problem, file=sys.stderr)
        return 1
    gpus = ("--sim-gpus", "4:exclusive_process")
    try:
        with (
            private_cluster(*gpus) as by_file,
            private_cluster(*gpus, "--store", server.new_url()) as by_server,
            client_of(by_file) as file,
            client_of(by_server) as database,
        ):
            figures = compared({"sqlite": file, "postgresql": database})
    finally:
        server.close()
    report("store", figures)
    return 0


def compared(clients: dict[str, Client]) -> dict[str, float]:
    """Figures of each store, measured in turns, and the ratios of the second to the first."""
    starts = in_turns(clients, STARTS, start_ms)
    singles = in_turns(clients, ROUNDS, singles_per_s)
    bulk = in_turns(clients, ROUNDS, bulk_per_s)
    done = in_turns(clients, ROUNDS, done_per_s)
    figures: dict[str, float] = {}
    for name, unit, found in (
        ("start", "ms", starts),
        ("single_submits", "per_s", singles),
        ("bulk_submits", "per_s", bulk),
        ("jobs_done", "per_s", done),
    ):
        medians = {store: statistics.median(values) for store, values in found.items()}
        ratio = medians["postgresql"] / medians["sqlite"]
        print(
            f"{name:15} sqlite {medians['sqlite']:8.1f}  postgresql {medians['postgresql']:8.1f} {unit}  x {ratio:.2f}"
        )
        figures |= {f"{store}_{name}_{unit}": value for store, value in medians.items()} | {f"{name}_ratio": ratio}
    return figures


def in_turns(clients: dict[str, Client], rounds: int, measure: Callable[[Client], float]) -> dict[str, list[float]]:
    """One after the other, so that both see the same machine; the first round of each warms up."""
    found: dict[str, list[float]] = {store: [] for store in clients}
    for number in range(rounds + 1):
        for store, client in clients.items():
            value = measure(client)
            if number:
                found[store].append(value)
    return found


def start_ms(client: Client) -> float:
    """Milliseconds from the return of submit to the first instruction of the job."""
    with tempfile.TemporaryDirectory() as folder:
        return one(client, Path(folder) / "output")


def singles_per_s(client: Client) -> float:
    """Submissions of one job each, one after the other."""
    began = time.perf_counter()
    ids = [client.submit(submission("/bin/true")).job_id for _ in range(SINGLES)]
    rate = SINGLES / (time.perf_counter() - began)
    client.wait(ids, timeout_s=300)
    return rate


def bulk_per_s(client: Client) -> float:
    """Jobs of one submission of many, until it is acknowledged."""
    began = time.perf_counter()
    ids = [job.job_id for job in client.submit_many([submission("/bin/true") for _ in range(BULK)])]
    rate = BULK / (time.perf_counter() - began)
    client.wait(ids, timeout_s=300)
    return rate


def done_per_s(client: Client) -> float:
    """Jobs of one submission of many, until the last has ended."""
    began = time.perf_counter()
    ids = [job.job_id for job in client.submit_many([submission("/bin/true") for _ in range(BULK)])]
    client.wait(ids, timeout_s=300)
    return BULK / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
