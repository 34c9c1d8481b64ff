"""What Slurm's `sacct --parsable2` prints, read as a workload. Source: sacct(1) of Slurm 24.05. It runs nothing.

Needed are the columns Submit, and Start and End or ElapsedRaw. Also read: JobID (steps are no jobs), User, Account,
JobName, Partition, ReqCPUS, NCPUS or AllocCPUS, NNodes, ReqMem, Timelimit or TimelimitRaw, ReqTRES, AllocTRES, Priority
is not. Times are ISO 8601 without a zone: those of `sacct` with SLURM_TIME_FORMAT as it comes, taken for UTC.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import UTC, datetime

from gsched.sim.text_table import TextRow, rows_of
from gsched.sim.trace import TraceJob

_UNKNOWN = ("", "Unknown", "None", "N/A")
_LIMIT = re.compile(r"(?:([0-9]+)-)?(?:([0-9]+):)?([0-9]+):([0-9]+)", re.ASCII)
_GPUS = re.compile(r"(?:^|,)gres/gpu(?::([A-Za-z0-9_.-]+))?=([0-9]+)", re.ASCII)
_MEMORY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)([cn]?)", re.ASCII)
_MIB = {"K": 1 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_NO_LIMIT = (*_UNKNOWN, "UNLIMITED", "Partition_Limit")
MOST_SLOTS = 1_000_000


def read_sacct(path: str, text: str) -> tuple[list[TraceJob], dict[str, int]]:
    """The jobs, with arrival in UTC seconds, and why other lines are left out -> how many. Raises BadRequest."""
    left_out: Counter[str] = Counter()
    jobs = []
    for row in rows_of(path, text, ("Submit",), "|"):
        if "." in row.text("JobID") or "." in row.text("JobIDRaw"):
            continue
        job = _job(row)
        if isinstance(job, str):
            left_out[job] += 1
        else:
            jobs.append(job)
    return jobs, dict(left_out)


def _job(row: TextRow) -> TraceJob | str:
    """The job, or why it is none."""
    if row.text("Start") in _UNKNOWN and row.text("ElapsedRaw") in ("", "0"):
        return "never ran"
    runs = _run_time(row)
    if runs is None:
        return "still ran"
    nodes = max(1, row.whole("NNodes", 1))
    slots = max(1, *(row.whole(name, 0) for name in ("ReqCPUS", "NCPUS", "AllocCPUS")))
    if slots > MOST_SLOTS:
        raise row.fault(f"{slots} CPUs, {MOST_SLOTS} are the most")
    gpus = _gpus(row)
    per_host = math.ceil(gpus / nodes)
    limit = _limit(row)
    return TraceJob(
        arrives_s=_time(row, "Submit"),
        runs_s=runs,
        limit_s=limit,
        slots=slots,
        gpus=per_host,
        gpu_req=f"num={per_host}" if per_host else "",
        mem_mib=_memory(row, slots, nodes),
        spread=nodes > 1,
        tasks_per_host=math.ceil(slots / nodes) if nodes > 1 else None,
        queue=row.text("Partition").split(",")[0],
        user=row.text("User") or "user",
        project=row.text("Account"),
        name=row.text("JobName"),
        line=row.line,
    )


def _run_time(row: TextRow) -> float | None:
    """Seconds; None where the job still ran when the file was written."""
    if row.text("Start") in _UNKNOWN or (row.text("End") in _UNKNOWN and row.text("ElapsedRaw")):
        return row.number("ElapsedRaw", 0.0) if row.text("State") not in ("RUNNING", "SUSPENDED") else None
    if row.text("End") in _UNKNOWN:
        return None
    began, ended = _time(row, "Start"), _time(row, "End")
    if ended < began:
        raise row.fault(f"End {row.text('End')} is before Start {row.text('Start')}")
    return ended - began


def _time(row: TextRow, column: str) -> float:
    text = row.text(column)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise row.fault(f"{column} is {text!r}, not a time such as 2026-11-20T03:00:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _limit(row: TextRow) -> int | None:
    """Seconds. TimelimitRaw is in minutes."""
    raw = row.text("TimelimitRaw")
    if raw not in _NO_LIMIT:
        return max(1, 60 * row.whole("TimelimitRaw"))
    text = row.text("Timelimit")
    if text in _NO_LIMIT:
        return None
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise row.fault(f"Timelimit is {text!r}, not [DAYS-]HOURS:MINUTES:SECONDS")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return max(1, 86_400 * days + 3600 * hours + 60 * minutes + seconds)


def _gpus(row: TextRow) -> int:
    """GPUs of the whole job: gres/gpu without a type counts those with one already."""
    for column in ("AllocTRES", "ReqTRES"):
        found = _GPUS.findall(row.text(column))
        if found:
            plain = [int(number) for model, number in found if not model]
            return plain[0] if plain else sum(int(number) for _, number in found)
    return 0


def _memory(row: TextRow, slots: int, nodes: int) -> float:
    """MiB on each host."""
    text = row.text("ReqMem")
    if text in _UNKNOWN or text == "0":
        return 0.0
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise row.fault(f"ReqMem is {text!r}, not a size such as 16G")
    amount = float(found[1]) * _MIB[found[2]]
    if found[3] == "c":
        return amount * math.ceil(slots / nodes)
    return amount if found[3] == "n" else amount / nodes
