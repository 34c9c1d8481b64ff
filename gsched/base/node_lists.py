"""Lists of nodes as Slurm writes them: `n[1-3,07],gpu01`.

Source: scontrol(1) of Slurm 22.05, show hostnames and hostlist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gsched.base.errors import BadRequest

MOST_NODES = 10_000
"""Names that one list may stand for."""
_LIST = re.compile(r"[^,\[\]]*(?:\[[0-9,\-]*\][^,\[\]]*)*", re.ASCII)


def expand_nodes(text: str) -> list[str]:
    """Names of a list such as `n[1-3,07],gpu01`, in order. Raises BadRequest, also where it never ends."""
    found: list[str] = []
    for part in list_parts(text):
        for name in _expanded(part):
            found.append(name)
            if len(found) > MOST_NODES:
                raise BadRequest(f"Invalid node list '{text[:40]}': it stands for more than {MOST_NODES} nodes")
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


def _expanded(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield head
        return
    inside, _, tail = rest.partition("]")
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        if not first or "-" in last or (dash and (not last or int(last) < int(first))):
            raise BadRequest(f"Invalid node list '{part[:40]}'")
        for number in range(int(first), int(last or first) + 1):
            for end in _expanded(tail) if tail else ("",):
                yield f"{head}{number:0{len(first)}}{end}"


def fold_in_order(names: Iterable[str]) -> str:
    """`n3,n[1-2]`: neighbours that count up are folded, and each name keeps its place."""
    runs: list[list[str]] = []
    for name in names:
        if runs and fold_nodes([*runs[-1], name]) == _run(runs[-1][0], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(fold_nodes(run) for run in runs)


def _run(first: str, last: str) -> str:
    """The list from one name to the other; empty where they have no numbers of one form."""
    ends = [re.fullmatch(r"(.*?)([0-9]{1,9})", each, re.ASCII) for each in (first, last)]
    if ends[0] is None or ends[1] is None or ends[0][1] != ends[1][1] or int(ends[0][2]) >= int(ends[1][2]):
        return ""
    return f"{ends[0][1]}[{ends[0][2]}-{ends[1][2]}]"


def fold_nodes(names: Iterable[str]) -> str:
    """`n[1-3,7],gpu01`: the names with their last numbers folded, in order of names."""
    groups: dict[tuple[str, int], list[int]] = {}
    for name in sorted(set(names)):
        found = re.fullmatch(r"(.*?)([0-9]{1,9})", name, re.ASCII)
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
