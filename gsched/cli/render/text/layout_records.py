"""What the layouts need to know, as small frozen records. The commands map the master's answers onto them.

None means unknown or not applicable and prints as `-` or not at all, never as 0. Times are seconds since the epoch,
sizes MiB, durations seconds.
"""

from __future__ import annotations

import msgspec

from gsched.model.job import Usage
from gsched.model.reason import PlannedStart


class HostSlots(msgspec.Struct, frozen=True):
    """Slots of a job on one host, first execution host first in every list."""

    host: str
    slots: int = 1

    def __str__(self) -> str:
        return self.host if self.slots == 1 else f"{self.slots}*{self.host}"


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One external message of a job (bpost, or the GPUs that the scheduler chose)."""

    box: int = 0
    user: str
    posted_at: float
    text: str
    attached: bool = False


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
    model: str = ""
    memory_mib: float | None = None
    reserved_mib: float = 0.0
    socket: int | None = None
    links: tuple[str, ...] = ()
    sizes: tuple[int, int] | None = None
    """Of a part by MIG: slices of its GPU instance and of its compute instance."""


class ShownJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job, or one element of an array, as `gjobs` shows it."""

    job_id: int
    index: int = 0
    """Array index; 0 for a job that is no array element."""
    array_spec: str = ""
    """`[1-10:2]%5` for what stands for all elements of an array that have not started; empty otherwise."""
    name: str = ""
    """-J; empty means the command stands for it."""
    user: str
    stat: str
    queue: str
    project: str = "default"
    command: str
    share_group: str = ""
    """`/test` in `Share group charged </test>`; empty leaves the words out."""
    submit_host: str = ""
    submitted_at: float
    hold: bool = False
    """Submitted on hold (-H)."""
    cwd: str = ""
    specified_cwd: str = ""
    home: str = ""
    """Home directory at submission; a CWD below it prints as `$HOME/rest`."""
    input_file: str = ""
    output_file: str = ""
    output_overwrite: bool = False
    error_file: str = ""
    error_overwrite: bool = False
    slots: int = 1
    max_slots: int = 0
    """The most of -n min,max; 0: exactly `slots`."""
    reserved_mem_mib: float | None = None
    """rusage[mem=...] over all its hosts; None: it has reserved none, or has not started."""
    res_req: str = ""
    gpu_req: str = ""
    """-gpu as typed; "-" asks for what the queue or the cluster says, empty for none."""
    hosts_asked: tuple[str, ...] = ()
    """As typed: `h`, `h+2`, `h!`, `others`."""
    exclusive: bool = False
    rerunnable: bool = False
    dependency: str = ""
    user_group: str = ""
    group: str = ""
    """Job group."""
    application: str = ""
    mail_user: str = ""
    file_copies: tuple[str, ...] = ()
    notify: str = ""
    """When mail is sent: `begins`, `ends`, `begins/ends`."""
    login_shell: str = ""
    pre_exec: str = ""
    post_exec: str = ""
    output_dir: str = ""
    warning_signal: str = ""
    warning_s: int | None = None
    priority: int | None = None
    description: str = ""
    begin_at: float | None = None
    terminate_at: float | None = None
    reservation: str = ""
    requeue_exit_values: str = ""
    estimate_s: int | None = None
    limits: dict[str, float] = {}
    """Limits by LSF's names: CPULIMIT in seconds, MEMLIMIT and SWAPLIMIT in MiB, other sizes in KiB, counts."""
    run_limit_s: int | None = None
    started_at: float | None = None
    """When it was dispatched; None while pending."""
    placed: tuple[HostSlots, ...] = ()
    gpus: str = ""
    """`host:gpus=0,1;`"""
    gpu_count: int = 0
    exec_home: str = ""
    exec_cwd: str = ""
    usage: Usage = Usage()
    """Its `cpu_s` is believed only where `usage.sampled_at` is set or the job has ended."""
    ended_at: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    term_reason: str = ""
    """TERM_OWNER … or empty. A job that merely failed has none."""
    interactive: str = ""
    """`I`, `Ip` or `Is`."""
    kill_reason: str = ""
    """Why somebody asked for its end, in that one's words."""
    ran: bool = True
    """False for a job that ended without its command having run."""
    pending_reasons: tuple[str, ...] = ()
    """One text per reason, without the closing `;`."""
    suspending_reasons: tuple[str, ...] = ()
    planned: PlannedStart | None = None
    combined_req: str = ""
    combined_gpu_req: str = ""
    """The -gpu requirement with all levels merged in; empty when it asks for none."""
    effective_req: str = ""
    external_indices: tuple[str, ...] = ()
    """Names of external load indices, for the second block of the threshold table."""
    thresholds: dict[str, str] = {}
    """Load index -> `sched/stop`, `-` for the one that is not set."""
    messages: tuple[MessageRow, ...] = ()
    affinity: tuple[AffinityUnit, ...] | None = None
    """Its processor units; None when they were not asked for."""
    gpus_held: tuple[GpuOfJob, ...] = ()
    """Its GPUs one by one; empty when they were not asked for."""
    warnings: tuple[str, ...] = ()
    """Texts of the scheduler's own, shown at the end of `gjobs -l`."""

    @property
    def label(self) -> str:
        """`101` or `101[3]`."""
        return f"{self.job_id}[{self.index}]" if self.index else str(self.job_id)

    @property
    def display_name(self) -> str:
        """JOB_NAME: -J (with the index of an array element), else the command."""
        if self.index:
            return f"{self.name}[{self.index}]"
        return self.name + self.array_spec or self.command
