"""Formats of squeue and sinfo: `%.18i %.9P %j`. A dot aligns to the right, a number is the width values are cut to.

Source: squeue(1) and sinfo(1) of Slurm 22.05, --format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gsched.base.errors import BadRequest

FormatRow = TypeVar("FormatRow")
_FIELD = re.compile(r"%(?P<right>\.)?(?P<width>[0-9]{1,4})?(?P<letter>[A-Za-z%])(?P<after>[^%]*)", re.ASCII)
MOST_FIELDS = 200


@dataclass(frozen=True, slots=True)
class FormatColumn(Generic[FormatRow]):
    """A field of a format."""

    heading: str
    value: Callable[[FormatRow], str]


@dataclass(frozen=True, slots=True)
class _Part(Generic[FormatRow]):
    column: FormatColumn[FormatRow]
    width: int
    is_right: bool
    after: str

    def shown(self, text: str) -> str:
        if self.width:
            text = text[: self.width].rjust(self.width) if self.is_right else text[: self.width].ljust(self.width)
        return text + self.after


class Layout(Generic[FormatRow]):
    """A format that has been read."""

    def __init__(self, text: str, columns: Mapping[str, FormatColumn[FormatRow]]) -> None:
        """Raises BadRequest naming the field that is not known."""
        start = text.find("%")
        self._before = text if start < 0 else text[:start]
        found = list(_FIELD.finditer(text)) if start >= 0 else []
        if len(found) > MOST_FIELDS:
            raise BadRequest(f"--format: more than {MOST_FIELDS} fields")
        covered = self._before + "".join(each[0] for each in found)
        if covered != text:
            raise BadRequest(f"--format: '{text[len(covered) :][:20] or text[:20]}' is no field")
        self._parts = [
            _Part(_column(each["letter"], columns), int(each["width"] or 0), bool(each["right"]), each["after"])
            for each in found
        ]

    def lines(self, rows: Iterable[FormatRow], *, header: bool) -> Iterator[str]:
        """A line for each row, and the headings before them."""
        if header:
            yield self._line([part.column.heading for part in self._parts])
        for row in rows:
            yield self._line([part.column.value(row) for part in self._parts])

    def _line(self, texts: Sequence[str]) -> str:
        shown = "".join(part.shown(text) for part, text in zip(self._parts, texts, strict=True))
        return (self._before + shown).rstrip(" ") + "\n"


def _column(letter: str, columns: Mapping[str, FormatColumn[FormatRow]]) -> FormatColumn[FormatRow]:
    column = columns.get(letter)
    if column is None:
        raise BadRequest(f"--format: %{letter} is not supported: {', '.join(sorted(columns))} are")
    return column
