"""`gload` (lsload): load indices of hosts. A host that is unavail shows no values; an unknown value prints `-`.

Source of the layouts: a transcript of lsload, and lsload(1), of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gsched.cli.render.hosts.host_tables import INDICES
from gsched.cli.render.text.output_formats import Field, FieldTable, FieldValue, FormatSetting
from gsched.cli.render.text.size_texts import compact_size
from gsched.cli.render.text.text_columns import cell, left, printable, right, width
from gsched.model.views.view import HostView, ResourceValue

SHORT = {"r15s": 6, "r1m": 6, "r15m": 6, "ut": 5, "pg": 6, "ls": 4, "it": 6, "tmp": 6, "swp": 6, "mem": 6}
"""Built-in index -> width of its column, blank included."""
LONG = {"r15s": 6, "r1m": 6, "r15m": 6, "ut": 5, "pg": 6, "io": 6, "ls": 4, "it": 6, "tmp": 6, "swp": 6, "mem": 6}
_SIZES = ("tmp", "swp", "mem")
_QUEUES = ("r15s", "r1m", "r15m")


def load_status(status: str) -> str:
    """lsload's word for a host's status: closing a host for jobs does not change its load status."""
    return "unavail" if status in ("unavail", "unreach") else "ok"


def columns_of(names: Iterable[str], external: Iterable[str] = ()) -> dict[str, int]:
    """The columns of these indices: built-in ones as in the long table, external ones as wide as their names."""
    widths = {**{name: max(7, width(name) + 1) for name in external}, **LONG}
    return {name: widths[name] for name in names if name in widths}


def render_load(
    hosts: Iterable[HostView],
    *,
    header: bool = True,
    wide: bool = False,
    columns: dict[str, int] = SHORT,
    name_width: int = 15,
    unit: str = "",
) -> str:
    """A line per host, in the order given. `columns`: index -> width; `unit` is that of sizes; `wide` cuts no name."""
    titles = "".join(right(name, size) for name, size in columns.items())
    lines = [f"{left('HOST_NAME', name_width)} status{titles}\n"] if header else []
    for host in hosts:
        name = left(host.name, name_width) if wide else cell(host.name, name_width)
        status = load_status(host.status)
        values = "" if status == "unavail" else "".join(_cell(host, name, columns[name], unit) for name in columns)
        lines.append(f"{name} {right(status, 6)}{values}\n")
    return "".join(lines)


def _cell(host: HostView, index: str, size: int, unit: str) -> str:
    """A value that is too wide shifts what follows it but is never glued to what precedes it."""
    return " " + right(index_text(host, index, unit) or "-", size - 1)


def index_text(host: HostView, index: str, unit: str = "") -> str:
    """An index as it is printed; empty when it is unknown."""
    if index not in INDICES:
        external = next((each for each in host.externals if each.name == index), None)
        return _external(external)
    value = host.load.get(index)
    if value is None:
        return ""
    return compact_size(value, unit) if index in _SIZES else INDICES[index][1](value)


def _external(found: ResourceValue | None) -> str:
    if found is None or (not found.text and found.total is None):
        return ""
    return printable(found.text) if found.text else f"{found.total:.1f}"


def adjusted(host: HostView, *, normalized: bool) -> HostView:
    """-E, -N: CPU run queues for each of the host's CPUs, normalized also by its CPU factor."""
    share = (host.ncpus or 1) * (host.cpu_factor if normalized and host.cpu_factor else 1.0)
    queues = {name: value / share for name in _QUEUES if (value := host.load.get(name)) is not None}
    return msgspec.structs.replace(host, load={**host.load, **queues})


def load_fields(external: Sequence[str]) -> FieldTable[HostView]:
    """The fields of `gload -o`. Indices are called in lower case in headings, too."""

    def index(name: str) -> FieldValue[HostView]:
        def value(host: HostView, setting: FormatSetting) -> str:
            return "" if load_status(host.status) == "unavail" else index_text(host, name, setting.size_unit)

        return value

    return FieldTable(
        "-o",
        (
            Field("host_name", 20, lambda host, _: host.name, ("hname",)),
            Field("status", 10, lambda host, _: load_status(host.status), heading="status"),
            *(Field(name, size, index(name), heading=name) for name, size in LONG.items()),
            *(Field(name.lower(), max(7, width(name)), index(name), heading=name) for name in external),
        ),
    )
