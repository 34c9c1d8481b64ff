"""squeue --json and scontrol show job --json: jobs as Slurm's data_parser lays them out (component `job_info`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gsched.base.ids import index_of
from gsched.cli.slurm.facts.job_facts import SlurmJob, shown_index
from gsched.cli.slurm.facts.slurm_json import exit_status, json_answer, number
from gsched.cli.slurm.facts.tres_texts import gres_per_node, held_tres, requested_tres
from gsched.cli.slurm.job_columns import excluded_nodes, standard_error, standard_input, standard_output, tasks_of


def job_pieces(jobs: Iterable[SlurmJob], cluster: str) -> Iterator[str]:
    """The answer, piece by piece."""
    return json_answer("jobs", (job_record(job, cluster) for job in jobs), cluster, "openapi/slurmctld")


def job_record(job: SlurmJob, cluster: str) -> dict[str, Any]:
    """One job."""
    spec, view = job.spec, job.view
    index = index_of(view.job_id)
    limit = spec.run_limit_s
    return {
        "account": spec.project,
        "accrue_time": number(job.eligible_at),
        "array_job_id": number(job.array_id if index else 0),
        "array_max_tasks": number(spec.array_limit),
        "array_task_id": number(int(shown_index(view)) if index and not job.elements else None),
        "array_task_string": job.elements,
        "batch_flag": not spec.interactive,
        "batch_host": job.hosts[0] if job.hosts else "",
        "cluster": cluster,
        "command": spec.command,
        "comment": spec.description,
        "cpus": number(job.cpus),
        "current_working_directory": spec.run_dir,
        "deadline": number(spec.terminate_at or 0),
        "dependency": spec.dependency,
        "derived_exit_code": exit_status(*job.exit_code),
        "eligible_time": number(job.eligible_at),
        "end_time": number(job.ends_at or 0),
        "excluded_nodes": ",".join(excluded_nodes(job)),
        "exit_code": exit_status(*job.job_exit_code),
        "features": "",
        "gres_detail": [gpu_detail(job, at) for at in range(len(job.parts)) if job.parts[at].gpus],
        "group_id": job.group[0] if job.group else 0,
        "group_name": job.group[1] if job.group else "",
        "hold": view.state == "PSUSP",
        "job_id": view.job_id if not job.elements else job.array_id,
        "job_resources": _resources(job),
        "job_state": [job.state],
        "licenses": "",
        "memory_per_cpu": number(None),
        "memory_per_node": number(job.memory_mib or None),
        "name": job.name,
        "nice": 0,
        "node_count": number(job.nodes),
        "nodes": job.node_list,
        "partition": spec.queue,
        "priority": number(spec.priority or 0),
        "qos": "normal",
        "requeue": bool(spec.rerunnable),
        "required_nodes": ",".join(spec.hosts),
        "restart_cnt": view.requeues,
        "resv_name": spec.reservation,
        "standard_error": standard_error(job),
        "standard_input": standard_input(job),
        "standard_output": standard_output(job),
        "start_time": number(view.started_at or job.planned_at or 0),
        "state_description": "",
        "state_reason": job.reason,
        "submit_time": number(view.submitted_at),
        "tasks": number(tasks_of(job)),
        "time_limit": number(None if limit is None else limit / 60, is_infinite=limit is None),
        "tres_alloc_str": held_tres(job),
        "tres_per_node": gres_per_node(job) if job.gpus_per_node else "",
        "tres_req_str": requested_tres(job),
        "user_id": 0 if job.uid is None else job.uid,
        "user_name": spec.user,
    }


def gpu_detail(job: SlurmJob, at: int) -> str:
    """`gpu:2(IDX:0-1)`: the GPUs that it has on one of its nodes; empty where it has none."""
    held = sorted({gpu.index for gpu in job.parts[at].gpus})
    runs: list[list[int]] = []
    for each in held:
        if runs and each == runs[-1][1] + 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    shown = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"gpu:{len(job.parts[at].gpus)}(IDX:{shown})" if held else ""


def _resources(job: SlurmJob) -> dict[str, Any]:
    return {
        "nodes": {
            "count": len(job.parts),
            "list": job.node_list,
            "allocation": [{"name": part.host, "cpus": {"count": part.slots}} for part in job.parts],
        },
        "cpus": job.cpus if job.parts else 0,
    }
