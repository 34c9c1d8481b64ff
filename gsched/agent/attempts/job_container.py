"""The container of an attempt on this host: which program runs it, what it sees of the host, and which GPUs.

What the site allows was checked when the job was submitted. Nothing is started here, and no image is looked at.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gsched.base.coded_text import coded
from gsched.base.errors import ResourceExhausted
from gsched.dialect.launching.launcher_names import is_launcher
from gsched.model.hosts.host import GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu
from gsched.model.queues.container import PODMAN, ContainerMount, read_mount, runtimes_of
from gsched.run.containers.container import Container
from gsched.run.containers.container_words import removal
from gsched.run.order import JobStep, Order

CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where descriptions of devices for containers lie. Source: Container Device Interface; podman-run(1), --device."""
_CDI_KIND = "nvidia.com/gpu"
_CDI_NAME = re.compile(r"""\bname["']?\s*:\s*["']?([A-Za-z0-9._:-]+)""")
_FOR_ALL_GPUS = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_MPS_FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
_LIMITS = (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
_SESSION = "XDG_RUNTIME_DIR"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class ContainerHost:
    """What of this host decides about containers."""

    name: str
    runtimes: Mapping[str, str]
    """Name -> path of the programs that run them."""
    minors: Mapping[str, int]
    """UUID -> number of a real GPU's device."""


def device_minors(report: GpuReport | None) -> dict[str, int]:
    """UUID -> number of the device of each GPU, as far as they are known."""
    gpus = report.gpus if report is not None else ()
    return {gpu.uuid: gpu.minor for gpu in gpus if gpu.minor is not None}


def runtime_for(spec: JobSpec, runtimes: Mapping[str, str]) -> str:
    """The program that runs the job's container here; empty where it has none. Raises ResourceExhausted."""
    if not spec.container:
        return ""
    wanted = runtimes_of(spec.container)
    found = next((name for name in wanted if name in runtimes), "")
    if not found:
        raise ResourceExhausted(coded("attempt.no_container_runtime", " or ".join(wanted)))
    return found


def with_container(order: Order, spec: JobSpec, host: ContainerHost, gpus: Sequence[HeldGpu], folder: str) -> Order:
    """The order with the job's container in it, and its removal behind all that follows the job.

    `gpus`: real ones that the job has here; `folder`: the attempt's. Raises ResourceExhausted.
    """
    runtime = runtime_for(spec, host.runtimes)
    if not runtime:
        return order
    user = (os.getuid(), os.getgid()) if order.account is None else (order.account.uid, order.account.gid)
    container = Container(
        runtime=runtime,
        program=host.runtimes[runtime],
        image=spec.container,
        name=_NOT_IN_NAMES.sub("-", f"gsched-{order.cluster_id[:12]}-{host.name}-{order.job_id}.{order.attempt}"),
        mounts=tuple((each.source, each.target, each.is_read_only) for each in _mounts(order, spec, folder)),
        devices=tuple(dict.fromkeys(_devices(gpus, host.minors))) if runtime == PODMAN else (),
        has_gpus=bool(gpus),
        limits=tuple(_limits(order)) if runtime == PODMAN and user[0] == 0 else (),
        user=user,
        # Of a launcher its tasks are what runs in containers.
        holds_main=order.script is not None or not is_launcher(spec.command),
    )
    line = removal(container)
    removing = (JobStep(command=line, what=coded("step.container_removal")),) if line else ()
    environment = _without_foreign_session(order.environment)
    return msgspec.structs.replace(order, container=container, environment=environment, last=(*order.last, *removing))


def _limits(order: Order) -> Iterator[str]:
    """Those of a session of the job's user, else this process's own, which the job has too: Podman of root would raise
    them as far as it can; that of others leaves them as they are.
    """
    granted = {kind: (soft, hard) for kind, soft, hard in order.granted}
    for name, kind in _LIMITS:
        soft, hard = granted.get(kind) or resource.getrlimit(kind)
        yield f"{name}={soft}:{hard}"  # -1 is infinite there, too


def _without_foreign_session(environment: dict[str, str]) -> dict[str, str]:
    """Without the folder of a session on the host of submission: Podman takes none that is not there for its own."""
    folder = environment.get(_SESSION, "")
    if not folder or os.path.isdir(folder):
        return environment
    return {name: value for name, value in environment.items() if name != _SESSION}


def _mounts(order: Order, spec: JobSpec, folder: str) -> list[ContainerMount]:
    """The working directory, the attempt's own files, those of MPS, and what the job asks for, which counts first."""
    own = [ContainerMount(order.cwd, order.cwd), ContainerMount(folder, folder, True)]
    own += [ContainerMount(path, path) for name in _MPS_FOLDERS if (path := order.environment.get(name, ""))]
    asked = [read_mount(each) for each in spec.container_mounts]
    targets = {each.target for each in asked}
    return [*asked, *(each for each in own if each.target not in targets)]


def _devices(gpus: Sequence[HeldGpu], minors: Mapping[str, int]) -> Iterator[str]:
    """As Podman names them: by CDI where the host has descriptions of them, else by their nodes."""
    described = _described() if gpus else frozenset()
    for gpu in gpus:
        names = [gpu.uuid] if gpu.parent else [gpu.uuid, str(gpu.index)]
        name = next((each for each in names if each in described), "")
        if name:
            yield f"{_CDI_KIND}={name}"
        elif gpu.parent:
            raise ResourceExhausted(coded("attempt.no_cdi", gpu.uuid))
        elif gpu.uuid in minors:
            yield f"/dev/nvidia{minors[gpu.uuid]}"
            yield from (node for node in _FOR_ALL_GPUS if os.path.exists(node))
        else:
            raise ResourceExhausted(coded("fence.no_device", gpu.index, gpu.uuid))


def _described() -> frozenset[str]:
    """Names of devices in the host's descriptions of NVIDIA's."""
    found: set[str] = set()
    for folder in CDI_FOLDERS:
        for path in sorted(folder.glob("*.yaml")) + sorted(folder.glob("*.json")):
            try:
                text = path.read_text(errors="replace")
            except OSError:
                continue
            if _CDI_KIND in text:
                found.update(_CDI_NAME.findall(text))
    return frozenset(found)
