"""GPU_PLACEMENT = scarce: which of the hosts that can take a job loses the least room for the kinds that are seen.

It keeps the hosts of the columns in a Packer (gpu_packing) and looks again only at hosts that changed. It ranks hosts,
and of the host that was chosen it may take another GPU for a part of one than gpu_choice did (`on_best_device`).
Whether a job fits is not decided here; where the rule says nothing, the caller's rank holds.
What it takes for free: CPU is free slots times 1000, memory is `maxmem` without what is reserved (what jobs may still
reserve; the measured `mem` goes up and down), GPUs are those of a host's most frequent model and mode. Hosts that are
closed or held by one job alone have nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from gsched.base.errors import RequirementError
from gsched.model.hosts.host import COUNTER_OF_MODE, ComputeMode, Gpu
from gsched.model.ledgers.allocation import SHARING, HostAllocation
from gsched.model.ledgers.devices import suits, whole_gpus
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.scheduling.column_part import Flags, HostNumbers
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import HostSnapshot, JobKind, RequirementClass, Snapshot
from gsched.policy.devices import gpu_choice
from gsched.policy.devices.gpu_packing import Mix, Packer, ScarceRoom, Shape
from gsched.policy.devices.node_states import WHOLE, Node
from gsched.policy.requirement.demand import HostNeed, tasks_of
from gsched.policy.requirement.demand_reader import demand_of
from gsched.resreq.parsing.gpu import model_matches

_PLENTY = 10**9
"""Thousandths of CPU, or MiB, of a host whose limit nobody knows."""
_INFINITY = float("inf")
_ON_BARE_HOST = -1.0
"""What a job without GPUs costs on a host without GPUs: less than anywhere else, and alike on all of them."""
_FEW = 4
"""The Packer begins anew when more than one host in so many has changed."""


def kind_of(need: HostNeed) -> JobKind | None:
    """The kind of jobs that need this on one host; None where the rule has no word."""
    if need.exclusive or need.auto_gpu or len(need.devices) > 1:
        return None
    memory = need.amounts.get("mem", 0.0)
    if not need.devices:
        return JobKind(need.slots, memory)
    (device, count) = need.devices[0]
    if device.tile or device.mig or (device.share < 1.0 and count > 1):
        return None
    return JobKind(need.slots, memory, count, device.share, device.claim, device.model)


def kind_of_class(requirement: RequirementClass, local_type: str) -> JobKind | None:
    """The kind of a class's jobs if they ask for GPUs and can run on one host; by their first choice."""
    try:
        demand = demand_of(requirement, local_type)
    except RequirementError:
        return None
    choice = demand.choices[0]
    if len(choice.terms) > 1:
        return None
    kind = kind_of(choice.terms[0].need(tasks_of(choice, demand.slots)[0]))
    return kind if kind is not None and kind.gpus else None


class _State(NamedTuple):
    """A host as the rule sees it."""

    label: str
    """GPU model and mode; empty without GPUs."""
    devices: tuple[Gpu, ...]
    cpu: int
    memory: int
    free: tuple[int, ...]


class ScarceHosts:
    """The hosts by what a job takes away there. It belongs to its columns."""

    def __init__(self, columns: HostColumns, mix: tuple[tuple[JobKind, float], ...]) -> None:
        self.mix = mix
        self._columns = columns
        self._epoch = -1
        self._read = self._read_standing = 0
        self._states: list[_State] = []
        self._devices: dict[int, tuple[Mapping[str, Gpu], str, tuple[Gpu, ...]]] = {}
        """Row -> the GPUs that its host had when it was looked at last, and _alike of them."""
        self._bare: Flags = np.zeros(0, dtype=np.bool_)
        self._models: dict[str, Gpu] = {}
        """Label -> one GPU of it."""
        self._shapes: dict[JobKind, Shape | None] = {}
        self._packer: Packer | None = None
        """None while there is nothing to expect: then the rule has no word."""

    def costs(self, kind: JobKind) -> HostNumbers | None:
        """What a job of the kind costs on each host, infinite where it seems not to fit; None: the rule has no word."""
        self._sync()
        shape = self._shape(kind)
        if self._packer is None or shape is None:
            return None
        costs = self._packer.costs(shape)
        return costs if kind.gpus else np.where(self._bare & (costs < _INFINITY), _ON_BARE_HOST, costs)

    def on_best_device(self, kind: JobKind, row: int, part: HostAllocation, need: HostNeed) -> HostAllocation:
        """The part of a GPU on the device where it takes the least; as it was where that cannot be claimed."""
        shape = self._shape(kind)
        if self._packer is None or shape is None or shape.gpus != 1 or shape.share == WHOLE:
            return part
        if self._packer.costs(shape)[row] == _INFINITY:
            return part
        best = self._packer.gpu(shape, row)
        devices = self._states[row].devices
        held = part.gpus[0]
        if best >= len(devices) or devices[best].uuid == held.uuid:
            return part
        gpu = devices[best]
        if gpu not in gpu_choice.candidates(self._columns.host_ledger(row), need.devices[0].kind):
            return part
        return replace(part, gpus=(replace(held, uuid=gpu.uuid, index=gpu.index, pci_bus_id=gpu.pci_bus_id),))

    # -- keeping up -----------------------------------------------------------------------------------------------

    def _sync(self) -> None:
        columns = self._columns
        if self._epoch != columns.epoch:
            self._noted(range(columns.size))
        elif (self._read, self._read_standing) != (columns.log.length, columns.standing_log.length):
            changed = set(columns.log.since(self._read).tolist())
            changed.update(columns.standing_log.since(self._read_standing).tolist())
            self._noted(sorted(changed))

    def _noted(self, rows: range | list[int]) -> None:
        """Look at these hosts anew."""
        columns = self._columns
        self._epoch = columns.epoch
        self._read, self._read_standing = columns.log.length, columns.standing_log.length
        if not self._states:
            self._begin([self._state_of(row) for row in range(columns.size)])
            return
        found = {row: self._state_of(row) for row in rows}
        found = {row: state for row, state in found.items() if state != self._states[row]}
        is_other = any(
            (state.label, len(state.devices)) != (self._states[row].label, len(self._states[row].devices))
            for row, state in found.items()
        )
        for row, state in found.items():
            self._states[row] = state
        if is_other or len(found) * _FEW > columns.size + _FEW:
            self._begin(self._states)
        elif self._packer is not None:
            for row, state in found.items():
                self._packer.put(row, state.cpu, state.memory, state.free)

    def _state_of(self, row: int) -> _State:
        host_ledger = self._columns.host_ledger(row)
        gpus, label, devices = self._devices.get(row, (None, "", ()))
        if gpus is not host_ledger.gpus:  # it is replaced whole when a host reports other GPUs
            label, devices = _alike(host_ledger.gpus)
            self._devices[row] = (host_ledger.gpus, label, devices)
        return _state(self._columns.hosts[row], host_ledger, label, devices)

    def _begin(self, states: list[_State]) -> None:
        self._states = states
        self._bare = np.array([not state.devices for state in states], dtype=np.bool_)
        self._models = {state.label: state.devices[0] for state in states if state.devices}
        self._shapes = {}
        largest: dict[str, int] = {}
        for state in states:
            largest[state.label] = max(largest.get(state.label, 0), len(state.devices))
        often: dict[Shape, float] = {}
        for kind, weight in self.mix:
            shape = self._shape(kind)
            # Of a kind that not even empty hosts could take, the room would be scarce for ever, and all else worthless.
            if shape is not None and any(largest[label] >= shape.gpus for label in shape.models or self._models):
                often[shape] = often.get(shape, 0.0) + weight
        nodes = [Node(state.cpu, state.memory, state.label, state.free) for state in states]
        self._packer = Packer(nodes, ScarceRoom(Mix(often))) if often else None

    def _shape(self, kind: JobKind) -> Shape | None:
        """The kind in the packer's words; None where no host has such GPUs, or several parts of GPUs are wanted."""
        if kind not in self._shapes:
            self._shapes[kind] = self._shape_of(kind)
        return self._shapes[kind]

    def _shape_of(self, kind: JobKind) -> Shape | None:
        cpu, memory = kind.slots * 1000, max(0, math.ceil(kind.mem_mib))
        if not kind.gpus:
            return Shape(cpu, memory)
        models = frozenset(label for label, gpu in self._models.items() if _is_of(kind, gpu))
        share = self._share(kind)
        if not models or (kind.gpus > 1 and share != WHOLE):
            return None
        return Shape(cpu, memory, kind.gpus, share, models if len(models) < len(self._models) else frozenset())

    def _share(self, kind: JobKind) -> int:
        if kind.share < 1.0:
            return max(1, round(kind.share * WHOLE))
        if kind.claim not in SHARING or not self._columns.size:
            return WHOLE
        return max(1, WHOLE // max(1, self._columns.host_ledger(0).shared_jobs))


def scarce_hosts(columns: HostColumns, snapshot: Snapshot) -> ScarceHosts | None:
    """The one that is kept with the columns, for the kinds that are expected now; None where nothing is."""
    if not snapshot.mix:
        return None
    found: ScarceHosts | None = columns.memo.get("scarce")
    if found is None or (found.mix is not snapshot.mix and found.mix != snapshot.mix):
        found = columns.memo["scarce"] = ScarceHosts(columns, snapshot.mix)
    return found


def _alike(gpus: Mapping[str, Gpu]) -> tuple[str, tuple[Gpu, ...]]:
    """A host's most frequent kind of GPUs that can be used, and those of it."""
    labels: dict[str, list[Gpu]] = {}
    for gpu in sorted(whole_gpus(gpus), key=lambda gpu: gpu.index):
        if not gpu.problem and not gpu.mig and gpu.mode is not None and gpu.mode is not ComputeMode.PROHIBITED:
            labels.setdefault(_label(gpu, gpu.counted_mode or gpu.mode), []).append(gpu)
    label = max(labels, key=lambda label: len(labels[label]), default="")
    return label, tuple(labels.get(label, ()))


def _state(host: HostSnapshot, host_ledger: HostLedger, label: str, devices: tuple[Gpu, ...]) -> _State:
    """`label` and `devices`: see _alike."""
    if host.closed or host_ledger.exclusive is not None:
        return _State(label, devices, 0, 0, (0,) * len(devices))
    slots = host_ledger.free_slots
    cpu = _PLENTY if slots is None else slots * 1000
    return _State(
        label, devices, cpu, _memory(host.values, host_ledger), tuple(_free(host_ledger, gpu) for gpu in devices)
    )


def _label(gpu: Gpu, mode: ComputeMode) -> str:
    """What is alike for all kinds of jobs."""
    changes = "+" if gpu.mode_settable else ""
    return f"{COUNTER_OF_MODE[mode]}{changes} {gpu.model} {gpu.memory_mib or 0:g}"


def _memory(values: Mapping[str, object], host_ledger: HostLedger) -> int:
    """MiB that jobs may still reserve."""
    for name in ("maxmem", "mem"):
        amount = values.get(name)
        if isinstance(amount, float | int):
            return max(0, math.floor(amount - host_ledger.reserved.get("mem", 0.0)))
    return _PLENTY


def _free(host_ledger: HostLedger, gpu: Gpu) -> int:
    """Thousandths of the GPU that one more job could hold."""
    holders = host_ledger.holders.get(gpu.uuid)
    if not holders:
        return WHOLE
    if any(claim not in SHARING for claim in holders.values()):
        return 0
    return max(0, WHOLE - round(WHOLE * host_ledger.load_of(gpu.uuid)))


def _is_of(kind: JobKind, gpu: Gpu) -> bool:
    """Whether such a device could be claimed by the kind."""
    if kind.claim != "ngpus" and not suits(gpu, kind.claim):
        return False
    return not kind.gmodel or model_matches(kind.gmodel, gpu.model, gpu.memory_mib or 0)
