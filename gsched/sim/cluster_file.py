"""The hosts of a simulation: from a cluster file, from a word such as `4x8xH100`, or from OpenB's list of nodes.

It makes values and runs nothing. A value that nobody has said is unknown, never 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.sim.text_table import TextRow, header_of, read_text, rows_of

MOST_HOSTS = 100_000
MOST_GPUS = 1024
"""Of one host."""
SLOTS_PER_GPU, SLOTS_WITHOUT_GPU = 16, 64
MIB_PER_SLOT = 4096
"""What a host has where nothing is said: so many slots for each GPU, or without one; so much memory for each slot."""

MEMORY_MIB = {
    "B200": 183_359, "H200": 143_771, "H100": 81_559, "H800": 81_559, "A100": 81_920, "A800": 81_920, "L40S": 46_068,
    "A40": 46_068, "A10": 23_028, "A30": 24_576, "L4": 23_034, "V100": 32_768, "P100": 16_384, "T4": 15_360,
    "K80": 11_441,
}  # fmt: skip
"""Memory of the largest GPU of a model, MiB. Source: NVIDIA's data sheets, or nvidia-smi where that is known."""

_WORD = re.compile(r"([0-9]{1,6})x([0-9]{1,4})(?:x([A-Za-z][A-Za-z0-9_.-]*))?(?::([0-9]{1,6}))?", re.ASCII)
_LIKE_WORDS = re.compile(r"[0-9]+x[^/]*\Z", re.ASCII)
"""What is no file and begins like hosts."""
_COLUMNS = (
    *("host", "count", "slots", "mem_mib", "gpus", "gpu_model", "gpu_mem_mib", "gpu_mode"),
    *("gpu_busy_w", "gpu_idle_w"),
)
_MODES = {mode.value: mode for mode in (ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedHost:
    """A host of a simulation."""

    name: str
    slots: int
    mem_mib: float
    gpus: int = 0
    gpu_model: str = ""
    gpu_mem_mib: int | None = None
    """None: nobody knows."""
    gpu_mode: ComputeMode = ComputeMode.DEFAULT
    gpu_busy_w: float | None = None
    """What a GPU takes that is held; None: nobody knows."""
    gpu_idle_w: float | None = None

    def devices(self) -> tuple[Gpu, ...]:
        """Its GPUs, as a probe would report them."""
        return tuple(
            Gpu(
                uuid=f"{self.name}-{index}",
                index=index,
                model=self.gpu_model,
                mode=self.gpu_mode,
                memory_mib=self.gpu_mem_mib,
                mode_settable=self.gpu_mode is ComputeMode.DEFAULT,
            )
            for index in range(self.gpus)
        )


def read_cluster(words: str) -> list[SimulatedHost]:
    """The hosts of a cluster file, or of words such as `4x8xH100,2x0`. Raises BadRequest."""
    if not os.path.exists(words) and _LIKE_WORDS.match(words):
        return hosts_of_words(words, "h")
    text = read_text(words)
    header = header_of(text)
    if "cpu_milli" in header:
        rows, hosts_of = rows_of(words, text, ("sn", "cpu_milli", "memory_mib", "gpu", "model")), _openb_node
    else:
        unknown = [name for name in header if name not in _COLUMNS]
        if unknown:
            raise BadRequest(f"{words}:1: there is no column {unknown[0]}; known are {', '.join(_COLUMNS)}")
        rows, hosts_of = rows_of(words, text, ("host",)), _hosts_of
    hosts: dict[str, SimulatedHost] = {}
    lines: dict[str, int] = {}
    for row in rows:
        for host in hosts_of(row):
            if host.name in hosts:
                raise row.fault(f"host {host.name} is in line {lines[host.name]} already")
            hosts[host.name], lines[host.name] = host, row.line
        if len(hosts) > MOST_HOSTS:
            raise row.fault(f"{len(hosts)} hosts, {MOST_HOSTS} are the most")
    if not hosts:
        raise BadRequest(f"{words}: no hosts")
    return list(hosts.values())


def hosts_of_words(words: str, prefix: str) -> list[SimulatedHost]:
    """HOSTSxGPUS[xMODEL][:SLOTS], several with commas between: names are `prefix` and a number. Raises BadRequest."""
    hosts: list[SimulatedHost] = []
    for word in words.split(","):
        found = _WORD.fullmatch(word)
        if found is None:
            raise BadRequest(f"{word!r} says no hosts: wanted is HOSTSxGPUS[xMODEL][:SLOTS], 2x8xH200 say")
        count, gpus, model, slots = int(found[1]), int(found[2]), found[3] or "", found[4]
        if not 1 <= count <= MOST_HOSTS or gpus > MOST_GPUS or slots == "0":
            raise BadRequest(f"{word!r}: at most {MOST_HOSTS} hosts with {MOST_GPUS} GPUs each, and at least one slot")
        room = int(slots) if slots else gpus * SLOTS_PER_GPU or SLOTS_WITHOUT_GPU
        for _ in range(count):
            hosts.append(
                SimulatedHost(
                    name=f"{prefix}{len(hosts) + 1:03}",
                    slots=room,
                    mem_mib=float(room * MIB_PER_SLOT),
                    gpus=gpus,
                    gpu_model=model,
                    gpu_mem_mib=MEMORY_MIB.get(model.upper()) if gpus else None,
                )
            )
    return hosts


def _hosts_of(row: TextRow) -> Iterator[SimulatedHost]:
    """The hosts of a line: `count` equal ones are called NAME001, NAME002 …"""
    name, count, gpus = row.text("host"), row.whole("count", 1), row.whole("gpus", 0)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name, re.ASCII):
        raise row.fault(f"{name!r} is no name of a host")
    if not 1 <= count <= MOST_HOSTS or gpus > MOST_GPUS:
        raise row.fault(f"from 1 to {MOST_HOSTS} hosts, and at most {MOST_GPUS} GPUs each")
    slots = row.whole("slots", gpus * SLOTS_PER_GPU or SLOTS_WITHOUT_GPU)
    if slots < 1:
        raise row.fault("a host has at least one slot")
    mode = _MODES.get(row.text("gpu_mode") or ComputeMode.DEFAULT.value)
    if mode is None:
        raise row.fault(f"gpu_mode is {row.text('gpu_mode')!r}; known are {', '.join(_MODES)}")
    model = row.text("gpu_model")
    memory = row.whole("gpu_mem_mib", 0) or MEMORY_MIB.get(model.upper())
    for number in range(1, count + 1):
        yield SimulatedHost(
            name=name if count == 1 else f"{name}{number:03}",
            slots=slots,
            mem_mib=row.number("mem_mib", float(slots * MIB_PER_SLOT)),
            gpus=gpus,
            gpu_model=model,
            gpu_mem_mib=memory,
            gpu_mode=mode,
            gpu_busy_w=row.number("gpu_busy_w") if row.text("gpu_busy_w") else None,
            gpu_idle_w=row.number("gpu_idle_w") if row.text("gpu_idle_w") else None,
        )


def _openb_node(row: TextRow) -> Iterator[SimulatedHost]:
    """A node of the OpenB trace. Source: the README of cluster-trace-gpu-v2023 of alibaba/clusterdata."""
    model = row.text("model")
    yield SimulatedHost(
        name=row.text("sn"),
        slots=max(1, row.whole("cpu_milli") // 1000),
        mem_mib=row.number("memory_mib"),
        gpus=row.whole("gpu"),
        gpu_model=model,
        gpu_mem_mib=MEMORY_MIB.get(model.upper()),
    )
