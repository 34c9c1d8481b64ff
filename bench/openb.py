"""Placement quality on a trace of the OpenB format: how much GPU is allocated when the cluster is full.

    python bench/openb.py NODES.csv PODS.csv [--seeds 42-51] [--policy scarce-room,fgd,best-fit,cycle,...]

The protocol of "Beware of Fragmentation" (USENIX ATC 2023), one run per seed:
1. The task list, and on top of it tasks drawn from it with replacement until the GPU asked for reaches 130 % of the
   cluster's; a list that asks for more loses tasks at random until it is 130 %. Then it is shuffled.
2. The tasks arrive one by one and never leave. A task that fits no node is dropped; one that fits is always placed.
3. The figure: GPU allocated, in percent of the cluster's, when the GPU that arrived tasks asked for first reaches
   100 % of the cluster's, and at the end (130 %).
All chance comes from `random.Random(seed)`. A policy knows the list (as history), not the drawn order.

The last line is JSON with the figures of the first policy named, the means over all seeds.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from openb_peers import BestFit, FragmentationGradient

from gsched.base.errors import BadRequest, GschedError
from gsched.config.changed_files import parse_setting
from gsched.policy.devices.gpu_packing import Mix, Packer, ScarceRoom, Scorer, Shape
from gsched.policy.devices.node_states import WHOLE, Node
from gsched.sim.cluster_file import read_cluster
from gsched.sim.openb_fill import draw, fill_cluster, in_thousandths
from gsched.sim.sim_config import simulation_config
from gsched.sim.workload import read_openb_requests

OneRun = Callable[[int], tuple[float, float]]
"""Seed -> percent of the GPUs allocated at 100 % of demand, and at the end."""

POLICIES: dict[str, Callable[[Mix], Scorer]] = {
    "scarce-room": ScarceRoom,
    "fgd": FragmentationGradient,
    "best-fit": BestFit,
}
CYCLES = ("cycle", "cycle-learning", "cycle-pack")
"""What `gsched sim NODES.csv openb:PODS.csv` does: engine and scheduler of a master with GPU_PLACEMENT = scarce and the
task list as history; the same with no history but the tasks that have arrived; GPU_PLACEMENT = pack."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the figures; exit code 0, or 1 and one line about what is wrong with a file."""
    options = parser().parse_args(arguments)
    try:
        nodes, tasks = read_nodes(options.nodes), read_tasks(options.pods)
        capacity = sum(len(node.free) for node in nodes) * WHOLE
        if not capacity or not any(task.asked for task in tasks):
            raise BadRequest(f"{options.nodes}, {options.pods}: no GPUs, or no task that asks for one")
    except GschedError as error:
        print(f"openb: {error.text}", file=sys.stderr)
        return 1
    print(f"{len(nodes)} nodes, {capacity // WHOLE} GPUs; {len(tasks)} tasks; seeds {options.seeds}")
    print(f"{'policy':14} {'at 100 %':>9} {'at 130 %':>9} {'spread':>7} {'s/run':>6}")
    figures = []
    for name in options.policy:
        one_run = by_simulation(options.nodes, options.pods, name) if name in CYCLES else by_rule(nodes, tasks, name)
        figures.append(measure(name, one_run, parse_seeds(options.seeds)))
    print(json.dumps({"bench": "openb", "figures": {name: round(value, 3) for name, value in figures[0].items()}}))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(prog="openb", description="Placement quality on a trace of the OpenB format.")
    found.add_argument("nodes", type=Path, metavar="NODES.csv")
    found.add_argument("pods", type=Path, metavar="PODS.csv")
    found.add_argument("--seeds", default="42-51", type=checked_seeds, help="one, a list or a range (default 42-51)")
    names = f"one or several of {', '.join([*POLICIES, *CYCLES])} (default {next(iter(POLICIES))})"
    found.add_argument("--policy", default=[next(iter(POLICIES))], type=parse_policies, metavar="NAME,...", help=names)
    return found


def parse_seeds(text: str) -> list[int]:
    """`42-51`, `42` or `42,45,47-49`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds.extend(range(int(first), int(last or first) + 1))
    return seeds


def checked_seeds(text: str) -> str:
    """The text, when it names at least one seed."""
    try:
        seeds = parse_seeds(text)
    except ValueError:
        seeds = []
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of seeds such as 42-51")
    return text


def parse_policies(text: str) -> list[str]:
    """Names of policies, separated by commas."""
    names = text.split(",")
    for name in names:
        if name not in POLICIES and name not in CYCLES:
            raise argparse.ArgumentTypeError(f"no policy {name!r}; there are {', '.join([*POLICIES, *CYCLES])}")
    return names


class Row:
    """A line of a file with a header: fields by column, and errors that say where."""

    def __init__(self, where: str, fields: dict[str, str]) -> None:
        self.where = where
        self._fields = fields

    def text(self, column: str) -> str:
        """The field; empty where the file has no such column."""
        return self._fields.get(column, "")

    def number(self, column: str) -> int:
        """The field as a whole number that is not negative. Raises BadRequest."""
        text = self.text(column)
        try:
            value = int(text)
        except ValueError:
            raise BadRequest(f"{self.where}: {column} is {text!r}, not a whole number") from None
        if value < 0:
            raise BadRequest(f"{self.where}: {column} is {value}, less than nothing")
        return value


def rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """The lines of a file that has these columns. Raises BadRequest where it cannot be read or is not of the kind."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            missing = [name for name in columns if name not in header]
            if missing:
                raise BadRequest(f"{path}:1: no column {', '.join(missing)}; there are {', '.join(header) or 'none'}")
            for fields in reader:
                if not fields:
                    continue
                where = f"{path}:{reader.line_num}"
                if len(fields) != len(header):
                    raise BadRequest(f"{where}: {len(fields)} fields under {len(header)} columns: {','.join(fields)}")
                yield Row(where, {name: field.strip() for name, field in zip(header, fields, strict=True)})
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"{path}: not a table of text: {error}") from None


def read_nodes(path: Path) -> list[Node]:
    """The nodes: `cpu_milli`, `memory_mib`, `gpu` (their number), `model`. Raises BadRequest."""
    return [
        Node(row.number("cpu_milli"), row.number("memory_mib"), row.text("model"), (WHOLE,) * row.number("gpu"))
        for row in rows(path, ("cpu_milli", "memory_mib", "gpu", "model"))
    ]


def read_tasks(path: Path) -> list[Shape]:
    """The tasks: `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli`, and `gpu_spec` where there is one. BadRequest."""
    return [task_of(row) for row in rows(path, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))]


def task_of(row: Row) -> Shape:
    """One task. Raises BadRequest."""
    gpus = row.number("num_gpu")
    share = row.number("gpu_milli") if gpus else WHOLE
    models = frozenset(name for name in row.text("gpu_spec").split("|") if name)
    try:
        return Shape(row.number("cpu_milli"), row.number("memory_mib"), gpus, share, models)
    except ValueError as error:
        raise BadRequest(f"{row.where}: {error}") from None


def by_rule(nodes: Sequence[Node], tasks: Sequence[Shape], name: str) -> OneRun:
    """A run of the packer alone."""
    capacity = sum(len(node.free) for node in nodes) * WHOLE

    def run(seed: int) -> tuple[float, float]:
        arrivals = draw(tasks, lambda task: task.asked, capacity, seed)
        arrived = allocated = 0
        at_full: int | None = None
        for task, is_placed in zip(arrivals, by_packer(nodes, tasks, name, arrivals), strict=True):
            arrived += task.asked
            allocated += task.asked if is_placed else 0
            if at_full is None and arrived >= capacity:
                at_full = allocated
        return 100 * (allocated if at_full is None else at_full) / capacity, 100 * allocated / capacity

    return run


def by_simulation(nodes: Path, pods: Path, name: str) -> OneRun:
    """A run of the scheduler, as `gsched sim` does it. Raises BadRequest."""
    hosts, tasks = in_thousandths(read_cluster(str(nodes))), read_openb_requests(str(pods))
    placement = "pack" if name == "cycle-pack" else "scarce"
    config = simulation_config(None, hosts, [parse_setting(f"GPU_PLACEMENT={placement}")])

    def run(seed: int) -> tuple[float, float]:
        found = fill_cluster(hosts, tasks, config, seed, knows_list=name == "cycle").summary
        return 100 * found["allocated_at_100_percent"], 100 * found["allocated_at_130_percent"]

    return run


def by_packer(nodes: Sequence[Node], tasks: Sequence[Shape], name: str, arrivals: Sequence[Shape]) -> Iterator[bool]:
    """Which arrivals find a place, by the packer alone."""
    packer = Packer(nodes, POLICIES[name](Mix.of(tasks)))
    for task in arrivals:
        placement = packer.choose(task)
        if placement is not None:
            packer.take(task, placement)
        yield placement is not None


def measure(name: str, one_run: OneRun, seeds: Sequence[int]) -> dict[str, float]:
    """A line of the table: the means over the seeds; spread is the standard deviation at 100 %."""
    start = time.perf_counter()
    found = np.array([one_run(seed) for seed in seeds])
    seconds = (time.perf_counter() - start) / len(seeds)
    full, end = found.mean(axis=0)
    print(f"{name:14} {full:9.2f} {end:9.2f} {found[:, 0].std():7.2f} {seconds:6.1f}", flush=True)
    return {"allocated_at_100_percent": full, "allocated_at_130_percent": end, "seconds_per_run": seconds}


if __name__ == "__main__":
    sys.exit(main())
