"""Resources that LSF's daemons report of GPUs and operating systems by themselves: gpu_mode0, gpu_maxfactor, ostype …

They need no definition in lsf.shared; a definition there, with an elim that reports it, counts before them. They can be
selected and sorted by, never reserved. Source: LSF's GPU resources (lsload -gpuload), elim.gpu's resource definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from gsched.model.gpus.gpu_error import error_word
from gsched.model.hosts.host import ComputeMode, Gpu
from gsched.model.hosts.resource import Resource, ResourceType
from gsched.model.queues.container import RUNTIMES_RESOURCE

MOST_GPUS = 32
"""LSF_HOST_MAX_GPU at the most: names end at gpu_mode31."""
PHYSICAL = "ngpus_physical"

_MODES = {
    ComputeMode.DEFAULT: 0.0,
    ComputeMode.EXCLUSIVE_THREAD: 1.0,
    ComputeMode.PROHIBITED: 2.0,
    ComputeMode.EXCLUSIVE_PROCESS: 3.0,
}
_PER_GPU = re.compile(r"gpu_[a-z]+?(0|[1-9][0-9]?)")
_NAMED = re.compile(r"\b(?:gpu_[a-z_]+(?:[0-9]+)?|ngpus_physical)\b")

ProvidedValue = float | str | None
_Table = dict[str, tuple[ResourceType, bool, str]]
"""Name -> type, whether more is worse, description."""
_NUMBER, _TEXT = ResourceType.NUMERIC, ResourceType.STRING

_OF_HOST: _Table = {
    PHYSICAL: (_NUMBER, False, "GPUs of the host"),
    "gpu_driver": (_TEXT, False, "version of the GPU driver"),
    "gpu_maxfactor": (_NUMBER, False, "largest factor (compute capability) of the host's GPUs"),
    "gpu_shared_avg_ut": (_NUMBER, True, "mean utilization of GPUs in shared mode (%)"),
    "gpu_shared_avg_mut": (_NUMBER, True, "mean memory utilization of GPUs in shared mode (%)"),
}
_OF_GPU: _Table = {
    "gpu_model": (_TEXT, False, "model"),
    "gpu_mode": (_NUMBER, False, "compute mode: 0 shared, 1 exclusive thread, 2 prohibited, 3 exclusive process"),
    "gpu_temp": (_NUMBER, True, "temperature (C)"),
    "gpu_ecc": (_NUMBER, True, "memory errors that could not be corrected"),
    "gpu_ut": (_NUMBER, True, "utilization (%)"),
    "gpu_mut": (_NUMBER, True, "memory utilization (%)"),
    "gpu_mtotal": (_NUMBER, False, "memory (MB)"),
    "gpu_mused": (_NUMBER, True, "memory in use (MB)"),
    "gpu_pstate": (_NUMBER, True, "performance state"),
    "gpu_status": (_TEXT, False, "ok or error"),
    "gpu_error": (_TEXT, False, "code of what is wrong; - for nothing"),
    "gpu_busid": (_TEXT, False, "PCI address"),
    "gpu_factor": (_NUMBER, False, "factor (compute capability)"),
}
_OF_SYSTEM: _Table = {
    "ostype": (_TEXT, False, "operating system"),
    "osrel": (_TEXT, False, "release of its kernel"),
    "osver": (_TEXT, False, "its distribution and version"),
    RUNTIMES_RESOURCE: (_TEXT, False, "programs that run containers"),
}


def provided(name: str) -> Resource | None:
    """The resource of this name, if it is one of these."""
    found = _OF_HOST.get(name) or _OF_SYSTEM.get(name)
    number = 0
    if found is None and (match := _PER_GPU.fullmatch(name)) is not None:
        found, number = _OF_GPU.get(name[: match.start(1)]), int(match[1])
    if found is None or number >= MOST_GPUS:
        return None
    kind, increasing, text = found
    return Resource(name=name, type=kind, interval_s=60, increasing=increasing, description=text, builtin=True)


def gpu_names_in(text: str) -> frozenset[str]:
    """Resources of GPUs that a requirement names, or may name."""
    return frozenset(name for name in _NAMED.findall(text) if provided(name) is not None)


def gpu_value(name: str, gpus: Sequence[Gpu], driver: str) -> ProvidedValue:
    """What a host with these GPUs has of a resource of GPUs; None: unknown, or there is no such GPU."""
    if name in _HOST_VALUES:
        return _HOST_VALUES[name](gpus, driver)
    match = _PER_GPU.fullmatch(name)
    gpu = None if match is None else next((each for each in gpus if each.index == int(match[1])), None)
    return None if gpu is None or match is None else _GPU_VALUES[name[: match.start(1)]](gpu)


def model_word(name: str) -> str:
    """`TeslaV100_PCIE_32GB` for NVML's `Tesla V100-PCIE-32GB`: one word, as LSF writes models."""
    return "".join(name.removeprefix("NVIDIA ").split()).replace("-", "_")


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _shared(gpus: Sequence[Gpu]) -> list[Gpu]:
    return [gpu for gpu in gpus if gpu.mode is ComputeMode.DEFAULT]


_HOST_VALUES: dict[str, Callable[[Sequence[Gpu], str], ProvidedValue]] = {
    PHYSICAL: lambda gpus, _: float(len(gpus)),
    "gpu_driver": lambda gpus, driver: driver or None,
    "gpu_maxfactor": lambda gpus, _: max((gpu.factor for gpu in gpus if gpu.factor is not None), default=None),
    "gpu_shared_avg_ut": lambda gpus, _: _mean(gpu.utilization_percent for gpu in _shared(gpus)),
    "gpu_shared_avg_mut": lambda gpus, _: _mean(gpu.memory_utilization_percent for gpu in _shared(gpus)),
}
_GPU_VALUES: dict[str, Callable[[Gpu], ProvidedValue]] = {
    "gpu_model": lambda gpu: model_word(gpu.model) or None,
    "gpu_mode": lambda gpu: None if gpu.mode is None else _MODES[gpu.mode],
    "gpu_temp": lambda gpu: _number(gpu.temperature_c),
    "gpu_ecc": lambda gpu: _number(gpu.ecc_errors),
    "gpu_ut": lambda gpu: _number(gpu.utilization_percent),
    "gpu_mut": lambda gpu: _number(gpu.memory_utilization_percent),
    "gpu_mtotal": lambda gpu: _number(gpu.memory_mib),
    "gpu_mused": lambda gpu: _number(gpu.used_mib),
    "gpu_pstate": lambda gpu: _number(gpu.pstate),
    "gpu_status": lambda gpu: "error" if gpu.problem else "ok",
    "gpu_error": lambda gpu: error_word(gpu.problem),
    "gpu_busid": lambda gpu: gpu.pci_bus_id or None,
    "gpu_factor": lambda gpu: gpu.factor,
}
