"""Jobs that were taken over from LSF's accounting are archived as others: no engine ever knew of them."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from archived_samples import answers_of, answers_of_archive, archived, questions

from gsched.app.archives.months import Month
from gsched.app.stores.history_import import import_history
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History

sys.path.append(str(Path(__file__).parents[2] / "dialect"))
from lsb_acct_lines import line


def test_imported_jobs_are_archived_with_all_their_runs(tmp_path: Path) -> None:
    requeued = line(5, status=32, exit=3 << 8), line(5, start=1_700_001_000, end=1_700_002_000)
    acct = tmp_path / "lsb.acct"
    acct.write_text("".join(f"{each}\n" for each in (*requeued, line(7), line(12, idx=3, name="a[1-9]"))))
    log = EventLog(tmp_path / "store.db")
    import_history(log, [str(acct)], "hpc", 1_700_100_000.0, print)
    folder = tmp_path / "archive"
    archived(log.place, folder, Month(2023, 12))
    with gzip.open(folder / "jobs-2023-11.jsonl.gz", "rt") as file:
        assert [json.loads(each)["JOBID"] for each in file] == ["7", "12", "12[3]", "5"]
    history = History(log.place)
    for question in questions():
        assert answers_of_archive([folder], question, tmp_path / "read.db") == answers_of(history, question), question
    history.close()
    log.close()
