"""Questions about the past beside a scheduler at work: a store of millions of jobs, one day of them asked for.

How long `ghist`, `gacct` and their kin take, how much processor time in all processes together, and what gsub's 99th
percentile is alone, while somebody asks all the time, and while two programs compute that ask nothing: one as the
command that asks, one as nice as the process that reads. The last is what this machine makes of any such load, and
what the second is compared with. `--jobs` says how many jobs the store is filled with,
50,000 a day, as if a cluster had run for so long; `--keep FOLDER` fills a store there once and uses it again. For
percentiles to be believed `--rounds 20` is wanted, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from private_cluster import BIN, client_of, private_cluster, report, submission

from gsched.base.ids import array_of, element_id
from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import (
    AnyEvent,
    JobDispatched,
    JobFinished,
    JobForgotten,
    JobPostProcessed,
    JobResumed,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    encode_event,
    kind_of,
)
from gsched.model.jobs.job import AttemptResult, JobSpec, Usage
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.store.eventlog import EventLog
from gsched.store.tables.schema import ARRAY, IRREGULAR

PER_DAY = 50_000
DAY_S = 86_400.0
USERS, QUEUES, NAMES = 50, 5, 1_000
IRREGULAR_EVERY = 50
"""Of so many jobs one was stopped for a while."""
ARRAY_EVERY = 10
"""Of so many blocks of ARRAY_SIZE jobs one is an array."""
ARRAY_SIZE = 500
ASKED_DAY = 10
"""Days ago."""
PER_ROUND = 50
STEP_BACK = "from gsched.master.past.reading import step_back; step_back()"
TIMES = 3
_EVENT = "INSERT INTO event (seq, at, kind, job_id, payload) VALUES (?, ?, ?, ?, ?)"
_ROW = (
    "INSERT INTO job (job_id, user, queue, name, project, host, state, submitted_at, dispatched_at, finished_at,"
    " exit_code, application, job_group, description, cpu_s, gpus, traits) VALUES (" + ", ".join("?" * 17) + ")"
)
_HELD = HeldGpu(uuid="GPU-a8417962-ebdf-5e35-a47d-c412e3c09f2a", index=0, claim="ngpus_excl_p", pci_bus_id="0:04:00.0")
_PLACE = Allocation(hosts=(HostAllocation(host="gpu01", slots=1, gpus=(_HELD,)),))
_USAGE = Usage(cpu_s=3.5, mem_mib=151.5, swap_mib=0.0, max_mem_mib=151.5, avg_mem_mib=140.0, threads=1, max_threads=1)


def main() -> int:
    """Print the figures; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=4, help=f"of {PER_ROUND} gsubs each, alone and beside questions")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with private_cluster("--sim-gpus", "4:exclusive_process") as environment:
        folder = Path(environment["GSCHED_ENVDIR"]).parent
        words = ["--dir", str(folder)]
        run([str(BIN / "gsched"), "down", *words], environment)
        store, begun = folder / "state" / "gsched.db", time.perf_counter()
        newest = filled(store, options.jobs, options.keep)
        size = store.stat().st_size / 2**30
        print(f"{options.jobs} jobs in a store of {size:.1f} GiB, filled in {time.perf_counter() - begun:.0f} s")
        begun = time.perf_counter()
        run([str(BIN / "gsched"), "up", *words], environment)
        print(f"the cluster is up with it after {time.perf_counter() - begun:.1f} s")
        figures = {"jobs": float(options.jobs), "store_gib": size}
        figures.update(measured(environment, newest, options.jobs, options.rounds))
    report("history", figures)
    return 0


def run(words: list[str], environment: dict[str, str]) -> str:
    """What the command writes. Raises for a failure of it."""
    return subprocess.run(words, env=environment, capture_output=True, check=True, text=True).stdout


# -- the store --------------------------------------------------------------------------------------------------------


def filled(store: Path, jobs: int, keep: Path | None) -> float:
    """Have `jobs` finished jobs in the store; when the newest was submitted, UTC seconds."""
    kept = keep / f"history-{jobs}.db" if keep is not None else None
    if kept is not None and kept.exists():
        with contextlib.closing(sqlite3.connect(store)) as connection:
            meta = connection.execute("SELECT key, value FROM meta").fetchall()
        shutil.copyfile(kept, store)
        for name in ("-wal", "-shm"):
            Path(f"{store}{name}").unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(store)) as connection, connection:
            # It becomes the store of this cluster, which its agent knows.
            connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", meta)
            return float(connection.execute("SELECT max(submitted_at) FROM job").fetchone()[0])
    newest = time.time() - DAY_S
    first = newest - (jobs - 1) * DAY_S / PER_DAY
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as connection:
        # Nobody else has it, and a machine that goes down has it filled anew.
        for pragma in ("synchronous=OFF", "cache_size=-2000000"):
            connection.execute(f"PRAGMA {pragma}")
        seq = int(connection.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])
        base = int(connection.execute("SELECT coalesce(max(job_id & 4294967295), 0) FROM job").fetchone()[0])
        for start in range(0, jobs, PER_DAY):
            events, rows = [], []
            for happened, row in history(range(start, min(jobs, start + PER_DAY)), base, first):
                rows.append(row)
                for event in happened:
                    seq += 1
                    events.append((seq, event.at, kind_of(event), getattr(event, "job_id", None), encode_event(event)))
            connection.execute("BEGIN")
            connection.executemany(_EVENT, events)
            connection.executemany(_ROW, rows)
            connection.execute("COMMIT")
    log = EventLog(store)
    state = ClusterState()
    last = element = base + jobs
    spec = JobSpec(command="true", user="u0", queue="normal")
    now = time.time()
    ended = AttemptResult(started=False)
    for event in (
        JobSubmitted(at=now, job_id=last, spec=spec),
        JobFinished(at=now, job_id=element, attempt=0, result=ended),
        JobForgotten(at=now, job_id=last),
    ):
        state.apply(event)
    log.save_checkpoint(log.last_seq, state.dump())
    log.close()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store, kept)
    return newest


def history(numbers: range, base: int, first: float) -> Iterator[tuple[list[AnyEvent], tuple[Any, ...]]]:
    """Events and row of these jobs, each over by now."""
    for number in numbers:
        at = first + number * DAY_S / PER_DAY
        block, place = divmod(number, ARRAY_SIZE)
        is_element = block % ARRAY_EVERY == 0
        job_id, submitted_at = base + 1 + number, at
        user, queue, name = f"u{number % USERS}", f"q{number % QUEUES}", f"train-{number % NAMES}"
        if is_element:
            job_id, submitted_at = base + 1 + number - place, first + (number - place) * DAY_S / PER_DAY
            user, name = f"u{block % USERS}", f"sweep-{block % NAMES}"
        spec = JobSpec(
            command=f"python train.py --seed {number}",
            user=user,
            queue=queue,
            name=name,
            combined_req="select[(ngpus>0) && (type == local)] order[r15s:pg] rusage[ngpus_excl_p=1.00]",
            cwd=f"/home/{user}/work",
            home=f"/home/{user}",
            submit_host="login01",
            environment="4767bd775999769fe928499eade9abaa012811e0f4024bed4ce622f5ce68e825",
            indices=f"1-{ARRAY_SIZE}" if is_element else "",
        )
        events: list[AnyEvent] = []
        if not is_element or place == 0:
            events.append(JobSubmitted(at=submitted_at, job_id=job_id, spec=spec, token=f"{number:032x}"))
        if is_element:
            job_id, name = element_id(job_id, place + 1), f"{name}[{place + 1}]"
        begin = at + 30.0 + number % 300
        end = begin + 60.0 + number % 7_000
        is_irregular = number % IRREGULAR_EVERY == 0
        if is_irregular:
            events.append(JobSuspended(at=at + 1.0, job_id=job_id, by=user))
            events.append(JobResumed(at=at + 9.0, job_id=job_id, by=user))
        code = int(number % 20 == 0)
        result = AttemptResult(exit_code=code, ended_at=end, usage=_USAGE)
        events += [
            JobDispatched(at=begin, job_id=job_id, attempt=1, allocation=_PLACE, effective_req=spec.combined_req),
            JobStarted(at=begin, job_id=job_id, attempt=1, pid=4711, home=spec.home, cwd=spec.cwd, boot_id="b868900f"),
            JobFinished(at=end, job_id=job_id, attempt=1, result=result),
            JobPostProcessed(at=end, job_id=job_id, attempt=1),
            JobForgotten(at=end + 3600.0, job_id=job_id),
        ]
        state = "EXIT" if code else "DONE"
        row = (job_id, user, queue, name, "default", "gpu01", state, submitted_at, begin, end, code, "", "", "")
        if is_element and place == 0:
            whole = (array_of(job_id), user, queue, spec.name, "default", "", "", submitted_at, None, end, None)
            yield [], (*whole, "", "", "", None, None, ARRAY)
        yield events, (*row, 3.5, 1.0, IRREGULAR if is_irregular else 0)


# -- questions --------------------------------------------------------------------------------------------------------


def measured(environment: dict[str, str], newest: float, jobs: int, rounds: int) -> dict[str, float]:
    """Figures of the questions, and of gsub beside them."""
    since = newest - min(ASKED_DAY, jobs // PER_DAY - 1) * DAY_S
    span = ",".join(datetime.fromtimestamp(at).strftime("%Y/%m/%d/%H:%M") for at in (since, since + DAY_S - 60))
    day = [str(BIN / "ghist"), "-u", "all", "-a"]
    questions = {
        "ghist_day": [*day, "-S", span],
        "ghist_day_by_end": [*day, "-C", span],
        "ghist_day_of_user": [str(BIN / "ghist"), "-u", "u7", "-a", "-S", span],
        "ghist_day_of_queue": [*day, "-q", "q1", "-S", span],
        "ghist_name": [*day, "-J", "train-7"],
        "ghist_unfinished": [str(BIN / "ghist"), "-u", "all"],
        "ghist_long_one": [str(BIN / "ghist"), "-l", str(jobs - 3)],
        "gacct_day": [str(BIN / "gacct"), "-u", "all", "-C", span],
        "gacct_user": [str(BIN / "gacct"), "-u", "u7"],
    }
    figures: dict[str, float] = {}
    for name, words in questions.items():
        took, used = list[float](), list[float]()
        for _ in range(TIMES):
            begun, before = time.perf_counter(), cpu_s(environment)
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            took.append(time.perf_counter() - begun)
            used.append(cpu_s(environment) - before)
        lines = len(done.stdout.splitlines())
        figures[f"{name}_s"], figures[f"{name}_cpu_s"] = statistics.median(took), statistics.median(used)
        print(
            f"{name}: {figures[f'{name}_s']:.3f} s (longest {max(took):.3f}), {figures[f'{name}_cpu_s']:.2f} s of "
            f"processor, {lines} lines {done.stderr.strip()}"
        )
    figures.update(beside(environment, questions["ghist_day"], "ghist", rounds))
    figures.update(beside(environment, questions["gacct_day"], "gacct", rounds))
    return figures


def cpu_s(environment: dict[str, str]) -> float:
    """Processor time so far of the master, its reader, the door, and the commands that were run from here."""
    state = Path(environment["GSCHED_ENVDIR"]).parent / "run"
    commands = os.times()
    total = commands.children_user + commands.children_system
    for lock in ("master.lock", "door.lock"):
        daemon = psutil.Process(int((state / lock).read_text()))
        for process in (daemon, *daemon.children()):
            total += sum(process.cpu_times()[:2])
    return total


def beside(environment: dict[str, str], question: list[str], name: str, rounds: int) -> dict[str, float]:
    """gsub and submissions of a program, alone and while the question is asked again and again."""
    gsub = [str(BIN / "gsub"), "-H", "true"]
    master = psutil.Process(int((Path(environment["GSCHED_ENVDIR"]).parent / "run" / "master.lock").read_text()))
    figures: dict[str, float] = {}
    with client_of(environment) as client:

        def command() -> None:
            subprocess.run(gsub, env=environment, stdout=subprocess.DEVNULL, check=True)

        def program() -> None:
            client.submit(submission("true"))

        held = [("gsub", command), ("submit", program)]
        client.host_control("close", [host.name for host in client.hosts()])
        for what, once in held:
            alone, while_asked, while_busy, answers, cpu = list[float](), list[float](), list[float](), 0, 0.0
            latencies(once, 20)  # not counted
            for _ in range(rounds):  # by turns: what else the machine does is in both
                alone += latencies(once, PER_ROUND)
                with asking(question, environment) as answered:
                    before = sum(master.cpu_times()[:2])
                    while_asked += latencies(once, PER_ROUND)
                    cpu += sum(master.cpu_times()[:2]) - before
                answers += len(answered)
                with computing():
                    while_busy += latencies(once, PER_ROUND)
            for found in (alone, while_asked, while_busy):
                found.sort()
            for share, label in ((0.5, "p50"), (0.99, "p99")):
                ratio, limit = (at(while_asked, share) / at(each, share) for each in (alone, while_busy))
                print(
                    f"{what} {label}: {at(alone, share):.1f} ms alone, {at(while_asked, share):.1f} ms "
                    f"beside {name} ({ratio:.2f}), {at(while_busy, share):.1f} ms beside programs that compute "
                    f"({limit:.2f}); {answers} answers, the master used {cpu:.1f} s"
                )
                figures[f"{what}_{label}_ms"] = at(alone, share)
                figures[f"{what}_{label}_beside_{name}_ms"] = at(while_asked, share)
                figures[f"{what}_{label}_beside_{name}_ratio"] = ratio
                figures[f"{what}_{label}_beside_{name}_ratio_to_computing"] = limit
    return figures


def latencies(once: Callable[[], None], times: int) -> list[float]:
    """Milliseconds of each of so many runs."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        once()
        found.append((time.perf_counter() - begun) * 1000)
    return found


def at(ordered: list[float], share: float) -> float:
    """The value below which that share of the values lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Two programs that only compute: one of this session, and one that has stepped back as the reader has."""
    spin = "print(flush=True)\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        for program, apart in ((spin, False), (f"{STEP_BACK}\n{spin}", True)):
            words = [sys.executable, "-P", "-c", program]
            process = subprocess.Popen(words, start_new_session=apart, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()  # it has begun
        yield


@contextlib.contextmanager
def asking(question: list[str], environment: dict[str, str]) -> Iterator[list[float]]:
    """Ask again and again in another thread; yields how long each answer took, in seconds."""
    took, over = list[float](), threading.Event()

    def ask() -> None:
        while not over.is_set():
            begun = time.perf_counter()
            subprocess.run(question, env=environment, stdout=subprocess.DEVNULL, check=True)
            took.append(time.perf_counter() - begun)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
