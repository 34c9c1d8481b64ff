"""The corpus of curves of GPUs that are idle, or only pause, and how well the kinds of idleness are told.

Run as a program it prints what is told wrongly, and a table: precision and recall of each kind.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gsched.agent.gpu_use.idle_clock import IdleClock
from gsched.agent.gpu_use.use_sample import UseSample
from gsched.model.gpus.gpu_idle import IdleKind
from gsched.model.gpus.gpu_use import ProcessUse

CORPUS = Path(__file__).parent / "idle_curves.txt"
STEP_S = 10.0
WINDOW_S = 1800.0
"""GPU_IDLE's own: window=30m."""
INNOCENT = "innocent"
_HEAD = re.compile(r"== (\S+) (\S+) limit=(\d+)\n# (.*)")
_LINE = re.compile(r"(hole )?(\d+) (.*)")
_FIGURE = re.compile(r"(\w+)=(?:(\d+)% (\S+) else )?(\S+)")


class Curve(NamedTuple):
    """`lines`: one after another, repeats written out."""

    kind: str
    name: str
    limit_w: float
    source: str
    lines: tuple[str, ...]


class PlayedLook(NamedTuple):
    """One sample, how long before it the last one was, and the mean power meanwhile where that was long."""

    sample: UseSample
    passed_s: float
    unseen_w: float | None = None


def curves() -> list[Curve]:
    found = []
    for entry in CORPUS.read_text().split("\n\n")[1:]:
        head = _HEAD.match(entry)
        assert head is not None, entry[:80]
        lines = entry[head.end() :].strip().splitlines()
        found.append(Curve(head[1], head[2], float(head[3]), head[4], tuple(_written_out(lines))))
    return found


def _written_out(lines: list[str]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        if lines[place].endswith(" times"):
            end = lines.index("end", place)
            yield from lines[place + 1 : end] * int(lines[place].split()[0])
            place = end
        else:
            yield lines[place]
        place += 1


def played(curve: Curve) -> Iterator[PlayedLook]:
    """Its samples; the same ones each time."""
    chance = random.Random(curve.name)
    hole: tuple[float, float] | None = None
    for line in curve.lines:
        match = _LINE.fullmatch(line)
        assert match is not None, line
        minutes, figures = int(match[2]), _FIGURE.findall(match[3])
        if match[1]:
            hole = 60.0 * minutes, float(figures[0][3])
            continue
        for _ in range(6 * minutes):
            values = {name: _value(chance, *parts) for name, *parts in figures}
            sample = _sample(values, curve.limit_w)
            yield PlayedLook(sample, STEP_S) if hole is None else PlayedLook(sample, hole[0], hole[1])
            hole = None


def _value(chance: random.Random, share: str, first: str, otherwise: str) -> float | None:
    text = first if share and chance.random() * 100 < float(share) else otherwise
    if text == "?":
        return None
    low, _, high = text.partition("..")
    return float(chance.randint(int(low), int(high or low)))


def _sample(values: dict[str, float | None], limit_w: float) -> UseSample:
    processes = values.get("procs", 1.0)
    return UseSample(
        sm_percent=values["sm"],
        sm_peak=values.get("peak"),
        traffic_percent=values.get("traffic", 0.0),
        power_w=values["power"],
        power_limit_w=limit_w,
        mem_mib=values.get("mem", 0.0),
        own=None if processes is None else tuple(ProcessUse(pid=pid) for pid in range(int(processes))),
    )


def told(curve: Curve) -> str:
    """The kind that it is warned of, the first time that it is; `innocent` if it never is."""
    clock, now = IdleClock(), 0.0
    for look in played(curve):
        now += look.passed_s
        clock.add(look.sample, now, STEP_S, unseen_w=look.unseen_w)
        idle = clock.told("h", 0, "GPU-a")
        if idle.is_known and idle.idle_s >= WINDOW_S:
            return idle.kind
    return INNOCENT


class KindScore(NamedTuple):
    right: int
    told: int
    true: int

    @property
    def precision(self) -> float:
        return self.right / self.told if self.told else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 1.0


def scores() -> dict[str, KindScore]:
    """By kind, and of `idle` at all."""
    pairs = [(curve.kind, told(curve)) for curve in curves()]
    true, found = Counter(kind for kind, _ in pairs), Counter(kind for _, kind in pairs)
    right = Counter(kind for kind, name in pairs if kind == name)
    both = sum(INNOCENT not in pair for pair in pairs)
    idle = KindScore(both, len(pairs) - found[INNOCENT], len(pairs) - true[INNOCENT])
    return {**{kind: KindScore(right[kind], found[kind], true[kind]) for kind in IdleKind}, "idle": idle}


def table() -> str:
    lines = ["| kind | curves | precision | recall |", "|---|---|---|---|"]
    for kind, score in scores().items():
        name = "idle, of whatever kind" if kind == "idle" else f"`{kind}`"
        lines.append(f"| {name} | {score.true} | {score.precision:.2f} | {score.recall:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for curve in curves():
        if told(curve) != curve.kind:
            print(f"{curve.name}: {curve.kind} taken for {told(curve)}: {curve.source}")
    print(table())
