"""`gjdepinfo`: a row per job that another one waits for. Layout: bjdepinfo of LSF 10.1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gsched.base.ids import show_job
from gsched.cli.render.text.text_columns import cut_head, left, printable

_NAME_WIDTH = 11


class Dependence(NamedTuple):
    """`job_id` waits for `other`, or with -c the other way round; `level` steps from the job that was asked about."""

    job_id: int
    other: int
    state: str
    name: str
    level: int


def render_dependences(rows: Iterable[Dependence], *, following: bool, header: bool = True, wide: bool = False) -> str:
    """The table; `following`: the others wait (CHILD), else they are waited for (PARENT)."""
    word = "CHILD" if following else "PARENT"
    lines = [f"{'JOBID':<14} {word:<14} {word + '_STATUS':<14} {word + '_NAME':<12} LEVEL\n"] if header else []
    for row in rows:
        name = printable(row.name) if wide else cut_head(printable(row.name), _NAME_WIDTH)
        jobs = f"{show_job(row.job_id):<14} {show_job(row.other):<14}"
        lines.append(f"{jobs} {row.state:<14} {left(name, 12)} {row.level}\n")
    return "".join(lines)
