"""What a job has made of each of its GPUs, as `gjobs`, `ghist` and `gacct` print it with `-l -gpu`.

Layout: what bjobs and bhist of LSF 10.1 print where DCGM tells of it (transcripts). Lines that LSF does not have come
after its own. What is unknown is `-`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched.cli.render.text.text_columns import cut_head, printable
from gsched.model.gpus.gpu_use import GpuUsage, is_mig_device

_HOST, _GPU, _VALUE = " " * 21, " " * 24, " " * 28
_MIB = 1 << 20
_NAME_WIDTH = 40


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
    part = f"; MIG DEVICE: {printable(use.uuid)}" if is_mig_device(use.uuid) else ""
    yield f"{_GPU}GPU ID: {use.index}{part}"
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
        f"Throttled Time: {_number(use.throttled_s, ' seconds')}; Power {_number(use.throttled_power_s)}, "
        f"Heat {_number(use.throttled_heat_s)}",
        f"ECC Errors: Uncorrected {_number(use.ecc_errors)}, Corrected {_number(use.ecc_corrected)}",
        f"NVLink Traffic: Sent {_bytes(use.nvlink_tx_mib)}, Received {_bytes(use.nvlink_rx_mib)}",
        f"PCIe Traffic: Sent {_bytes(use.pcie_tx_mib)}, Received {_bytes(use.pcie_rx_mib)}",
        *_profile(use),
        *_processes(use),
    ):
        yield _VALUE + text


def _profile(use: GpuUsage) -> Iterator[str]:
    """Where the device has GPM."""
    names = {
        "SM Active": use.sm_active_mean,
        "SM Occupancy": use.occupancy_mean,
        "Tensor Active": use.tensor_mean,
        "Memory Bandwidth": use.dram_mean,
    }
    return (f"{name} (%): Avg {value:.0f}" for name, value in names.items() if value is not None)


def _processes(use: GpuUsage) -> Iterator[str]:
    """Of one attempt, those that used it most first."""
    for each in use.processes:
        name = cut_head(printable(each.name), _NAME_WIDTH) or "-"
        source = "accounting" if each.is_accounted else "samples"
        yield (
            f"Process {each.pid} {name}: {_number(each.seconds)} seconds; "
            f"SM Utilization (%): Avg {_number(each.sm_mean)}, Max {_number(each.sm_max)}; "
            f"Max GPU Memory Used: {_bytes(each.mem_max_mib)}; by {source}"
        )
    if use.more_processes:
        yield f"Other Processes: {use.more_processes}"


def _energy_source(use: GpuUsage) -> str:
    if use.energy_j is None:
        return "-"
    return "counter of the device" if use.energy_counted else "power readings, at least in part"


def _spread(mean: float | None, high: float | None, low: float | None) -> str:
    return f"Avg {_number(mean)}, Max {_number(high)}, Min {_number(low)}"


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _bytes(mib: float | None) -> str:
    return "-" if mib is None else f"{mib * _MIB:.0f} bytes"
