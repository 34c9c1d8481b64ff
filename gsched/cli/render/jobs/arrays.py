"""`gjobs -A`: one row per job array. Columns of bjobs(1) of LSF 10.1."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.ids import array_of
from gsched.cli.render.text.text_columns import cell, left, printable
from gsched.model.views.view import ArrayView

_HEADER = "JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP\n"
_AS_RUNNING = ("RUN", "UNKWN", "ZOMBI")


def render_arrays(arrays: Iterable[ArrayView], *, header: bool = True, wide: bool = False) -> str:
    """The table; `wide` (-w) cuts nothing."""
    lines = [_HEADER] if header else []
    for array in arrays:
        name, owner = printable(array.name), printable(array.user)
        counts = array.counts
        running = sum(counts.get(state, 0) for state in _AS_RUNNING)
        lines.append(
            f"{array_of(array.job_id):<7d}  {left(name, 8) if wide else cell(name, 8)} "
            f"{owner.rjust(8) if wide else cell(owner, 8).rstrip().rjust(8)}   {sum(counts.values()):5d} "
            f"{counts.get('PEND', 0):4d} {counts.get('DONE', 0):4d} {running:4d} {counts.get('EXIT', 0):4d} "
            f"{counts.get('SSUSP', 0):5d} {counts.get('USUSP', 0):5d} {counts.get('PSUSP', 0):5d}\n"
        )
    return "".join(lines)
