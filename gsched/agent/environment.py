"""What a job sees: the submission's environment, LSF's LSB_* names, and exactly its GPUs.

Source of the names: LSF's environment variables of batch jobs. CUDA_DEVICE_ORDER makes CUDA count as NVML does, so that
the indices mean the same GPUs to both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gsched.base.patterns import expand_job_id
from gsched.model.allocation import Allocation, HostAllocation
from gsched.model.config import GpuUnrequested
from gsched.model.job import JobSpec

MCPU_LIMIT = 4096
"""LSB_HOSTS is left out when it would be longer (LSF does the same)."""


def parse_environment(block: bytes) -> dict[str, str]:
    """`NAME=value` pieces ended by NUL bytes; a piece without `=` is dropped."""
    pairs = (piece.decode("utf8", "surrogateescape").partition("=") for piece in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals and name}


def output_path(path: str, job_id: int, cwd: str, extension: str) -> str:
    """The output file's path: %J filled in, and a folder stands for the file JOBID.out (or .err) in it."""
    is_folder = bool(path) and not path.endswith("/") and os.path.isdir(os.path.join(cwd, path))
    return expand_job_id(f"{path}/" if is_folder else path, job_id, extension=extension)


def job_environment(
    block: bytes,
    job_id: int,
    attempt: int,
    spec: JobSpec,
    allocation: Allocation,
    host: str,
    *,
    cluster: str,
    effective_req: str,
    gpu_unrequested: str,
    user: str,
) -> dict[str, str]:
    """The complete environment of the attempt on `host`."""
    found = parse_environment(block)
    part = next(part for part in allocation.hosts if part.host == host)
    found.update(_batch(job_id, spec, allocation, effective_req, user))
    found.update(GSCHED_JOB_ID=str(job_id), GSCHED_ATTEMPT=str(attempt), GSCHED_CLUSTER=cluster)
    found["PWD"] = spec.run_dir
    if spec.home:
        found.setdefault("HOME", spec.home)
    _set_gpus(found, part, gpu_unrequested)
    return found


def _batch(job_id: int, spec: JobSpec, allocation: Allocation, effective_req: str, user: str) -> Mapping[str, str]:
    hosts = " ".join(" ".join([part.host] * part.slots) for part in allocation.hosts)
    found = {
        "LSB_JOBID": str(job_id),
        "LSB_JOBINDEX": "0",
        "LSB_BATCH_JID": str(job_id),
        "LSB_JOBNAME": spec.display_name,
        "LSB_QUEUE": spec.queue,
        "LSB_MCPU_HOSTS": " ".join(f"{part.host} {part.slots}" for part in allocation.hosts),
        "LSB_DJOB_NUMPROC": str(allocation.slots),
        "LSB_MAX_NUM_PROCESSORS": str(allocation.slots),
        "LSB_SUB_HOST": spec.submit_host,
        "LS_SUBCWD": spec.cwd,
        "LSB_PROJECT_NAME": spec.project,
        "LSB_EFFECTIVE_RSRCREQ": effective_req,
        "LSB_JOB_EXECUSER": user,
        "LSFUSER": user,
    }
    if len(hosts) < MCPU_LIMIT:
        found["LSB_HOSTS"] = hosts
    for name, path, suffix in (("LSB_OUTPUTFILE", spec.output_file, "out"), ("LSB_ERRORFILE", spec.error_file, "err")):
        if path:
            found[name] = output_path(path, job_id, spec.run_dir, suffix)
    if spec.input_file:
        found["LSB_INPUTFILE"] = expand_job_id(spec.input_file, job_id)
    return found


def _set_gpus(environment: dict[str, str], part: HostAllocation, gpu_unrequested: str) -> None:
    if part.gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu.index) for gpu in part.gpus)
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environment["GSCHED_GPU_UUIDS"] = ",".join(gpu.uuid for gpu in part.gpus)
    elif gpu_unrequested != GpuUnrequested.ALLOW:
        environment["CUDA_VISIBLE_DEVICES"] = ""
        environment.pop("GSCHED_GPU_UUIDS", None)
