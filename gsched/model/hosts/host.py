"""Hosts as configured, GPUs as probed, load as reported.

Unknown is not zero: a value that could not be read is None, never 0.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from gsched.base.coded_text import AnyText, CodedText, coded
from gsched.model.queues.queue import Threshold
from gsched.model.queues.window import Window


class ComputeMode(StrEnum):
    """NVML's compute modes; the values are the words that `gsched sim-gpu` and inventory files use."""

    DEFAULT = "default"
    EXCLUSIVE_THREAD = "exclusive_thread"
    PROHIBITED = "prohibited"
    EXCLUSIVE_PROCESS = "exclusive_process"


COUNTER_OF_MODE: dict[ComputeMode, str] = {
    ComputeMode.DEFAULT: "ngpus_shared",
    ComputeMode.EXCLUSIVE_THREAD: "ngpus_excl_t",
    ComputeMode.PROHIBITED: "ngpuprohibited",
    ComputeMode.EXCLUSIVE_PROCESS: "ngpus_excl_p",
}
"""Which elim counter a GPU is counted in. Source: what elim.gpu of LSF 10.1 prints."""


MOST_PROCESSES = 64
"""Of one GPU's processes so many are reported."""


_PROFILE = re.compile(r"(?:([1-9])c\.)?([1-9])g(?:\..*)?", re.ASCII)

OVERUSE_PROBES = 3
"""So often running must a job be seen beyond its gmem= before anything is said of it."""


class ProcessKind(StrEnum):
    """How a process uses a GPU. Source: the column Type of nvidia-smi(1)."""

    COMPUTE = "C"
    GRAPHICS = "G"
    COMPUTE_AND_GRAPHICS = "C+G"
    MPS_CLIENT = "M+C"


EXCLUSIVE_MODES = frozenset({ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD})
"""Compute modes in which a GPU takes one process that computes."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that has a context on a GPU."""

    pid: int
    user: str = ""
    """Login name; the number where the host has no name for it; empty when the process cannot be seen."""
    used_mib: int | None = None
    job: str = ""
    """The attempt that it belongs to, `17.1`; empty: none that this cluster knows of."""
    escaped: bool = False
    """It belongs to an attempt that does not hold this GPU, nor may use GPUs that it does not hold."""
    kind: ProcessKind | None = None
    """None when the probe did not tell: then it is taken for one that computes."""
    name: str = ""
    """Of its program, as it was called; never its arguments. Empty when nobody knows."""

    @property
    def occupies(self) -> bool:
        """Whether a GPU that takes one process is taken by it: compute modes do not count who only draws, and of MPS
        the server alone.
        """
        return self.kind not in (ProcessKind.GRAPHICS, ProcessKind.MPS_CLIENT)

    @property
    def described(self) -> CodedText:
        """Its pid, and its user and memory where they are known."""
        who = (self.pid, self.user) if self.user else (self.pid,)
        if self.used_mib is None:
            return coded("gpu.pid_of" if self.user else "gpu.pid", *who)
        return coded("gpu.pid_of_with" if self.user else "gpu.pid_with", *who, self.used_mib)


class MigDevice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of a GPU that is split by MIG. Source: NVIDIA's Multi-Instance GPU user guide."""

    uuid: str
    profile: str = ""
    """`1g.10gb` …"""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    memory_mib: int | None = None

    @property
    def sizes(self) -> tuple[int, int] | None:
        """Slices of its GPU instance and of its compute instance, by its profile: `1c.3g.20gb` has (3, 1), `3g.20gb`
        (3, 3). None when the profile does not tell.
        """
        found = _PROFILE.fullmatch(self.profile)
        return None if found is None else (int(found.group(2)), int(found.group(1) or found.group(2)))


MOST_XIDS = 8
"""Of what the driver said about one GPU so much is kept."""


class GpuXid(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An error that the driver has told of a GPU. Source: NVIDIA's Xid catalogue."""

    number: int
    jobs: tuple[str, ...] = ()
    """Attempts (`17.1`) that held the GPU then."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One GPU as a probe saw it. Its identity is the UUID; `index` is NVML's (nvidia-smi's) number on the host."""

    uuid: str
    index: int
    model: str = ""
    mode: ComputeMode | None = None
    """None when the probe could not read it: then the GPU is not offered."""
    memory_mib: int | None = None
    used_mib: int | None = None
    utilization_percent: int | None = None
    temperature_c: int | None = None
    pci_bus_id: str = ""
    minor: int | None = None
    problem: AnyText = ""
    """Why the GPU must not be offered (lost, locked by another cluster …); empty when it is fine."""
    numa: int | None = None
    """Number of the socket (NUMA node) that the GPU hangs on; None when nobody knows."""
    links: tuple[str, ...] = ()
    """UUIDs of the GPUs of the host that it is linked with (NVLink, xGMI); empty when there are none, or unknown."""
    reserved_mib: int | None = None
    """What the driver keeps of the memory for itself; `used_mib` counts it only where this is None."""
    memory_utilization_percent: int | None = None
    """Share of the time in which memory was read or written."""
    power_w: int | None = None
    ecc_errors: int | None = None
    """Memory errors that could not be corrected, since the driver was loaded."""
    ecc_corrected: int | None = None
    """Memory errors that were corrected, since the driver was loaded."""
    throttle: int | None = None
    """Why its clocks are lower than they could be: bits of `model.gpus.clock_reasons`; None when nobody knows."""
    pstate: int | None = None
    """Performance state, 0 the fastest to 15."""
    process_count: int | None = None
    """Processes with a context on it; None when nobody knows."""
    processes: tuple[GpuProcess, ...] = ()
    """Those that use the most memory, MOST_PROCESSES at most."""
    foreign_mib: int | None = None
    """Memory in use that no process of a known attempt accounts for; None when nobody knows."""
    over_gmem: tuple[str, ...] = ()
    """Attempts (`17.1`) whose processes use more of it than their gmem=, at OVERUSE_PROBES looks running."""
    foreign_pids: tuple[int, ...] = ()
    """Process ids of those that are no job's of this cluster and use more than GPU_FOREIGN_MIB, the largest first."""
    left_behind: tuple[str, ...] = ()
    """Attempts (`17.1`) that have ended and whose processes or memory are still on it."""
    mig: bool | None = None
    """Whether it is split by MIG; None when it cannot be."""
    mig_devices: tuple[MigDevice, ...] = ()
    mps_lost: tuple[str, ...] = ()
    """Attempts (`17.1`) whose MPS control daemon on it has ended by itself."""
    standing_mode: ComputeMode | None = None
    """While the agent has set `mode` for jobs: the mode by the administrator's will, to which it goes back."""
    mode_settable: bool = False
    """Whether the agent sets mode default or exclusive_process, whichever a job wants, as soon as nobody uses it."""
    mode_given: ComputeMode | None = None
    """The mode in which its jobs were given it, where somebody has changed it since; None: it is as it was."""

    moves_jobs: bool = False
    """Whether the agent moves jobs of one GPU off it and back (cuda-checkpoint)."""
    fault: AnyText = ""
    """What has failed on it: the GPU is closed, and jobs on it cannot go on. A GPU with a fault has a `problem`."""
    hit: tuple[str, ...] = ()
    """Attempts (`17.1`) that held it when it failed."""
    xids: tuple[GpuXid, ...] = ()
    """What the driver has told, newest last, each once; MOST_XIDS at most. From a probe: what it heard since its last
    sample."""
    slowdown_c: int | None = None
    """Temperature from which on it slows itself down."""
    recovery: int | None = None
    """What the driver wants to have done about it: one of NVML's recovery actions, 0 nothing; None: it does not say."""
    factor: float | None = None
    """CUDA compute capability, 8.6; LSF calls it the GPU's factor."""

    @property
    def is_barred(self) -> bool:
        """Whether its compute mode lets nobody in, or is not known."""
        return self.counted_mode is None or self.counted_mode is ComputeMode.PROHIBITED

    @property
    def counted_mode(self) -> ComputeMode | None:
        """The mode by the administrator's will: which counter it belongs to, whatever a job needs meanwhile."""
        return self.mode if self.standing_mode is None else self.standing_mode

    @property
    def usable_mib(self) -> int | None:
        """Memory that all jobs on it may have together: what the driver keeps is never to be had."""
        return None if self.memory_mib is None else max(0, self.memory_mib - (self.reserved_mib or 0))


class GpuReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a probe says about all GPUs of a host at one moment.

    `known` is False when the probe failed or hung: the counts are then unknown, not 0. A host without a driver
    library is known to have no GPU; `reason` says why in both cases.
    """

    gpus: tuple[Gpu, ...] = ()
    known: bool = True
    reason: AnyText = ""
    provider: str = ""
    """"nvml", "simulated" or "none"."""
    driver: str = ""
    unfenced: AnyText = ""
    """Why jobs could open GPUs of the host that are not theirs; empty when they cannot, or when nobody said."""
    sets_modes: bool = False
    """Whether the agent sets compute modes for jobs by -gpu, see Gpu.mode_settable."""
    modes_note: AnyText = ""
    """Why it sets none; empty when it does, or when nobody said."""
    unheard: AnyText = ""
    """Why the driver does not tell of errors (XIDs) of some GPUs; empty when it does."""


class LoadReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Load indices and static facts of a host at one moment. None means unknown.

    `indices` holds the built-in load indices (`ut` as a fraction 0..1, `tmp`, `swp`, `mem` in MiB);
    `external` what elims reported (numbers as floats, strings as they came; a name is absent while unknown).
    """

    indices: dict[str, float | None] = {}
    external: dict[str, float | str] = {}
    ncpus: int = 1
    maxmem_mib: float | None = None
    maxswp_mib: float | None = None
    maxtmp_mib: float | None = None
    ostype: str = ""
    """Operating system, release of its kernel, distribution, and the machine that it is made for: `Linux`,
    `6.1.0-18-amd64`, `debian12`, `x86_64`; empty: unknown."""
    osrel: str = ""
    osver: str = ""
    machine: str = ""
    container_runtimes: str = ""
    """Programs that run containers there, with a blank between."""
    notes: tuple[AnyText, ...] = ()
    """Lines for `ghosts -l`: an elim that died, a value that was rubbish."""


class HostConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A row of lsf.cluster's Host section joined with its row of lsb.hosts."""

    name: str
    model: str = "!"
    type: str = "!"
    server: bool = True
    cpu_factor: float = 1.0
    resources: tuple[str, ...] = ()
    """Boolean resources that the host has."""
    values: dict[str, float | str] = {}
    """Static values of non-Boolean resources."""
    max_slots: int | None = None
    """MXJ; None means as many as the host has CPUs, -1 no limit."""
    user_slots: int | None = None
    """JL/U: slots one user may hold on the host; None no limit."""
    compute_mode: ComputeMode | None = None
    """GPU_MODE (ours): compute mode that the agent sets at its start, where it may."""
    interface: tuple[str, ...] = ()
    """INTERFACE (ours): what jobs that span hosts use of the network there, and UCX's names of its devices."""
    thresholds: dict[str, Threshold] = {}
    """Load thresholds of lsb.hosts; the stricter of these and the queue's holds."""
    dispatch_window: tuple[Window, ...] = ()
    affinity: tuple[int, ...] | None = None
    """AFFINITY of lsb.hosts: the CPUs that jobs with affinity[] may have, () for all; None: there are no such jobs."""
    exit_rate: int | None = None
    """EXIT_RATE: so many attempts may fail there, see ExitRates; None: as many as in the cluster."""
    exclusive_resources: tuple[str, ...] = ()
    """`!resource` of lsf.cluster: only jobs that name one of them may use the host."""
    source: str = ""


class HostState(StrEnum):
    """STATUS of a host, in LSF's words."""

    OK = "ok"
    CLOSED_ADM = "closed_Adm"
    CLOSED_EXCL = "closed_Excl"
    CLOSED_CU_EXCL = "closed_Cu_Excl"
    CLOSED_WIND = "closed_Wind"
    CLOSED_FULL = "closed_Full"
    CLOSED_BUSY = "closed_Busy"
    UNAVAIL = "unavail"
    """Silent for so long that its jobs are UNKWN."""
    UNREACH = "unreach"
    """Its agent cannot be reached, but has not been away for long: its jobs are taken to run."""
