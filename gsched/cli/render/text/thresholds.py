"""The threshold tables of bjobs -l, bhosts -l and bqueues -l. Where no threshold is given, every cell is unset.

Source of the cell texts and widths: transcripts of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gsched.base.units import format_scaled_mib
from gsched.cli.render.text.text_columns import right, width

_HEADER = "           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem\n"
_UNSET = {
    **dict.fromkeys(("r15s", "r1m", "r15m"), "   -  "),
    "ut": "   - ",
    "pg": "      - ",
    **dict.fromkeys(("io", "it"), "    - "),
    "ls": "   - ",
    **dict.fromkeys(("tmp", "swp", "mem"), "    -  "),
}
"""Built-in index -> its cell without a threshold, with the blanks around it. In the order of the columns."""
_ORDER = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem")
_ROWS = (" loadSched", " loadStop ")
_LABEL = 10
_TABLE_WIDTH = 80
_NARROWEST = 7


def threshold_table(external: Iterable[str] = (), thresholds: Mapping[str, str] | None = None) -> str:
    """The block of built-in indices, and blocks of the external ones named, a blank line between blocks.

    `thresholds`: index -> `sched/stop` in the index's unit (sizes in MiB), `-` for the one that is not set.
    """
    given = {name: text.split("/") for name, text in (thresholds or {}).items()}
    blocks = [_HEADER + "".join(_builtin_row(label, row, given) for row, label in enumerate(_ROWS))]
    for names in _blocks(external):
        widths = [max(_NARROWEST, width(name)) for name in names]
        header = "".join(right(name, size) + " " for name, size in zip(names, widths, strict=True))
        block = f"{'':{_LABEL}}{header}\n"
        for row, label in enumerate(_ROWS):
            cells = (_external(given.get(name), row) for name in names)
            line = "".join(right(text, size) + " " for text, size in zip(cells, widths, strict=True))
            block += f"{label.rstrip():{_LABEL}}{line}\n"
        blocks.append(block)
    return "\n".join(blocks)


def _builtin_row(label: str, row: int, given: Mapping[str, list[str]]) -> str:
    return label + "".join(_builtin(name, given.get(name), row) for name in _ORDER) + "\n"


def _builtin(name: str, pair: list[str] | None, row: int) -> str:
    unset = _UNSET[name]
    text = pair[row] if pair is not None and row < len(pair) else "-"
    if text == "-":
        return unset
    if name in ("tmp", "swp", "mem"):
        text = format_scaled_mib(float(text))
    elif name not in ("io", "ls", "it"):
        text = _decimal(text)
    return right(text, len(unset) - 1) + " "


def _external(pair: list[str] | None, row: int) -> str:
    return _decimal(pair[row]) if pair is not None and row < len(pair) and pair[row] != "-" else "- "


def _decimal(text: str) -> str:
    """With one decimal as LSF has it, unless that would say something else."""
    rounded = f"{float(text):.1f}"
    return rounded if float(rounded) == float(text) else text


def _blocks(external: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    used = _LABEL
    for name in external:
        size = max(_NARROWEST, width(name)) + 1
        if block and used + size > _TABLE_WIDTH:
            yield block
            block, used = [], _LABEL
        block.append(name)
        used += size
    if block:
        yield block
