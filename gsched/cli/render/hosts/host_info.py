"""`glshosts` (lshosts) and `glsinfo` (lsinfo): what hosts are made of, and which resources there are.

Source of the layouts: lshosts(1), lsinfo(1) of LSF 10.1. What is unknown prints `-`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from gsched.base.units import format_scaled_mib
from gsched.cli.render.text.output_formats import Field, FieldTable, FieldValue
from gsched.cli.render.text.text_columns import cell, head, left, printable, right
from gsched.model.hosts.resource import LOAD_INDICES
from gsched.model.views.catalogue import ModelView, ResourceView
from gsched.model.views.view import HostView

_TITLES = ("type", "model", "cpuf", "ncpus", "maxmem", "maxswp", "server", "RESOURCES")
_SHORT, _WIDE = (7, 8, 5, 5, 6, 6, 6, 9), (10, 11, 5, 5, 6, 6, 6, 9)
_LONG_TITLES = (
    *("type", "model", "cpuf", "ncpus", "ndisks", "maxmem", "maxswp", "maxtmp", "rexpri", "server"),
    *("nprocs", "ncores", "nthreads"),
)
_LONG = (10, 11, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6, 8)
_THRESHOLDS = {"ut": 5, "ls": 5, "it": 5}
"""Columns of a load index in the table LOAD_THRESHOLDS, where they are not 6."""


def render_hosts(hosts: Iterable[HostView], *, wide: bool = False, header: bool = True) -> str:
    """One line per host; `wide` (-w) cuts nothing."""
    widths, name_width, lay = (_WIDE, 25, left) if wide else (_SHORT, 11, cell)
    lines = []
    if header:
        titles = (right(title, width) for title, width in zip(_TITLES, widths, strict=True))
        lines.append(f"{left('HOST_NAME', name_width)} {' '.join(titles)}\n")
    for host in hosts:
        facts = (host.type, host.model, f"{host.cpu_factor:.1f}", *_amounts(host), "Yes" if host.server else "No")
        texts = (
            printable(each) if wide else head(printable(each), width)
            for each, width in zip(facts, widths, strict=False)
        )
        cells = (right(each, width) for each, width in zip(texts, widths, strict=False))
        lines.append(f"{lay(host.name, name_width)} {' '.join(cells)} ({' '.join(_resources(host))})\n")
    return "".join(lines)


def _amounts(host: HostView) -> tuple[str, str, str]:
    return _count(host.ncpus), _size(host.max_mem_mib), _size(host.max_swp_mib)


def _count(number: int) -> str:
    return str(number) if number else "-"


def _size(mib: float | None) -> str:
    return "-" if mib is None else format_scaled_mib(mib)


def _resources(host: HostView) -> Iterator[str]:
    """Boolean resources, those that a job must name with a `!` before them, and values of the others."""
    for name in host.resources:
        yield f"!{name}" if name in host.exclusive_resources else name
    yield from (f"!{name}" for name in host.exclusive_resources if name not in host.resources)


def _machine(value: Callable[[HostView], str | float | None]) -> FieldValue[HostView]:
    return lambda host, _: value(host)


MACHINE_FIELDS: FieldTable[HostView] = FieldTable(
    "-o",
    (
        Field("host_name", 20, _machine(lambda host: host.name), ("hname",)),
        Field("type", 10, _machine(lambda host: host.type)),
        Field("model", 15, _machine(lambda host: host.model)),
        Field("cpuf", 10, _machine(lambda host: f"{host.cpu_factor:.1f}")),
        Field("ncpus", 8, _machine(lambda host: str(host.ncpus) if host.ncpus else None)),
        Field("maxmem", 10, _machine(lambda host: host.max_mem_mib), sized=True),
        Field("maxswp", 10, _machine(lambda host: host.max_swp_mib), sized=True),
        Field("maxtmp", 10, _machine(lambda host: host.max_tmp_mib), sized=True),
        Field("server", 8, _machine(lambda host: "Yes" if host.server else "No")),
        Field("resources", 20, _machine(lambda host: " ".join(_resources(host)) or None), ("res",)),
        Field("nprocs", 8, _machine(lambda host: _known(_processors(host)[0]))),
        Field("ncores", 8, _machine(lambda host: _known(_processors(host)[1]))),
        Field("nthreads", 8, _machine(lambda host: _known(_processors(host)[2]))),
        Field("ndisks", 8, _machine(lambda host: None)),
        Field("rexpri", 8, _machine(lambda host: "0" if host.server else None)),
    ),
)
"""Fields of `glshosts -o`. Source: lshosts(1) of LSF 10.1."""


def _known(text: str) -> str | None:
    return None if text == "-" else text


def render_hosts_long(hosts: Iterable[HostView], names: Sequence[str]) -> str:
    """-l: a record per host. `names` are those of external load indices."""
    return "".join("".join(_record(host, names)) for host in hosts)


def _record(host: HostView, names: Sequence[str]) -> Iterator[str]:
    yield f"\nHOST_NAME:  {printable(host.name)}\n"
    titles = [left(_LONG_TITLES[0], _LONG[0])]
    titles += [right(title, width) for title, width in zip(_LONG_TITLES[1:], _LONG[1:], strict=True)]
    yield " ".join(titles) + "\n"
    memory, swap = _size(host.max_mem_mib), _size(host.max_swp_mib)
    facts = (
        *(host.model, f"{host.cpu_factor:.1f}", _count(host.ncpus), "-", memory, swap, _size(host.max_tmp_mib)),
        *("0" if host.server else "-", "Yes" if host.server else "No"),
        *_processors(host),
    )
    cells = (right(printable(each), width) for each, width in zip(facts, _LONG[1:], strict=True))
    yield f"{left(printable(host.type), _LONG[0])} {' '.join(cells)}\n"
    values = [f"{name}={_value(value)}" for name, value in sorted(host.values.items())]
    if values:
        yield f"\nVALUES: {printable(' '.join(values))}\n"
    listed = " ".join(_resources(host))
    yield f"\nRESOURCES: {f'({listed})' if listed else 'Not defined'}\n"
    if not host.server:
        yield "RUN_WINDOWS: Not applicable for client-only host\n"
        return
    yield f"RUN_WINDOWS:  {host.dispatch_window or '(always open)'}\n\nLOAD_THRESHOLDS:\n"
    yield from _thresholds(host, names)


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _processors(host: HostView) -> tuple[str, str, str]:
    """Sockets, cores of one, threads of a core, as far as they are known."""
    sockets, cores, threads = (_value(host.facts.get(name, "-")) for name in ("nprocs", "ncores", "nthreads"))
    return sockets, cores, threads


def _thresholds(host: HostView, names: Sequence[str]) -> Iterator[str]:
    """What closes the host for new jobs: loadSched of lsb.hosts."""
    indices = [index.name for index in LOAD_INDICES]
    widths = {name: _THRESHOLDS.get(name, 6) for name in indices}
    widths.update({name: max(7, len(name) + 1) for name in names})
    yield "".join(right(name, width) for name, width in widths.items()) + "\n"
    shown = {name: text.partition("/")[0] for name, text in host.thresholds.items()}
    yield "".join(right(shown.get(name, "-"), width) for name, width in widths.items()) + "\n"


def render_resources(resources: Iterable[ResourceView], *, header: bool = True) -> str:
    """`glsinfo -r`: a line per resource."""
    lines = ["RESOURCE_NAME   TYPE   ORDER  DESCRIPTION\n"] if header else []
    for each in resources:
        text = printable(each.description)
        lines.append(f"{left(each.name, 13)} {right(each.type, 7)}   {left(each.order, 3)}   {text}".rstrip() + "\n")
    return "".join(lines)


def render_resources_long(resources: Iterable[ResourceView]) -> str:
    """`glsinfo -l`: a record per resource."""
    parts = []
    for each in resources:
        facts = (each.builtin, each.dynamic, each.release, each.consumable)
        answers = "".join(f"{'Yes' if fact else 'No':>9}" for fact in facts[:3]) + f"{'Yes' if facts[3] else 'No':>12}"
        parts.append(
            f"\nRESOURCE_NAME:  {each.name}\nDESCRIPTION: {printable(each.description)}\n"
            "TYPE    ORDER  INTERVAL  BUILTIN  DYNAMIC  RELEASE  CONSUMABLE\n"
            f"{left(each.type, 7)} {each.order:>5} {each.interval_s:9d}{answers}\n"
        )
    return "".join(parts)


def render_types(types: Iterable[str]) -> str:
    """`glsinfo -t`."""
    return "TYPE_NAME\n" + "".join(f"{name}\n" for name in types)


def render_models(models: Iterable[ModelView]) -> str:
    """`glsinfo -m`. Architectures are not told apart."""
    rows = (f"{left(each.name, 16)}{each.cpu_factor:10.2f}\n" for each in models)
    return "MODEL_NAME      CPU_FACTOR      ARCHITECTURE\n" + "".join(rows)
