"""The health of one GPU: what counts as a fault, when it is over, and what is remembered. No I/O, no clock.

Here an XID closes a GPU: `GpuRecord._evidence` finds those of GPU_FATAL_XIDS, `GpuRecord.see` answers why the GPU is
not offered, and `gpu_health` writes that into the host's report, as the GPU's `problem`.
"""

from __future__ import annotations

import msgspec

from gsched.base.coded_text import AnyText, coded, listed
from gsched.model.gpus.xid import CONTAINED_XIDS, FATAL_XIDS, RESET_XIDS, describe_xid
from gsched.model.hosts.host import MOST_XIDS, Gpu, GpuXid

COOLER_C = 5
"""A GPU that was too hot is offered again when it is so much cooler than the limit."""
MUST_BE_RESET = frozenset({1, 2, 6, 7})
"""Recovery actions of NVML (nvmlDeviceGpuRecoveryAction_t) that end whatever runs on the GPU: reset of the GPU, reboot
of the node, reset of its bus, reboot of the system. Not among them: 3, 5 (links to other GPUs are to be drained)."""
DRAIN_AND_RESET = 4
"""What runs on it may go on; nothing else is to begin before it was reset."""
MOST_DOUBLINGS = 10
"""The number of clean looks is doubled so often at most."""

_STILL = ("uuid", "index", "model", "memory_mib", "pci_bus_id", "minor", "numa", "links", "mig", "mig_devices")


class HealthRules(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as a fault and when it is over, as lsb.params says; see docs/configuration.md."""

    fatal_xids: frozenset[int] = frozenset(FATAL_XIDS)
    clean_probes: int = 3
    max_temperature_c: int | None = None
    probe_s: float = 5.0
    """Seconds between two probes: looks in between are not counted."""


class GpuRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of one GPU."""

    still: Gpu
    """What it is, without readings."""
    ecc: int | None = None
    """Uncorrected memory errors that are accounted for."""
    risen: int = 0
    """Further ones, seen at the last look: whether the GPU has contained them an XID may still say."""
    fault: AnyText = ""
    hit: tuple[str, ...] = ()
    faults: int = 0
    """How many there were."""
    clean: int = 0
    """Clean looks since the fault."""
    needs_reset: bool = False
    """The fault does not go away by itself: clean looks count only once the GPU was reset."""
    was_lost: bool = False
    """Since the fault the driver could not reach it, or no longer listed it."""
    recovery: int | None = None
    """What the driver wanted to have done about it at the last look that told."""
    hot: bool = False
    xids: list[GpuXid] = []

    def see(self, gpu: Gpu, holders: tuple[str, ...], rules: HealthRules, *, counts: bool) -> AnyText:
        """Take over one look; returns why the GPU must not be offered, empty when it may.

        `counts`: whether the look may be one of the clean ones.
        """
        if gpu.mode is not None:
            self.still = still_of(gpu)
        if self._was_reset(gpu):
            self.needs_reset = False
        evidence = self._evidence(gpu, holders, rules)
        if evidence and not self.fault:
            self.fault, self.hit = evidence, holders
            self.faults += 1
        self.was_lost = bool(self.fault) and (bool(gpu.fault) or self.was_lost)
        if evidence or gpu.mode is None or self.needs_reset:  # what cannot be read is not clean
            self.clean = 0
        elif self.fault and counts:
            self.clean += 1
            if self.clean >= rules.clean_probes << min(self.faults - 1, MOST_DOUBLINGS):
                self.open()
        draining = coded("gpu.to_be_reset") if gpu.recovery == DRAIN_AND_RESET else ""
        return self._problem or draining or self._too_hot(gpu, rules)

    def open(self) -> None:
        """Its fault is over: it was clean for long enough, or an administrator says so."""
        self.fault, self.hit, self.clean = "", (), 0
        self.needs_reset = self.was_lost = False

    @property
    def _problem(self) -> AnyText:
        return coded("gpu.until_reset", self.fault) if self.fault and self.needs_reset else self.fault

    def _was_reset(self, gpu: Gpu) -> bool:
        """Whether it can be told that it was reset since the last look: the driver reaches it again, wants nothing to
        be done about it any more, or counts its memory errors anew.
        """
        is_back = self.was_lost and gpu.mode is not None and not gpu.fault
        wanted, self.recovery = self.recovery, self.recovery if gpu.recovery is None else gpu.recovery
        is_recovered = bool(wanted) and gpu.recovery == 0
        counts_anew = self.ecc is not None and gpu.ecc_errors is not None and gpu.ecc_errors < self.ecc
        if is_back:
            self.was_lost = False
        return is_back or is_recovered or counts_anew

    def _evidence(self, gpu: Gpu, holders: tuple[str, ...], rules: HealthRules) -> AnyText:
        """What is wrong now; empty when nothing is."""
        numbers = [xid.number for xid in gpu.xids]
        if not rules.fatal_xids.isdisjoint(RESET_XIDS.intersection(numbers)):
            self.needs_reset = True
        fatal = [describe_xid(number) for number in dict.fromkeys(numbers) if number in rules.fatal_xids]
        for number in numbers:
            if self.fault or number not in rules.fatal_xids:  # else it is the fault, and told as that
                self._keep(GpuXid(number=number, jobs=holders or self.hit))
        memory = self._memory_errors(gpu, numbers)
        wanted = coded("gpu.must_be_reset") if gpu.recovery in MUST_BE_RESET else ""
        return listed(fatal) or gpu.fault or memory or wanted

    def _keep(self, xid: GpuXid) -> None:
        if xid not in self.xids:
            self.xids = [*self.xids, xid][-MOST_XIDS:]

    def _memory_errors(self, gpu: Gpu, xids: list[int]) -> AnyText:
        """Uncorrected errors that have come since the last look but one, unless the GPU has contained them."""
        risen, self.risen = self.risen, 0
        if CONTAINED_XIDS.intersection(xids):
            risen = 0
        if gpu.ecc_errors is not None:
            more = 0 if self.ecc is None else gpu.ecc_errors - self.ecc
            self.ecc = gpu.ecc_errors  # a smaller number than before: the driver was loaded anew
            if more > 0 and not CONTAINED_XIDS.intersection(xids):
                self.risen = more
        if not risen:
            return ""
        return coded("gpu.memory_errors", risen) if risen > 1 else coded("gpu.memory_error", risen)

    def _too_hot(self, gpu: Gpu, rules: HealthRules) -> AnyText:
        limit = gpu.slowdown_c if rules.max_temperature_c is None else rules.max_temperature_c
        if limit is None:
            self.hot = False
        elif gpu.temperature_c is not None:
            self.hot = gpu.temperature_c >= limit or (self.hot and gpu.temperature_c > limit - COOLER_C)
        return coded("gpu.too_hot", limit or 0, (limit or 0) - COOLER_C) if self.hot else ""


def still_of(gpu: Gpu) -> Gpu:
    """What a GPU is, without what can be read from it."""
    return Gpu(**{name: getattr(gpu, name) for name in _STILL})


def is_placeholder(uuid: str) -> bool:
    """Whether it is the name of a GPU that could not tell its own."""
    return uuid.startswith("GPU-unknown-")
