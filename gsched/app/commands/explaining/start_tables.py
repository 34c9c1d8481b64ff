"""Starts of jobs in a table that `gsched sim --csv` has written, with what was said of them. It judges nothing."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.model.views.start_estimate import StartEstimate

_SAID = ("told_at_s", "told_p50_s", "told_p90_s", "told_mean_s", "told_plan_s", "told_limit_s")
_COLUMNS = ("submit_s", "start_s", *_SAID)


def starts_in_table(path: str) -> Iterator[tuple[float, float, StartEstimate | None]]:
    """Those jobs of it that have started: when each was submitted, when it started, what was said first, in seconds.
    Raises BadRequest with the line for a file that is none.
    """
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


def _start(path: str, line: int, row: dict[str, str]) -> tuple[float, float, StartEstimate | None]:
    try:
        submitted, started, at, *said = (float(row[name]) if row[name] else None for name in _COLUMNS)
    except (TypeError, ValueError):
        raise BadRequest(f"{path}:{line}: {', '.join(_COLUMNS[:2])} and what was told are not all numbers") from None
    if submitted is None or started is None or not math.isfinite(submitted + started) or started < submitted:
        raise BadRequest(f"{path}:{line}: a job that starts before it is submitted, or at no time")
    if not all(each is None or math.isfinite(each) for each in (at, *said)):
        raise BadRequest(f"{path}:{line}: what was told of the job is no time")
    if at is None:
        return submitted, started, None
    p50, p90, mean, plan, limit = said
    told = StartEstimate(job_id=line, at=at, p50_at=p50, p90_at=p90, mean_at=mean, plan_at=plan, limit_at=limit)
    return submitted, started, told
