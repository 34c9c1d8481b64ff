"""Steps of jobs in Slurm's words: the batch script, and what srun has started in the job.

Every command that shows steps takes them from here, so that they never differ. What gsched does not know of a step is
None. Source: sacct(1), squeue(1), scontrol(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes
from gsched.cli.slurm.facts.job_facts import ENDED_FROM_OUTSIDE, SlurmJob
from gsched.model.jobs.job import SLURM, STARTED
from gsched.model.jobs.step_facts import StepFacts, unpack_steps

BATCH = "batch"
STEP_NAME = re.compile(r"[0-9]{1,10}|batch|extern|interactive", re.ASCII)
"""What stands behind the dot of a step's number."""
_CANCELLED = frozenset({"TIMEOUT", "DEADLINE", "PREEMPTED", "NODE_FAIL"})
"""States of a job whose steps are CANCELLED."""


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """`facts` of what srun has started; None: the job's own program, `label` as its step is called."""

    job: SlurmJob
    label: str
    facts: StepFacts | None = None

    @property
    def name(self) -> str:
        return self.facts.name if self.facts is not None else BATCH if self.label == BATCH else self.job.name

    @property
    def started_at(self) -> float | None:
        return self.facts.began_at if self.facts is not None else self.job.started_at

    @property
    def ended_at(self) -> float | None:
        """None while it runs. Of a step whose end nobody saw, that of its job."""
        ended = self.job.view.finished_at if self.job.has_ended else None
        return (self.facts.ended_at or ended) if self.facts is not None else ended

    @property
    def elapsed_s(self) -> float:
        """From its start to its end or now."""
        if self.job.is_pending or self.started_at is None:
            return 0.0
        return max(0.0, (self.ended_at or self.job.clock.now) - self.started_at)

    @property
    def has_ended(self) -> bool:
        return self.ended_at is not None

    @property
    def state(self) -> str:
        """RUNNING, COMPLETED, FAILED …"""
        state = self.job.state
        if self.facts is None:
            return "CANCELLED" if state in _CANCELLED else state
        if not self.has_ended:
            return state
        is_cut = self.facts.ended_at is None or (self.facts.signal and state in ENDED_FROM_OUTSIDE)
        if self.facts.is_cancelled or is_cut:
            return "CANCELLED"
        return "FAILED" if self.facts.code or self.facts.signal else "COMPLETED"

    @property
    def exit_code(self) -> tuple[int, int]:
        """(exit code, signal); 0 and 0 while there is none."""
        return self.job.exit_code if self.facts is None else (self.facts.code, self.facts.signal)

    @property
    def node_list(self) -> str:
        """A script runs on the first node alone."""
        return self.facts.nodes if self.facts is not None else (self.job.hosts or [""])[0]

    @property
    def hosts(self) -> list[str]:
        """Those of `node_list`; none where that was too long to be kept."""
        try:
            return expand_nodes(self.node_list)
        except BadRequest:
            return []

    @property
    def nodes(self) -> int:
        return self.facts.node_count if self.facts is not None else 1

    @property
    def tasks(self) -> int:
        return self.facts.tasks if self.facts is not None else 1

    @property
    def cpus(self) -> int:
        if self.facts is not None:
            return self.facts.cpus or self.facts.tasks
        return self.job.parts[0].slots if self.job.parts else self.job.cpus

    @property
    def cpu_s(self) -> float | None:
        return self.facts.cpu_s if self.facts is not None else self.job.usage.cpu_s

    @property
    def max_mem_mib(self) -> float | None:
        return self.facts.max_rss_mib if self.facts is not None else self.job.usage.max_mem_mib


def steps_of(job: SlurmJob) -> list[SlurmStep]:
    """The steps of the job that have begun: its script first."""
    result = job.view.result
    has_begun = bool(job.parts) and (result is not None and result.started if job.has_ended else not job.is_pending)
    if not has_begun or job.elements:
        return []
    label = _own_step(job)
    first = [SlurmStep(job, label)] if label else []
    return first + [SlurmStep(job, str(each.number), each) for each in unpack_steps(job.usage.steps)]


def running_steps(job: SlurmJob) -> list[SlurmStep]:
    """Those that have not ended."""
    return [each for each in steps_of(job) if not each.has_ended] if job.view.state in STARTED else []


def _own_step(job: SlurmJob) -> str:
    """What the step of the job's own program is called: `batch`, `0` where srun --pty has submitted it; empty where its
    program only holds the job for others (salloc, srun).
    """
    if not job.spec.interactive:
        return BATCH
    is_of_srun = job.spec.front_end == SLURM and job.spec.script_words
    return "0" if is_of_srun and job.spec.interactive == "Is" else ""
