"""The corpus of outputs of failed jobs, and how well their classes are told.

Run as a program it prints a table: precision and recall of each class.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from gsched.agent.output.failure_lines import failure_in
from gsched.model.jobs.failure import failure_of, judge
from gsched.model.jobs.job import AttemptResult

CORPUS = Path(__file__).parent / "failure_tails.txt"
_HEAD = re.compile(r"== (innocent )?(\S+) (exit|signal)=(\d+)")


class Tail(NamedTuple):
    """`kind`: why the job failed; `-`: it did not. `innocent`: its words would mislead."""

    kind: str
    innocent: bool
    result: AttemptResult
    source: str
    text: str


def tails() -> list[Tail]:
    found = []
    text = re.sub(r"(?m)^# The entries from here on.*\n", "", CORPUS.read_text())
    for entry in re.split(r"(?m)^(?=== )", text)[1:]:
        head, source, text = entry.split("\n", 2)
        match = _HEAD.fullmatch(head)
        assert match is not None, head
        number = int(match[4])
        result = AttemptResult(exit_code=number) if match[3] == "exit" else AttemptResult(signal=number)
        found.append(Tail(match[2], bool(match[1]), result, source, text.strip() + "\n"))
    return found


def told(tail: Tail) -> str:
    """The class that gsched finds."""
    failure = failure_of(judge(tail.result, failure_in(b"", tail.text.encode())))
    return failure.kind if failure is not None else "-"


class Score(NamedTuple):
    right: int
    told: int
    true: int

    @property
    def precision(self) -> float:
        return self.right / self.told if self.told else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 1.0


def scores() -> dict[str, Score]:
    pairs = [(tail.kind, told(tail)) for tail in tails()]
    true, found = Counter(kind for kind, _ in pairs), Counter(kind for _, kind in pairs)
    right = Counter(kind for kind, name in pairs if kind == name)
    return {kind: Score(right[kind], found[kind], true[kind]) for kind in sorted({*true, *found} - {"-"})}


def table() -> str:
    lines = ["| class | tails | precision | recall |", "|---|---|---|---|"]
    lines += [
        f"| `{kind}` | {score.true} | {score.precision:.2f} | {score.recall:.2f} |" for kind, score in scores().items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    for tail in tails():
        if told(tail) != tail.kind:
            print(f"{tail.kind} taken for {told(tail)}: {tail.source}")
    print(table())
