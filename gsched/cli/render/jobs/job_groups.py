"""`gjgroup` (bjgroup): one row per job group. Columns of bjgroup(1) of LSF 10.1; SLA is always empty."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.cli.render.text.text_columns import left, printable
from gsched.model.jobs.job import FINISHED, PENDING, STARTED
from gsched.model.views.view import JobGroupView

_HEADER = "GROUP_NAME       NJOBS   PEND    RUN  SSUSP  USUSP FINISH     SLA  JLIMIT  OWNER\n"


_SLOT_HEADER = "GROUP_NAME      NSLOTS   PEND    RUN  SSUSP  USUSP    RSV     SLA  OWNER\n"


def render_group_slots(groups: Iterable[JobGroupView], *, header: bool = True) -> str:
    """-N: slots instead of jobs; RSV are free ones that are kept for pending jobs."""
    lines = [_SLOT_HEADER] if header else []
    for group in groups:
        slots = group.slots
        suspended = (slots.get("SSUSP", 0), slots.get("USUSP", 0))
        started = sum(slots.get(state, 0) for state in STARTED)
        pending = sum(slots.get(state, 0) for state in PENDING)
        cells = (pending + started, pending, started - sum(suspended), *suspended, group.rsv)
        numbers = " ".join(f"{number:6d}" for number in cells)
        lines.append(f"{left(printable(group.name), 15)} {numbers} {'()':>7}  {group.owner or '-'}\n")
    return "".join(lines)


def render_groups(groups: Iterable[JobGroupView], *, header: bool = True) -> str:
    """The table. JLIMIT is `started/limit`, `started/-` without a limit."""
    lines = [_HEADER] if header else []
    for group in groups:
        counts = group.counts
        started = sum(counts.get(state, 0) for state in STARTED)
        limit = "-" if group.job_limit is None else str(group.job_limit)
        cells = (
            sum(counts.values()),
            sum(counts.get(state, 0) for state in PENDING),
            started - counts.get("SSUSP", 0) - counts.get("USUSP", 0),
            counts.get("SSUSP", 0),
            counts.get("USUSP", 0),
            sum(counts.get(state, 0) for state in FINISHED),
        )
        numbers = " ".join(f"{number:6d}" for number in cells)
        lines.append(
            f"{left(printable(group.name), 15)} {numbers} {'()':>7} {f'{started}/{limit}':>7}  {group.owner or '-'}\n"
        )
    return "".join(lines)
