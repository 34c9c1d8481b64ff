"""What a job that was submitted with PBS's commands is told beside LSF's names: PBS_* variables, Torque's too, and the
files that PBS_NODEFILE and PBS_GPUFILE name.

What its own options and its environment said stands in the submitted environment already. A slot is a CPU.
Source: qsub(1B) of OpenPBS 23 and of Torque 6, "Environment variables".
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, index_of
from gsched.dialect.pbs.chunk_lists import Chunk, processes_of
from gsched.dialect.pbs.job_chunks import chunks_of
from gsched.dialect.pbs.pbs_values import default_name, show_job
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HostAllocation


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsFacts:
    """Of one attempt on one host."""

    job_id: int
    spec: JobSpec
    allocation: Allocation
    part: HostAllocation
    cluster: str
    nodefile: str
    """Path of the file that `node_lines` fill."""
    gpufile: str
    """That of `gpu_lines`."""
    submitted: Mapping[str, str]
    """The environment that was submitted."""


def pbs_variables(facts: PbsFacts) -> dict[str, str]:
    """All that is known where the job starts."""
    spec, hosts = facts.spec, facts.allocation.hosts
    index = index_of(facts.job_id)
    shown = index - spec.index_shift if index else None
    number = array_of(facts.job_id)
    node = next(place for place, each in enumerate(hosts) if each.host == facts.part.host)
    processes = len(_processes(spec, facts.allocation))
    found = {
        "PBS_JOBID": show_job(number, shown, facts.cluster),
        "PBS_JOBNAME": spec.name,
        "PBS_QUEUE": spec.queue,
        "PBS_ENVIRONMENT": "PBS_INTERACTIVE" if spec.interactive else "PBS_BATCH",
        "PBS_SERVER": facts.cluster,
        "PBS_NODEFILE": facts.nodefile,
        "PBS_TASKNUM": "1",
        "PBS_NODENUM": str(node),
        "PBS_VNODENUM": "0",
        "PBS_NUM_NODES": str(len(hosts)),
        "PBS_NUM_PPN": str(facts.part.slots),
        "PBS_NP": str(processes),
        "PBS_O_QUEUE": facts.submitted.get("PBS_O_QUEUE", spec.queue),
        "PBS_ACCOUNT": spec.project,
        "ENVIRONMENT": "BATCH",
    }
    if spec.run_limit_s is not None:
        found["PBS_WALLTIME"] = str(spec.run_limit_s)
    if facts.part.gpus:
        found["PBS_GPUFILE"] = facts.gpufile
    if shown is not None:
        found |= {
            "PBS_ARRAY_INDEX": str(shown),
            "PBS_ARRAYID": str(shown),
            "PBS_ARRAY_ID": show_job(number, None, facts.cluster, is_array=True),
        }
    return found


def node_lines(spec: JobSpec, allocation: Allocation) -> str:
    """PBS_NODEFILE: a line for each MPI process with its host's name."""
    return "".join(f"{host}\n" for host in _processes(spec, allocation))


def gpu_lines(allocation: Allocation) -> str:
    """PBS_GPUFILE, as Torque has it: a line `HOST-gpuINDEX` for each GPU."""
    return "".join(f"{part.host}-gpu{gpu.index}\n" for part in allocation.hosts for gpu in part.gpus)


def _processes(spec: JobSpec, allocation: Allocation) -> list[str]:
    slots = {part.host: part.slots for part in allocation.hosts}
    try:
        chunks: tuple[Chunk, ...] = chunks_of(spec)
    except BadRequest:  # of a gsched that read more than this one
        chunks = ()
    found = [host for host, count in processes_of(chunks, slots) for _ in range(count)]
    return found or [host for host, count in slots.items() for _ in range(count)]


def in_folders(spec: JobSpec, is_folder: Mapping[str, bool]) -> JobSpec:
    """The spec whose output files that name a directory are the files that PBS makes there."""
    name, shift = spec.name, spec.index_shift
    changed = {
        f"{word}_file": posixpath.join(path, default_name(word[0], name, bool(spec.indices), shift))
        for word, path in (("output", spec.output_file), ("error", spec.error_file))
        if path and is_folder.get(path)
    }
    return msgspec.structs.replace(spec, **changed) if changed else spec
