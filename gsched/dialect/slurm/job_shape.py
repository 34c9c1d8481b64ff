"""How much a job of Slurm asks for: nodes, tasks, CPUs, GPUs and memory as slots, requirement and GPU requirement.

A CPU of a task is a slot. Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.slurm.slurm_values import parse_count, parse_size_mib

MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
"""Options that exclude each other."""
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobShape:
    """What was asked for, worked out."""

    tasks: int
    cpus_per_task: int
    nodes: int
    """0: as many as it takes."""
    tasks_per_node: int
    """0: as many as there is room for."""
    gpus_per_node: int
    model: str
    gpus_per_task: int
    """Where `gpus_per_node` cannot say it: the number of tasks on a node is not known."""
    rusage: tuple[str, ...]

    @property
    def slots(self) -> int:
        return self.tasks * self.cpus_per_task

    @property
    def span(self) -> str:
        """How the slots lie on nodes, as a requirement says it; empty: anyhow."""
        if self.nodes == 1 or (self.tasks == 1 and self.cpus_per_task > 1):
            return "span[hosts=1]"  # the CPUs of a task are on one node
        if self.tasks_per_node:
            return f"span[ptile={self.tasks_per_node * self.cpus_per_task}]"
        return f"span[block={self.cpus_per_task}]" if self.cpus_per_task > 1 else ""

    @property
    def requirement(self) -> list[str]:
        """Its parts of the requirement."""
        return [*([self.span] if self.span else []), *(f"rusage[{each}]" for each in self.rusage)]

    @property
    def gpu_requirement(self) -> str:
        """As -gpu takes it, GPUs for this job alone; empty: none."""
        count = f"{self.gpus_per_task}/task" if self.gpus_per_task else str(self.gpus_per_node or "")
        model = f":gmodel={self.model}" if self.model else ""
        return f"num={count}:j_exclusive=yes{model}" if count else ""


def shape_of(words: GnuWords, least_nodes: int = 0) -> JobShape:
    """`least_nodes`: those that --nodelist names. Raises BadRequest naming the option."""
    cpus = _count(words.last("cpus-per-task"), 1)
    per_node = _count(words.last("ntasks-per-node"), 0)
    nodes = max(_nodes(words.last("nodes")), least_nodes)
    tasks = _count(words.last("ntasks"), 0)
    if not tasks:
        tasks = (nodes or 1) * (per_node or 1)
    if nodes > tasks:
        nodes = tasks  # as Slurm has it: a node without a task is none
    per_node = min(per_node, tasks)
    if nodes and not per_node:
        per_node = -(-tasks // nodes)
    elif per_node and not nodes:
        nodes = -(-tasks // per_node)
    elif nodes and per_node * nodes < tasks:
        raise BadRequest(f"{tasks} tasks are more than {per_node} on each of {nodes} nodes")
    each, model, per_task, nodes = _gpus(words, tasks, nodes, per_node, cpus)
    return JobShape(tasks, cpus, nodes, per_node, each, model, per_task, tuple(_memory(words, each)))


def _count(given: GivenOption | None, default: int) -> int:
    if given is None:
        return default
    try:
        return parse_count(given.value)
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None


def _nodes(given: GivenOption | None) -> int:
    """The least number of `LEAST[-MOST]`: more than that are not waited for."""
    if given is None:
        return 0
    least, dash, most = given.value.partition("-")
    try:
        found = parse_count(least)
        if dash and parse_count(most) < found:
            raise BadRequest(f"Invalid node count '{given.value[:40]}'")
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None
    return found


def _gpus(words: GnuWords, tasks: int, nodes: int, per_node: int, cpus: int) -> tuple[int, str, int, int]:
    """(GPUs on each node, model, GPUs for each task where that alone is known, nodes)."""
    asked = [words.last(name) for name in ("gres", "gpus-per-node", "gpus", "gpus-per-task")]
    found = [given for given in asked if given is not None]
    if len(found) > 1:
        raise BadRequest(f"{found[1].place}: {found[0].written} says already how many GPUs it needs")
    if not found:
        return 0, "", 0, nodes
    given = found[0]
    count, model = parse_gpus(given)
    if given.name in ("gres", "gpus-per-node") or not count:
        return count, model, 0, nodes
    if given.name == "gpus":
        nodes = nodes or 1  # GPUs of one node are next to each other
        if count % nodes:
            raise BadRequest(f"{given.place}: {count} GPUs cannot be shared out evenly over {nodes} nodes")
        return count // nodes, model, 0, nodes
    if per_node:
        if tasks % per_node:
            raise BadRequest(f"{given.place}: {tasks} tasks are not as many on each node: say --gpus-per-node")
        return count * per_node, model, 0, nodes
    if tasks == 1 or cpus > 1:
        return count * tasks, model, 0, 1  # a slot is not a task: on one node both are known
    return 0, model, count, nodes


def parse_gpus(given: GivenOption) -> tuple[int, str]:
    """`2`, `a100:2`, and `gpu`, `gpu:2`, `gpu:a100:2` of --gres."""
    text = given.value
    if given.name == "gres":
        if text.lower() == "none":
            return 0, ""
        kind, _, rest = text.partition(":")
        if kind != "gpu" or "," in text:
            raise BadRequest(f"{given.place}: '{text[:40]}': gpu[:MODEL][:COUNT] is the only generic resource")
        text = rest or "1"
    model, colon, count = text.rpartition(":")
    if not colon and not text.isdigit() and given.name == "gres":
        model, count = text, "1"
    if model and not _MODEL.fullmatch(model):
        raise BadRequest(f"{given.place}: Invalid GPU model '{model[:40]}'")
    try:
        return parse_count(count, 0), model
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None


def _memory(words: GnuWords, gpus: int) -> list[str]:
    """Of memory options the one that was given."""
    found = [given for name in MEMORY if (given := words.last(name)) is not None]
    of_line = [given for given in found if given.written.startswith("-") and not given.line]
    if len(of_line or found) > 1:
        raise BadRequest(f"{found[1].place}: --mem, --mem-per-cpu and --mem-per-gpu exclude each other")
    if not found:
        return []
    given = (of_line or found)[0]  # the command line takes the place of what variables and the script say
    try:
        size = parse_size_mib(given.value)
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None
    if not size:
        raise BadRequest(f"{given.place}: all memory of a node is asked for with --exclusive")
    if given.name == "mem-per-gpu":
        if not gpus:
            raise BadRequest(f"{given.place}: how many GPUs it has on a node is not known: say --gpus-per-node")
        size *= gpus
    return [f"mem={math.ceil(size)}MB{'/task' if given.name == 'mem-per-cpu' else ''}"]
