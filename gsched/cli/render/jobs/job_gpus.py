"""The GPUs of a job one by one: GPU_ALLOCATION of `gjobs -l -gpu`, and what the job has made of them, which `ghist` and
`gacct` with `-l -gpu` print as well.

Layouts: bjobs of LSF 10.1 (FP14), and the usage that bjobs and bhist print where DCGM tells of it (transcripts). Lines
that LSF does not have come after its own. What is unknown is `-`, as LSF's factor of a GPU, and where on it a part by
MIG lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gsched.base.units import format_scaled_mib
from gsched.cli.render.hosts.gpu_tables import model_name
from gsched.cli.render.jobs.job_devices import GpuOfJob
from gsched.cli.render.text.text_columns import cell, left, printable
from gsched.model.gpu_use import GpuUsage

_COLUMNS = (
    ("HOST", 17),
    ("TASK", 5),
    ("GPU_ID", 8),
    ("GI_PLACEMENT/SIZE", 21),
    ("CI_PLACEMENT/SIZE", 21),
    ("MODEL", 13),
    ("MTOTAL", 8),
    ("FACTOR", 7),
    ("MRSV", 8),
    ("SOCKET", 7),
    ("NVLINK/XGMI", 33),
)
_MODEL_WIDTH = 12
_HOST, _GPU, _VALUE = " " * 21, " " * 24, " " * 28
_MIB = 1 << 20


def gpu_table(gpus: Iterable[GpuOfJob]) -> str:
    """The heading and the rows; the host stands on its first row alone."""
    lines = [" " + "".join(left(name, width) for name, width in _COLUMNS) + "\n"]
    host = ""
    for gpu in gpus:
        cells = (
            "" if gpu.host == host else printable(gpu.host),
            "0",
            str(gpu.index),
            *(("-", "-") if gpu.sizes is None else (f"-/{slices}" for slices in gpu.sizes)),
            cell(model_name(gpu.model), _MODEL_WIDTH),
            "-" if gpu.memory_mib is None else format_scaled_mib(gpu.memory_mib),
            "-",
            format_scaled_mib(gpu.reserved_mib),
            "-" if gpu.socket is None else str(gpu.socket),
            "/".join(gpu.links) or "-",
        )
        host = gpu.host
        lines.append(" " + "".join(left(text, width) for text, (_, width) in zip(cells, _COLUMNS, strict=True)) + "\n")
    return "\n GPU_ALLOCATION:\n" + "".join(lines)


def gpu_use_block(uses: Sequence[GpuUsage], cpu_s: float | None) -> str:
    """A group of lines for each GPU below its host, and the energy of all; empty when nothing is known of any."""
    if not any(use.is_known for use in uses):
        return ""
    lines: list[str] = []
    hosts = list(dict.fromkeys(use.host for use in uses))
    for host in hosts:
        # Of a job on several hosts only the sum is known.
        own_s = _number(cpu_s, " seconds") if len(hosts) == 1 else "-"
        lines.append(f"{_HOST}HOST: {printable(host)}; CPU_TIME: {own_s}")
        groups = ["\n".join(_group(use)) for use in uses if use.host == host]
        lines.append("\n\n".join(groups))
    known_j = [use.energy_j for use in uses if use.energy_j is not None]
    total = f"{sum(known_j):.6f} Joules" if len(known_j) == len(uses) else "-"
    return "\n".join(lines) + f"\n\n\nGPU Energy Consumed: {total}\n\n\n"


def _group(use: GpuUsage) -> Iterator[str]:
    yield f"{_GPU}GPU ID: {use.index}"
    for text in (
        f"Total Execution Time: {_number(use.covered_s if use.samples else None, ' seconds')}",
        f"Energy Consumed: {_number(use.energy_j, ' Joules')}",
        f"SM Utilization (%): {_spread(use.sm_mean, use.sm_max, use.sm_min)}",
        f"Memory Utilization (%): {_spread(use.traffic_mean, use.traffic_max, use.traffic_min)}",
        f"Max GPU Memory Used: {_bytes(use.mem_max_mib)}",
        f"Avg GPU Memory Used: {_bytes(use.mem_mean_mib)}",
        f"Median SM Utilization (%): {_number(use.sm_median)}",
        f"P95 SM Utilization (%): {_number(use.sm_p95)}",
        f"Avg Power: {_number(use.power_mean_w, ' Watts')}",
        f"Energy Source: {_energy_source(use)}",
        f"Idle Time: {_number(use.idle_s, ' seconds')}",
        f"Time Without Process: {_number(use.no_process_s, ' seconds')}",
    ):
        yield _VALUE + text


def _energy_source(use: GpuUsage) -> str:
    if use.energy_j is None:
        return "-"
    return "counter of the device" if use.energy_counted else "power readings"


def _spread(mean: float | None, high: float | None, low: float | None) -> str:
    return f"Avg {_number(mean)}, Max {_number(high)}, Min {_number(low)}"


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _bytes(mib: float | None) -> str:
    return "-" if mib is None else f"{mib * _MIB:.0f} bytes"
