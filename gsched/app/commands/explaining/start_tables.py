"""Starts of jobs in a table that `gsched sim --csv` has written. It judges nothing."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.policy.future.past_waits import PastStart

_COLUMNS = ("user", "queue", "gpus", "submit_s", "start_s")


def starts_in_table(path: str) -> Iterator[PastStart]:
    """Those jobs of it that have started. Raises BadRequest with the line for a file that is none."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
            if missing:
                raise BadRequest(f"{path}:1: there is no column {missing[0]}; jobs.csv of gsched sim --csv is wanted")
            yield from (_start(path, rows.line_num, row) for row in rows if row["start_s"])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadRequest(f"{path}: cannot be read as a table: {why}") from error


def _start(path: str, line: int, row: dict[str, str]) -> PastStart:
    try:
        gpus, submitted, started = (float(row[name] or 0.0) for name in _COLUMNS[2:])
    except (TypeError, ValueError):
        raise BadRequest(f"{path}:{line}: gpus, submit_s and start_s are not all numbers") from None
    if not all(map(math.isfinite, (gpus, submitted, started))) or started < submitted:
        raise BadRequest(f"{path}:{line}: a job that starts before it is submitted, or at no time")
    return PastStart(row["user"] or "", row["queue"] or "", gpus, submitted, started)
