"""Lists of nodes as Slurm writes them: `n[1-3,07],gpu01`.

Source: scontrol(1) of Slurm 22.05, show hostnames and hostlist.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gsched.base.errors import BadRequest

MOST_NODES = 10_000
"""Names that the lists of one call may stand for."""
MOST_CHARACTERS = 1 << 20
"""Characters that these names may have together."""
MOST_BRACKETS = 8
"""Pairs of brackets in one part of a list."""
MOST_DIGITS = 9
_LIST = re.compile(r"[^,\[\]]*(?:\[[0-9,\-]*\][^,\[\]]*)*", re.ASCII)
_PIECE = re.compile(rf"([0-9]{{1,{MOST_DIGITS}}})(?:-([0-9]{{1,{MOST_DIGITS}}}))?", re.ASCII)
_NUMBERED = re.compile(rf"(.*?)([0-9]{{1,{MOST_DIGITS}}})", re.ASCII)


_TEXT_AND_DIGITS = re.compile(r"([^0-9]*)([0-9]*)", re.ASCII)


def expand_nodes(text: str) -> list[str]:
    """Names of a list such as `n[1-3,07],gpu01`, in order. Raises BadRequest, also where it would not end."""
    return expand_lists((text,))


def expand_lists(texts: Iterable[str]) -> list[str]:
    """Names of several lists, in order: all of them together are bounded. Raises BadRequest."""
    found: list[str] = []
    characters = 0
    for text in texts:
        for part in list_parts(text):
            for name in _expanded(part, MOST_NODES - len(found), MOST_CHARACTERS - characters):
                characters += len(name)
                found.append(name)
    return found


def list_parts(text: str) -> Iterator[str]:
    """What commas outside of brackets part. Raises BadRequest for brackets that do not match."""
    position = 0
    while position <= len(text):
        found = _LIST.match(text, position)
        end = found.end() if found is not None else position
        if end < len(text) and text[end] != ",":
            raise BadRequest(f"Invalid list '{text[:40]}'")
        if part := text[position:end].strip():
            yield part
        position = end + 1


def _expanded(part: str, most: int, most_characters: int) -> list[str]:
    """The names of one part. How many they are, and how long, is checked before the first of them is made."""
    head, *rest = part.split("[")
    if len(rest) > MOST_BRACKETS:
        raise BadRequest(f"Invalid node list '{part[:40]}': it has more than {MOST_BRACKETS} pairs of brackets")
    bracketed = [each.partition("]") for each in rest]
    numbers = [[_numbers(piece, part) for piece in inside.split(",")] for inside, _, _ in bracketed]
    count = math.prod(sum(len(each) for each, _ in pieces) for pieces in numbers)
    if count > most:
        raise BadRequest(f"Invalid node list '{part[:40]}': more than {MOST_NODES} nodes are named")
    tails = sum(len(tail) for _, _, tail in bracketed)
    digits = sum(max(max(width, len(str(each[-1]))) for each, width in pieces) for pieces in numbers)
    if count * (len(head) + tails + digits) > most_characters:
        raise BadRequest(f"Invalid node list '{part[:40]}': the names have more than {MOST_CHARACTERS} characters")
    names = [head]
    for (_, _, tail), pieces in zip(bracketed, numbers, strict=True):
        texts = [f"{number:0{width}}{tail}" for each, width in pieces for number in each]
        names = [name + text for name in names for text in texts]
    return names


def _numbers(piece: str, part: str) -> tuple[range, int]:
    """The numbers of `7` or `08-10`, and how many digits they have at least. Raises BadRequest."""
    found = _PIECE.fullmatch(piece)
    first, last = (int(found[1]), int(found[2] or found[1])) if found is not None else (1, 0)
    if found is None or last < first:
        raise BadRequest(f"Invalid node list '{part[:40]}': '{piece[:20]}' is not a number or FIRST-LAST")
    return range(first, last + 1), len(found[1])


def fold_in_order(names: Iterable[str]) -> str:
    """`n3,n[1-2]`: neighbours that count up are folded, and each name keeps its place."""
    shown: list[str] = []
    run = _OpenRun("", "", 0, 0)
    for name in names:
        found = _NUMBERED.fullmatch(name)
        head, digits = (found[1], found[2]) if found is not None else (name, "")
        if run.goes_on(head, digits):
            run = replace(run, last=run.last + 1, count=run.count + 1)
            continue
        shown += run.shown()
        run = _OpenRun(head, digits, int(digits or 0), 1)
    return ",".join([*shown, *run.shown()])


@dataclass(frozen=True, slots=True)
class _OpenRun:
    """Names that count up so far. `first`: digits of the first of them, which say how wide the others are."""

    head: str
    first: str
    last: int
    count: int

    def _written(self, number: int) -> str:
        width = len(self.first) if self.first.startswith("0") else 1
        return f"{number:0{width}}"

    def goes_on(self, head: str, digits: str) -> bool:
        return bool(self.count and self.first and head == self.head and digits == self._written(self.last + 1))

    def shown(self) -> list[str]:
        if self.count > 1:
            return [f"{self.head}[{self.first}-{self._written(self.last)}]"]
        return [self.head + self.first] if self.count else []


def node_order(name: str) -> tuple[tuple[str, int], ...]:
    """Sort key: n2 before n10."""
    return tuple((text, int(digits or 0)) for text, digits in _TEXT_AND_DIGITS.findall(name))


def fold_nodes(names: Iterable[str]) -> str:
    """`n[1-3,7],gpu01`: the names with their last numbers folded, in order of names."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in sorted(set(names)):
        found = _NUMBERED.fullmatch(name)
        head, digits = (found[1], found[2]) if found is not None else (name, "")
        # n01 to n10 are one list with two digits each, n9 and n10 one without a width.
        is_padded = len(digits) > 1 and (digits.startswith("0") or (head, len(digits)) in groups)
        width = len(digits) if is_padded else min(1, len(digits))
        groups.setdefault((head, width), []).append(int(digits or 0))
    return ",".join(_folded(head, width, numbers) for (head, width), numbers in groups.items())


def _folded(head: str, width: int, numbers: Sequence[int]) -> str:
    if not width:
        return head
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    shown = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in ranges]
    return f"{head}{shown[0]}" if len(numbers) == 1 else f"{head}[{','.join(shown)}]"
