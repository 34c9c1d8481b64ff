"""GPUs of hosts, a line each: `ghosts -gpu`, `gload -gpu` and `-gpuload`, `glshosts -gpu`.

Source of the layouts: transcripts of bhosts -w -gpu, lsload -gpu, lsload -gpuload and lshosts -gpu of LSF 10.1. The
host's name stands before its first GPU only. What nobody measures prints `-`, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from enum import StrEnum

import msgspec

from gsched.base.coded_text import has_code, sentence
from gsched.base.units import format_scaled_mib
from gsched.cli.render.hosts.load import load_status
from gsched.cli.render.text.text_columns import cell, head, left, printable, right
from gsched.cli.render.text.time_texts import long_stamp
from gsched.model.gpus.gpu_closure import GpuClosure
from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.hosts.reported_resources import model_word
from gsched.model.views.view import GpuView, HostView

_MODE_NUMBER = {
    ComputeMode.DEFAULT: 0,
    ComputeMode.EXCLUSIVE_THREAD: 1,
    ComputeMode.PROHIBITED: 2,
    ComputeMode.EXCLUSIVE_PROCESS: 3,
}
"""NVML's numbers."""

GpuRow = dict[str, str]
"""Column -> what stands there."""


class GpuTable(msgspec.Struct, frozen=True, kw_only=True):
    """A layout: how wide the host's name is, and each column with the blanks before it."""

    name_width: int
    columns: dict[str, int]
    ends_with_blank: bool = False
    only_json: tuple[str, ...] = ()
    """Fields of -json, where there is something to say, for which LSF's table has no column."""


USE = GpuTable(
    name_width=20,
    columns={"GPU_ID": 7, "MODEL": 21, "MUSED": 10, "MRSV": 10, "NJOBS": 7, "RUN": 7, "SUSP": 7, "RSV": 7},
    ends_with_blank=True,
    only_json=("CLOSED_BY", "CLOSED_AT", "CLOSED_UNTIL", "CLOSED_FOR"),
)
"""`ghosts -gpu`."""

SUMMARY = GpuTable(
    name_width=15,
    columns={"status": 7, "ngpus": 7, "gpu_shared_avg_mut": 20, "gpu_shared_avg_ut": 19, "ngpus_physical": 16},
)
"""`gload -gpu`."""

LOAD = GpuTable(
    name_width=15,
    columns={
        "gpuid": 6,
        "gpu_model": 12,
        "gpu_mode": 11,
        "gpu_temp": 10,
        "gpu_ecc": 10,
        "gpu_ut": 8,
        "gpu_mut": 9,
        "gpu_mtotal": 11,
        "gpu_mused": 10,
        "gpu_pstate": 13,
        "gpu_status": 13,
        "gpu_error": 12,
    },
)
"""`gload -gpuload`."""

MODELS = GpuTable(
    name_width=11, columns={"gpu_id": 7, "gpu_model": 16, "gpu_driver": 13, "gpu_factor": 13, "numa_id": 13}
)
"""`glshosts -gpu`."""

_CUT = {"MODEL": 20, "gpu_model": 11}


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs have of one GPU. Jobs as people name them."""

    running: tuple[str, ...] = ()
    suspended: tuple[str, ...] = ()
    reserved_mib: float = 0.0
    alone: bool = False
    """A job has it with j_exclusive=yes."""


Uses = Mapping[tuple[str, str], GpuUse]
"""(host, UUID) -> what jobs have of it."""


def render_table(
    table: GpuTable, rows: Iterable[tuple[str, GpuRow]], *, header: bool = True, wide: bool = False
) -> str:
    """The lines; `rows`: the host, and its row. `wide` (-w) cuts nothing."""
    lines = [_line(table, "HOST_NAME", {title: title for title in table.columns}, wide=False)] if header else []
    before = ""
    for host, row in rows:
        lines.append(_line(table, "" if host == before else host, row, wide=wide))
        before = host
    return "".join(lines)


def _line(table: GpuTable, name: str, row: GpuRow, *, wide: bool) -> str:
    cells = (
        " " + right(_cut(table, title, row.get(title, "-"), wide), size - 1) for title, size in table.columns.items()
    )
    shown = left(printable(name), table.name_width) if wide else cell(printable(name), table.name_width)
    return shown + "".join(cells) + (" \n" if table.ends_with_blank else "\n")


def _cut(table: GpuTable, title: str, text: str, wide: bool) -> str:
    if wide or title not in _CUT:
        return text
    return head(text, 15 if table is MODELS else _CUT[title])


def gpus_of(hosts: Iterable[HostView]) -> Iterator[tuple[HostView, Gpu]]:
    """Every GPU with its host, by index."""
    for host in hosts:
        for view in sorted(host.gpus, key=lambda view: view.gpu.index):
            yield host, view.gpu


def model_name(name: str) -> str:
    """The model in one word, as LSF writes it; `-` for none."""
    return model_word(printable(name)) or "-"


def gigabytes(mib: float | None) -> str:
    """`2G`, `31.7G`."""
    return "-" if mib is None else f"{mib / 1024:.1f}".removesuffix(".0") + "G"


def size(mib: float | None) -> str:
    """`542M`, `31.7G`."""
    return "-" if mib is None else format_scaled_mib(mib)


def number(value: float | None, unit: str = "") -> str:
    """With its unit; `-` when nobody knows."""
    return "-" if value is None else f"{value:g}{unit}"


def use_rows(hosts: Sequence[HostView], uses: Uses, zone: tzinfo) -> Iterator[tuple[str, GpuRow]]:
    """`ghosts -gpu`: what jobs have of each GPU."""
    closures = {(host.name, closure.uuid): closure for host in hosts for closure in closures_of(host)}
    for host, gpu in gpus_of(hosts):
        use = uses.get((host.name, gpu.uuid), GpuUse())
        yield (
            host.name,
            {
                "GPU_ID": str(gpu.index),
                "MODEL": model_name(gpu.model),
                "MUSED": gigabytes(gpu.used_mib),
                "MRSV": gigabytes(use.reserved_mib),
                "NJOBS": str(len(use.running) + len(use.suspended)),
                "RUN": str(len(use.running)),
                "SUSP": str(len(use.suspended)),
                "RSV": "0",
                **_closure_row(closures.get((host.name, gpu.uuid)), zone),
            },
        )


def _closure_row(closure: GpuClosure | None, zone: tzinfo) -> GpuRow:
    if closure is None:
        return {}
    return {
        "CLOSED_BY": closure.by,
        "CLOSED_AT": long_stamp(closure.at, zone, year=True),
        "CLOSED_UNTIL": "-" if closure.until is None else long_stamp(closure.until, zone, year=True),
        "CLOSED_FOR": closure.comment or "-",
    }


def summary_rows(hosts: Iterable[HostView]) -> Iterator[tuple[str, GpuRow]]:
    """`gload -gpu`: a line per host; utilization is the mean of the GPUs that jobs may share."""
    for host in hosts:
        status = load_status(host.status)
        count = "-" if status == "unavail" or not host.gpu_provider else str(len(host.gpus))
        shared = [view.gpu for view in host.gpus if view.gpu.mode is ComputeMode.DEFAULT]
        row = {
            "status": status,
            "ngpus": count,
            "gpu_shared_avg_mut": _mean(gpu.memory_utilization_percent for gpu in shared),
            "gpu_shared_avg_ut": _mean(gpu.utilization_percent for gpu in shared),
            "ngpus_physical": count,
        }
        yield host.name, row


def _mean(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.0f}%" if known else "-"


def load_rows(hosts: Iterable[HostView]) -> Iterator[tuple[str, GpuRow]]:
    """`gload -gpuload`: how each GPU is doing."""
    for host, gpu in gpus_of(hosts):
        row = {
            "gpuid": str(gpu.index),
            "gpu_model": model_name(gpu.model),
            "gpu_mode": "-" if gpu.mode is None else f"{_MODE_NUMBER[gpu.mode]}.0",
            "gpu_temp": number(gpu.temperature_c, "C"),
            "gpu_ecc": "-" if gpu.ecc_errors is None else f"{gpu.ecc_errors}.0",
            "gpu_ut": number(gpu.utilization_percent, "%"),
            "gpu_mut": number(gpu.memory_utilization_percent, "%"),
            "gpu_mtotal": size(gpu.memory_mib),
            "gpu_mused": size(gpu.used_mib),
            "gpu_pstate": number(gpu.pstate),
            "gpu_status": health(gpu),
            "gpu_error": printable(sentence(gpu.problem)) or "-",
        }
        yield host.name, row


def closed_gpus(hosts: Sequence[HostView], zone: tzinfo) -> str:
    """A line for each GPU that is not offered. LSF's `bhosts -gpu` has no column for it; programs read that table."""
    failed = (
        f"GPU {gpu.index} of {printable(host.name)} is not offered: {printable(sentence(gpu.problem))}\n"
        for host, gpu in gpus_of(hosts)
        if gpu.problem and not is_just_closed(gpu)
    )
    return "".join([*failed, *(line for host in hosts for line in closure_lines(host, zone, of=f" of {host.name}"))])


def closures_of(host: HostView) -> list[GpuClosure]:
    """GPUs that administrators have closed, by index; indices are those of now."""
    views = sorted(host.gpus, key=lambda view: view.gpu.index)
    return [msgspec.structs.replace(view.closure, index=view.gpu.index) for view in views if view.closure is not None]


def closure_lines(host: HostView, zone: tzinfo, of: str = "") -> list[str]:
    """Who closed each, when, until when and why."""
    return [
        printable(
            f"GPU {each.index}{of} is closed by {each.by} since {long_stamp(each.at, zone, year=True)}"
            + ("" if each.until is None else f" until {long_stamp(each.until, zone, year=True)}")
            + (f": {each.comment}" if each.comment else "")
        )
        + "\n"
        for each in closures_of(host)
    ]


def is_just_closed(gpu: Gpu) -> bool:
    """Whether nothing keeps it from jobs but an administrator."""
    return has_code(gpu.problem, "gpu.closed") or has_code(gpu.problem, "gpu.closed_because")


class GpuTrouble(StrEnum):
    """What keeps a GPU from jobs, what strikes first before the rest."""

    FOREIGN = "foreign"
    """Processes that belong to no job use it."""
    CLOSED = "closed"
    FAILED = "failed"


def trouble_of(view: GpuView) -> GpuTrouble | None:
    """None: nothing keeps it from jobs but who holds it."""
    if view.gpu.foreign_pids:
        return GpuTrouble.FOREIGN
    if view.closure is not None or is_just_closed(view.gpu):
        return GpuTrouble.CLOSED
    return GpuTrouble.FAILED if view.gpu.problem else None


def health(gpu: Gpu) -> str:
    """`ok`, `closed` by an administrator, or `error` for one that is not offered for another reason."""
    return "closed" if is_just_closed(gpu) else "error" if gpu.problem else "ok"


def model_rows(hosts: Iterable[HostView]) -> Iterator[tuple[str, GpuRow]]:
    """`glshosts -gpu`: what each GPU is."""
    for host, gpu in gpus_of(hosts):
        row = {
            "gpu_id": str(gpu.index),
            "gpu_model": model_name(gpu.model),
            "gpu_driver": printable(host.gpu_driver) or "-",
            "gpu_factor": "-" if gpu.factor is None else f"{gpu.factor:.1f}",
            "numa_id": number(gpu.numa),
        }
        yield host.name, row


def json_records(table: GpuTable, rows: Iterable[tuple[str, GpuRow]]) -> Sequence[GpuRow]:
    """The rows as -json has them: every one with its host, nothing cut."""
    return [
        {
            "HOST_NAME": name,
            **{title: row.get(title, "-") for title in table.columns},
            **{title: row[title] for title in table.only_json if title in row},
        }
        for name, row in rows
    ]
