"""`ghosts` (bhosts): tables of hosts, and the long record with its load table.

Source of the layouts: transcripts of bhosts -l and bhosts of LSF 10.1. An unknown value prints `-`, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gsched.base.coded_text import sentence
from gsched.base.units import format_scaled_mib
from gsched.cli.render.hosts.topology import long_topology
from gsched.cli.render.text.text_columns import cell, fold, left, printable, right, width
from gsched.cli.render.text.thresholds import threshold_table
from gsched.model.views.view import HostView, ResourceValue

_SHORT_HEADER = "HOST_NAME          STATUS       JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV \n"
_WIDE_HEADER = "HOST_NAME          STATUS          JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV \n"
_LONG_HEADER = "STATUS           CPUF  JL/U    MAX  NJOBS    RUN  SSUSP  USUSP    RSV DISPATCH_WINDOW\n"

_LABEL = 14
_LOAD_WIDTH = 100
"""Columns of a line of the load table: `slots` and `ngpus` still fit the first line (93 columns), as in LSF."""


def _one_decimal(value: float) -> str:
    return f"{value:.1f}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _percent(value: float) -> str:
    return f"{value * 100:.0f}%"


_Format = Callable[[float], str]
INDICES: dict[str, tuple[int, _Format]] = {
    "r15s": (6, _one_decimal),
    "r1m": (6, _one_decimal),
    "r15m": (6, _one_decimal),
    "ut": (6, _percent),
    "pg": (6, _one_decimal),
    "io": (6, _whole),
    "ls": (5, _whole),
    "it": (6, _whole),
    "tmp": (6, format_scaled_mib),
    "swp": (6, format_scaled_mib),
    "mem": (6, format_scaled_mib),
}
"""Built-in index -> width of its column, blank included, and how a value is written."""


def render_short(hosts: Iterable[HostView], *, header: bool = True) -> str:
    """`ghosts`: names cut to 18, `closed` without its subtype."""
    lines = [_SHORT_HEADER] if header else []
    for host in hosts:
        status = left(host.status.partition("_")[0], 11)
        lines.append(f"{cell(host.name, 18)} {status} {_user_slots(host)} {_counts(host)}\n")
    return "".join(lines)


def render_wide(hosts: Iterable[HostView], *, header: bool = True) -> str:
    """`ghosts -w`: nothing cut, `closed_Full` in full."""
    lines = [_WIDE_HEADER] if header else []
    lines += [f"{left(host.name, 18)} {left(host.status, 14)} {_user_slots(host)} {_counts(host)}\n" for host in hosts]
    return "".join(lines)


def gpu_count(host: HostView) -> int | None:
    """How many GPUs it has; None where nobody looks for them."""
    return len(host.gpus) if host.gpu_provider else None


def _user_slots(host: HostView) -> str:
    return right("-" if host.user_slots is None else str(host.user_slots), 5)


def _counts(host: HostView) -> str:
    maximum = "-" if host.max_slots is None else str(host.max_slots)
    counts = (host.njobs, host.run, host.ssusp, host.ususp, host.rsv)
    return f"{maximum:>6} " + "".join(f"{count:6d} " for count in counts)


def render_long(hosts: Iterable[HostView], *, topology: bool = False) -> str:
    """`ghosts -l`: one record per host, a blank line between them; with -aff their processors, too."""
    return "\n".join("".join(_record(host, topology=topology)) for host in hosts)


def _record(host: HostView, *, topology: bool) -> Iterator[str]:
    yield f"HOST  {host.name}\n{_LONG_HEADER}"
    slots = f"{_user_slots(host)} {_counts(host)}     {host.dispatch_window or '-'}"
    yield f"{left(host.status, 14)} {host.cpu_factor:6.2f} {slots}\n\n"
    yield " CURRENT LOAD USED FOR SCHEDULING:\n" + load_table(host)
    yield "\n\n LOAD THRESHOLD USED FOR SCHEDULING:\n" + threshold_table(index.name for index in host.externals)
    if host.exit_limit is not None:
        yield "\n\n" + exception_table(host.exit_limit, host.exits)
    yield f"\n\n CONFIGURED AFFINITY CPU LIST: {host.affinity or 'all'}\n"
    if topology:
        yield "\n" + long_topology(host)
    if host.comment:
        yield f'\n ADMIN ACTION COMMENT: "{printable(host.comment)}"\n'
    if host.notes:
        yield "\n NOTES:\n" + "".join(fold(f" {printable(sentence(note))};") for note in host.notes)


def exception_table(limit: int, exits: int) -> str:
    """EXIT_RATE, and how many attempts have failed."""
    rows = ((" Threshold", limit), (" Load", exits))
    table = "".join(f"\n{label:<10}{count:8.2f}" for label, count in rows)
    return f" THRESHOLD AND LOAD USED FOR EXCEPTIONS:\n           JOB_EXIT_RATE{table}"


class _Column:
    """One column of the load table: width with its leading blank, and its three texts."""

    def __init__(self, name: str, size: int, total: str, reserved: str) -> None:
        self.size = size
        self.texts = (name, total, reserved)


def load_table(host: HostView) -> str:
    """Rows Total and Reserved: built-in indices, `slots`, external ones; a further block where the line is full."""
    blocks: list[list[_Column]] = [[]]
    used = _LABEL
    for column in (*_builtin_columns(host), *(_external_column(index) for index in host.externals)):
        if used + column.size > _LOAD_WIDTH and blocks[-1]:
            blocks.append([])
            used = _LABEL
        blocks[-1].append(column)
        used += column.size
    return "\n".join(_block(columns) for columns in blocks)


def _block(columns: list[_Column]) -> str:
    labels = ("", " Total", " Reserved")
    rows = (
        label.ljust(_LABEL) + "".join(_spaced(column.texts[row], column.size) for column in columns)
        for row, label in enumerate(labels)
    )
    return "".join(row + "\n" for row in rows)


def _spaced(text: str, size: int) -> str:
    """A value that is too wide shifts what follows it but is never glued to what precedes it."""
    return " " + right(text, size - 1)


def _builtin_columns(host: HostView) -> Iterator[_Column]:
    for name, (size, text_of) in INDICES.items():
        total = host.load.get(name)
        yield _Column(name, size, "-" if total is None else text_of(total), text_of(host.reserved.get(name, 0.0)))
    yield _Column("slots", 7, "-" if host.slots_free is None else str(host.slots_free), "-")


def _external_column(index: ResourceValue) -> _Column:
    return _Column(
        index.name, 1 + max(6, width(index.name)), _external(index.text or index.total), _external(index.reserved)
    )


def _external(value: float | str | None) -> str:
    if value is None:
        return "- "
    return printable(value) if isinstance(value, str) else _one_decimal(value)
