"""The tables of a simulation as files: CSV for spreadsheets, JSON for programs. Each is written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from typing import Any

from gsched.base.errors import BadRequest
from gsched.base.machine.atomic_write import replace_file
from gsched.sim.job_table import Table

SCHEMA = 1
"""Of the JSON; a field is only ever added."""


def csv_text(table: Table) -> str:
    """The table with its columns as the first line; an unknown value is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def json_text(content: Mapping[str, Any]) -> str:
    """One object: `schema`, and what is given."""
    return json.dumps({"schema": SCHEMA, **content}, indent=1) + "\n"


def rows_of_table(table: Table) -> list[dict[str, Any]]:
    """An object for each row."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def write_files(folder: str, contents: Mapping[str, str | bytes]) -> None:
    """Write the files into the folder, which is made when it is missing. Raises BadRequest."""
    try:
        os.makedirs(folder, exist_ok=True)
        for name, content in contents.items():
            data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
            replace_file(os.path.join(folder, name), data)
    except OSError as error:
        raise BadRequest(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
