"""Could any host ever give the GPUs and processor units that a job wishes for? A note for who submits it.

Of GPUs it is about model, memory, links and sockets, of processor units about affinity[].

Unlike a number of GPUs that no host has, such a job is accepted, as in LSF: a host that has them may come. It looks at
what devices are there, never at who holds them, and says nothing while a host's devices are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.model.host import Gpu, GpuReport
from gsched.model.host_ledger import HostLedger
from gsched.model.snapshot import RequirementClass
from gsched.model.topology import Processor
from gsched.policy import affinity
from gsched.policy.demand import Choice, DeviceKind, Devices, HostNeed, tasks_of
from gsched.policy.demand_reader import demand_of
from gsched.policy.explain import Reason, Shortage
from gsched.policy.gpus import choose
from gsched.resreq.gpu import model_matches, print_size
from gsched.resreq.printer import print_affinity

Wishes = tuple[HostNeed, ...]
"""For each term of an alternative, what one of its hosts must give at the least."""
Processors = tuple[tuple[Processor, ...], str]
"""The processors that a host offers for affinity[], and why there are none."""
_WORDS = ("gmodel=", "gmem=", "glink=", "gtile=", "affinity[")
_ANY_NUMBER = 1 << 30
UNTIL_THEN = ": the job waits until one has"
"""How each note ends; one of an earlier submission of the job no longer counts."""


def wishes_of(requirement: str, gpu: str, slots: int) -> tuple[Wishes, ...]:
    """The wishes of each alternative of a combined requirement and -gpu requirement; empty when there are none.

    Raises RequirementError for a text that cannot be scheduled by.
    """
    if not any(word in text for text in (requirement, gpu) for word in _WORDS):
        return ()
    asked = RequirementClass(requirement, slots, max_slots=slots + _ANY_NUMBER, gpu=gpu, waited_s=float("inf"))
    return tuple(_wishes(choice, slots) for choice in demand_of(asked, "").choices)


def _wishes(choice: Choice, slots: int) -> Wishes:
    shares = zip(choice.terms, tasks_of(choice, slots), strict=True)
    return tuple(term.need(tasks if term.one_host else term.block) for term, tasks in shares)


def never_met(alternatives: tuple[Wishes, ...], hosts: Mapping[str, GpuReport | None]) -> str:
    """Which GPUs of the first alternative no host has, when no alternative can be met; empty when one can, or may be.

    `hosts`: those that the job may use.
    """
    books = {}
    for name, report in hosts.items() if alternatives else ():
        if report is None or not report.known:
            return ""
        books[name] = HostLedger(name)
        books[name].observe_gpus(report)
    return _note([_lacking(wishes, books) for wishes in alternatives])


def never_bound(alternatives: tuple[Wishes, ...], hosts: Mapping[str, Processors | None]) -> str:
    """The same of processor units. `hosts`: None where the processors are not known."""
    books = []
    for name, offered in hosts.items() if alternatives else ():
        if offered is None:
            return ""
        books.append(HostLedger(name))
        books[-1].observe_processors(*offered)
    books.sort(key=lambda each: -len(each.processors))
    return _note([next(filter(None, (_lacking_units(need, books) for need in wishes)), "") for wishes in alternatives])


def _note(lacking: Sequence[str]) -> str:
    return f"{lacking[0]}{UNTIL_THEN}" if lacking and all(lacking) else ""


def _lacking_units(need: HostNeed, books: Sequence[HostLedger]) -> str:
    if need.affinity is None:
        return ""
    found = [affinity.choose(ledger, need.affinity, need.slots) for ledger in books]
    if not found or not isinstance(found[0], Reason) or not all(isinstance(each, Reason) for each in found):
        return ""
    units = print_affinity(need.affinity)
    return f"No host that the job may use has the processor units of {units} ({found[0].detail})"


def _lacking(wishes: Wishes, books: Mapping[str, HostLedger]) -> str:
    for wanted in (need.devices for need in wishes if need.devices):
        if all(isinstance(choose(ledger, wanted), Shortage) for ledger in books.values()):
            devices = [(name, gpu) for name, ledger in books.items() for gpu in ledger.gpus.values()]
            return _told(wanted, devices)
    return ""


def _told(wanted: tuple[Devices, ...], devices: list[tuple[str, Gpu]]) -> str:
    """The plainest thing that is missing."""
    for kind, _ in wanted:
        missing = _model_or_memory(kind, devices)
        if missing:
            return missing
    asked = ", ".join(f"{count} of {kind.wish or kind.name}" for kind, count in wanted)
    return f"No host that the job may use has such GPUs ({asked})"


def _model_or_memory(kind: DeviceKind, devices: list[tuple[str, Gpu]]) -> str:
    if kind.model:
        there = sorted({gpu.model or "unknown" for _, gpu in devices})
        devices = [each for each in devices if model_matches(kind.model, each[1].model, each[1].memory_mib or 0)]
        if not devices:
            models = f"models are {', '.join(there)}" if there else "they have none"
            return f"No host that the job may use has a GPU of gmodel={kind.model} ({models})"
    if kind.gmem_mib and devices:
        most, host = max((float(gpu.memory_mib or 0), name) for name, gpu in devices)
        if most < kind.gmem_mib:
            of_model = f" of gmodel={kind.model}" if kind.model else ""
            asked = f"a GPU{of_model} with gmem={print_size(kind.gmem_mib)}"
            best = f"{host} has the most, {print_size(most)}" if most else "nobody knows how much theirs have"
            return f"No host that the job may use has {asked} ({best})"
    return ""
