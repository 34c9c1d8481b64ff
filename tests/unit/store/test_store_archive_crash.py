"""kill -9 while a month is archived and removed: each job is whole in the store, or in a file that the manifest has."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_samples import SPEC
from stores import StoreAtHand

from gsched.app.archives.part_reading import stored_jobs
from gsched.core.state.cluster_state import ClusterState
from gsched.master.archive.archive_manifest import find_manifest
from gsched.model.event import AnyEvent, HostClosed, JobForgotten, JobSubmitted
from gsched.store.safeguards.quarantine import Quarantined
from gsched.store.tables.schema import JobRow

JOBS, BEGIN = 600, 1_700_000_000.0
ARCHIVER = """
import contextlib, sys
from pathlib import Path
from gsched.app.archives import part_removal
from gsched.app.archives.archiving import Wanted, archive_history
from gsched.app.archives.months import Month
from gsched.master.upkeep.archived_removal import remove_at_once
from gsched.store.eventlog import EventLog
part_removal.JOBS_AT_ONCE = 20
log = EventLog(sys.argv[1], folder=Path(sys.argv[2]))
def remove(wanted):
    removed = remove_at_once(log, wanted)
    print("step", flush=True)
    return removed
wanted = Wanted("c", Month(2023, 12), Path(sys.argv[3]), None)
archive_history(log.place, wanted, contextlib.nullcontext(remove), lambda text: print(text, flush=True))
log.close()
"""


def fill(store: StoreAtHand) -> None:
    """Jobs of one month, and two checkpoints behind them."""
    log = store.open()
    for first in range(1, JOBS + 1, 100):
        events: list[AnyEvent] = []
        rows = []
        for number in range(first, first + 100):
            at = BEGIN + number
            events += [JobSubmitted(at=at, job_id=number, spec=SPEC), JobForgotten(at=at, job_id=number)]
            words = {"user": "ann", "queue": "normal", "state": "DONE"}
            rows.append(JobRow(job_id=number, submitted_at=at, finished_at=at, **words))
        log.append(events, rows)
    for _ in range(2):
        log.append([HostClosed(at=BEGIN, host="a", by="root")])
        log.save_checkpoint(log.last_seq, ClusterState().dump())
    log.close()


def check(store: StoreAtHand, folder: Path) -> int:
    """Returns how many jobs the store has."""
    log = store.open()
    try:
        assert not [item for item in log.read() if isinstance(item, Quarantined)]
    finally:
        log.close()
    of_jobs = dict(store.rows("SELECT job_id, count(*) FROM event WHERE job_id IS NOT NULL GROUP BY job_id"))
    rows = {number for (number,) in store.rows("SELECT job_id FROM job")}
    assert rows == of_jobs.keys() and set(of_jobs.values()) <= {2}
    manifest = find_manifest(folder)
    parts = manifest.parts if manifest is not None else ()
    archived = {job.number: len(job.events) for part in parts for job in stored_jobs(folder, part)}
    assert set(archived.values()) <= {2}
    assert rows | archived.keys() == set(range(1, JOBS + 1))
    return len(rows)


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.nightly)], indirect=True)
def test_kill_9_leaves_each_job_in_the_store_or_in_the_archive(store: StoreAtHand, tmp_path: Path) -> None:
    fill(store)
    folder = tmp_path / "archive"
    choice, left = random.Random(7), [check(store, folder)]
    for lines in (1, 4, 8, 12, 10_000):
        command = [sys.executable, "-c", ARCHIVER, store.place, str(store.folder), str(folder)]
        archiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert archiver.stdout is not None
        for _ in zip(range(lines), archiver.stdout, strict=False):
            pass
        if lines < 10_000:
            time.sleep(choice.uniform(0.0, 0.02))
            os.kill(archiver.pid, signal.SIGKILL)
        archiver.communicate()
        left.append(check(store, folder))
    assert archiver.returncode == 0
    assert left[0] == JOBS and left[-1] == 0
    assert [count for count in left if 0 < count < JOBS], "it was killed in the middle"
