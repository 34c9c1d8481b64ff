"""Variables and commands of a batch system that a script's body uses, and what they are called in another.

Source: sbatch(1) of Slurm 22.05, "Output environment variables"; qsub(1B) of OpenPBS 23; bsub(1) of LSF 10.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gsched.dialect.converting.asked_scripts import BSUB_DIALECT, PBS_DIALECT, SBATCH_DIALECT

_SAME = (
    # Slurm, PBS, LSF
    ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"),
    ("SLURM_JOBID", "PBS_JOBID", "LSB_JOBID"),
    ("SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME"),
    ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "LS_SUBCWD"),
    ("SLURM_SUBMIT_HOST", "PBS_O_HOST", "LSB_SUB_HOST"),
    ("SLURM_JOB_PARTITION", "PBS_QUEUE", "LSB_QUEUE"),
    ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX"),
    ("SLURM_ARRAY_TASK_ID", "PBS_ARRAYID", "LSB_JOBINDEX"),
    ("SLURM_ARRAY_JOB_ID", "PBS_ARRAY_ID", "LSB_JOBID"),
    ("SLURM_NTASKS", "PBS_NP", "LSB_DJOB_NUMPROC"),
    ("SLURM_NPROCS", "PBS_NP", "LSB_DJOB_NUMPROC"),
    ("SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE"),
    ("SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_HOSTS"),
    ("SLURM_NODELIST", "PBS_NODEFILE", "LSB_HOSTS"),
    ("SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_MCPU_HOSTS"),
    ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS", ""),
    ("SLURM_JOB_NUM_NODES", "PBS_NUM_NODES", ""),
    ("SLURM_NNODES", "PBS_NUM_NODES", ""),
    ("SLURM_TASKS_PER_NODE", "PBS_NUM_PPN", ""),
    ("SLURM_CPUS_ON_NODE", "NCPUS", ""),
    ("CUDA_VISIBLE_DEVICES", "PBS_GPUFILE", "CUDA_VISIBLE_DEVICES"),
)
_COLUMN = {SBATCH_DIALECT: 0, PBS_DIALECT: 1, BSUB_DIALECT: 2}
_OWN = {
    SBATCH_DIALECT: re.compile(r"\bSLURM_[A-Z0-9_]+"),
    PBS_DIALECT: re.compile(r"\b(?:PBS_[A-Z0-9_]+|NCPUS)\b"),
    BSUB_DIALECT: re.compile(r"\b(?:LSB_[A-Z0-9_]+|LS_SUBCWD|LS_JOBPID)\b"),
}
_COMMANDS = {
    SBATCH_DIALECT: ("srun", "sbatch", "squeue", "scancel", "sacct", "scontrol"),
    PBS_DIALECT: ("pbsdsh", "qsub", "qstat", "qdel", "", "qalter"),
    BSUB_DIALECT: ("blaunch", "bsub", "bjobs", "bkill", "bacct", "bmod"),
}


def notes_on_body(body: Iterator[tuple[int, str]], source: str, target: str) -> Iterator[str]:
    """What its lines (number, text) use of the one system, each once, with its counterpart in the other."""
    seen: set[str] = set()
    here, there = _COMMANDS[source], _COMMANDS[target]
    for number, text in body:
        if text.lstrip().startswith("#"):
            continue
        for name in _OWN[source].findall(text):
            if name not in seen:
                seen.add(name)
                yield f"line {number} of the script: {_variable(name, source, target)}"
        for command, other in zip(here, there, strict=True):
            if command and command not in seen and re.search(rf"(?:^|[;&|(`])\s*{command}\s", text + " "):
                seen.add(command)
                told = f"its counterpart is {other}" if other else "it has no counterpart"
                yield f"line {number} of the script: {command} is a command of another batch system: {told}"


def _variable(name: str, source: str, target: str) -> str:
    others = [row[_COLUMN[target]] for row in _SAME if row[_COLUMN[source]] == name]
    other = next(filter(None, others), "")
    return f"${name} is ${other} in {target}" if other else f"${name} has no counterpart in {target}"
