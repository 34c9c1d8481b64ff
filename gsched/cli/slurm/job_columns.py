"""Fields of squeue's formats. A slot is a CPU; what gsched does not have is N/A or (null), as Slurm prints it.

Source: squeue(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo

from gsched.base.ids import array_of, index_of
from gsched.base.node_lists import fold_nodes
from gsched.cli.slurm.formats import FormatColumn
from gsched.cli.slurm.job_states import CODES, reason_of, state_of
from gsched.dialect.slurm.slurm_values import show_duration
from gsched.model.views.view import JobView

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
Columns = Mapping[str, FormatColumn[JobView]]


def columns_at(now: float, zone: tzinfo) -> Columns:
    """The fields, for times as of `now`, UTC seconds."""

    def moment(at: float | None) -> str:
        return "N/A" if at is None else datetime.fromtimestamp(at, zone).strftime("%Y-%m-%dT%H:%M:%S")

    def used(job: JobView) -> str:
        return show_duration(_used_s(job, now))

    def left(job: JobView) -> str:
        limit = job.spec.run_limit_s
        return "UNLIMITED" if limit is None else show_duration(limit - _used_s(job, now))

    def ends(job: JobView) -> str:
        if job.finished_at is not None:
            return moment(job.finished_at)
        started, limit = job.started_at or job.dispatched_at, job.spec.run_limit_s
        return moment(None if started is None or limit is None else started + limit)

    return {
        "i": FormatColumn("JOBID", shown_id),
        "A": FormatColumn("JOBID", lambda job: str(array_of(job.job_id))),
        "F": FormatColumn("ARRAY_JOB_ID", lambda job: str(array_of(job.job_id))),
        "K": FormatColumn("ARRAY_TASK_ID", lambda job: _index(job) or "N/A"),
        "P": FormatColumn("PARTITION", lambda job: job.spec.queue),
        "j": FormatColumn("NAME", lambda job: job.spec.display_name),
        "u": FormatColumn("USER", lambda job: job.spec.user),
        "a": FormatColumn("ACCOUNT", lambda job: job.spec.project or "(null)"),
        "t": FormatColumn("ST", lambda job: CODES[state_of(job)]),
        "T": FormatColumn("STATE", state_of),
        "M": FormatColumn("TIME", used),
        "l": FormatColumn("TIME_LIMIT", _limit),
        "L": FormatColumn("TIME_LEFT", left),
        "D": FormatColumn("NODES", lambda job: str(len(hosts_of(job)) or 1)),
        "C": FormatColumn(
            "CPUS", lambda job: str(job.allocation.slots if job.allocation is not None else job.spec.slots)
        ),
        "b": FormatColumn("TRES_PER_NODE", _gres),
        "N": FormatColumn("NODELIST", lambda job: fold_nodes(hosts_of(job))),
        "B": FormatColumn("EXEC_HOST", lambda job: (hosts_of(job) or ["n/a"])[0]),
        "n": FormatColumn("REQ_NODES", lambda job: fold_nodes(job.spec.hosts)),
        "R": FormatColumn("NODELIST(REASON)", lambda job: fold_nodes(hosts_of(job)) or f"({reason_of(job)})"),
        "r": FormatColumn("REASON", reason_of),
        "k": FormatColumn("COMMENT", lambda job: job.spec.description or "(null)"),
        "o": FormatColumn("COMMAND", lambda job: job.spec.command),
        "Z": FormatColumn("WORK_DIR", lambda job: job.spec.run_dir),
        "E": FormatColumn("DEPENDENCY", lambda job: job.spec.dependency or "(null)"),
        "Q": FormatColumn("PRIORITY", lambda job: str(job.spec.priority or 0)),
        "p": FormatColumn("PRIORITY", lambda job: str(job.spec.priority or 0)),
        "v": FormatColumn("RESERVATION", lambda job: job.spec.reservation or "(null)"),
        "V": FormatColumn("SUBMIT_TIME", lambda job: moment(job.submitted_at)),
        "S": FormatColumn("START_TIME", lambda job: moment(job.started_at or _planned(job))),
        "e": FormatColumn("END_TIME", ends),
        "q": FormatColumn("QOS", lambda job: "normal"),
        "m": FormatColumn("MIN_MEMORY", _memory),
        "c": FormatColumn("MIN_CPUS", lambda job: "1"),
        "f": FormatColumn("FEATURES", lambda job: "(null)"),
        "y": FormatColumn("NICE", lambda job: "0"),
    }


def shown_id(job: JobView) -> str:
    """`12`, and `12_3` of an array's element."""
    index = _index(job)
    return f"{array_of(job.job_id)}_{index}" if index else str(job.job_id)


def _index(job: JobView) -> str:
    index = index_of(job.job_id)
    return str(index - job.spec.index_shift) if index else ""


def hosts_of(job: JobView) -> list[str]:
    """Where it runs or ran, the first execution host first."""
    return [part.host for part in job.allocation.hosts] if job.allocation is not None else []


def _used_s(job: JobView, now: float) -> float:
    start = job.started_at or job.dispatched_at
    return 0.0 if start is None else (job.finished_at or now) - start


def _planned(job: JobView) -> float | None:
    return job.planned.at if job.planned is not None else None


def _memory(job: JobView) -> str:
    found = re.search(r"mem=([0-9.]+)MB", job.spec.res_req)
    return f"{found[1]}M" if found is not None else "0"


def _limit(job: JobView) -> str:
    return "UNLIMITED" if job.spec.run_limit_s is None else show_duration(job.spec.run_limit_s)


def _gres(job: JobView) -> str:
    held = [len(part.gpus) for part in job.allocation.hosts] if job.allocation is not None else []
    most = max(held, default=0)
    asked = re.search(r"num=([0-9]+)", job.spec.gpu_req) if not held else None
    if asked is not None:
        return f"gres:gpu:{asked[1]}"
    return f"gres:gpu:{most}" if most else "N/A"
