"""A host's resource values, from configuration and observation: what select[] sees and the tables show.

A dynamic value that has not been reported is None (unknown), never 0. GPU counters are present, with whatever value,
where they are mapped; their numbers come from the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_

from gsched.core.resources.observed_hosts import Observation
from gsched.model.config import ClusterConfig
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.reported_resources import ProvidedValue, gpu_value
from gsched.model.hosts.resource import GPU_COUNTERS, LOAD_INDICES, ResourceType
from gsched.model.hosts.topology import Processor, offered
from gsched.model.queues.container import RUNTIMES_RESOURCE
from gsched.resreq.judging.host_types import LINUX, TYPE_NAMES, type_names

LOCAL_TYPE = LINUX
"""Host type that a host with `!` has: gsched runs on Linux."""

UNKNOWN_MODEL = "UNKNOWN_AUTO_DETECT"
"""Host model that a host with `!` has, as lshosts(1) shows one that is not detected."""

_UNKNOWN_LOAD: dict[str, None] = dict.fromkeys(index.name for index in LOAD_INDICES)


_NO_FACTS: dict[str, None] = dict.fromkeys(
    ("nprocs", "ncores", "nthreads", "ostype", "osrel", "osver", RUNTIMES_RESOURCE)
)


def host_type(host: HostConfig) -> str:
    """The host's type; `!` is detected."""
    return LOCAL_TYPE if host.type in ("!", "") else host.type


def host_model(host: HostConfig) -> str:
    """The host's model; models are not detected."""
    return UNKNOWN_MODEL if host.model in ("!", "") else host.model


def host_values(config: ClusterConfig, host: HostConfig, seen: Observation) -> dict[str, float | str | bool | None]:
    """Resource name -> value on the host, before reservations. The caller may change what it gets.

    The same as the last time where nothing was reported since: a host's views and matches ask at each start and end.
    """
    if config.shared_on(host.name):  # they are reported for many hosts at once
        return _found_values(config, host, seen)
    basis = (config, host, seen.connected, seen.load, seen.topology, seen.gpus, seen.roll.gpu_names)
    kept = seen.kept_values
    if kept is None or not all(map(is_, kept[0], basis)):
        kept = seen.kept_values = (basis, _found_values(config, host, seen))
    return kept[1].copy()


def _found_values(config: ClusterConfig, host: HostConfig, seen: Observation) -> dict[str, float | str | bool | None]:
    load = seen.load
    indices = load.indices if load is not None and seen.connected else {}
    if indices.keys() - _UNKNOWN_LOAD.keys():
        indices = {name: value for name, value in indices.items() if name in _UNKNOWN_LOAD}
    values: dict[str, float | str | bool | None] = {**_UNKNOWN_LOAD, **indices}
    values.update(type=host_type(host), model=host_model(host), status="ok", hname=host.name, cpuf=host.cpu_factor)
    values.update(server=host.server, rexpri=0.0, ndisks=None)
    values.update(
        ncpus=None if load is None else float(load.ncpus),
        maxmem=None if load is None else load.maxmem_mib,
        maxswp=None if load is None else load.maxswp_mib,
        maxtmp=None if load is None else load.maxtmp_mib,
    )
    values |= _NO_FACTS
    values |= facts(seen)
    names = type_names(str(values["type"]), load.machine if load is not None and seen.connected else "")
    values[TYPE_NAMES] = " ".join(names)
    slots = slot_limit(host, seen)
    values["maxslots"] = float("inf") if slots is None else float(slots)
    for resource in config.resources.values():
        if resource.type is ResourceType.BOOLEAN:
            values[resource.name] = resource.name in host.resources
    external = load.external if load is not None and seen.connected else {}
    for name in config.external_on(host.name):
        values[name] = external.get(name) if name not in GPU_COUNTERS else None
    for name, instance in config.shared_on(host.name).items():
        values[name] = seen.roll.shared.get(instance.key) if instance.value is None else instance.value
    values.update(host.values)
    if seen.roll.gpu_names:
        _add_gpu_values(values, seen)
    return values


def facts(seen: Observation) -> dict[str, float | str]:
    """What the agent found out about the host that does not change: its processors, its operating system."""
    load = seen.load if seen.connected else None
    found: dict[str, float | str] = {}
    counts = seen.topology.counts if seen.topology is not None else None
    if counts is not None:
        found |= zip(("nprocs", "ncores", "nthreads"), map(float, counts), strict=True)
    if load is not None:
        texts = {"ostype": load.ostype, "osrel": load.osrel, "osver": load.osver}
        texts[RUNTIMES_RESOURCE] = load.container_runtimes
        found |= {name: text for name, text in texts.items() if text}
    return found


def _add_gpu_values(values: dict[str, float | str | bool | None], seen: Observation) -> None:
    """What requirements ask about GPUs, as they were probed last, where no elim says it."""
    missing = [name for name in seen.roll.gpu_names if values.get(name) is None]
    values.update(gpu_values(seen, missing))


def gpu_values(seen: Observation, names: Iterable[str]) -> dict[str, ProvidedValue]:
    """What a host has of these resources of GPUs, as they were probed last; None: unknown, or there is no such GPU."""
    report = seen.gpus if seen.connected else None
    if report is None or not report.known:
        return dict.fromkeys(names)
    return {name: gpu_value(name, report.gpus, report.driver) for name in names}


def affinity_processors(host: HostConfig | None, seen: Observation) -> tuple[tuple[Processor, ...], str]:
    """The processors that jobs with affinity[] may have on the host, and why there are none. Source: lsb.hosts(5)."""
    if host is None or host.affinity is None:
        return (), "AFFINITY is not enabled in lsb.hosts"
    if not seen.connected or seen.topology is None or not seen.topology.processors:
        return (), "the processors are unknown"
    found = offered(seen.topology, host.affinity)
    return found, "" if found else f"AFFINITY names no CPU of the {len(seen.topology.processors)} there are"


def slot_limit(host: HostConfig, seen: Observation) -> int | None:
    """Slots of the host: MXJ, or as many as it has CPUs; None means no limit."""
    if host.max_slots is None:
        return seen.load.ncpus if seen.load is not None else 0
    return None if host.max_slots < 0 else host.max_slots
