"""Jobs: what was asked (spec), where it stands (state and legal transitions as data), how an attempt ended."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gsched.base.coded_text import AnyText
from gsched.base.ids import index_of
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.notice import NoticeWish


class JobState(StrEnum):
    """LSF's own codes, as users see them."""

    PEND = "PEND"
    PSUSP = "PSUSP"
    RUN = "RUN"
    USUSP = "USUSP"
    SSUSP = "SSUSP"
    DONE = "DONE"
    EXIT = "EXIT"
    UNKWN = "UNKWN"
    ZOMBI = "ZOMBI"


PENDING = frozenset({JobState.PEND, JobState.PSUSP})
STARTED = frozenset({JobState.RUN, JobState.USUSP, JobState.SSUSP, JobState.UNKWN, JobState.ZOMBI})
FINISHED = frozenset({JobState.DONE, JobState.EXIT})

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.PEND: frozenset({JobState.PSUSP, JobState.RUN, JobState.EXIT}),
    JobState.PSUSP: frozenset({JobState.PEND, JobState.EXIT}),
    JobState.RUN: frozenset(
        {JobState.USUSP, JobState.SSUSP, JobState.UNKWN, JobState.DONE, JobState.EXIT, JobState.PEND, JobState.PSUSP}
    ),
    JobState.USUSP: frozenset(
        {JobState.RUN, JobState.SSUSP, JobState.UNKWN, JobState.DONE, JobState.EXIT, JobState.PEND, JobState.PSUSP}
    ),
    JobState.SSUSP: frozenset(
        {JobState.RUN, JobState.USUSP, JobState.UNKWN, JobState.DONE, JobState.EXIT, JobState.PEND, JobState.PSUSP}
    ),
    JobState.UNKWN: frozenset(
        {
            JobState.RUN,
            JobState.USUSP,
            JobState.SSUSP,
            JobState.ZOMBI,
            JobState.DONE,
            JobState.EXIT,
            JobState.PEND,
            JobState.PSUSP,
        }
    ),
    JobState.ZOMBI: frozenset({JobState.EXIT, JobState.DONE}),
    JobState.DONE: frozenset({JobState.PEND, JobState.PSUSP}),
    JobState.EXIT: frozenset({JobState.PEND, JobState.PSUSP}),
}
"""From each state, the states an event may lead to. A finished job goes back to PEND when it is requeued (grequeue)."""


class JobPlot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One curve: the numbers that the first group of `pattern` finds in the lines of the output."""

    name: str
    pattern: str


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What was submitted; only a JobModified or JobSwitched replaces it. Texts are as the user gave them.

    `environment`, `script` and `notice_targets` are ids of blobs in the store (content-addressed), since thousands of
    jobs share one; empty when there is none. Paths may hold %J.
    """

    command: str
    """The command line, or for a script its lines joined with `;`: what gjobs shows."""
    user: str
    queue: str
    queue_named: bool = False
    name: str = ""
    """-J; empty means that the command stands for it."""
    project: str = "default"
    slots: int = 1
    """-n; of a range the least."""
    max_slots: int = 0
    """The most of -n min,max; 0: exactly `slots`."""
    res_req: str = ""
    """Requested Resources, several -R merged."""
    combined_req: str = ""
    """The requirement with defaults and the queue's merged in, as printed by `gjobs -l`."""
    gpu_req: str = ""
    """-gpu as typed; "-" asks for what the queue or the cluster says."""
    combined_gpu_req: str = ""
    """The GPU requirement with all levels merged in, as `gjobs -l` prints it; empty: no GPU by -gpu."""
    hosts: tuple[str, ...] = ()
    """-m; empty means any. Groups are resolved by the master."""
    host_levels: tuple[int, ...] = ()
    """`host+n`: preference of each of `hosts`, larger first; empty: all alike."""
    other_hosts: bool = False
    """`others` stood in -m."""
    first_hosts: tuple[str, ...] = ()
    """`host!`: one of these must be the first execution host."""
    exclusive: bool = False
    """-x."""
    rerunnable: bool | None = None
    """-r, -rn; None: as the queue says."""
    begin_at: float | None = None
    """-b, UTC seconds."""
    terminate_at: float | None = None
    """-t, UTC seconds: the job is ended then, started or not."""
    priority: int | None = None
    """-sp; None: half of MAX_USER_PRIORITY."""
    aging_per_s: float = 0.0
    """JOB_PRIORITY_OVER_TIME: priority gained per second of waiting."""
    dependency: str = ""
    """-w as typed."""
    conditions: str = ""
    """The dependency with names resolved to job numbers at submission."""
    group: str = ""
    """-g, a path such as /risk/night."""
    user_group: str = ""
    """-G."""
    reservation: str = ""
    """-U."""
    requeue_exit_values: str = ""
    """-Q; empty: as the queue says."""
    indices: str = ""
    """Array: the index list as `gsched.base.indices` prints it (`1-10:2,20`); empty: no array."""
    array_limit: int = 0
    """`%n` of an array: most elements started at a time; 0: no limit."""
    description: str = ""
    """-Jd."""
    estimate_s: int | None = None
    """-We: estimated run time, enforced by nobody."""
    limits: dict[str, float] = {}
    """Per-job limits by LSF's names, in the units of model.queue.Queue.limits: -c -M -v -p -T -F -D -S -C."""
    cwd: str = ""
    """Where it was submitted."""
    specified_cwd: str = ""
    """-cwd as an absolute path; empty when not given."""
    home: str = ""
    submit_host: str = ""
    input_file: str = ""
    output_file: str = ""
    output_overwrite: bool = False
    error_file: str = ""
    error_overwrite: bool = False
    run_limit_s: int | None = None
    hold: bool = False
    umask: int = 0o022
    environment: str = ""
    script: str = ""
    auto_gpu: bool = False
    """No GPU was asked for and GPU_UNREQUESTED is auto=1: one is given where the host has GPUs."""
    warnings: tuple[AnyText, ...] = ()
    """Said at submission and again by `gjobs -l`."""
    application: str = ""
    """-app: application profile of lsb.applications."""
    service_class: str = ""
    """-sla: service class of lsb.serviceclasses."""
    pre_exec: str = ""
    """-E: runs on the first execution host before the job; the job waits again when it fails."""
    post_exec: str = ""
    """-Ep: runs there when the job has ended."""
    login_shell: str = ""
    """-L: the environment is what this shell's login files make of it."""
    output_dir: str = ""
    """-outdir as an absolute path, patterns in it; relative names of -o and -e count from there."""
    file_copies: tuple[str, ...] = ()
    """-f, `LOCAL OPERATOR REMOTE` each."""
    spooled_input: str = ""
    """-is: id of the blob that holds the input file as it was at submission; `input_file` is then only shown."""
    warning_signal: str = ""
    """-wa: name of the signal that is sent before the job is ended."""
    warning_s: int | None = None
    """-wt: how long before, in seconds."""
    end_orphan: bool = False
    """-ti: ended when its dependency can never hold, whatever the cluster says."""
    mail_user: str = ""
    """-u."""
    notify_begin: bool = False
    """-B: mail when it starts."""
    notify_end: bool = False
    """-N: the report by mail, not in the output file."""
    notify_error: bool = False
    """-Ne: the same, only for a job that ends as EXIT."""
    gpu_idle_ok: str = ""
    """--gpu-idle-ok: why its GPUs may be idle."""
    notices: tuple[NoticeWish, ...] = ()
    """--notify, and the user's own file: what of it is told, and in which ways."""
    notice_targets: str = ""
    """Id of the blob that says where; empty when there are none."""
    plots: tuple[JobPlot, ...] = ()
    """--plot: which numbers of its output are drawn."""
    service: str = ""
    """--service: it has a page of its own (gsched.model.jobs.job_service), on this port or a free one (`auto`)."""
    service_users: tuple[str, ...] = ()
    """--service-users: who may use that page besides its owner."""
    container: str = ""
    """--container: the image that its processes run in (gsched.model.queues.container); empty: none."""
    container_mounts: tuple[str, ...] = ()
    """--container-mount: what they see of the host there beside the working directory, `SOURCE:TARGET[:ro]` each."""
    interactive: str = ""
    """`I`, `Ip` or `Is`: its terminal is the command that submitted it; `p` and `s` with a pseudo-terminal."""
    front_end: str = ""
    """Whose commands it was submitted with: SLURM, PBS, or empty for LSF's. It says what the job is told and finds."""
    front_end_words: tuple[str, ...] = ()
    """What it asks for, in the words of its front end: `select=2:ncpus=4`, `walltime=1:00:00`."""
    script_words: tuple[str, ...] = ()
    """Arguments of its script."""
    index_shift: int = 0
    """How far its indices are from those that its front end names: 1 of an array that begins with 0."""
    warns_main: bool = False
    """`warning_signal` goes to its main process alone; else to all its processes, of Slurm's jobs to their steps."""
    saves_on_signal: bool = False
    """--signal, or CHKPNT_SIGNAL of its queue: by `warning_signal` it saves its state, also before it is preempted."""
    restart_on: tuple[str, ...] = ()
    """--restart-on: what it is run again after (RestartCause), beside what -r says."""
    resizable: str = ""
    """Whether its slots may change while it runs (RESIZABLE_JOBS, -ar): RELEASES, GROWS or KEEPS_SLOTS; empty: nobody
    has said.
    """
    resize_to: int = 0
    """How many slots it is to have (gresize request); 0: as -n says; NO_MORE: no more than it has."""
    max_restarts: int | None = None
    """--max-restarts: how often the system runs it again at most; None: MOST_RESTARTS times, or MAX_JOB_REQUEUE."""
    defaulted: tuple[str, ...] = ()
    """Fields whose values came from the queue or the cluster (of `limits`: `limits.NAME`): another queue gives others.
    Of a submission: `slots`, when no -n was given.
    """

    @property
    def run_dir(self) -> str:
        """The job's working directory; relative file names are relative to it."""
        return self.specified_cwd or self.cwd or "/"

    @property
    def wanted_slots(self) -> int:
        """How many slots the job is to have once it has started; 0: as many as it has."""
        if self.resizable not in (RELEASES, GROWS):
            return 0
        if self.resize_to > 0:
            return self.resize_to
        return self.max_slots if self.resizable == GROWS and self.resize_to != NO_MORE else 0

    @property
    def saves_itself(self) -> bool:
        """It has said that it saves its state: exit code EXIT_SAVED asks for another run."""
        return self.max_restarts is not None or self.saves_on_signal or bool(self.restart_on)

    def attempt_in_names(self, attempt: int) -> int:
        """What %t stands for in names of its files; 0: nothing, for Slurm's and PBS's names have their own patterns."""
        return 0 if self.front_end else attempt

    @property
    def display_name(self) -> str:
        """JOB_NAME: -J without an index list, else the command line."""
        return self.name or self.command

    def shown_name(self, job_id: int) -> str:
        """JOB_NAME of the job with this number: that of an array's element ends in its index, `train[3]`."""
        index = index_of(job_id)
        return f"{self.name}[{index}]" if index else self.display_name

    @property
    def array_text(self) -> str:
        """`[1-10:2]%5`: indices and limit of an array; empty for a job that is none."""
        return f"[{self.indices}]" + (f"%{self.array_limit}" if self.array_limit else "") if self.indices else ""

    def listed_name(self, job_id: int) -> str:
        """JOB_NAME of the job with this number in a table: that of an array ends in all its indices."""
        index = index_of(job_id)
        return f"{self.name}[{index}]" if index else self.name + self.array_text or self.command


KEEPS_SLOTS, RELEASES, GROWS = "n", "y", "auto"
"""RESIZABLE_JOBS: a started job keeps its slots; it may give slots back and ask for more; it also gets more by itself,
up to the most of -n.
"""
MOST_SLOTS = 1_000_000
"""As many slots one job may ask for."""
NO_MORE = -1
"""resize_to of a job whose request for more slots was cancelled, or that has given slots back since."""
SLURM, PBS = "slurm", "pbs"
"""Front ends."""
EXIT_SAVED = 99
"""Exit code of a job that has saved its state and is to run again (see JobSpec.saves_itself)."""
PREEMPTED = "TERM_PREEMPT"
RESIZING = "TERM_RESIZE"
MOST_RESTARTS = 100
"""So often a job is run again that asks for it, where nobody says how often."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job has used so far, or in the end. None means not sampled."""

    cpu_s: float = 0.0
    mem_mib: float | None = None
    swap_mib: float | None = None
    max_mem_mib: float | None = None
    avg_mem_mib: float | None = None
    threads: int | None = None
    pgid: int | None = None
    pids: tuple[int, ...] = ()
    sampled_at: float | None = None
    max_swap_mib: float | None = None
    max_processes: int | None = None
    max_threads: int | None = None
    cpu_peak: float | None = None
    """The most processor cores that it used at a time, by the mean over `cpu_peak_s` seconds."""
    cpu_peak_s: float | None = None
    read_mib: float | None = None
    """Read and written by system calls, whatever from and to; it may have been in memory, or on another host."""
    written_mib: float | None = None
    disk_read_mib: float | None = None
    """Read from and written to storage."""
    disk_written_mib: float | None = None
    gpus: tuple[GpuUsage, ...] = ()
    """What it has made of each of its GPUs; those of which nothing is known may be missing."""
    steps: bytes = b""
    """What is told of its steps (srun), as gsched.model.jobs.step_facts packs it."""

    def with_late(self, host: str, cpu_s: float, gpus: tuple[GpuUsage, ...]) -> Usage:
        """With what a part on this host has used that ended after the job: CPU time that was not counted, and the last
        word about its GPUs.
        """
        others = tuple(use for use in self.gpus if use.host != host)
        return msgspec.structs.replace(self, cpu_s=self.cpu_s + cpu_s, gpus=(*others, *gpus) if gpus else self.gpus)


class LeftProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A process that a job had left running when it was over, and that was ended with it."""

    pid: int
    name: str = ""
    killed: bool = False
    """By SIGKILL: SIGTERM was not enough."""


class AttemptFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Why an attempt failed (see gsched.model.jobs.failure)."""

    kind: str
    """The class."""
    detail: str = ""
    """The number of an XID, the name of a module or of a signal …: nothing else of what a job has printed."""


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How an attempt ended, as its supervisor wrote it down.

    Exactly one of `exit_code` and `signal` is set, or neither when the status is unknown (`problem` says why).
    `term_reason` is LSF's keyword (TERM_RUNLIMIT, TERM_OWNER …) or empty.
    """

    exit_code: int | None = None
    signal: int | None = None
    core_dumped: bool = False
    ended_at: float = 0.0
    run_s: float = 0.0
    """Seconds from start to end on the host's monotonic clock."""
    suspended_s: float = 0.0
    """Of these, those in which it was suspended."""
    usage: Usage = Usage()
    term_reason: str = ""
    problem: AnyText = ""
    started: bool = True
    """False when the job's command was never executed."""
    pre_failed: bool = False
    """A step before the job failed: the job waits again."""
    pre_exec: str = ""
    """Whose pre-execution command that was: `job`, `queue` or `application`; empty: none, or nobody said."""
    pre_exec_code: int = 0
    """What it exited with."""
    post_code: int | None = None
    """Exit code of the post-execution commands, of the first that failed; None: there was none."""
    gpus_unfit: bool = False
    """It was not started because its GPUs must not be used now: the job can be started elsewhere at once."""
    wants_requeue: bool = False
    """Before it ended it asked to run again (`gsched requeue-me`)."""
    host_down: bool = False
    """Its host went down and took it along: this was not the job's own end, nor anybody's wish."""
    left_running: tuple[LeftProcess, ...] = ()
    """What it had left running when its first process had ended, the first of them; `left_running_count` are all."""
    left_running_count: int = 0
    failure: AttemptFailure | None = None
    """What GPUs, host and output tell of why it failed; None where they tell nothing."""
    oom_kills: int = 0
    """Processes of it that the kernel has killed because there was no memory left."""
    counts_as_done: bool = False
    """Its exit code is one of SUCCESS_EXIT_VALUES."""

    @property
    def succeeded(self) -> bool:
        return (self.exit_code == 0 or self.counts_as_done) and not self.term_reason

    @property
    def is_interrupted(self) -> bool:
        """Whether the system has ended it only so that its job goes on in another attempt, later or with other GPUs."""
        return self.term_reason in (PREEMPTED, RESIZING)

    @property
    def failed_by_itself(self) -> bool:
        """Whether it has run and gone wrong, and nobody has ended it."""
        return self.started and not self.succeeded and not self.term_reason


TERM_TEXTS: dict[str, str] = {
    PREEMPTED: "job killed after preemption",
    "TERM_WINDOW": "job killed after queue run window is closed",
    "TERM_LOAD": "job killed after load exceeds threshold",
    "TERM_RUNLIMIT": "job killed after reaching LSF run time limit",
    "TERM_DEADLINE": "job killed after deadline expires",
    "TERM_PROCESSLIMIT": "job killed after reaching LSF process limit",
    RESIZING: "job ended to go on with another number of GPUs",
    "TERM_REQUEUE_OWNER": "job killed and requeued by owner",
    "TERM_REQUEUE_ADMIN": "job killed and requeued by root or LSF administrator",
    "TERM_CPULIMIT": "job killed after reaching LSF CPU usage limit",
    "TERM_MEMLIMIT": "job killed after reaching LSF memory usage limit",
    "TERM_SWAP": "job killed after reaching LSF swap usage limit",
    "TERM_THREADLIMIT": "job killed after reaching LSF thread limit",
    "TERM_ORPHAN_SYSTEM": "job killed because its dependency condition can never be satisfied",
    "TERM_OWNER": "job killed by owner",
    "TERM_ADMIN": "job killed by root or LSF administrator",
    "TERM_FORCE_OWNER": "job killed by owner without time for cleanup",
    "TERM_FORCE_ADMIN": "job killed by root or LSF administrator without time for cleanup",
    "TERM_EXTERNAL_SIGNAL": "job killed by a signal external to LSF",
    "TERM_ZOMBIE": "job exited while LSF is not available",
    "TERM_GPU": "job killed after a GPU that it used had failed",
    "TERM_GPU_IDLE": "job killed because its GPUs were idle",
    "TERM_SERVICE_IDLE": "job killed because nobody used its service",
    "TERM_CWD_NOTEXIST": "current working directory is not accessible or does not exist on the execution host",
    "TERM_UNKNOWN": "unknown",
}
"""Printed after `Completed <exit>; KEYWORD: `. Source: LSF's termination reasons; tools parse these texts."""
