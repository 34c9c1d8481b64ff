"""Resources: what a requirement string may name. Built-in load indices, and those that lsf.shared defines.

Source of names, kinds, directions and intervals: LSF's built-in resource table and lsf.shared(5).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ResourceType(StrEnum):
    """TYPE column of lsf.shared."""

    BOOLEAN = "Boolean"
    STRING = "String"
    NUMERIC = "Numeric"


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource. `interval_s` is None for a static one; `increasing` means that larger is more load."""

    name: str
    type: ResourceType = ResourceType.NUMERIC
    interval_s: int | None = None
    increasing: bool = False
    consumable: bool = False
    release: bool = True
    description: str = ""
    builtin: bool = False
    source: str = ""
    """`file:line` of the definition; empty for a built-in one."""


def _index(name: str, interval_s: int, increasing: bool, description: str) -> Resource:
    return Resource(
        name=name,
        interval_s=interval_s,
        increasing=increasing,
        consumable=not increasing,
        description=description,
        builtin=True,
    )


def _static(name: str, type_: ResourceType, description: str) -> Resource:
    return Resource(name=name, type=type_, description=description, builtin=True)


LOAD_INDICES: tuple[Resource, ...] = (
    _index("r15s", 15, True, "15-second CPU run queue length"),
    _index("r1m", 15, True, "1-minute CPU run queue length"),
    _index("r15m", 15, True, "15-minute CPU run queue length"),
    _index("ut", 15, True, "1-minute CPU utilization (0 to 1)"),
    _index("pg", 15, True, "paging rate (pages per second)"),
    _index("io", 15, True, "disk I/O rate (KB per second)"),
    _index("ls", 30, True, "number of login users"),
    _index("it", 30, False, "idle time (minutes)"),
    _index("tmp", 120, False, "free space in /tmp (MB)"),
    _index("swp", 15, False, "free swap space (MB)"),
    _index("mem", 15, False, "free memory (MB)"),
)
"""The eleven built-in load indices in the order that LSF's tables print them."""

STATIC_RESOURCES: tuple[Resource, ...] = (
    _static("type", ResourceType.STRING, "host type"),
    _static("model", ResourceType.STRING, "host model"),
    _static("status", ResourceType.STRING, "host status"),
    _static("hname", ResourceType.STRING, "host name"),
    _static("ncpus", ResourceType.NUMERIC, "number of CPUs"),
    _static("nprocs", ResourceType.NUMERIC, "number of physical processors"),
    _static("ncores", ResourceType.NUMERIC, "number of cores of a processor"),
    _static("nthreads", ResourceType.NUMERIC, "number of threads of a core"),
    _static("ndisks", ResourceType.NUMERIC, "number of local disks"),
    _static("maxmem", ResourceType.NUMERIC, "maximum memory (MB)"),
    _static("maxswp", ResourceType.NUMERIC, "maximum swap space (MB)"),
    _static("maxtmp", ResourceType.NUMERIC, "maximum space in /tmp (MB)"),
    _static("cpuf", ResourceType.NUMERIC, "CPU factor"),
    _static("rexpri", ResourceType.NUMERIC, "remote execution priority"),
    _static("server", ResourceType.BOOLEAN, "server host"),
    _static("slots", ResourceType.NUMERIC, "free job slots"),
    _static("maxslots", ResourceType.NUMERIC, "job slots of the host"),
)

BUILTIN: dict[str, Resource] = {resource.name: resource for resource in (*LOAD_INDICES, *STATIC_RESOURCES)}

GPU_COUNTERS: tuple[str, ...] = ("ngpus", "ngpus_shared", "ngpus_excl_t", "ngpuprohibited", "ngpus_excl_p")
"""Resources whose values are projections of a host's devices. In rusage they are claims on devices."""


def gpu_counter_claims() -> tuple[str, ...]:
    """The counters that a job may claim; a prohibited GPU is never used."""
    return tuple(name for name in GPU_COUNTERS if name != "ngpuprohibited")
