"""Hosts as configured, GPUs as probed, load as reported.

Unknown is not zero: a value that could not be read is None, never 0.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gsched.model.queue import Threshold
from gsched.model.window import Window


class ComputeMode(StrEnum):
    """NVML's compute modes; the values are the words that `gsched sim-gpu` and inventory files use."""

    DEFAULT = "default"
    EXCLUSIVE_THREAD = "exclusive_thread"
    PROHIBITED = "prohibited"
    EXCLUSIVE_PROCESS = "exclusive_process"


COUNTER_OF_MODE: dict[ComputeMode, str] = {
    ComputeMode.DEFAULT: "ngpus_shared",
    ComputeMode.EXCLUSIVE_THREAD: "ngpus_excl_t",
    ComputeMode.PROHIBITED: "ngpuprohibited",
    ComputeMode.EXCLUSIVE_PROCESS: "ngpus_excl_p",
}
"""Which elim counter a GPU is counted in. Source: what elim.gpu of LSF 10.1 prints."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as a probe saw it. Its identity is the UUID; `index` is NVML's (nvidia-smi's) number on the host."""

    uuid: str
    index: int
    model: str = ""
    mode: ComputeMode | None = None
    """None when the probe could not read it: then the GPU is not offered."""
    memory_mib: int | None = None
    used_mib: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    pci_bus_id: str = ""
    minor: int | None = None
    problem: str = ""
    """Why the GPU must not be offered (lost, locked by another cluster …); empty when it is fine."""
    numa: int | None = None
    """Number of the socket (NUMA node) that the GPU hangs on; None when nobody knows."""
    links: tuple[str, ...] = ()
    """UUIDs of the GPUs of the host that it is linked with (NVLink, xGMI); empty when there are none, or unknown."""


class GpuReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe says about all GPUs of a host at one moment.

    `known` is False when the probe failed or hung: the counts are then unknown, not 0. A host without a driver
    library is known to have no GPU; `reason` says why in both cases.
    """

    gpus: tuple[Gpu, ...] = ()
    known: bool = True
    reason: str = ""
    provider: str = ""
    """"nvml", "simulated" or "none"."""
    driver: str = ""


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Load indices and static facts of a host at one moment. None means unknown.

    `indices` holds the built-in load indices (`ut` as a fraction 0..1, `tmp`, `swp`, `mem` in MiB);
    `external` what elims reported (numbers as floats, strings as they came; a name is absent while unknown).
    """

    indices: dict[str, float | None] = {}
    external: dict[str, float | str] = {}
    ncpus: int = 1
    maxmem_mib: float | None = None
    maxswp_mib: float | None = None
    maxtmp_mib: float | None = None
    notes: tuple[str, ...] = ()
    """Lines for `ghosts -l`: an elim that died, a value that was rubbish."""


class HostConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A row of lsf.cluster's Host section joined with its row of lsb.hosts."""

    name: str
    model: str = "!"
    type: str = "!"
    server: bool = True
    cpu_factor: float = 1.0
    resources: tuple[str, ...] = ()
    """Boolean resources that the host has."""
    values: dict[str, float | str] = {}
    """Static values of non-Boolean resources."""
    max_slots: int | None = None
    """MXJ; None means as many as the host has CPUs, -1 no limit."""
    user_slots: int | None = None
    """JL/U: slots one user may hold on the host; None no limit."""
    compute_mode: ComputeMode | None = None
    """GPU_MODE (ours): compute mode that the agent sets at its start, where it may."""
    thresholds: dict[str, Threshold] = {}
    """Load thresholds of lsb.hosts; the stricter of these and the queue's holds."""
    dispatch_window: tuple[Window, ...] = ()
    affinity: tuple[int, ...] | None = None
    """AFFINITY of lsb.hosts: the CPUs that jobs with affinity[] may have, () for all; None: there are no such jobs."""
    exclusive_resources: tuple[str, ...] = ()
    """`!resource` of lsf.cluster: only jobs that name one of them may use the host."""
    source: str = ""


class HostState(StrEnum):
    """STATUS of a host, in LSF's words."""

    OK = "ok"
    CLOSED_ADM = "closed_Adm"
    CLOSED_EXCL = "closed_Excl"
    CLOSED_CU_EXCL = "closed_Cu_Excl"
    CLOSED_WIND = "closed_Wind"
    CLOSED_FULL = "closed_Full"
    CLOSED_BUSY = "closed_Busy"
    UNAVAIL = "unavail"
    UNREACH = "unreach"
