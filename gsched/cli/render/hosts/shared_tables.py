"""Tables of -s: resources with their values and the hosts that have them. Source: bhosts(1), lsload(1) of LSF 10.1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gsched.cli.render.text.text_columns import fold_words, left, printable, right

_INDENT, _WIDTH = 52, 80


@dataclass(slots=True)
class SharedValue:
    """One instance of a resource; texts are empty for what is unknown."""

    name: str
    value: str
    reserved: str
    hosts: list[str]


def render_reserved(values: Iterable[SharedValue]) -> str:
    """`ghosts -s`: what is left and what is reserved."""
    header = "RESOURCE                 TOTAL       RESERVED       LOCATION\n"
    rows = (
        _row(left(each.name, 20) + right(printable(each.value) or "-", 10) + right(each.reserved or "-", 15), each)
        for each in values
    )
    return header + "".join(rows)


def render_values(values: Iterable[SharedValue]) -> str:
    """`gload -s` and `glshosts -s`."""
    header = "RESOURCE                                VALUE       LOCATION\n"
    return header + "".join(
        _row(left(each.name, 20) + right(printable(each.value) or "-", 25), each) for each in values
    )


def _row(start: str, each: SharedValue) -> str:
    """The hosts behind it, on further lines where one does not hold them."""
    hosts = fold_words(" ".join(each.hosts), indent=_INDENT, line_width=_WIDTH)
    return left(start, _INDENT) + hosts[_INDENT:]
