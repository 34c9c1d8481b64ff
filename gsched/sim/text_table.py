"""Files that describe a cluster or its work as tables of text: rows by column, and errors that say file and line.

It knows no column and judges no value but its form. A file is read up to MAX_BYTES.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gsched.base.errors import BadRequest

MAX_BYTES = 512 << 20
"""Largest file that is read."""


def read_text(path: str) -> str:
    """The text of a file. Raises BadRequest where it cannot be read or is no text."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadRequest(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadRequest(f"{path}: larger than {MAX_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadRequest(f"{path}:{line}: not UTF-8 text") from None


class TextRow:
    """A line of a table with a header."""

    __slots__ = ("_cells", "line", "path")

    def __init__(self, path: str, line: int, cells: Mapping[str, str]) -> None:
        self.path, self.line = path, line
        self._cells = cells

    def fault(self, text: str) -> BadRequest:
        """The error that says where this row is."""
        return BadRequest(f"{self.path}:{self.line}: {text}")

    def text(self, column: str) -> str:
        """The value; empty where there is none."""
        return self._cells.get(column, "")

    def number(self, column: str, default: float | None = None) -> float:
        """A number that is not negative. Raises BadRequest."""
        text = self.text(column)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.fault(f"{column} is {text!r}, not a number") from None
        if not math.isfinite(value) or value < 0:
            raise self.fault(f"{column} is {text}, it cannot be negative")
        return value

    def whole(self, column: str, default: int | None = None) -> int:
        """A whole number that is not negative. Raises BadRequest."""
        value = self.number(column, default)
        if value != int(value):
            raise self.fault(f"{column} is {self.text(column)}, not a whole number")
        return int(value)


def rows_of(path: str, text: str, needed: Sequence[str], delimiter: str = ",") -> Iterator[TextRow]:
    """The rows of a table that has at least these columns. Raises BadRequest."""
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader, [])]
        if header and not header[-1] and delimiter == "|":  # sacct --parsable ends each line with the delimiter
            header.pop()
        missing = [name for name in needed if name not in header]
        if missing:
            raise BadRequest(f"{path}:1: no column {', '.join(missing)}; there are {', '.join(header) or 'none'}")
        for cells in reader:
            if not cells:
                continue
            if len(cells) == len(header) + 1 and not cells[-1]:
                cells.pop()
            if len(cells) != len(header):
                raise BadRequest(f"{path}:{reader.line_num}: {len(cells)} values under {len(header)} columns")
            yield TextRow(path, reader.line_num, dict(zip(header, map(str.strip, cells), strict=True)))
    except csv.Error as error:
        raise BadRequest(f"{path}:{reader.line_num + 1}: not a table: {error}") from None


def header_of(text: str, delimiter: str = ",") -> list[str]:
    """The columns that the first line names."""
    return [name.strip() for name in text.partition("\n")[0].split(delimiter) if name.strip()]
