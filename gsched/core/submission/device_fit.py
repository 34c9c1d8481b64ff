"""Could any host ever give the GPUs and processor units that a job wishes for? A note for who submits it.

Of GPUs it is about model, memory, links and sockets, of processor units about affinity[].

Unlike a number of GPUs that no host has, such a job is accepted, as in LSF: a host that has them may come. It looks at
what devices are there, never at who holds them; a host of which that is unknown may have everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gsched.base.coded_text import AnyText, coded
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.hosts.topology import Processor
from gsched.model.ledgers.devices import GpuPart
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.snapshot import RequirementClass
from gsched.policy.devices import cpu_affinity
from gsched.policy.devices.gpu_choice import choose
from gsched.policy.requirement.demand import DeviceKind, Devices, HostNeed, RequirementChoice, tasks_of
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.requirement.reasons import Reason, Shortage
from gsched.resreq.parsing.gpu import model_matches, print_size
from gsched.resreq.parsing.printer import print_affinity

Wishes = tuple[HostNeed, ...]
"""For each term of an alternative, what one of its hosts must give at the least."""
Processors = tuple[tuple[Processor, ...], str]
"""The processors that a host offers for affinity[], and why there are none."""
_WORDS = ("gmodel=", "gmem=", "glink=", "gtile=", "mig=", "affinity[")
_ANY_NUMBER = 1 << 30


def wishes_of(requirement: str, gpu: str, slots: int) -> tuple[Wishes, ...]:
    """The wishes of each alternative of a combined requirement and -gpu requirement; empty when there are none.

    Raises RequirementError for a text that cannot be scheduled by.
    """
    if not any(word in text for text in (requirement, gpu) for word in _WORDS):
        return ()
    asked = RequirementClass(requirement, slots, max_slots=slots + _ANY_NUMBER, gpu=gpu, waited_s=float("inf"))
    return tuple(_wishes(choice, slots) for choice in demand_of(asked, "").choices)


def _wishes(choice: RequirementChoice, slots: int) -> Wishes:
    shares = zip(choice.terms, tasks_of(choice, slots), strict=True)
    return tuple(term.need(tasks if term.one_host else term.block) for term, tasks in shares)


class Offered(NamedTuple):
    """What a host has, whoever holds it. None: not known."""

    gpus: GpuReport | None
    processors: Processors | None = ((), "")


class _Host:
    """A host with an empty ledger."""

    def __init__(self, name: str, offered: Offered) -> None:
        self.host_ledger = HostLedger(name)
        self.knows_gpus = offered.gpus is not None and offered.gpus.known
        self.host_ledger.observe_gpus(offered.gpus)
        self.knows_processors = offered.processors is not None
        if offered.processors is not None:
            self.host_ledger.observe_processors(*offered.processors)

    def has_gpus(self, need: HostNeed) -> bool:
        """Whether it has GPUs for the need, or may have."""
        return (
            not need.devices or not self.knows_gpus or not isinstance(choose(self.host_ledger, need.devices), Shortage)
        )

    def lacks_units(self, need: HostNeed) -> Reason | None:
        """What of processor units it does not have; None when it has all, or may have."""
        if need.affinity is None or not self.knows_processors:
            return None
        found = cpu_affinity.choose(self.host_ledger, need.affinity, need.slots)
        return found if isinstance(found, Reason) else None


def never_met(alternatives: tuple[Wishes, ...], hosts: Mapping[str, Offered]) -> AnyText:
    """What no host has of the first alternative, when no alternative can be met; empty when one can, or may be.

    `hosts`: those that the job may use. GPUs and processor units of a task must be on one of them.
    """
    if not alternatives:
        return ""
    empty = [_Host(name, offered) for name, offered in hosts.items()]
    lacking = [_first(_lacking(need, empty) for need in wishes) for wishes in alternatives]
    return coded("warning.waits_for_host", lacking[0]) if all(lacking) else ""


def _first(texts: Iterable[AnyText]) -> AnyText:
    """The first that says something; empty when none does."""
    return next((text for text in texts if text), "")


def _lacking(need: HostNeed, hosts: Sequence[_Host]) -> AnyText:
    """What no host has of a need; empty when one has all of it, or may have."""
    if not need.devices and need.affinity is None:
        return ""
    with_gpus = [host for host in hosts if host.has_gpus(need)]
    if not with_gpus:
        return _told(
            need.devices, [(host.host_ledger.host, gpu) for host in hosts for gpu in host.host_ledger.gpus.values()]
        )
    lacks = {host.host_ledger.host: host.lacks_units(need) for host in hosts}
    if any(lacks[host.host_ledger.host] is None for host in with_gpus) or need.affinity is None:
        return ""
    together = any(reason is None for reason in lacks.values())
    most = max(with_gpus, key=lambda host: len(host.host_ledger.processors))
    reason = lacks[most.host_ledger.host]
    code = "lacking.units_beside_gpus" if together else "lacking.units"
    assert reason is not None
    units = print_affinity(need.affinity)
    return coded(code, units, reason.detail)


def _told(wanted: tuple[Devices, ...], devices: list[tuple[str, Gpu]]) -> str:
    """The plainest thing that is missing."""
    for kind, _ in wanted:
        missing = _model_or_memory(kind, devices)
        if missing:
            return missing
    asked = ", ".join(f"{count} of {kind.wish or kind.name}" for kind, count in wanted)
    return f"No host that the job may use has such GPUs ({asked})"


def _model_or_memory(kind: DeviceKind, devices: list[tuple[str, Gpu]]) -> str:
    devices = [each for each in devices if isinstance(each[1], GpuPart) is bool(kind.mig)]
    if kind.mig:
        profiles = sorted({gpu.profile or "unknown" for _, gpu in devices if isinstance(gpu, GpuPart)})
        devices = [each for each in devices if isinstance(each[1], GpuPart) and each[1].is_of(kind.mig)]
        if not devices:
            parts = f"parts are {', '.join(profiles)}" if profiles else "no GPU is split"
            return f"No host that the job may use has a part of a GPU of mig={kind.mig} ({parts})"
    if kind.model:
        there = sorted({gpu.model or "unknown" for _, gpu in devices})
        devices = [each for each in devices if model_matches(kind.model, each[1].model, each[1].memory_mib or 0)]
        if not devices:
            models = f"models are {', '.join(there)}" if there else "they have none"
            return f"No host that the job may use has a GPU of gmodel={kind.model} ({models})"
    if kind.gmem_mib and devices:
        most, host = max((float(gpu.usable_mib or 0), name) for name, gpu in devices)
        if most < kind.gmem_mib:
            of_model = f" of gmodel={kind.model}" if kind.model else ""
            asked = f"a GPU{of_model} with gmem={print_size(kind.gmem_mib)}"
            best = f"{host} has the most, {print_size(most)}" if most else "nobody knows how much theirs have"
            return f"No host that the job may use has {asked} ({best})"
    return ""
