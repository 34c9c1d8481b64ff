"""The tables of a simulation as files: CSV for spreadsheets, JSON for programs. Each is written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from gsched.base.errors import BadRequest
from gsched.base.machine.atomic_write import replace_file
from gsched.sim.job_table import Table

SCHEMA = 1
"""Of the JSON; a field is only ever added."""
_OF_ONE = {
    "jobs": b"job,user,queue,",
    "users": b"user,jobs,ended,",
    "queues": b"queue,jobs,ended,",
    "series": b"time_s,gpus_held,slots_held,",
}
_HEADERS = {
    **{f"{which}{name}": header for which in ("", "before-", "after-") for name, header in _OF_ONE.items()},
    "changes": b"user,jobs,wait_before_s,",
    "sweep": b"value,hosts,gpus,",
    "fill": b"asked_share,allocated_share,fragment_share\n",
}
"""All tables that are ever written, and how each begins."""


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


def write_tables(folder: str, tables: Mapping[str, Table]) -> None:
    """Write the tables into the folder, each as NAME.csv, and take away those of an earlier run that this one does not
    have. What somebody else wrote under such a name remains. Raises BadRequest.
    """
    write_files(folder, {f"{name}.csv": csv_text(table) for name, table in tables.items()})
    for name, header in _HEADERS.items():
        if name not in tables:
            _remove_table(os.path.join(folder, f"{name}.csv"), header)


def refuse_input(folder: str | None, inputs: Sequence[str]) -> None:
    """Raises BadRequest where a table in the folder would take the place of one of these files."""
    for name in _HEADERS if folder is not None else ():
        path = os.path.join(folder or "", f"{name}.csv")
        for each in inputs:
            if os.path.exists(path) and os.path.exists(each) and os.path.samefile(path, each):
                raise BadRequest(f"--csv {folder}: a table would take the place of {each}, which is read")


def _remove_table(path: str, header: bytes) -> None:
    try:
        with open(path, "rb") as file:
            is_ours = file.read(len(header)) == header
        if is_ours:
            os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadRequest(f"{path}: cannot be taken away, and is of an earlier run: {error.strerror}") from None


def write_files(folder: str, contents: Mapping[str, str | bytes]) -> None:
    """Write the files into the folder, which is made when it is missing. Raises BadRequest."""
    try:
        os.makedirs(folder, exist_ok=True)
        for name, content in contents.items():
            data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
            replace_file(os.path.join(folder, name), data)
    except OSError as error:
        raise BadRequest(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
