"""kill -9 while old jobs are taken away: each is there with all its events and what it names, or gone with all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import msgspec
import pytest
from store_samples import SPEC
from stores import StoreAtHand

from gsched.core.state.cluster_state import ClusterState
from gsched.model.event import AnyEvent, HostClosed, JobForgotten, JobSubmitted
from gsched.store.eventlog import EventLog, blob_id
from gsched.store.safeguards.quarantine import Quarantined
from gsched.store.tables.schema import JobRow

JOBS, KEPT = 600, 20
REMOVER = """
import sys
from pathlib import Path
from gsched.master.upkeep.history_retention import HistoryRetention
from gsched.model.config import Params
from gsched.store.eventlog import EventLog
class Then:
    def now(self):
        return now
now = float(sys.argv[3])
log = EventLog(sys.argv[1], folder=Path(sys.argv[2]), clock=Then())
retention = HistoryRetention(log)
while True:
    retention.step(Params(job_history_days=1), now)
    now += 1.0
    if retention.due_at(now) == float("inf"):
        break
    print("step", flush=True)
"""


ENVIRONMENT = b"LANG=C\0"


def script(number: int) -> bytes:
    """Two jobs have the same."""
    return b"echo %d" % (number // 2)


def fill(log: EventLog) -> None:
    """Jobs, of which some are above the only checkpoint that can become the floor."""
    for first in range(1, JOBS + 1, 100):
        events: list[AnyEvent] = []
        rows = []
        for number in range(first, first + 100):
            at = 1000.0 + number
            spec = msgspec.structs.replace(SPEC, script=blob_id(script(number)), environment=blob_id(ENVIRONMENT))
            events += [JobSubmitted(at=at, job_id=number, spec=spec), JobForgotten(at=at, job_id=number)]
            events.append(HostClosed(at=at, host="a", by="root"))
            rows.append(
                JobRow(job_id=number, user="ann", queue="normal", state="DONE", submitted_at=at, finished_at=at)
            )
        log.append(
            events, rows, {blob_id(each): each for each in (ENVIRONMENT, *map(script, range(first, first + 100)))}
        )
    log.save_checkpoint(log.last_seq - 3 * KEPT, ClusterState().dump())
    log.save_checkpoint(log.last_seq, ClusterState().dump())


def check(store: StoreAtHand, *, is_last: bool = False) -> int:
    """Returns how many jobs are left. `is_last`: nothing else is."""
    log = store.open()
    try:
        floor = log.removal.floor()
        assert not [item for item in log.read() if isinstance(item, Quarantined)]
        of_jobs = dict(store.rows("SELECT job_id, count(*) FROM event WHERE job_id IS NOT NULL GROUP BY job_id"))
        rows = {number for (number,) in store.rows("SELECT job_id FROM job")}
        assert rows == of_jobs.keys() and set(of_jobs.values()) == {2}
        stored = {name for (name,) in store.rows("SELECT id FROM blob WHERE id < 'P' OR id >= 'Q'")}
        named = {blob_id(each) for each in (ENVIRONMENT, *map(script, rows))}
        assert named <= stored
        if is_last:
            assert named == stored
        ((above,),) = store.rows(f"SELECT count(*) FROM event WHERE seq >= {floor.seq}")
        assert above == log.last_seq - max(floor.seq, 1) + 1
        if floor.seq:
            assert store.rows("SELECT min(seq) FROM checkpoint") == [(floor.seq,)]
        return len(rows)
    finally:
        log.close()


@pytest.mark.slow
@pytest.mark.fault
def test_kill_9_leaves_whole_jobs_and_a_floor_that_holds(store: StoreAtHand) -> None:
    log = store.open()
    fill(log)
    log.close()
    store.damage("UPDATE checkpoint SET at = 5000.0")
    choice, left = random.Random(7), [check(store)]
    for day, steps in enumerate((1, 2, 3, 10_000, 4, 10_000)):
        now = 2_000_000_000.0 + 86_400.0 * day
        command = [sys.executable, "-c", REMOVER, store.place, str(store.folder), str(now)]
        remover = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert remover.stdout is not None
        for _ in zip(range(steps), remover.stdout, strict=False):
            pass
        if steps < 10_000:
            time.sleep(choice.uniform(0.0, 0.02))
            os.kill(remover.pid, signal.SIGKILL)
        remover.communicate()
        left.append(check(store, is_last=day == 5))
    assert remover.returncode == 0
    assert left[-1] <= KEPT < left[0] == JOBS
    assert len([count for count in left if KEPT < count < JOBS]) > 1, "it was killed in the middle"
