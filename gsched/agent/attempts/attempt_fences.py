"""The fence of each attempt: which devices its control group leaves it, or why there is none.

The decision is this host's: it alone knows the device minors of its GPUs and what its kernel allows. Never lets an
attempt start without the fence that was asked for: what cannot be found out is an error, and the job waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable

from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import ResourceExhausted
from gsched.model.config import GpuFence, GpuUnrequested
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.probe.nvidia.mig_device_nodes import capabilities
from gsched.probe.nvidia.render_nodes import nodes_of_vendor, render_nodes
from gsched.run.fence.cgroup_files import CHARACTER_MAJOR
from gsched.run.fence.cgroup_root import CgroupRoot
from gsched.run.order import Fence

_PATIENCE_S = 10.0
"""How long a job that has GPUs waits for the first look at them after the agent's start."""


class AttemptFences:
    """Makes the fences of attempts. `cgroup_root` is where groups can be made, or why they cannot; `others()`
    names the groups there that are not those of attempts.
    """

    def __init__(
        self,
        wanted: GpuFence,
        cgroup_root: CgroupRoot | AnyText,
        watch: GpuWatch,
        others: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._wanted = wanted
        self._cgroup_root = cgroup_root
        self._watch = watch
        self._others = others

    def clear(self, known: Iterable[str]) -> list[str]:
        """Remove groups that earlier agents left behind; names those that still hold processes."""
        return self._cgroup_root.clear([*known, *self._others()]) if isinstance(self._cgroup_root, CgroupRoot) else []

    def leave(self) -> None:
        """The agent ends: leave nothing empty behind."""
        if isinstance(self._cgroup_root, CgroupRoot):
            self._cgroup_root.leave()

    async def fence_of(self, name: str, part: HostAllocation, gpu_unrequested: str) -> Fence | None:
        """The fence of the attempt called `name`; None on a host without. Raises ResourceExhausted."""
        if not isinstance(self._cgroup_root, CgroupRoot):
            if self._wanted is GpuFence.REQUIRED and part.gpus:
                raise ResourceExhausted(coded("fence.required", self._cgroup_root))
            return None
        if not part.gpus and gpu_unrequested == GpuUnrequested.ALLOW:
            return Fence(kind=self._cgroup_root.kind, folders=self._cgroup_root.folders(name))
        return await self.fence_of_gpus(name, part)

    async def fence_of_gpus(self, name: str, part: HostAllocation) -> Fence | None:
        """What leaves a group called `name` the GPUs of this part and no others; None on a host without.

        Raises ResourceExhausted.
        """
        if not isinstance(self._cgroup_root, CgroupRoot):
            return None
        folders = self._cgroup_root.folders(name)
        report = self._watch.gpus
        if part.gpus and report is None:
            report = await self._first_report()
        minors = tuple(dict.fromkeys(_minor(held, report) for held in part.gpus))
        # Before the first look: all that could be a GPU's, for what is let in now stays in as long as the job.
        denied = _foreign(report, part) if report is not None else tuple(nodes_of_vendor())
        return Fence(kind=self._cgroup_root.kind, folders=folders, minors=minors, denied=denied)

    async def _first_report(self) -> GpuReport:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._watch.first_gpus()
        except TimeoutError:
            raise ResourceExhausted(coded("fence.no_look")) from None


def standing_note(wanted: GpuFence, cgroup_root: CgroupRoot | AnyText) -> AnyText:
    """Why jobs are not fenced, for the admin; empty when they are."""
    return "" if isinstance(cgroup_root, CgroupRoot) else coded("fence.off") if wanted is GpuFence.OFF else cgroup_root


def _minor(held: HeldGpu, report: GpuReport | None) -> int:
    """The device minor of a GPU: not its index, which is NVML's order."""
    gpu = next((gpu for gpu in report.gpus if gpu.uuid == held.board), None) if report is not None else None
    if gpu is None or gpu.minor is None:
        code = "fence.no_gpu" if gpu is None else "fence.no_device"
        raise ResourceExhausted(coded(code, held.index, held.board))
    return gpu.minor


def _foreign(report: GpuReport, part: HostAllocation) -> tuple[tuple[int, int], ...]:
    """Devices of the GPUs that are not the attempt's."""
    own = {held.board for held in part.gpus}
    others = [device for gpu in report.gpus if gpu.uuid not in own for device in _devices(gpu, report.provider)]
    return (*others, *(device for gpu in report.gpus for device in _other_parts(gpu, part, report.provider)))


def _other_parts(gpu: Gpu, part: HostAllocation, provider: str) -> list[tuple[int, int]]:
    """Devices of all instances that the GPU has, or may be given, but those of the attempt's parts of it.

    Where the driver does not name them there are none: the agent says so (MigLayouts).
    """
    own = [held for held in part.gpus if held.parent == gpu.uuid]
    known = capabilities(gpu.minor) if own and provider == "nvml" and gpu.minor is not None else None
    if known is None:
        return []
    instances = {each.uuid: (each.gpu_instance, each.compute_instance) for each in gpu.mig_devices}
    may = set()
    for held in own:
        instance, compute = instances.get(held.uuid, (None, None))
        if instance is None or compute is None:
            raise ResourceExhausted(coded("fence.no_part", held.uuid, gpu.index))
        may |= {known.get((instance, None)), known.get((instance, compute))}
    return [device for device in known.values() if device not in may]


def _devices(gpu: Gpu, provider: str) -> list[tuple[int, int]]:
    """Those that are known by number. The PCI id of a simulated GPU may be that of some real device."""
    found = [(CHARACTER_MAJOR, gpu.minor)] if gpu.minor is not None else []
    return found + (render_nodes(gpu.pci_bus_id) if provider == "nvml" and gpu.pci_bus_id else [])
