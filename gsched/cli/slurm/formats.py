"""Formats of squeue, sinfo and sprio: `%.18i %.9P %j` of --format, `JobID:.18,State:10` of --Format.

A dot aligns to the right, a number is the width that values are cut to. Source: squeue(1) and sinfo(1) of Slurm 22.05.

Values are texts of others: none of them may reach a terminal with control characters, or look like another field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gsched.base.errors import BadRequest
from gsched.cli.render.text.text_columns import printable

FormatRow = TypeVar("FormatRow")
_FIELD = re.compile(r"%(?P<right>\.)?(?P<width>[0-9]{1,4})?(?P<letter>[A-Za-z%])(?P<after>[^%]*)", re.ASCII)
_NAMED = re.compile(r"(?P<name>[^:]*)(?::(?P<right>\.)?(?P<width>[0-9]{1,4})?(?P<after>.*))?", re.ASCII | re.DOTALL)
MOST_FIELDS = 200
_NAMED_WIDTH = 20
_IN_WORDS = frozenset("/._- ")
"""What stands in names and paths: where a format has it between fields, nobody can split the line at it anyway."""


def separators(text: str) -> frozenset[str]:
    """What may not stand in a field: the characters of what parts fields; letters and digits only where it has no
    others.
    """
    return frozenset(char for char in text if not char.isalnum()) or frozenset({text} - {""})


def shielded(text: str, between: frozenset[str], *, is_free: bool) -> str:
    """A value as one printable line in which nothing of `between` stands.

    `is_free`: users choose this text; in others, such as times and lists of nodes, only the bar is replaced.
    """
    text = printable(text)
    for each in between:
        if each in text and (is_free or each == "|"):
            text = text.replace(each, "_" if "?" in between else "?")
    return text


@dataclass(frozen=True, slots=True)
class FormatColumn(Generic[FormatRow]):
    """A field of a format."""

    heading: str
    value: Callable[[FormatRow], str]
    is_free: bool = False
    """Users choose the text."""


@dataclass(frozen=True, slots=True)
class _Part(Generic[FormatRow]):
    column: FormatColumn[FormatRow]
    width: int
    is_right: bool
    after: str

    def value(self, row: FormatRow, between: frozenset[str]) -> str:
        return shielded(self.column.value(row), between, is_free=self.column.is_free)

    def shown(self, text: str) -> str:
        if self.width:
            text = text[: self.width].rjust(self.width) if self.is_right else text[: self.width].ljust(self.width)
        return text + self.after


class Layout(Generic[FormatRow]):
    """A format that has been read."""

    def __init__(self, parts: Sequence[_Part[FormatRow]], before: str = "") -> None:
        self._parts = parts
        self._before = before
        self._between = separators("".join([before, *(part.after for part in parts)])) - _IN_WORDS

    def lines(self, rows: Iterable[FormatRow], *, header: bool) -> Iterator[str]:
        """A line for each row, and the headings before them."""
        if header:
            yield self._line([part.column.heading for part in self._parts])
        for row in rows:
            yield self._line([part.value(row, self._between) for part in self._parts])

    def _line(self, texts: Sequence[str]) -> str:
        shown = "".join(part.shown(text) for part, text in zip(self._parts, texts, strict=True))
        return (self._before + shown).rstrip(" ") + "\n"


def by_letters(text: str, columns: Mapping[str, FormatColumn[FormatRow]]) -> Layout[FormatRow]:
    """Of --format. Raises BadRequest naming the field that is not known."""
    if text.strip() == "%all":
        columns = dict(sorted(columns.items()))
        last = len(columns) - 1
        return Layout([_Part(each, 0, False, "|" if at < last else "") for at, each in enumerate(columns.values())])
    start = text.find("%")
    before = text if start < 0 else text[:start]
    found = list(_FIELD.finditer(text)) if start >= 0 else []
    if len(found) > MOST_FIELDS:
        raise BadRequest(f"--format: more than {MOST_FIELDS} fields")
    covered = before + "".join(each[0] for each in found)
    if covered != text:
        raise BadRequest(f"--format: '{text[len(covered) :][:20] or text[:20]}' is no field")
    parts = [
        _Part(_column(each["letter"], columns), int(each["width"] or 0), bool(each["right"]), each["after"])
        for each in found
    ]
    return Layout(parts, before)


def by_names(text: str, columns: Mapping[str, FormatColumn[FormatRow]]) -> Layout[FormatRow]:
    """Of --Format: names in any case. Raises BadRequest naming the field that is not known."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    if not names or len(names) > MOST_FIELDS:
        raise BadRequest(f"--Format: 1 to {MOST_FIELDS} fields are named")
    parts: list[_Part[FormatRow]] = []
    for each in names:
        found = _NAMED.fullmatch(each)
        name = found["name"].lower() if found is not None else ""
        if found is None or name not in columns:
            raise BadRequest(f"Invalid job format specification: {each[:40]}")
        width = int(found["width"]) if found["width"] else _NAMED_WIDTH
        parts.append(_Part(columns[name], width, bool(found["right"]), found["after"] or ""))
    return Layout(parts)


def _column(letter: str, columns: Mapping[str, FormatColumn[FormatRow]]) -> FormatColumn[FormatRow]:
    column = columns.get(letter)
    if column is None:
        raise BadRequest(f"--format: %{letter} is not supported: {', '.join(sorted(columns))} are")
    return column
