"""A master with a store of very many finished jobs, beside one with an empty store: SQLite, and PostgreSQL.

Both clusters are real and private; one is stopped, its store is filled with a past of 13 months (`finished_jobs`), and
it is started again. The rows and events are written by the store's own statements, without the master, and its indexes
are built when the rows are there: `gadmin check-store` looks at all of a small store, or wherever `--check` is given.
Measured are the start of the master, a start after kill -9, the last day of the user with most jobs (`ghist`, `gacct`),
the same at length (`ghist -l`), and, in turns with the empty store, submissions and the way of a job to its start.

    python bench/big_store.py [--jobs 1000000] [--stores sqlite,postgresql] [--rounds 5] [--check]

Goals: a start in less than 10 s, a user's last day in less than 1 s, submissions and starts as with an empty store
(ratios within 1.1). A job takes about 1 kB of disk, of PostgreSQL's 1.5. The last line is JSON.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

import msgspec
import psutil
from finished_jobs import DAY_S, KEPT_S, MONTHS_13_S, Contents, FinishedJobs
from private_cluster import BIN, client_of, private_cluster, report
from sqlalchemy import Connection, Engine
from store import bulk_per_s, in_turns, singles_per_s, start_ms
from store_size import environment as environment_of
from store_size import script as script_of

from gsched.master.recovery import recover
from gsched.model.config import STORE_FILE
from gsched.model.event import AnyEvent, encode_event, kind_of
from gsched.model.store_url import is_store_url, parse_store_url
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.packing.packed_events import pack_event
from gsched.store.tables import postgresql, sqlite
from gsched.store.tables.schema import JobRow, job
from gsched.store.tables.statements import ADD_EVENTS, RowInsert, copy_rows

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.support.postgresql_server import NoServer, PostgresqlServer

GPUS = ("--sim-gpus", "4:exclusive_process")
AT_ONCE = 100_000
"""Events of one transaction."""
SETTLED_S = 2 * KEPT_S + DAY_S / 2
"""Before now the last job was submitted: all of them have ended and are forgotten."""
TAIL = 20_000
"""Events at the end that are also applied to the state, of which the checkpoint is."""
ENVIRONMENTS, SCRIPTS = 200, 1_000
CHECKED = 20_000
"""Jobs up to which the store is always checked."""
TIMES = 3
STARTS, ROUNDS = 8, 5
"""Starts are measured so many times as often as submissions."""
ASKED_USER = "u0"
JOBS_OF_DAY = 5_000
"""Of a small store, which has fewer, so many days are asked for."""
_PUT_JOBS = RowInsert(job, tuple(column.name for column in job.c))


@dataclass(frozen=True, slots=True)
class Cluster:
    """A private one; `place` is what opens its store."""

    environment: dict[str, str]
    place: str
    words: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Of the cluster."""
        return Path(self.environment["GSCHED_ENVDIR"]).parent

    def run(self, *words: str) -> str:
        """What one of gsched's commands writes. Raises CalledProcessError."""
        command = [str(BIN / words[0]), *words[1:]]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout, done.stderr, file=sys.stderr)
        done.check_returncode()
        return done.stdout

    def down(self) -> None:
        """Stop its daemons."""
        self.run("gsched", "down", "--dir", str(self.folder))

    def up_s(self) -> float:
        """Seconds that `gsched up` takes."""
        begun = time.perf_counter()
        self.run("gsched", "up", "--dir", str(self.folder), *self.words)
        return time.perf_counter() - begun

    @property
    def master(self) -> int:
        """Number of its process."""
        return int((self.folder / "run" / "master.lock").read_text())

    def master_cpu_s(self) -> float:
        """Processor time that the master has taken since it began."""
        return sum(psutil.Process(self.master).cpu_times()[:2])

    def kill_master(self) -> None:
        """kill -9; returns when it is gone."""
        pid = self.master
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}/exe").exists():
            time.sleep(0.01)


def main() -> int:
    """Print the figures; exit code 0, or 1 where PostgreSQL is wanted and there is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--stores", default="sqlite,postgresql")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--check", action="store_true", help="run gadmin check-store, however long it takes")
    options = parser.parse_args()
    figures: dict[str, float] = {"jobs": float(options.jobs)}
    for kind in options.stores.split(","):
        try:
            with ExitStack() as stack:
                big, empty = clusters(kind, stack)
                found = measured(big, empty, options)
        except NoServer as problem:
            print(problem, file=sys.stderr)
            return 1
        figures |= {f"{kind}_{name}": value for name, value in found.items()}
    report("big_store", figures)
    return 0


def clusters(kind: str, stack: ExitStack) -> list[Cluster]:
    """Two of them with empty stores of that kind."""
    server = stack.enter_context(closing(PostgresqlServer())) if kind == "postgresql" else None
    found = []
    for _ in range(2):
        place = server.new_url() if server is not None else ""
        words = ("--store", place) if place else ()
        environment = stack.enter_context(private_cluster(*GPUS, *words))
        file = Path(environment["GSCHED_ENVDIR"]).parent / "state" / STORE_FILE
        found.append(Cluster(environment, place or str(file), words))
    return found


def measured(big: Cluster, empty: Cluster, options: argparse.Namespace) -> dict[str, float]:
    """Figures of the one, and what they are compared with."""
    big.down()
    begun = time.perf_counter()
    figures = filled(big, options.jobs)
    told(figures)
    print(f"filled in {time.perf_counter() - begun:.0f} s", flush=True)
    figures["start_s"] = big.up_s()
    empty.down()
    figures["empty_start_s"] = empty.up_s()
    told(figures)
    if options.check or options.jobs <= CHECKED:
        print(big.run("gadmin", "check-store").splitlines()[-1])
    for cluster, name in ((big, "restart"), (empty, "empty_restart")):
        cluster.kill_master()
        figures |= {f"{name}_s": cluster.up_s(), f"{name}_cpu_s": cluster.master_cpu_s()}
    figures |= asked(big, options.jobs)
    figures |= compared(big, empty, options.rounds)
    told(figures)
    return figures


def told(figures: dict[str, float]) -> None:
    """Print what is known by now."""
    print(", ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)


# -- the store --------------------------------------------------------------------------------------------------------


def filled(cluster: Cluster, jobs: int) -> dict[str, float]:
    """Have so many finished jobs in the store of a cluster that is down; how many events and bytes there are then."""
    with closing(EventLog(cluster.place, folder=cluster.folder / "state")) as log:
        state, seq = recover(log), log.last_seq
        contents = stored_contents(log)
    past = FinishedJobs(jobs, state.next_job_id, time.time() - SETTLED_S, contents)
    tail = write(cluster.place, past, seq, jobs)
    with closing(EventLog(cluster.place, folder=cluster.folder / "state")) as log:
        for event in tail:
            state.apply(event)
        log.save_checkpoint(log.last_seq, state.dump())
        events = float(log.last_seq)
    return {"events": events, "bytes_per_job": store_bytes(cluster.place) / jobs}


def stored_contents(log: EventLog) -> Contents:
    """Scripts and environments that jobs share, stored as the master stores them."""
    names: list[list[str]] = []
    for make, many in ((environment_of, ENVIRONMENTS), (script_of, SCRIPTS)):
        blobs = [make(number) for number in range(many)]
        for each in blobs:
            log.append([], blobs={blob_id(each): each})
        names.append([blob_id(each) for each in blobs])
    return Contents(*names)


def write(place: str, past: FinishedJobs, seq: int, jobs: int) -> list[AnyEvent]:
    """Write all of it; returns the events of the jobs that came last, as the state of the end needs them."""
    engine = loading_engine(place)
    source, tail, kept_from = past.events(), list[AnyEvent](), past.next_id
    try:
        with without_indexes(engine):
            while some := list(islice(source, AT_ONCE)):
                with engine.begin() as connection:
                    write_some(connection, some, past.rows, seq)
                seq, past.rows = seq + len(some), []
                tail += some
                if len(tail) > 2 * TAIL + AT_ONCE:
                    kept_from = next_of(tail[-TAIL:], kept_from)
                    tail = [event for event in tail if is_of(event, kept_from)]
                if jobs > AT_ONCE:
                    print(f"{seq} events", end="\r", file=sys.stderr, flush=True)
    finally:
        engine.dispose()
    return tail


def write_some(connection: Connection, events: list[AnyEvent], rows: list[JobRow], seq: int) -> None:
    """Numbered from behind `seq` on."""
    written = (
        (number, event.at, kind_of(event), getattr(event, "job_id", None), pack_event(encode_event(event)))
        for number, event in enumerate(events, seq + 1)
    )
    copy_rows(connection, ADD_EVENTS, written, AT_ONCE)
    copy_rows(connection, _PUT_JOBS, map(msgspec.structs.astuple, rows), AT_ONCE)


def next_of(events: list[AnyEvent], otherwise: int) -> int:
    """Number of the first job that was submitted in these."""
    submitted = (event.job_id for event in events if event.__struct_config__.tag == "job_submitted")  # type: ignore[union-attr]
    return next(submitted, otherwise)


def is_of(event: AnyEvent, first: int) -> bool:
    """Whether it is of a job, or an element of an array, with this number or a later one."""
    number: int = getattr(event, "job_id", 0)
    return number & 0xFFFF_FFFF >= first


def loading_engine(place: str) -> Engine:
    """Connections that write; a machine that goes down has the store filled anew."""
    if is_store_url(place):
        return postgresql.writer_engine(parse_store_url(place))
    engine = sqlite.writer_engine(Path(place))
    raw = engine.raw_connection().driver_connection
    assert raw is not None
    for pragma in ("synchronous=OFF", "cache_size=-1000000", "wal_autocheckpoint=20000"):
        raw.execute(f"PRAGMA {pragma}")
    return engine


@contextmanager
def without_indexes(engine: Engine) -> Iterator[None]:
    """Meanwhile the tables have none but their keys."""
    query = (
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey'"
        if engine.dialect.name == "postgresql"
        else "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    )
    with engine.begin() as connection:
        indexes = [(str(name), str(text)) for name, text in connection.exec_driver_sql(query.replace("%", "%%"))]
        for name, _ in indexes:
            connection.exec_driver_sql(f"DROP INDEX {name}")
    yield
    for _, text in indexes:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '512MB'")
            connection.exec_driver_sql(text)


def store_bytes(place: str) -> float:
    """Of a file, or of what is in the schema."""
    if not is_store_url(place):
        return float(Path(place).stat().st_size)
    engine = postgresql.reader_engine(parse_store_url(place))
    with engine.connect() as connection:
        sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
        schema = "AND relnamespace = current_schema()::regnamespace"
        size = connection.exec_driver_sql(f"{sizes} {schema}").scalar()
    engine.dispose()
    return float(size or 0)


# -- what is measured -------------------------------------------------------------------------------------------------


def asked(cluster: Cluster, jobs: int) -> dict[str, float]:
    """Seconds of each question, the first time and the median of later ones."""
    newest = time.time() - SETTLED_S
    ends = (newest - max(DAY_S, JOBS_OF_DAY / jobs * MONTHS_13_S), newest)
    span = ",".join(datetime.fromtimestamp(at).strftime("%Y/%m/%d/%H:%M") for at in ends)
    questions = {
        "ghist_user_day": ("ghist", "-u", ASKED_USER, "-a", "-S", span),
        "gacct_user_day": ("gacct", "-u", ASKED_USER, "-C", span),
        "ghist_long_user_day": ("ghist", "-l", "-u", ASKED_USER, "-a", "-S", span),
    }
    figures: dict[str, float] = {}
    for name, words in questions.items():
        took = []
        for _ in range(TIMES + 1):
            begun = time.perf_counter()
            lines = len(cluster.run(*words).splitlines())
            took.append(time.perf_counter() - begun)
        figures |= {f"{name}_first_s": took[0], f"{name}_s": statistics.median(took[1:]), f"{name}_lines": float(lines)}
    return figures


def compared(big: Cluster, empty: Cluster, rounds: int) -> dict[str, float]:
    """Medians of both, in turns, and the ratios: above 1 where the big store takes longer."""
    figures: dict[str, float] = {}
    with client_of(big.environment) as one, client_of(empty.environment) as other:
        clients = {"big": one, "empty": other}
        for name, measure, many in (
            ("start_ms", start_ms, rounds * STARTS),
            ("singles_per_s", singles_per_s, rounds),
            ("bulk_per_s", bulk_per_s, rounds),
        ):
            found = {store: statistics.median(each) for store, each in in_turns(clients, many, measure).items()}
            larger = found["big"] / found["empty"]
            figures |= {f"{store}_{name}": value for store, value in found.items()}
            figures[f"{name.removesuffix('_per_s').removesuffix('_ms')}_ratio"] = (
                larger if name.endswith("_ms") else 1 / larger
            )
    return figures


if __name__ == "__main__":
    sys.exit(main())
