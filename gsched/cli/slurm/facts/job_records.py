"""squeue --json and scontrol show job --json: jobs as Slurm's data_parser lays them out (component `job_info`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gsched.base.ids import index_of
from gsched.cli.slurm.facts.dependency_words import waits_for
from gsched.cli.slurm.facts.job_facts import SlurmJob, shown_index
from gsched.cli.slurm.facts.slurm_json import exit_status, json_answer, number
from gsched.cli.slurm.facts.tres_texts import gres_per_node, held_tres, requested_tres
from gsched.cli.slurm.job_columns import excluded_nodes, standard_error, standard_input, standard_output, tasks_of


def job_pieces(jobs: Iterable[SlurmJob], cluster: str) -> Iterator[str]:
    """The answer, piece by piece."""
    return json_answer("jobs", (job_record(job, cluster) for job in jobs), cluster, "openapi/slurmctld")


def job_record(job: SlurmJob, cluster: str) -> dict[str, Any]:
    """One job, its fields in alphabetical order as Slurm's."""
    return dict(sorted((_described(job, cluster) | _times(job) | _places(job)).items()))


def _described(job: SlurmJob, cluster: str) -> dict[str, Any]:
    """Whose job it is, what it runs, and how it stands."""
    spec, view = job.spec, job.view
    index = index_of(view.job_id)
    return {
        "account": spec.project,
        "array_job_id": number(job.array_id if index else 0),
        "array_max_tasks": number(spec.array_limit),
        "array_task_id": number(int(shown_index(view)) if index and not job.elements else None),
        "array_task_string": job.elements,
        "batch_flag": not spec.interactive,
        "cluster": cluster,
        "command": spec.command,
        "comment": spec.description,
        "current_working_directory": spec.run_dir,
        "dependency": waits_for(job),
        "derived_exit_code": exit_status(*job.exit_code),
        "exit_code": exit_status(*job.job_exit_code),
        "group_id": job.group[0] if job.group else 0,
        "group_name": job.group[1] if job.group else "",
        "hold": view.state == "PSUSP",
        "job_id": view.job_id if not job.elements else job.array_id,
        "job_state": [job.state],
        "name": job.name,
        "nice": 0,
        "partition": spec.queue,
        "priority": number(job.priority),
        "qos": "normal",
        "requeue": bool(spec.rerunnable),
        "restart_cnt": view.requeues,
        "resv_name": spec.reservation,
        "standard_error": standard_error(job),
        "standard_input": standard_input(job),
        "standard_output": standard_output(job),
        "state_description": "",
        "state_reason": job.reason,
        "user_id": 0 if job.uid is None else job.uid,
        "user_name": spec.user,
    }


def _times(job: SlurmJob) -> dict[str, Any]:
    limit = job.spec.run_limit_s
    return {
        "accrue_time": number(job.eligible_at),
        "deadline": number(job.spec.terminate_at or 0),
        "eligible_time": number(job.eligible_at),
        "end_time": number(job.ends_at or 0),
        "start_time": number(job.view.started_at or job.planned_at or 0),
        "submit_time": number(job.view.submitted_at),
        "time_limit": number(None if limit is None else limit / 60, is_infinite=limit is None),
    }


def _places(job: SlurmJob) -> dict[str, Any]:
    """How much it asks for and holds, and where."""
    return {
        "batch_host": job.hosts[0] if job.hosts else "",
        "cpus": number(job.cpus),
        "excluded_nodes": ",".join(excluded_nodes(job)),
        "features": "",
        "gres_detail": [gpu_detail(job, at) for at in range(len(job.parts)) if job.parts[at].gpus],
        "job_resources": _resources(job),
        "licenses": "",
        "memory_per_cpu": number(None),
        "memory_per_node": number(job.memory_mib or None),
        "node_count": number(job.nodes),
        "nodes": job.node_list,
        "required_nodes": ",".join(job.spec.hosts),
        "tasks": number(tasks_of(job)),
        "tres_alloc_str": held_tres(job),
        "tres_per_node": gres_per_node(job) if job.gpus_per_node else "",
        "tres_req_str": requested_tres(job),
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
