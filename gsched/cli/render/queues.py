"""`gqueues` (bqueues) and `gid` (lsid). Source of the layouts: bqueues(1), lsid(1) of LSF 10.1 and its ancestor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.cli.render.fold import cell, left, printable
from gsched.cli.render.records import QueueRecord
from gsched.cli.render.thresholds import threshold_table

_HEADER = "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP\n"
_WIDE_HEADER = "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP  RSV\n"
_LONG_HEADER = "PRIO NICE STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV\n"
_SEPARATOR = "-" * 79 + "\n\n"


def render_short(queues: Iterable[QueueRecord], *, header: bool = True, wide: bool = False) -> str:
    """One row per queue; `wide` (-w) cuts nothing and adds RSV."""
    lines = [_WIDE_HEADER if wide else _HEADER] if header else []
    for queue in queues:
        name = left(queue.name, 15) if wide else cell(queue.name, 15)
        reserved = f" {queue.reserved_slots:4d}" if wide else ""
        counts = f"{queue.njobs:5d} {queue.pend:5d} {queue.run:5d} {queue.ssusp + queue.ususp:5d}"
        lines.append(f"{name} {queue.priority:4d} {left(status(queue), 13)} {_limits(queue)} {counts}{reserved}\n")
    return "".join(lines)


def status(queue: QueueRecord) -> str:
    """`Open:Active`, `Closed:Inact` …"""
    return f"{'Open' if queue.is_open else 'Closed'}:{'Active' if queue.is_active else 'Inact'}"


def _limits(queue: QueueRecord) -> str:
    user, processor, host = queue.user_limit, queue.processor_limit, queue.host_limit
    cells = (_limit(queue.job_limit, 5), _limit(user, 4), _limit(processor, 4), _limit(host, 4))
    return " ".join(cells)


def _limit(value: float | None, columns: int) -> str:
    return ("-" if value is None else f"{value:g}").rjust(columns)


def render_long(queues: Iterable[QueueRecord]) -> str:
    """-l: one record per queue, a line of dashes between them."""
    return _SEPARATOR.join("".join(_record(queue)) for queue in queues)


def _record(queue: QueueRecord) -> Iterator[str]:
    yield f"\nQUEUE: {queue.name}\n  -- {printable(queue.description) or 'No description provided.'}"
    yield "  This is the default queue.\n\n" if queue.is_default else "\n\n"
    yield "PARAMETERS/STATISTICS\n" + _LONG_HEADER
    counts = (
        f"{queue.njobs:5d} {queue.pend:5d} {queue.run:5d} {queue.ssusp:5d} {queue.ususp:5d} {queue.reserved_slots:4d}"
    )
    yield f"{queue.priority:4d} {queue.nice:4d} {left(status(queue), 13)} {_limits(queue)} {counts}\n\n"
    if queue.default_run_limit_s is not None:
        yield f"DEFAULT LIMITS:\n{_run_limit(queue.default_run_limit_s)}\n"
    if queue.run_limit_s is not None:
        yield f"MAXIMUM LIMITS:\n{_run_limit(queue.run_limit_s)}\n"
    yield "SCHEDULING PARAMETERS\n" + threshold_table(queue.external_indices) + "\n"
    yield f"USERS: {_names(queue.users, 'all users')}\n"
    yield f"HOSTS: {_names(queue.hosts, 'all')}\n"
    if queue.res_req:
        yield f"RES_REQ:  {printable(queue.res_req)}\n"


def _run_limit(seconds: int) -> str:
    return f" {'RUNLIMIT':<24}\n {seconds / 60:.1f} min\n"


def _names(names: tuple[str, ...] | None, everything: str) -> str:
    return everything if names is None else " ".join(names)


def identity(version: str, cluster: str, master: str) -> str:
    """`gid`: tools read the last two lines, and expect at least four before them."""
    return (
        f"gsched {version}, a GPU-aware batch job scheduler\n"
        "Command formats in the manner of IBM Spectrum LSF 10.1\n"
        "Licensed under the Apache License, Version 2.0\n"
        "\n"
        f"My cluster name is {cluster}\n"
        f"My master name is {master}\n"
    )
