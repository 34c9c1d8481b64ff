"""The GPUs and processor units of a job, one by one, as the tables of -gpu and -aff show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from gsched.base.ids import attempt_name
from gsched.model.hosts.host import Gpu, GpuProcess, MigDevice
from gsched.model.ledgers.allocation import CpuBinding, HeldGpu, HostAllocation
from gsched.model.views.view import JobView


class AffinityUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A processor unit that a task of a job has."""

    host: str
    type: str
    """numa, socket, core or thread."""
    level: str = ""
    """cpubind="""
    exclusive: str = ""
    """Level of exclusive="""
    unit: str
    """`/NUMA/SOCKET/CORE/CPU`, cut at the type."""
    policy: str = ""
    """`local` (localonly), `pref` (localprefer) or empty."""
    nodes: str = ""


class GpuOfJob(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that a job holds. `links`: for each GPU of the job on this host Y or N (linked or not), `-` for itself."""

    host: str
    index: int
    uuid: str = ""
    """Of the GPU, or of the part of it by MIG."""
    model: str = ""
    memory_mib: float | None = None
    reserved_mib: float = 0.0
    socket: int | None = None
    links: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    """Those of the job's own that the host has told of last; of a part by MIG all that the job has on the whole GPU."""
    sizes: tuple[int, int] | None = None
    """Of a part by MIG: slices of its GPU instance and of its compute instance."""


def gpus_of(view: JobView, known: Mapping[str, Gpu]) -> tuple[GpuOfJob, ...]:
    """The GPUs that the job holds, or held; `known`: the devices of all hosts by UUID, as their probes see them now."""
    parts = view.allocation.hosts if view.allocation is not None else ()
    name = attempt_name(view.job_id, view.attempt)
    return tuple(_gpu_of(part, held, known.get(held.board), name) for part in parts for held in part.gpus)


def _gpu_of(part: HostAllocation, held: HeldGpu, gpu: Gpu | None, attempt: str) -> GpuOfJob:
    linked = gpu.links if gpu is not None and not held.parent else ()
    part_mib = {each.uuid: each.memory_mib for each in gpu.mig_devices} if gpu is not None else {}
    return GpuOfJob(
        host=part.host,
        index=held.index,
        uuid=held.uuid,
        model=gpu.model if gpu is not None else "",
        memory_mib=part_mib.get(held.uuid) if held.parent else gpu.memory_mib if gpu is not None else None,
        reserved_mib=held.gmem_mib,
        socket=gpu.numa if gpu is not None else None,
        processes=tuple(each for each in gpu.processes if each.job == attempt) if gpu is not None else (),
        sizes=MigDevice(uuid=held.uuid, profile=held.profile).sizes,
        links=tuple("-" if each.uuid == held.uuid else "Y" if each.uuid in linked else "N" for each in part.gpus),
    )


def affinity_units(view: JobView) -> tuple[AffinityUnit, ...]:
    """The processor units of a job with affinity[], task by task."""
    parts = view.allocation.hosts if view.allocation is not None else ()
    return tuple(unit for part in parts for binding in part.bindings for unit in _units(part.host, binding))


_POLICIES = {"localonly": "local", "localprefer": "pref"}


def _units(host: str, binding: CpuBinding) -> Iterator[AffinityUnit]:
    from gsched.resreq.parsing.syntax import parse  # only now: the language takes long to import

    asked = parse(binding.affinity).affinity
    if asked is None:
        return
    for task in binding.tasks:
        for unit in task.units:
            yield AffinityUnit(
                host=host,
                type=asked.unit,
                level=asked.cpubind,
                exclusive=asked.exclusive[0],
                unit=unit,
                policy=_POLICIES.get(asked.membind, ""),
                nodes=",".join(map(str, task.nodes)) if asked.membind else "",
            )
