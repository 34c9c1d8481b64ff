"""Checking a table's columns against a schema and reading its cells, each with its place.

Like `values.KeyValues` for `KEY = value` lines: a column or a value is either used or spoken about, never passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from gsched.base.errors import BadRequest, GschedError
from gsched.config.grammar.findings import Findings, show, suggestion
from gsched.config.grammar.lsf_differences import NOT_READ_SECTIONS
from gsched.config.grammar.sections import Cell, ConfigSection, ConfigTable, TableRow, is_table, read_table

T = TypeVar("T")

THRESHOLDS = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem")
"""Columns of load thresholds, in Host sections of lsf.cluster and lsb.hosts."""

_EMPTY = Cell("")


class TableSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A table's schema. `refused` are columns that LSF knows: they may be there as long as every value is empty."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    """Column -> explanation, may be empty."""


def read_columns(section: ConfigSection, schema: TableSchema, findings: Findings) -> Iterator[TableRow]:
    """Rows of a table whose columns have been checked; none when a required column is missing."""
    table = read_table(section, findings)
    if table is None:
        return
    named = {keyword.casefold() for keyword in table.keywords}
    missing = [name for name in schema.required if name.casefold() not in named]
    if missing:
        findings.error(table.at, f"section {section.name} has no column {' and no column '.join(missing)}")
    _check_keywords(section, table, schema, findings)
    if missing:
        return
    for row in table.rows:
        if findings.is_full(row.at.path):
            return
        for name, reason in schema.refused.items():
            value = row.cells.get(name.casefold(), _EMPTY)
            if not value.is_empty:
                because = f": {reason}" if reason else ""
                findings.error(row.at, f"{name} is not supported yet (found '{show(value.text)}'){because}", name)
        yield row


def cell(row: TableRow, column: str) -> Cell:
    """The value of `column`, empty when the table has no such column."""
    return row.cells.get(column.casefold(), _EMPTY)


def read_cell(row: TableRow, column: str, read: Callable[[str], T], default: T, findings: Findings) -> T:
    """The value of `column` as `read` understands it; `default` when empty or wrong (which is reported)."""
    value = cell(row, column)
    if value.is_empty:
        return default
    try:
        return read(value.text)
    except GschedError as error:
        findings.error(row.at, f"{column}: {error.text}", column)
        return default


def read_key(row: TableRow, column: str, read: Callable[[str], str], findings: Findings) -> str | None:
    """The value that names the row; None (reported) when it is missing or wrong."""
    value = cell(row, column)
    try:
        if value.in_parentheses or not value.text:
            raise BadRequest("a name is missing")
        return read(value.text)
    except GschedError as error:
        findings.error(row.at, f"{column}: {error.text}")
        return None


def refuse_filled(section: ConfigSection, findings: Findings) -> None:
    """A section that is known but not supported: an empty one, or one with only a keyword line, says nothing."""
    filled = section.body[1:] if is_table(section) else section.body
    if filled:
        # At its Begin: it is the section as a whole that nothing comes of.
        findings.error(section.at, f"section {section.name} is not supported yet; it must be empty{_why(section)}")
    else:
        read_table(section, findings)


def _why(section: ConfigSection) -> str:
    file = os.path.basename(section.at.path)
    file = "lsf.cluster" if file.startswith("lsf.cluster.") else file
    reason = NOT_READ_SECTIONS.get(f"{file}/{section.name}", "")
    return f": {reason}" if reason else ""


def _check_keywords(section: ConfigSection, table: ConfigTable, schema: TableSchema, findings: Findings) -> None:
    known = (*schema.required, *schema.optional, *schema.refused)
    folded = {name.casefold() for name in known}
    for keyword in table.keywords:
        if keyword.casefold() not in folded:
            near = suggestion(keyword, known)
            findings.error(table.at, f"unknown column {show(keyword)} in section {section.name}{near}", keyword)
