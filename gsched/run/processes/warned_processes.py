"""Which processes of a job are warned before its end (bsub -wa, sbatch --signal).

Runs in the fork server's bare interpreter: standard library only. It sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.run.processes.process_tree import Process

MAIN, STEPS = "main", "steps"
"""As in gsched.model.jobs.job_signal, which is not imported here."""
STEP_COMMAND = "srun"
"""The name that srun gives its process within a job: it passes signals on to its tasks on all hosts."""


def warned(processes: Iterable[Process], target: str, main: int) -> list[Process]:
    """`target` as an order has it; `main`: pid of the job's main process."""
    if target == MAIN:
        return [each for each in processes if each.pid == main]
    return [each for each in processes if target != STEPS or each.name == STEP_COMMAND]
