"""The threshold tables of bjobs -l, bhosts -l and bqueues -l. gsched has no load thresholds: every cell is unset.

Source of the cell texts: transcripts of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.cli.render.fold import right, width

_BUILTIN = (
    "           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem\n"
    " loadSched   -     -     -     -       -     -    -     -     -      -      -  \n"
    " loadStop    -     -     -     -       -     -    -     -     -      -      -  \n"
)
_LABEL = 10
_TABLE_WIDTH = 80
_NARROWEST = 7


def threshold_table(external: Iterable[str] = ()) -> str:
    """The block of built-in indices, and blocks of the external ones named, a blank line between blocks."""
    blocks = [_BUILTIN]
    for names in _blocks(external):
        widths = [max(_NARROWEST, width(name)) for name in names]
        header = "".join(right(name, size) + " " for name, size in zip(names, widths, strict=True))
        unset = "".join(right("- ", size) + " " for size in widths)
        blocks.append(f"{'':{_LABEL}}{header}\n{' loadSched':{_LABEL}}{unset}\n{' loadStop':{_LABEL}}{unset}\n")
    return "\n".join(blocks)


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
