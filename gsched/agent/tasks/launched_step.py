"""What makes the tasks of a step (srun) differ from each other: variables, words, GPUs, terminal.

Source: srun(1) of Slurm 22.05, "OUTPUT ENVIRONMENT VARIABLES" and "MULTIPLE PROGRAM CONFIGURATION".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gsched.agent.tasks.step_records import StepRecord
from gsched.base.node_lists import fold_in_order
from gsched.model.jobs.job_step import StepRequest
from gsched.model.jobs.step_layout import TaskPlace


@dataclass(frozen=True)
class LaunchedStep:
    """A step that has its room. `is_outside`: it was asked for by a process that is not the job's."""

    request: StepRequest
    record: StepRecord
    is_outside: bool

    @property
    def places(self) -> tuple[TaskPlace, ...]:
        """Of its tasks, by their numbers."""
        return self.record.plan.places

    @cached_property
    def _of_all(self) -> dict[str, str]:
        """What all its tasks are told alike."""
        hosts = list(dict.fromkeys(place.host for place in sorted(self.places, key=lambda place: place.node)))
        counts = [sum(place.host == host for place in self.places) for host in hosts]
        number, tasks, nodes = str(self.record.number), str(len(self.places)), str(len(hosts))
        per_node, listed = counted(counts), fold_in_order(hosts)
        shape = self.request.shape
        found = {
            "SLURM_STEP_ID": number,
            "SLURM_STEPID": number,
            "SLURM_NTASKS": tasks,
            "SLURM_NPROCS": tasks,
            "SLURM_STEP_NUM_TASKS": tasks,
            "SLURM_NNODES": nodes,
            "SLURM_STEP_NUM_NODES": nodes,
            "SLURM_NODELIST": listed,
            "SLURM_STEP_NODELIST": listed,
            "SLURM_TASKS_PER_NODE": per_node,
            "SLURM_STEP_TASKS_PER_NODE": per_node,
            "SLURM_CPUS_PER_TASK": str(shape.cpus),
            "SLURM_DISTRIBUTION": shape.distribution,
            "SLURM_LAUNCH_NODE_IPADDR": self.request.address,
            "SLURM_SRUN_COMM_HOST": self.request.address,
        }
        return {name: value for name, value in found.items() if value}

    def variables(self, number: int) -> list[str]:
        """NAME=value each: what task `number` is told."""
        place = self.places[number]
        mates = [str(other) for other, each in enumerate(self.places) if each.node == place.node]
        own = {
            "SLURM_PROCID": str(number),
            "SLURM_LOCALID": str(place.local),
            "SLURM_NODEID": str(place.node),
            "SLURM_GTIDS": ",".join(mates),
        }
        return [f"{name}={value}" for name, value in {**self._of_all, **own}.items()]

    def words(self, number: int, words: Sequence[str]) -> list[str]:
        """What task `number` executes; `words`: where there is one program for all."""
        programs = self.request.programs
        if not programs:
            return list(words)
        named = (each for each in programs if any(first <= number <= last for first, last in each.ranks))
        program = next(named, None) or next((each for each in programs if not each.ranks), None)
        if program is None:
            return []
        ranks = itertools.chain.from_iterable(range(first, last + 1) for first, last in program.ranks)
        offset = next((place for place, rank in enumerate(ranks) if rank == number), number)
        return [word.replace("%t", str(number)).replace("%o", str(offset)) for word in program.words]

    def has_terminal(self, number: int) -> bool:
        """Whether task `number` has the pseudo-terminal."""
        return self.request.pty and number == 0

    def reads(self, number: int) -> bool:
        """Whether standard input goes to task `number`."""
        reader = 0 if self.request.pty else self.request.reader
        return reader in (-1, number)


def counted(counts: Iterable[int]) -> str:
    """`4(x2),3`: numbers of neighbours that are equal are folded."""
    groups = [(count, len(list(same))) for count, same in itertools.groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)
