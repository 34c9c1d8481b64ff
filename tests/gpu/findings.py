"""What the checks on real GPUs find, and the table that they end with.

A check goes on after the first thing that is not as it should be: a machine with a GPU may be there for a few minutes
only. Its test fails when it is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.support.asking import pause_s

T = TypeVar("T")

PATIENCE_S = 20.0
"""How long a check waits for something that no event tells of. A GPU and its driver answer within seconds."""

ROWS = (
    "detecting GPUs, UUIDs, compute modes, memory",
    "processes and their jobs, power, ECC, links, MIG layout; device minors in another order than indices",
    "a driver that hangs, dies, lacks functions, or is absent",
    "what jobs make of their GPUs: utilization, memory, energy",
    "foreign processes before jobs, leftovers after them",
    "counting and reserving by compute mode",
    "two jobs on one exclusive GPU: the second fails with error 46, exit code 134",
    "`CUDA_VISIBLE_DEVICES` means the same GPU to CUDA as to NVML",
    "a job cannot open GPUs that are not its own",
    "two clusters on one machine avoid each other's GPUs",
    "setting compute modes (`GPU_MODE` in lsb.hosts)",
    "compute modes per job: set, restored, also after crashes; changed by others",
    "MIG: devices detected, assigned, fenced by their capabilities; layouts that change",
    "MPS: one daemon for the jobs of a GPU, its end, its crash",
    "preempted jobs moved off their GPU and back with `cuda-checkpoint`",
    "containers (Podman): the job's GPUs inside, and its processes known",
    "`gsub --launch torch`: torchrun with NCCL",
    "failed GPUs: lost, XIDs received as they occur, memory errors, too hot, calls about one that hang",
    "vGPU",
)
"""Rows of the table in docs/gpu-checks.md."""
NOT_CHECKED = "not checked"


@dataclass
class Findings:
    """Of one check."""

    wrong: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)

    def expect(self, holds: object, what: str, seen: object = "") -> bool:
        """Note it when something does not hold; `seen` is told then. Returns whether it holds."""
        if not holds:
            self.wrong.append(f"not so: {what}" + (f" (seen: {str(seen)[:600]})" if seen != "" else ""))
        return bool(holds)

    def comes(self, look: Callable[[], T], what: str, seen: Callable[[], object] = str) -> T:
        """Look until what is found is true, for PATIENCE_S at most; returns what was found last."""
        began = time.monotonic()
        while not (found := look()):
            waited_s = time.monotonic() - began
            if waited_s > PATIENCE_S:
                self.expect(False, f"{what} within {PATIENCE_S:.0f} seconds", seen())
                break
            time.sleep(pause_s(waited_s))
        return found

    def measure(self, what: str, value: object) -> None:
        """Something to be told below the table."""
        self.measured.append(f"{what}: {value}")


@dataclass(frozen=True)
class Outcome:
    """Of one test: `passed`, `skipped` or `failed`, and why."""

    state: str
    why: str = ""


def cell(outcomes: Sequence[Outcome]) -> str:
    """What the table says of the checks of one row."""
    if not outcomes:
        return NOT_CHECKED
    said = [_first_line(outcome.why) for outcome in outcomes if outcome.state == "failed"]
    if said:
        return f"failed: {'; '.join(said)}"
    skipped = dict.fromkeys(_first_line(outcome.why) for outcome in outcomes if outcome.state == "skipped")
    states = ["passed"] if any(outcome.state == "passed" for outcome in outcomes) else []
    return "; ".join(states + [f"skipped: {why}" for why in skipped])


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0].strip().replace("|", "/")[:200] if lines else "?"


def table(heading: str, outcomes: Mapping[str, Sequence[Outcome]]) -> Iterable[str]:
    """Lines of a table in the form of docs/gpu-checks.md, with one column. `outcomes`: of each row's tests."""
    yield f"| what | {heading} |"
    yield "|---|---|"
    for row in ROWS:
        yield f"| {row} | {cell(outcomes.get(row, ()))} |"
