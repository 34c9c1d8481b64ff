"""What a job that was submitted with Slurm's commands is told beside LSF's names: SLURM_* variables, old names too.

What its own options said of tasks stands in the submitted environment already. A slot is a CPU.
Source: sbatch(1) of Slurm 22.05, output environment variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gsched.base.ids import array_of, index_of
from gsched.base.indices import parse_indices
from gsched.base.node_lists import fold_in_order
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation

STEP_OF_SRUN = "GSCHED_STEP_OF_SRUN"
"""A variable that tells srun that it is the first program of a job that srun has submitted."""
MAX_INDEX = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """Of one attempt on one host."""

    job_id: int
    spec: JobSpec
    allocation: Allocation
    part: HostAllocation
    cluster: str
    user: str
    uid: int
    restarts: int
    now: float
    """UTC seconds."""
    submitted: Mapping[str, str]
    """The environment that was submitted."""


def slurm_variables(facts: SlurmFacts) -> dict[str, str]:
    """All that is known where the job starts."""
    spec, part, hosts = facts.spec, facts.part, facts.allocation.hosts
    number = str(facts.job_id)  # of an array's element a number of its own, which squeue and scancel know
    cpus = max(1, _whole(facts.submitted.get("SLURM_CPUS_PER_TASK", "1")))
    nodes = fold_in_order(each.host for each in hosts)
    found = {
        "SLURM_JOB_ID": number,
        "SLURM_JOBID": number,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(hosts)),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_JOB_CPUS_PER_NODE": _counted(each.slots for each in hosts),
        "SLURM_TASKS_PER_NODE": _counted(-(-each.slots // cpus) for each in hosts),
        "SLURM_CPUS_ON_NODE": str(part.slots),
        "SLURM_JOB_PARTITION": spec.queue,
        "SLURM_JOB_ACCOUNT": spec.project,
        "SLURM_JOB_USER": facts.user,
        "SLURM_JOB_UID": str(facts.uid),
        "SLURM_CLUSTER_NAME": facts.cluster,
        "SLURM_SUBMIT_HOST": spec.submit_host,
        "SLURMD_NODENAME": part.host,
        "SLURM_RESTART_COUNT": str(facts.restarts),
        "SLURM_NODEID": str(next(place for place, each in enumerate(hosts) if each.host == part.host)),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_JOB_START_TIME": str(int(facts.now)),
        "ENVIRONMENT": "BATCH",
        # Open MPI would start its daemons by srun where it finds a job of Slurm.
        "OMPI_MCA_plm": "rsh",
        "OMPI_MCA_ras": "^slurm",
        "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_ras": "^slurm",
    }
    if part.gpus:
        numbers = ",".join(str(gpu.index) for gpu in part.gpus)
        found |= {"SLURM_JOB_GPUS": numbers, "SLURM_STEP_GPUS": numbers, "SLURM_GPUS_ON_NODE": str(len(part.gpus))}
    if spec.run_limit_s is not None:
        found["SLURM_JOB_END_TIME"] = str(int(facts.now + spec.run_limit_s))
    return found | (_array(facts) if index_of(facts.job_id) else {})


def _array(facts: SlurmFacts) -> dict[str, str]:
    spec, index, shift = facts.spec, index_of(facts.job_id), facts.spec.index_shift
    indices = parse_indices(spec.indices, MAX_INDEX)
    first = next(iter(indices), index)
    step = next((step for start, end, step in indices.ranges if start <= index <= end), 1)
    return {
        "SLURM_ARRAY_JOB_ID": str(array_of(facts.job_id)),
        "SLURM_ARRAY_TASK_ID": str(index - shift),
        "SLURM_ARRAY_TASK_COUNT": str(indices.count),
        "SLURM_ARRAY_TASK_MIN": str(first - shift),
        "SLURM_ARRAY_TASK_MAX": str(indices.largest - shift),
        "SLURM_ARRAY_TASK_STEP": str(step),
    }


def _counted(counts: Iterable[int]) -> str:
    """`4(x2),3`: numbers of neighbours that are equal are folded."""
    groups = [(count, len(list(same))) for count, same in itertools.groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 1
