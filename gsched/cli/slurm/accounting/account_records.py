"""sacct --json: jobs and their steps as Slurm's data_parser lays them out (component `job` of slurmdbd)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gsched.base.ids import index_of
from gsched.cli.slurm.accounting.sacct_fields import AccountRow
from gsched.cli.slurm.facts.job_facts import SlurmJob, shown_index
from gsched.cli.slurm.facts.job_steps import SlurmStep
from gsched.cli.slurm.facts.slurm_json import JsonRecord, exit_status, json_answer, number


def account_pieces(rows: Iterable[AccountRow], cluster: str) -> Iterator[str]:
    """The answer, piece by piece; a step stands in its job, or in the part of it that was asked for."""
    return json_answer("jobs", _records(rows), cluster, "openapi/slurmdbd")


def _records(rows: Iterable[AccountRow]) -> Iterator[JsonRecord]:
    job: dict[str, Any] | None = None
    for row in rows:
        if row.step is not None:
            if job is not None and job["job_id"] == row.job.view.job_id:
                job["steps"].append(_step(row, row.step))
            continue
        if job is not None:
            yield job
        job = _job(row)
    if job is not None:
        yield job


def _job(row: AccountRow) -> dict[str, Any]:
    job, spec = row.job, row.job.spec
    index = index_of(job.view.job_id)
    return {
        "job_id": job.view.job_id,
        "name": job.name,
        "user": spec.user,
        "group": job.group[1] if job.group else "",
        "account": spec.project,
        "cluster": row.cluster,
        "partition": spec.queue,
        "qos": "normal",
        "nodes": job.node_list or "None assigned",
        "allocation_nodes": len(job.parts),
        "array": {
            "job_id": job.array_id if index else 0,
            "limits": {"max": {"running": {"tasks": spec.array_limit}}},
            "task_id": number(int(shown_index(job.view)) if index and not job.elements else None),
            "task": job.elements,
        },
        "comment": {"administrator": "", "job": spec.description, "system": ""},
        "state": {"current": [job.state], "reason": job.reason},
        "exit_code": exit_status(*job.job_exit_code),
        "derived_exit_code": exit_status(*job.exit_code),
        "kill_request_user": "" if row.ended_by is None else str(row.ended_by),
        "priority": number(job.priority),
        "required": {
            "CPUs": job.cpus,
            "memory_per_cpu": number(None),
            "memory_per_node": number(job.memory_mib or None),
        },
        "reservation": {"id": 0, "name": spec.reservation},
        "submit_line": spec.command,
        "working_directory": spec.run_dir,
        "time": {
            **_time(row),
            "eligible": int(job.eligible_at),
            "submission": int(job.view.submitted_at),
            "limit": number(
                None if spec.run_limit_s is None else spec.run_limit_s / 60, is_infinite=spec.run_limit_s is None
            ),
        },
        "tres": {"allocated": _tres(job) if job.parts else [], "requested": _tres(job)},
        "steps": [],
    }


def _step(row: AccountRow, step: SlurmStep) -> dict[str, Any]:
    job, is_script = row.job, step.facts is None
    return {
        "step": {"id": f"{job.view.job_id}.{step.label}", "name": step.name},
        "state": [step.state],
        "exit_code": exit_status(*step.exit_code),
        "nodes": {"count": step.nodes, "list": step.hosts, "range": step.node_list},
        "tasks": {"count": step.tasks},
        "time": _time(row),
        "tres": {
            "allocated": _tres(job) if is_script else _step_tres(step),
            "consumed": {"max": [], "total": _consumed(job) if is_script else _step_consumed(step)},
        },
        "statistics": {"energy": {"consumed": number(_energy(job) if is_script else None)}},
        "pid": str(job.view.pid or "") if is_script else "",
    }


def _step_tres(step: SlurmStep) -> list[dict[str, Any]]:
    found = [_count("cpu", "", step.cpus), _count("node", "", step.nodes)]
    gpus = step.facts.gpus if step.facts is not None else 0
    return found + ([_count("gres", "gpu", gpus)] if gpus else [])


def _step_consumed(step: SlurmStep) -> list[dict[str, Any]]:
    found = [_count("cpu", "", step.cpu_s * 1000)] if step.cpu_s is not None else []
    memory = step.max_mem_mib
    return found + ([_count("mem", "", memory * 1024 * 1024)] if memory is not None else [])


def _time(row: AccountRow) -> dict[str, Any]:
    job = row.job
    cpu_s = row.step.cpu_s if row.step is not None else job.usage.cpu_s
    seconds, part = divmod(cpu_s or 0.0, 1)
    result = job.view.result
    return {
        "elapsed": int(row.elapsed_s()),
        "start": int(row.begin() or 0),
        "end": int(row.end() or 0),
        "suspended": int(result.suspended_s) if result is not None else 0,
        "total": {"seconds": int(seconds), "microseconds": int(part * 1e6)},
    }


def _tres(job: SlurmJob) -> list[dict[str, Any]]:
    memory = job.memory_mib * job.nodes
    found = [_count("cpu", "", job.cpus), _count("node", "", job.nodes)]
    found += [_count("mem", "", memory)] if memory else []
    return found + ([_count("gres", "gpu", job.gpus)] if job.gpus else [])


def _consumed(job: SlurmJob) -> list[dict[str, Any]]:
    usage = job.usage
    found = [_count("cpu", "", usage.cpu_s * 1000)]
    if usage.max_mem_mib is not None:
        found.append(_count("mem", "", usage.max_mem_mib * 1024 * 1024))
    percents = [use.sm_mean for use in usage.gpus if use.sm_mean is not None]
    if percents:
        found.append(_count("gres", "gpuutil", sum(percents) / len(percents)))
    peaks = [use.mem_max_mib for use in usage.gpus if use.mem_max_mib is not None]
    return found + ([_count("gres", "gpumem", max(peaks) * 1024 * 1024)] if peaks else [])


def _count(kind: str, name: str, count: float) -> dict[str, Any]:
    return {"type": kind, "name": name, "count": int(count)}


def _energy(job: SlurmJob) -> float | None:
    known = [use.energy_j for use in job.usage.gpus if use.energy_j is not None]
    return sum(known) if known else None
