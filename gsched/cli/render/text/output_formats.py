"""Output chosen by the user: `-o "field[:[-][width]][:unit] ... [delimiter='c']"`, as text or as JSON.

One reader and one writer for every kind of record; the tables of fields stand in job_fields and host_fields.
Source: bjobs(1) of LSF 10.1, options -o and -json. A value that is missing prints `-`, in JSON `""`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, Generic, TypeVar

from gsched.base.errors import BadRequest
from gsched.cli.render.text.size_texts import compact_size, in_unit
from gsched.cli.render.text.text_columns import cell, cut_head, head, left, printable, right

MAX_WIDTH = 4096
_UNITS = frozenset({"S", *(unit + suffix for unit in "KMGTPEZ" for suffix in ("", "B"))})
_DELIMITER = re.compile(r"""\bdelimiter\s*=\s*(?:'([^']*)'|"([^"]*)"|(\S+))""")
_ESCAPES = {"\\t": "\t", "\\\\": "\\"}

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSetting:
    """What values depend on besides the record: time zone, the moment of the question, options -hms and -json."""

    zone: tzinfo
    now: float
    hms: bool = False
    json: bool = False
    """The value stands in JSON."""
    size_unit: str = ""
    """K, M, G or T: the unit of sizes of hosts; empty lets the size decide."""


FieldValue = Callable[[R, FormatSetting], "str | float | None"]
"""Text, a size in MiB (only for fields with a unit), or None for nothing."""


@dataclass(frozen=True, slots=True)
class Field(Generic[R]):
    """One field: its name in lower case, recommended width, where its value comes from, its other names."""

    name: str
    width: int
    value: FieldValue[R]
    aliases: tuple[str, ...] = ()
    sized: bool = False
    """Its values are sizes; a unit may follow a second colon."""
    keeps_tail: bool = False
    heading: str = ""
    """What it is called in headings and JSON; empty: its name in upper case."""
    compact: bool = False
    """Sizes stand there as in load tables: `37.6G`."""
    refused: str = ""
    """Not empty: LSF has the field, and this is why there is no value for it here; it is no part of `all`."""

    @property
    def key(self) -> str:
        return self.heading or self.name.upper()


class FieldTable(Generic[R]):
    """The fields of one kind of record, found by name or alias."""

    def __init__(self, option: str, fields: Iterable[Field[R]]) -> None:
        self.option = option
        self.fields = tuple(fields)
        self._by_name = {name: field for field in self.fields for name in (field.name, *field.aliases)}

    def field(self, name: str) -> Field[R]:
        """The field called `name`, whatever its case. Raises BadRequest naming it."""
        field = self._by_name.get(name.lower())
        if field is None:
            close = difflib.get_close_matches(name.lower(), self._by_name, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise BadRequest(f"{self.option}: unknown field '{name}'{hint}")
        if field.refused:
            raise BadRequest(f"{self.option}: field '{field.name}' is not supported: {field.refused}")
        return field


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """A field as it was asked for. `width` None: as wide as its value."""

    field: Field[R]
    width: int | None = None
    to_right: bool = False
    unit: str = ""

    def text(self, record: R, setting: FormatSetting) -> str:
        """The value as text; empty when there is none."""
        value = self.field.value(record, setting)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        return compact_size(value, self.unit or setting.size_unit) if self.field.compact else in_unit(value, self.unit)

    def laid_out(self, text: str) -> str:
        """`text` in the column's width: names keep their tail, all else its head."""
        if self.width is None:
            return text
        if self.field.keeps_tail:
            text = cut_head(text, self.width) if self.width > 1 else head(text, 1)
        return right(head(text, self.width), self.width) if self.to_right else cell(text, self.width)


@dataclass(frozen=True, slots=True)
class Format(Generic[R]):
    """Columns in order, and what stands between them."""

    columns: tuple[Column[R], ...]
    delimiter: str = " "


def parse_format(text: str, table: FieldTable[R]) -> Format[R]:
    """The format that `text` describes. Raises BadRequest naming the part that cannot be used."""
    delimiter = " "
    found = _DELIMITER.search(text)
    if found:
        written = next(group for group in found.groups() if group is not None)
        delimiter = _ESCAPES.get(written, written)
        if len(delimiter) != 1 or not (delimiter.isprintable() or delimiter == "\t"):
            raise BadRequest(f"{table.option}: delimiter '{written}' is not one character")
        text = text[: found.start()] + " " + text[found.end() :]
    columns = [column for word in text.split() for column in _columns(word, table)]
    if not columns:
        raise BadRequest(f"{table.option} names no field")
    return Format(tuple(columns), delimiter)


def _columns(word: str, table: FieldTable[R]) -> list[Column[R]]:
    name, colon, rest = word.partition(":")
    width_text, _, unit = rest.partition(":")
    everything = name.lower() in ("all", "*")
    fields = tuple(field for field in table.fields if not field.refused) if everything else (table.field(name),)
    digits = width_text.removeprefix("-")
    if digits and not (digits.isascii() and digits.isdigit() and len(digits) < 6 and 1 <= int(digits) <= MAX_WIDTH):
        raise BadRequest(f"{table.option}: '{width_text}' in '{word}' is not a width from 1 to {MAX_WIDTH}")
    if unit and (unit.upper() not in _UNITS or not (everything or fields[0].sized)):
        raise BadRequest(f"{table.option}: '{unit}' in '{word}' is not a unit that field {name} can be shown in")
    recommended = bool(colon) and not (unit and not width_text)

    def width_of(field: Field[R]) -> int | None:
        if digits:
            return int(digits)
        return field.width if recommended else None

    return [Column(field, width_of(field), width_text.startswith("-"), unit if field.sized else "") for field in fields]


def render_text(records: Iterable[R], chosen: Format[R], setting: FormatSetting, *, header: bool = True) -> str:
    """One line per record; the header has the fields' names in upper case."""
    rows: list[list[str]] = [[column.field.key for column in chosen.columns]] if header else []
    rows += [[printable(column.text(record, setting)) or "-" for column in chosen.columns] for record in records]
    return "".join(
        chosen.delimiter.join(column.laid_out(text) for column, text in zip(chosen.columns, row, strict=True)) + "\n"
        for row in rows
    )


def render_json(
    records: Iterable[R],
    chosen: Format[R],
    setting: FormatSetting,
    *,
    command: str,
    counted: str,
    errors: Sequence[dict[str, str]] = (),
) -> str:
    """The JSON of -json: every value a text, laid out as LSF does. `errors` are records of their own (JOBID, ERROR).

    `command` is LSF's name of the command (bjobs), `counted` the key of the number of records (JOBS).
    """
    setting = replace(setting, json=True)
    shown = [{column.field.key: column.text(record, setting) for column in chosen.columns} for record in records]
    return json_text([*shown, *errors], command=command, counted=counted)


def json_text(shown: Sequence[Mapping[str, str]], *, command: str, counted: str) -> str:
    """Records as LSF lays them out in JSON; see render_json."""
    lines = ["{", f'  "COMMAND":{_quoted(command)},', f'  "{counted}":{len(shown)},']
    if not shown:
        return "\n".join([*lines, '  "RECORDS":[]', "}\n"])
    objects = (
        "    {\n" + ",\n".join(f"      {_quoted(key)}:{_quoted(value)}" for key, value in record.items()) + "\n    }"
        for record in shown
    )
    return "\n".join([*lines, '  "RECORDS":[', ",\n".join(objects), "  ]", "}\n"])


def json_pieces(records: Iterable[Mapping[str, Any]], *, command: str, counted: str) -> Iterator[str]:
    """Records with numbers and lists in them, one a line, as they come: there may be many, so their number is last."""
    yield f'{{\n  "COMMAND":{_quoted(command)},\n  "RECORDS":['
    count = 0
    for count, record in enumerate(records, 1):
        yield ("\n    " if count == 1 else ",\n    ") + json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    yield f'\n  ],\n  "{counted}":{count}\n}}\n'


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def field_list(table: FieldTable[R]) -> str:
    """Names of all fields with their other names, one per line, for help texts."""
    taken = [field for field in table.fields if not field.refused]
    lines = [f"  {left(field.name, 28)}{', '.join(field.aliases)}".rstrip() for field in taken]
    refused = " ".join(field.name for field in table.fields if field.refused)
    if refused:
        lines += ["", f"Known from LSF, refused by name: {refused}"]
    return "\n".join(lines) + "\n"
