"""kill -9 in the middle of writing: whatever was acknowledged is there, and no batch is there by half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from store_samples import batch_of
from stores import StoreAtHand

from gsched.model.views.past_query import HistoryQuery
from gsched.store.eventlog import blob_id

WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from gsched.store.eventlog import EventLog, blob_id
from store_samples import batch_of, job_row
from stores import StoreAtHand
log = EventLog(sys.argv[1], folder=Path(sys.argv[3]))
number = log.last_seq // 3
while True:
    number += 1
    script = b"script %d" % number
    seq = log.append(batch_of(number), [job_row(number)], {blob_id(script): script})
    sys.stdout.write("%d\\n" % seq)
    sys.stdout.flush()
    if number % 40 == 0:
        log.save_checkpoint_of(seq, [log.put_part(b"state %d" % seq * 1000)] * 2)
        log.drop_parts(4)
"""


@pytest.mark.slow
@pytest.mark.fault
def test_kill_9_loses_nothing_acknowledged_and_halves_nothing(store: StoreAtHand) -> None:
    acknowledged = 0
    for wanted in (1, 60, 333):
        command = [sys.executable, "-c", WRITER, store.place, str(Path(__file__).parent), str(store.folder)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(wanted):
            acknowledged = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest, _ = writer.communicate()
        # The last line may have been cut by the kill; without its end it was no acknowledgement.
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):
                acknowledged = int(line)
        check(store, acknowledged)


def check(store: StoreAtHand, acknowledged: int) -> None:
    log = store.open()
    found = list(log.read())
    jobs = len(found) // 3
    assert log.last_seq == len(found) >= acknowledged
    assert found == list(enumerate((event for number in range(1, jobs + 1) for event in batch_of(number)), 1))
    history = store.history()
    assert sorted(job_id for job_id, _ in history.newest(HistoryQuery(), 100_000)) == list(range(1, jobs + 1))
    history.close()
    assert all(log.get_blob(blob_id(b"script %d" % number)) for number in range(1, jobs + 1))
    loaded = log.load_checkpoint()
    if jobs > 40:
        assert loaded is not None
        assert loaded[1] == b"state %d" % loaded[0] * 2000
        assert loaded[0] > acknowledged - 3 * 41
    log.close()
