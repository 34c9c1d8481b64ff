"""What became of the jobs of a simulation as a table, and the tables and figures that follow from it.

A table is a dict of columns, each a list with a value for each row, as pandas takes it. Times are seconds after the
begin of the simulation. Nothing here knows how the jobs were scheduled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gsched.model.views.start_estimate import first_said
from gsched.sim.trace import TraceJob
from gsched.sim.world import Fate

Table = dict[str, list[Any]]
"""Column -> value of each row."""

LEAST_RUN_S = 10.0
"""Slowdown counts a shorter run as one of this length: the bounded slowdown of Feitelson and Rudolph (JSSPP 1998)."""


def job_table(fates: Mapping[int, Fate], start: float) -> Table:
    """A row for each job, in the order of their numbers."""
    rows = [_row(number, fate, start) for number, fate in fates.items()]
    return {name: [row[place] for row in rows] for place, name in enumerate(JOB_COLUMNS)}


JOB_COLUMNS = (
    *("job", "user", "queue", "project", "name", "state", "submit_s", "start_s", "end_s", "wait_s", "run_s"),
    *("slowdown", "attempts", "slots", "gpus", "hosts", "devices", "line"),
    *("told_at_s", "told_p50_s", "told_p90_s", "told_mean_s", "told_plan_s", "told_limit_s"),
)


def _row(number: int, fate: Fate, start: float) -> tuple[Any, ...]:
    job = fate.job
    began, ended = fate.first_start, fate.ended_at

    def after(since: float, at: float | None) -> float | None:
        return None if at is None else round(at - since, 3)

    last = fate.starts[-1][1] if fate.starts else None
    parts = last.hosts if last is not None else ()
    return (
        number,
        job.user,
        fate.queue,
        job.project,
        job.name,
        "PEND" if began is None else "RUN" if ended is None else "EXIT" if fate.killed else "DONE",
        after(start, fate.arrived_at),
        after(start, began),
        after(start, ended),
        after(fate.arrived_at, began),
        None if began is None else after(began, ended),
        None if ended is None else round(slowdown(job, ended - fate.arrived_at), 4),
        len(fate.starts),
        last.slots if last is not None else job.slots,
        math.fsum(gpu.share for part in parts for gpu in part.gpus) if last is not None else float(job.gpus),
        " ".join(part.host for part in parts),
        " ".join(f"{part.host}:{','.join(str(gpu.index) for gpu in part.gpus)}" for part in parts if part.gpus),
        job.line,
        *_told(fate, start),
    )


def _told(fate: Fate, start: float) -> Iterator[float | None]:
    """What was said of its start first."""
    said = first_said(fate.said)
    for at in (None,) * 6 if said is None else msgspec.structs.astuple(said)[1:]:
        yield None if at is None else round(at - start, 3)


def slowdown(job: TraceJob, turnaround_s: float) -> float:
    """How many times longer it took from submission to end than it runs, at least 1."""
    needed = job.runs_s if job.limit_s is None else min(job.runs_s, float(job.limit_s))
    return max(1.0, turnaround_s / max(needed, LEAST_RUN_S))


def wait_figures(waits: Sequence[float]) -> dict[str, float | None]:
    """Mean and percentiles (nearest rank) of waits in seconds; None where there are none."""
    ordered = sorted(waits)
    found: dict[str, float | None] = {"mean": math.fsum(ordered) / len(ordered) if ordered else None}
    for percent in (50, 95, 99):
        found[f"p{percent}"] = ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else None
    return found


def group_table(jobs: Table, column: str) -> Table:
    """What the jobs of each user (queue, project) got: a row for each, by name."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(jobs[column]):
        places.setdefault(name, []).append(place)
    table: Table = {column: sorted(places)}
    for name in ("jobs", "ended", "gpu_hours", "slot_hours", *WAITS, "slowdown_mean"):
        table[name] = []
    for name in table[column]:
        rows = places[name]
        waits = [jobs["wait_s"][row] for row in rows if jobs["wait_s"][row] is not None]
        slow = [jobs["slowdown"][row] for row in rows if jobs["slowdown"][row] is not None]
        table["jobs"].append(len(rows))
        table["ended"].append(len(slow))
        table["gpu_hours"].append(hours_of(jobs, rows, "gpus"))
        table["slot_hours"].append(hours_of(jobs, rows, "slots"))
        for key, value in wait_figures(waits).items():
            table[f"wait_{key}_s"].append(value)
        table["slowdown_mean"].append(math.fsum(slow) / len(slow) if slow else None)
    return table


WAITS = ("wait_mean_s", "wait_p50_s", "wait_p95_s", "wait_p99_s")


def hours_of(jobs: Table, rows: Sequence[int], what: str) -> float:
    """GPU (slot) hours from first start to end."""
    return math.fsum((jobs["run_s"][row] or 0.0) * jobs[what][row] for row in rows) / 3600


def evenness(values: Sequence[float]) -> float | None:
    """Jain's index: 1 when all are alike, 1/n when one has all; None for no values. Source: DEC-TR-301 (1984)."""
    square = math.fsum(value * value for value in values)
    return math.fsum(values) ** 2 / (len(values) * square) if square else None
