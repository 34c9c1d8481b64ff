"""Fields of squeue --steps: those of its job, but for what a step says itself.

Source: squeue(1) of Slurm 22.05, --format and --Format, "The field specifications available ... job steps only".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsched.cli.slurm.facts.job_facts import SlurmJob
from gsched.cli.slurm.facts.job_steps import SlurmStep
from gsched.cli.slurm.formats import FormatColumn
from gsched.cli.slurm.job_columns import BY_LETTER, BY_NAME
from gsched.dialect.slurm.slurm_values import show_duration

STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
StepColumns = Mapping[str, FormatColumn[SlurmStep]]


def _of_its_job(column: FormatColumn[SlurmJob]) -> FormatColumn[SlurmStep]:
    return FormatColumn(column.heading, lambda step: column.value(step.job), column.is_free)


def _gpus(step: SlurmStep) -> str:
    count = step.facts.gpus if step.facts is not None else 0
    return f"gres:gpu:{count}" if count else "N/A"


_OWN: tuple[tuple[str, str, str, Callable[[SlurmStep], str]], ...] = (
    ("stepid", "i", "STEPID", lambda step: f"{step.job.shown_id}.{step.label}"),
    ("stepname", "j", "NAME", lambda step: step.name),
    ("numtasks", "A", "TASKS", lambda step: str(step.tasks)),
    ("timeused", "M", "TIME", lambda step: show_duration(step.elapsed_s)),
    ("nodes", "N", "NODELIST", lambda step: step.node_list),
    ("starttime", "S", "START_TIME", lambda step: step.job.clock.moment(step.started_at, "N/A")),
    ("stepstate", "T", "STATE", lambda step: step.state),
    ("numcpus", "C", "CPUS", lambda step: str(step.cpus)),
    ("numnodes", "D", "NODES", lambda step: str(step.nodes)),
    ("tres-per-step", "b", "TRES_PER_STEP", _gpus),
)
_FREE = frozenset({"stepname"})
"""Whose texts users choose."""
STEP_BY_LETTER: StepColumns = {
    **{letter: _of_its_job(column) for letter, column in BY_LETTER.items()},
    **{letter: FormatColumn(heading, value, name in _FREE) for name, letter, heading, value in _OWN},
}
STEP_BY_NAME: StepColumns = {
    **{name: _of_its_job(column) for name, column in BY_NAME.items()},
    **{name: FormatColumn(heading, value, name in _FREE) for name, _, heading, value in _OWN},
}
