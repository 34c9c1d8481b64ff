"""What a job sees: the submission's environment, LSF's LSB_* names, and exactly its GPUs.

Source of the names: LSF's environment variables of batch jobs. CUDA's numbers of GPUs are not NVML's, see
gsched.model.ledgers.cuda_order. CUDA_VISIBLE_DEVICES is set in _set_gpus; mps_for_jobs.Mps.variables replaces it for
jobs with MPS.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from gsched.agent.attempts.cpu_binding import affinity_variables
from gsched.base.ids import array_of, index_of, show_job
from gsched.base.indices import Indices, parse_indices
from gsched.base.patterns import expand_job_id
from gsched.model.config import GpuUnrequested
from gsched.model.hosts.job_tmpdir import OWN_TMPDIR
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.cuda_order import in_cuda_order, pci_address
from gsched.run.account import UnixAccount

MAX_INDEX = (1 << 31) - 1
MCPU_LIMIT = 4096
"""LSB_HOSTS is left out when it would be longer (LSF does the same)."""
_SOMETIMES = (
    *("LSB_HOSTS", "LSB_JOBGROUP", "LSB_EXIT_REQUEUE", "LSB_JOBINDEX_STEP", "LSB_JOBINDEX_END", "LSB_RESTART"),
    *("LSB_DJOB_HOSTFILE", "LSB_DJOB_RANKFILE", "LSB_OUTPUTFILE", "LSB_ERRORFILE", "LSB_INPUTFILE"),
    *("LSB_BIND_CPU_LIST", "LSB_BIND_MEM_LIST", "LSB_BIND_MEM_POLICY", "LSB_AFFINITY_HOSTFILE"),
    *("LSB_JOBFILENAME", "LSB_CHKFILENAME", "LSB_CHKPNT_DIR", "LSB_CHKPNT_PERIOD", "LSB_INTERACTIVE", "LSB_JOBPEND"),
    *("LSB_JOBEXIT_STAT", "LSB_JOBEXIT_INFO", "LSB_SUSP_REASONS", "LSB_SUSP_SUBREASONS", "LSB_JOBPIDS", "LSB_JOBPGIDS"),
    *("GSCHED_HOST_GPUS", "GSCHED_GPU_SHARE", "GSCHED_DEADLINE", OWN_TMPDIR, "LSB_OUTDIR", "LSB_APPLICATION_NAME"),
)
"""Variables that only some jobs have."""
TRAPPED = "trap # 15 10 12 2 1"
"""LSB_TRAPSIGS: the shell's words for what a job is to take notice of; # stands for what it does."""


def parse_environment(block: bytes) -> dict[str, str]:
    """`NAME=value` pieces ended by NUL bytes; a piece without `=` is dropped."""
    return _parsed(block).copy()


@lru_cache(maxsize=4)
def _parsed(block: bytes) -> dict[str, str]:
    """Elements of an array have the same, one after the other."""
    pairs = (piece.decode("utf8", "surrogateescape").partition("=") for piece in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals and name}


def output_path(path: str, job_id: int, cwd: str, extension: str, *, host: str = "", attempt: int = 0) -> str:
    """The output file's path: %J and its kin filled in, and a folder stands for the file JOBID.out (or .err) in it."""
    is_folder = bool(path) and not path.endswith("/") and os.path.isdir(os.path.join(cwd, path))
    return expand_job_id(f"{path}/" if is_folder else path, job_id, extension=extension, host=host, attempt=attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFacts:
    """What the environment of an attempt on `host` tells."""

    job_id: int
    attempt: int
    spec: JobSpec
    allocation: Allocation
    host: str
    cluster: str
    effective_req: str
    gpu_unrequested: str
    user: str
    hostfile: str = ""
    """The path of the file that `host_lines` fill."""
    earlier_runs: int = 0
    affinity_hostfile: str = ""
    """The path of the file that `affinity_lines` fill."""
    script_file: str = ""
    """The path of its script; empty: it has none."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the cluster lies (LSF_ENVDIR …), for a job that was submitted without them."""
    unix_group: str = ""
    fenced: bool = False
    """The job can open its own GPUs alone, so CUDA numbers these from 0."""
    cuda_numbers: Mapping[str, int] = field(default_factory=dict)
    """UUID -> CUDA's number of all GPUs of the host; without it they are told by their UUIDs."""
    site: Mapping[str, str] = field(default_factory=dict)
    """What the site sets for jobs of its profile, where the submission says nothing."""
    login: Mapping[str, str] = field(default_factory=dict)
    """What a login of the job's user sets (see `login_variables`), where that is not the agent's."""


def job_environment(block: bytes, facts: EnvironmentFacts) -> dict[str, str]:
    """The complete environment of the attempt; `block` is what was submitted."""
    spec, allocation = facts.spec, facts.allocation
    found = {**facts.site, **parse_environment(block)}
    for name in _SOMETIMES:  # a job submitted by a job must not take the other's for its own
        found.pop(name, None)
    part = next(part for part in allocation.hosts if part.host == facts.host)
    found.update(_batch(facts))
    found.update(_places(facts))
    number, attempt = show_job(facts.job_id), str(facts.attempt)
    found.update(GSCHED_JOB_ID=number, GSCHED_ATTEMPT=attempt, GSCHED_CLUSTER=facts.cluster)
    if facts.earlier_runs:
        found["LSB_RESTART"] = "Y"
    if spec.interactive:
        found["LSB_INTERACTIVE"] = "Y"
    if facts.hostfile:
        found["LSB_DJOB_HOSTFILE"] = found["LSB_DJOB_RANKFILE"] = facts.hostfile
    found.update(affinity_variables(allocation, part, facts.affinity_hostfile))
    found["PWD"] = spec.run_dir
    found.update(facts.login)
    if spec.home:
        found.setdefault("HOME", spec.home)
    found.setdefault("USER", facts.user)
    found.setdefault("LOGNAME", facts.user)
    for name, value in facts.places.items():
        if name != "LSF_ENVDIR" or "GSCHED_ENVDIR" not in found:
            found.setdefault(name, value)
    if facts.script_file:
        found["LSB_JOBFILENAME"] = found["LSB_CHKFILENAME"] = facts.script_file
    if facts.unix_group:
        found["LSB_UNIXGROUP"] = facts.unix_group
    _set_gpus(found, part, facts.gpu_unrequested, facts.fenced, facts.cuda_numbers)
    if len(allocation.hosts) > 1 and (message := allocation.gpu_message()):
        found["GSCHED_HOST_GPUS"] = message
    return found


def login_variables(account: UnixAccount) -> dict[str, str]:
    """What a login sets, whatever the submission said. An account without a shell gets the system's for its scripts."""
    shell = "/bin/sh" if posixpath.basename(account.shell) in ("nologin", "false") else account.shell
    return {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": shell}


def host_lines(allocation: Allocation) -> str:
    """A line per slot with its host's name, first execution host first: what MPI and torchrun read as a host file."""
    return "".join(f"{part.host}\n" * part.slots for part in allocation.hosts)


def attempt_line(job_id: int, attempt: int, host: str, now: float, earlier_runs: int) -> str:
    """What stands between the outputs of two attempts in one file; empty if none has run yet. `now`: UTC seconds."""
    if not earlier_runs:
        return ""
    when = datetime.fromtimestamp(now, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    return f"---- attempt {attempt} of job {show_job(job_id)} on {host} at {when} ----"


def _batch(facts: EnvironmentFacts) -> dict[str, str]:
    job_id, spec, allocation = facts.job_id, facts.spec, facts.allocation
    found = {
        "LSB_JOBID": str(array_of(job_id)),
        "LSB_JOBINDEX": str(index_of(job_id)),
        "LSB_BATCH_JID": show_job(job_id),
        "LSB_JOBNAME": spec.shown_name(job_id),
        "LSB_QUEUE": spec.queue,
        "LSB_MCPU_HOSTS": " ".join(f"{part.host} {part.slots}" for part in allocation.hosts),
        "LSB_DJOB_NUMPROC": str(allocation.slots),
        "LSB_MAX_NUM_PROCESSORS": str(spec.max_slots or spec.slots),
        "LSB_SUB_HOST": spec.submit_host,
        "LS_SUBCWD": spec.cwd,
        "LSB_PROJECT_NAME": spec.project,
        "LSB_EFFECTIVE_RSRCREQ": facts.effective_req,
        "LSB_JOB_EXECUSER": facts.user,
        "LSB_TRAPSIGS": TRAPPED,
        "LSFUSER": facts.user,
    }
    hosts = " ".join(" ".join([part.host] * part.slots) for part in allocation.hosts)
    if len(hosts) < MCPU_LIMIT:
        found["LSB_HOSTS"] = hosts
    if spec.output_dir:
        found["LSB_OUTDIR"] = spec.output_dir
    if spec.application:
        found["LSB_APPLICATION_NAME"] = spec.application
    found["LSB_EXIT_PRE_ABORT"] = "99"
    if spec.group:
        found["LSB_JOBGROUP"] = spec.group
    if spec.requeue_exit_values:
        found["LSB_EXIT_REQUEUE"] = spec.requeue_exit_values
    if index := index_of(job_id):
        found.update(_array(spec.indices, index))
    return found


@lru_cache(maxsize=16)
def _parsed_indices(indices: str) -> Indices:
    return parse_indices(indices, MAX_INDEX)


def _array(indices: str, index: int) -> Mapping[str, str]:
    """Step and end of the array: of several ranges the step of the one with this index in it."""
    ranges = _parsed_indices(indices) if indices else Indices(((index, index, 1),))
    step = next((step for start, end, step in ranges.ranges if start <= index <= end), 1)
    return {"LSB_JOBINDEX_STEP": str(step), "LSB_JOBINDEX_END": str(ranges.largest)}


def _places(facts: EnvironmentFacts) -> Mapping[str, str]:
    """The job's files, by their final names."""
    found = {}
    job_id, spec, host = facts.job_id, facts.spec, facts.allocation.first_host
    attempt = spec.attempt_in_names(facts.attempt)
    for name, path, suffix in (("LSB_OUTPUTFILE", spec.output_file, "out"), ("LSB_ERRORFILE", spec.error_file, "err")):
        if path:
            found[name] = output_path(path, job_id, spec.run_dir, suffix, host=host, attempt=attempt)
    if spec.input_file:
        found["LSB_INPUTFILE"] = expand_job_id(spec.input_file, job_id, host=host, attempt=attempt)
    return found


def _set_gpus(
    environment: dict[str, str],
    part: HostAllocation,
    gpu_unrequested: str,
    fenced: bool,
    cuda_numbers: Mapping[str, int],
) -> None:
    """Device i of CUDA is the one whose UUID stands at place i."""
    if part.gpus:
        gpus = in_cuda_order(part.gpus)
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(_visible(gpus, fenced, cuda_numbers))
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        environment["GSCHED_GPU_UUIDS"] = ",".join(gpu.uuid for gpu in gpus)
        if (share := min(gpu.share for gpu in part.gpus)) < 1:
            environment["GSCHED_GPU_SHARE"] = f"{share:g}"
    elif gpu_unrequested != GpuUnrequested.ALLOW:
        environment["CUDA_VISIBLE_DEVICES"] = ""
        environment.pop("GSCHED_GPU_UUIDS", None)


def _visible(gpus: tuple[HeldGpu, ...], fenced: bool, cuda_numbers: Mapping[str, int]) -> list[str]:
    """In a fence the driver counts what can be opened, without one all that there is. Parts of GPUs have no numbers,
    and what number CUDA gives a GPU is not always certain.
    """
    uuids = [gpu.uuid for gpu in gpus]
    if any(gpu.parent for gpu in gpus):
        return uuids
    if fenced:
        is_certain = len(gpus) == 1 or all(pci_address(gpu.pci_bus_id) for gpu in gpus)
        return [str(number) for number in range(len(gpus))] if is_certain else uuids
    return [str(cuda_numbers[uuid]) for uuid in uuids] if cuda_numbers.keys() >= set(uuids) else uuids
