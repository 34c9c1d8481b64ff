"""The example that sums up GPU hours reads what is written: with pandas where that is there, its fields in any case."""

from __future__ import annotations

import gzip
import json
import re
import runpy
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from archived_samples import NOVEMBER, archived, fill

from gsched.store.eventlog import EventLog

EXAMPLE = Path(__file__).parents[4] / "examples" / "gpu_hours.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = EventLog(tmp_path / "store.db")
    fill(log)
    archived(log.place, tmp_path / "archive", NOVEMBER)
    log.close()
    return tmp_path / "archive"


def hours(folder: Path) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = defaultdict(float)
    for path in folder.glob("jobs-*.jsonl.gz"):
        for job in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
            month = datetime.fromtimestamp(job["FINISH_TIME"], UTC).strftime("%Y-%m")
            found[job["USER"], month] += (job["GPU_TIME"] or 0.0) / 3600.0
    return dict(found)


def test_its_fields_are_in_the_files(folder: Path) -> None:
    (jobs, *_) = folder.glob("jobs-2026-08.jsonl.gz")
    first = json.loads(gzip.decompress(jobs.read_bytes()).splitlines()[0])
    named = set(re.findall(r'"([A-Z_]{4,})"', EXAMPLE.read_text())) - {"MONTH"}
    assert named and named <= first.keys()
    assert hours(folder)["ann", "2026-08"] == 2.0


def test_it_says_what_json_says(folder: Path) -> None:
    pytest.importorskip("pandas")
    table = runpy.run_path(str(EXAMPLE))["gpu_hours"](folder)
    told = {(user, month): float(table.loc[user, month]) for user in table.index for month in table.columns}
    assert {key: value for key, value in told.items() if value} == {k: v for k, v in hours(folder).items() if v}
