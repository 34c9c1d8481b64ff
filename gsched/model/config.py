"""A cluster's configuration as one frozen value: what the LSF-format files say once they have been checked.

Nothing here reads a file; gsched.config makes it, the engine holds it and swaps it whole at a reconfig.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property

import msgspec

from gsched.base.ids import LARGEST_JOB_NUMBER
from gsched.model.efficiency.cost import Prices
from gsched.model.efficiency.verdicts import MIN_RUN_S
from gsched.model.gpus.xid import FATAL_XIDS
from gsched.model.hosts.exit_rates import ExitRates
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.job_tmpdir import JobTmpdir
from gsched.model.hosts.kept_output import KeptOutput
from gsched.model.hosts.reported_resources import provided
from gsched.model.hosts.resource import BUILTIN, Resource
from gsched.model.hosts.shared_resource import SharedInstance, limits_of
from gsched.model.jobs.notice import WAYS
from gsched.model.queues.application import Application
from gsched.model.queues.exception_thresholds import DETECT_IDLE_AFTER_S
from gsched.model.queues.fairshare_factors import FairshareFactors
from gsched.model.queues.guarantee import GuaranteePool, ServiceClass
from gsched.model.queues.limit import Limit
from gsched.model.queues.preempt_sparing import Sparing
from gsched.model.queues.queue import Queue
from gsched.model.queues.reservation_policy import ReservationPolicy
from gsched.model.queues.user import UserGroup, UserLimits
from gsched.model.queues.window import Window
from gsched.model.web_front import WebFront


class GpuUnrequested(StrEnum):
    """GPU_UNREQUESTED: what a job sees that asks for no GPU."""

    HIDE = "hide"
    ALLOW = "allow"
    AUTO = "auto"
    """One shared or exclusive GPU is asked for on the job's behalf (auto=1)."""


class GmemAction(StrEnum):
    """GMEM_ACTION: what is done about a job that uses more GPU memory than its gmem=."""

    NONE = "none"
    NOTIFY = "notify"
    """Its history and gjobs -l say so."""
    KILL = "kill"


class GpuForeign(StrEnum):
    """GPU_FOREIGN: what is done about processes on GPUs that are no job's of this cluster."""

    WARN = "warn"
    """ghosts -l says so."""
    AVOID = "avoid"
    """The GPU is given to no job as long as they are there."""
    KILL_AFTER = "kill-after"
    """And they are ended after a while."""


class GpuFence(StrEnum):
    """GSCHED_GPU_FENCE: whether jobs are kept from opening GPUs that are not theirs."""

    ON = "on"
    """Where the host can do it; jobs of another host are only told their GPUs."""
    OFF = "off"
    REQUIRED = "required"
    """Jobs with GPUs do not start on a host that cannot do it."""


class SshAccess(StrEnum):
    """GSCHED_SSH: what gsched-pam does with a user who has no job on the host."""

    REFUSE = "refuse"
    NO_GPU = "no_gpu"
    """Let in, without a GPU."""
    OPEN = "open"


class GpuPlacement(StrEnum):
    """GPU_PLACEMENT: what decides among hosts and devices that could take a job."""

    PACK = "pack"
    """The fewest idle devices are left (best fit)."""
    SCARCE = "scarce"
    """The least room is taken from the kinds of jobs that have been seen."""


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """lsb.params, with gsched's defaults. Intervals in seconds."""

    default_queues: tuple[str, ...] = ("normal",)
    """DEFAULT_QUEUE: of jobs that name no queue; of several the first that accepts the job."""
    default_project: str = "default"
    default_job_cwd: str = ""
    """DEFAULT_JOB_CWD: where jobs run that do not say it; patterns in it. Relative: to where they are submitted."""
    default_job_outdir: str = ""
    """DEFAULT_JOB_OUTDIR: as -outdir, of jobs that give none."""
    egroup_update_s: float | None = None
    """EGROUP_UPDATE_INTERVAL: how often the members that egroup lists are asked for anew; None: at a reconfig alone."""
    mail_to: str = "!U"
    """LSB_MAILTO: address of mail about jobs; !U is the user."""
    mail_program: str = ""
    """LSB_MAILPROG; empty, with an empty `mail_server`: no mail is sent."""
    mail_server: str = ""
    """LSB_MAILSERVER: `host[:port]`."""
    notice_ways: tuple[str, ...] = WAYS
    """GSCHED_NOTIFY (ours): in which ways users may have notices of their jobs sent."""
    notice_proxy: str = ""
    """GSCHED_NOTIFY_PROXY (ours): URL of the proxy that webhooks are reached by; empty: directly."""
    container_mounts: tuple[str, ...] = ()
    """GSCHED_CONTAINER_MOUNTS (ours): `/FOLDER[:ro]`, below which users may mount into their containers."""
    container_images: tuple[str, ...] | None = None
    """GSCHED_CONTAINER_IMAGES (ours): patterns of the images that users may have; None: any."""
    default_application: str = ""
    """DEFAULT_APPLICATION: of jobs that name no application profile."""
    master_sleep_s: float = 10.0
    """MBD_SLEEP_TIME: the unit of JOB_ACCEPT_INTERVAL and of MAX_RESERVE_TIME; the master itself never sleeps."""
    job_accept_interval_s: float = 0.0
    clean_period_s: int = 3600
    clean_period_done_s: int | None = None
    """CLEAN_PERIOD_DONE: as CLEAN_PERIOD, of jobs that are DONE; None: the same."""
    default_job_group: str = ""
    """LSB_DEFAULT_JOBGROUP, DEFAULT_JOBGROUP: group of jobs that name none; %p and %u in it are project and user."""
    max_requeue: int | None = None
    """MAX_JOB_REQUEUE, where neither profile nor queue says."""
    users_resume: bool = False
    """ENABLE_USER_RESUME: users let their jobs go on that an administrator has suspended."""
    only_admins_move: bool = False
    """JOB_POSITION_CONTROL_BY_ADMIN: gtop and gbot are for administrators alone."""
    reservations_of_user: int = 100
    """ADVRSV_USER_LIMIT: advance reservations that one user who is no administrator may have."""
    default_user_group: str = ""
    """DEFAULT_USER_GROUP: of jobs that name none with -G; empty: they count for no group."""
    host_intersection: bool = False
    """ENABLE_HOST_INTERSECTION: of the hosts of -m those count that the queue uses; otherwise it must use all."""
    max_asked_hosts: int | None = None
    """LSB_MAX_ASKED_HOSTS_NUMBER: how many hosts and host groups -m may name; None: any number."""
    max_messages: int | None = None
    """MAX_JOB_MSG_NUM: how many message boxes a job has, from 0 on; None: any number."""
    max_attached_kib: int | None = None
    """MAX_JOB_ATTA_SIZE: how much may be attached to one message; None: as much as to all of a job's."""
    only_admins_force: bool = False
    """PRIVILEGED_USER_FORCE_BKILL: gkill -r is for administrators alone, and gkill for others."""
    host_history_days: int = 366
    """HOST_HISTORY_DAYS (ours): how long what was seen of hosts, and said of starts, is kept; 0: for ever."""
    job_history_days: int = 0
    """JOB_HISTORY_DAYS (ours): how long a finished job is kept, with all that belongs to it; 0: for ever."""
    event_history_days: int = 0
    """EVENT_HISTORY_DAYS (ours): how long what happened to a finished job is kept; 0: as long as the job."""
    event_history_mb: int = 0
    """EVENT_HISTORY_SIZE (ours): how much is kept of what happened, the newest; 0: there is no limit."""
    max_job_id: int = LARGEST_JOB_NUMBER
    max_pending: int | None = None
    """MAX_PEND_JOBS: of everybody together."""
    max_pending_slots: int | None = None
    """MAX_PEND_SLOTS: of everybody together."""
    job_terminate_interval_s: float = 10.0
    gpu_shared_jobs: int = 1
    gpu_unrequested: GpuUnrequested = GpuUnrequested.HIDE
    gmem_action: GmemAction = GmemAction.NOTIFY
    gpu_foreign: GpuForeign = GpuForeign.AVOID
    """GPU_FOREIGN (ours)."""
    gpu_foreign_kill_s: float = 0.0
    """The seconds of GPU_FOREIGN = kill-after:SECONDS."""
    gpu_foreign_mib: int = 256
    """GPU_FOREIGN_MIB (ours): a process of nobody's job that uses more of a GPU's memory counts."""
    gpu_fatal_xids: tuple[int, ...] = FATAL_XIDS
    """GPU_FATAL_XIDS (ours): errors of the driver that close a GPU and end the jobs on it."""
    gpu_clean_probes: int = 3
    """GPU_CLEAN_PROBES (ours): so many clean looks running and a GPU that had failed is offered again."""
    gpu_max_temperature_c: int | None = None
    """GPU_MAX_TEMPERATURE (ours): no new job on a GPU from so many degrees on; None: where it slows itself down."""
    gpu_health_check: str = ""
    """GPU_HEALTH_CHECK (ours): the program that says whether a GPU on which something has failed is well."""
    gpu_health_timeout_s: float = 60.0
    """GPU_HEALTH_TIMEOUT (ours): how long it may take."""
    gpu_health_interval_h: float = 0.0
    """GPU_HEALTH_INTERVAL (ours): hours without a job after which it runs, too; 0: it does not."""
    gpu_placement: GpuPlacement = GpuPlacement.PACK
    """GPU_PLACEMENT (ours)."""
    host_lost_after_s: float = 30.0
    """How long after its agent's last sign of life a host is unavail and its jobs UNKWN."""
    job_report: bool = True
    """A report on each job is put into the file of its output (LSB_JOB_REPORT_MAIL)."""
    stdout_direct: bool = False
    """LSB_STDOUT_DIRECT: it stands below the output, not above it."""
    root_may_submit: bool = True
    """LSF_ROOT_USER."""
    max_requests_per_s: int = 200
    """GSCHED_MAX_REQUESTS_PER_S: of one user."""
    max_array_size: int = 1_000_000
    """MAX_JOB_ARRAY_SIZE: the largest index of an array."""
    max_user_priority: int | None = None
    """MAX_USER_PRIORITY; None: -sp is not allowed."""
    priority_over_time: tuple[int, int] | None = None
    """JOB_PRIORITY_OVER_TIME: so much more priority every so many minutes of pending."""
    dependency_last_only: bool = False
    """JOB_DEP_LAST_SUB: of several jobs of a name the newest counts."""
    end_on_invalid_dependency: bool = True
    """KILL_ON_INVALID_DEPENDENCY (ours): a job whose dependency can never hold ends, when its time of grace is over."""
    orphan_grace_s: float = 0.0
    """ORPHAN_JOB_TERM_GRACE_PERIOD: so long after that has come out."""
    gpu_req: str = ""
    """GPU_REQ (LSB_GPU_REQ): what `-gpu -` and options that are not given mean."""
    gpu_req_merge: bool = False
    reserve_cores_per_gpu: int = 0
    """RESERVE_CORES_PER_GPU (ours): slots that a job without GPUs must leave for each free GPU of a host."""
    min_run_before_preempt_s: float = 0.0
    """MIN_RUN_BEFORE_PREEMPT (ours)."""
    gpu_grow_interval_s: float = 600.0
    """GPU_GROW_INTERVAL (ours): so long a job with a range of GPUs runs before it may get more."""
    preempt_requeue: bool = False
    """PREEMPT_ACTION=requeue (ours): rerunnable jobs that are preempted go back to pending instead of being
    suspended. GPUs are only ever freed that way: a suspended process keeps its memory on the device."""
    resizable: str = ""
    """RESIZABLE_JOBS, see gsched.model.jobs.job.RELEASES; empty: N."""
    sparing: Sparing = Sparing()
    """MAX_JOB_PREEMPT: how often one job may be preempted."""
    max_preexec_retry: int | None = None
    """LOCAL_MAX_PREEXEC_RETRY or MAX_PREEXEC_RETRY: starts of a job that may fail before its command at pre-execution
    runs to its end; None: any number."""
    pre_timeout_s: int | None = None
    """JOB_PREPROC_TIMEOUT: how long what runs before a job may take, in seconds; None: any time."""
    post_timeout_s: int | None = None
    """JOB_POSTPROC_TIMEOUT: the same of what runs after it."""
    default_after_failed_control: bool = False
    """JOB_CONTROLS_FAIL_DEFAULT_ACTION: where a command of JOB_CONTROLS fails, it is done as without one."""
    reserves_per_task: bool = False
    """RESOURCE_RESERVE_PER_TASK or _PER_SLOT: what rusage[] names without a method is reserved for each task."""
    preexec_excludes: str = ""
    """PREEXEC_EXCLUDE_HOST_EXIT_VALUES: exit codes of pre-execution commands after which the job does not come back to
    the host (gsched.model.jobs.requeue_exits)."""
    exit_rates: ExitRates = ExitRates()
    """GLOBAL_EXIT_RATE: how many attempts may fail on a host before it is closed."""
    preexec_exit: bool = False
    """LOCAL_MAX_PREEXEC_RETRY_ACTION=EXIT: the job ends then; otherwise it is suspended (PSUSP)."""
    prices: Prices = Prices()
    """GPU_HOUR_PRICE and KWH_PRICE (ours)."""
    detect_idle_after_s: int = DETECT_IDLE_AFTER_S
    """DETECT_IDLE_JOB_AFTER: no job counts as idle before (JOB_IDLE of its queue)."""
    efficiency_min_run_s: float = MIN_RUN_S
    """EFFICIENCY_MIN_RUN (ours): of a job that ran for a shorter time it is not said how well it used what it had."""
    max_dispatch_per_cycle: int | None = None
    factors: dict[str, float] = {}
    """Fields of FairshareFactors that are stated; what holds in a queue says model.fairshare_factors."""

    def too_many_hosts(self, names: Sequence[str]) -> str:
        """Why -m may not name so many hosts and groups; empty: it may."""
        most = self.max_asked_hosts
        if most is None or len(names) <= most:
            return ""
        return f"-m names {len(names)} hosts; at most {most} are allowed (LSB_MAX_ASKED_HOSTS_NUMBER)"


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of the daemons, from lsf.cluster's Parameters and lsf.conf, in seconds."""

    exchange_s: float = 15.0
    """EXINTERVAL: how often an agent reports load."""
    gpu_probe_s: float = 5.0
    """GSCHED_GPU_INTERVAL: how often GPUs are probed."""
    gpu_use_s: float = 10.0
    """GSCHED_GPU_USE_INTERVAL: how often the use of GPUs by running jobs is sampled."""
    elim_restart_s: float = 90.0
    """Shortest time between two starts of one elim (back-off doubles it up to ten times this)."""
    elim_block_s: float | None = None
    """LSF_ELIM_BLOCKTIME: an elim that completes no report for so long is started again; None: it is left in peace."""
    elim_restarts: int | None = None
    """LSF_ELIM_RESTARTS: so often is one elim started again at most; None: always."""
    elim_debug: bool = False
    """LSF_ELIM_DEBUG: what elims report is logged, and a report that is begun must be complete within 2 seconds."""
    elim_arguments: tuple[str, ...] = ()
    """ELIMARGS: the words behind the name of each elim but elim.gpu, which is gsched's own."""
    command_wait_s: float = 60.0
    """GSCHED_COMMAND_WAIT: how long a command waits for a master that does not answer."""
    usage_sample_s: float = 10.0
    """SBD_SLEEP_TIME: how often a running job's memory and CPU time are sampled."""
    cpu_peak_s: float = 60.0
    """CPU_PEAK_SAMPLE_DURATION: over how many seconds the peak of a job's CPU use is a mean."""


STORE_FILE = "gsched.db"
"""The event store, below LSB_SHAREDIR."""


class LogLevels(msgspec.Struct, frozen=True, kw_only=True):
    """LSF_LOG_MASK, LSB_LOG_MASK_MBD, LSB_LOG_MASK_SBD: from which level on daemons log, as LSF names it."""

    others: str = "LOG_INFO"
    master: str = ""
    """Empty: as `others`."""
    agent: str = ""

    def of(self, kind: str) -> str:
        """The level of a kind of daemon: `master`, `agent`, or another."""
        return {"master": self.master, "agent": self.agent}.get(kind, "") or self.others


class Locations(msgspec.Struct, frozen=True, kw_only=True):
    """Folders and programs from lsf.conf. Absolute paths."""

    conf_dir: str
    state_dir: str
    """LSB_SHAREDIR: the event store of the master."""
    log_dir: str
    server_dir: str
    """LSF_SERVERDIR: where elims lie (elim, elim.NAME)."""
    run_dir: str
    """GSCHED_RUNDIR: sockets, mode 0700."""
    spool_dir: str
    """GSCHED_SPOOLDIR: what agents keep of their attempts; a folder per host below it."""
    store: str = ""
    """GSCHED_STORE with the file of its password: the address of a database; empty: a file in `state_dir`."""

    @property
    def store_place(self) -> str:
        """What opens the event store: a path, or an address in which there is no password."""
        return self.store or f"{self.state_dir}/{STORE_FILE}"


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """What lsf.conf says about a shared cluster's network."""

    port: int | None = None
    """LSB_MBD_PORT: where the master listens for other hosts; None: a private cluster, which has unix sockets alone."""
    munge_port: int | None = None
    """GSCHED_MUNGE_PORT: where it listens for commands that bring a munge credential."""
    munge_socket: str = ""
    """GSCHED_MUNGE_SOCKET: of munged; empty: where munge's library looks."""
    tls_dir: str = ""
    """GSCHED_TLSDIR: `ca.crt`, `HOST.crt` and `HOST.key`."""


class MetricsEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the master serves /metrics: on a unix socket, on a port, or nowhere."""

    socket: str = ""
    """GSCHED_METRICS=/PATH."""
    host: str = ""
    """GSCHED_METRICS=HOST:PORT; a name or an address of this machine."""
    port: int | None = None
    token_file: str = ""
    """GSCHED_METRICS_TOKEN_FILE: who reads shows its first line; empty: a certificate of the cluster's CA."""
    source: str = ""
    """Where GSCHED_METRICS stands, as `file:line`."""
    token_source: str = ""
    """The same of GSCHED_METRICS_TOKEN_FILE."""

    @property
    def is_on(self) -> bool:
        return bool(self.socket) or self.port is not None


ALL_HOSTS = "all"
"""In GSCHED_ADMIN_HOSTS: every host of the cluster."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The whole configuration of a cluster. `mapped`: external resources that ResourceMap places, and their hosts."""

    cluster: str
    master_host: str
    """In a master's process the host that it runs on; elsewhere the first that may lead."""
    masters: tuple[str, ...] = ()
    """LSF_MASTER_LIST, where it names several: one of them leads, the others wait."""
    administrators: tuple[str, ...] = ()
    hosts: dict[str, HostConfig] = {}
    queues: dict[str, Queue] = {}
    applications: dict[str, Application] = {}
    resources: dict[str, Resource] = {}
    """External resources of lsf.shared by name, in file order."""
    mapped: dict[str, tuple[str, ...]] = {}
    """External resource -> names of the hosts that have an instance of their own ([default])."""
    shared: dict[str, tuple[SharedInstance, ...]] = {}
    """Numeric resource of which an instance belongs to several hosts -> all its instances, no two on one host."""
    params: Params = Params()
    timing: Timing = Timing()
    locations: Locations
    log_levels: LogLevels = LogLevels()
    """A daemon goes by what it read at its start."""
    network: Network = Network()
    metrics: MetricsEndpoint = MetricsEndpoint()
    web: WebFront = WebFront()
    unknown_users: bool = False
    """GSCHED_UNKNOWN_USERS=Y: users that the master's host does not know are served too."""
    admin_hosts: tuple[str, ...] = ()
    """GSCHED_ADMIN_HOSTS: where administrators are believed to be such; empty: on the master's host; `all`:
    everywhere, by munge too."""
    system_users: tuple[str, ...] = ()
    """GSCHED_SYSTEM_USERS: accounts below UID_MIN that may have jobs; an agent goes by what it read at its start."""
    gpu_provider: str = "nvml"
    """GSCHED_GPU_PROVIDER: "nvml", "none" or "sim:FOLDER" (inventory FOLDER/HOST.json)."""
    gpu_fence: GpuFence = GpuFence.ON
    """GSCHED_GPU_FENCE; an agent goes by what it read at its start."""
    mps_control: str = "nvidia-cuda-mps-control"
    """GSCHED_MPS_CONTROL: the control program of MPS, a path or a name in PATH; read by an agent at its start."""
    cuda_checkpoint: str = "cuda-checkpoint"
    """GSCHED_CUDA_CHECKPOINT: the program that moves jobs off GPUs, a path or a name in PATH, `none`; read by an agent
    at its start."""
    pam_limits: bool | None = None
    """GSCHED_PAM_LIMITS: jobs begin with the limits of a PAM session of their users; None: where that can be had."""
    ssh_access: SshAccess = SshAccess.REFUSE
    """GSCHED_SSH; read by an agent at its start."""
    kept_output: KeptOutput = KeptOutput()
    """GSCHED_KEPT_OUTPUT_MIB and others: what a host keeps of the output of jobs without -o; read by an agent at its
    start."""
    dcgm_mapping_dir: str = ""
    """GSCHED_DCGM_JOB_MAPPING_DIR: where agents write which jobs are on which GPU, for the DCGM exporter; empty:
    nowhere. Read by an agent at its start."""
    job_tmpdir: JobTmpdir = JobTmpdir()
    """LSB_JOB_TMPDIR, LSB_SET_TMPDIR: the temporary directory of each job; read by an agent at its start."""
    pre_post_exec_user: str = ""
    """LSB_PRE_POST_EXEC_USER: who runs the commands before and after jobs that queues and profiles name; empty: the
    job's user. Agents read both at their start."""
    host_types: tuple[str, ...] = ()
    """Names of lsf.shared's HostType section."""
    host_models: tuple[str, ...] = ()
    """Names of lsf.shared's HostModel section."""
    limits: tuple[Limit, ...] = ()
    limit_settings: dict[str, tuple[str, ...]] = {}
    """Name of a limit -> its section as it was written, `KEY = value` each."""
    service_classes: dict[str, ServiceClass] = {}
    pools: tuple[GuaranteePool, ...] = ()
    reservation_policies: tuple[ReservationPolicy, ...] = ()
    """Who besides administrators makes advance reservations."""
    """GuaranteedResourcePool sections."""
    users: dict[str, UserLimits] = {}
    """lsb.users by name; "default" and `group@` too."""
    user_groups: dict[str, UserGroup] = {}
    host_groups: dict[str, tuple[str, ...]] = {}
    """HostGroup name -> hosts, nested groups resolved."""
    host_members: dict[str, tuple[str, ...]] = {}
    """HostGroup and ComputeUnit name -> its members as they were written."""
    host_group_admins: dict[str, tuple[str, ...]] = {}
    """HostGroup and ComputeUnit name -> users that may open and close its hosts."""
    model_factors: dict[str, float] = {}
    """Host model -> CPU factor."""
    compute_units: dict[str, dict[str, tuple[str, ...]]] = {}
    """ComputeUnit type (enclosure, rack …) -> unit name -> hosts, as lsb.hosts' ComputeUnit section says."""
    reservation_method: dict[str, str] = {}
    """ReservationUsage: resource -> "job", "task" or "host"."""
    time_conditions: tuple[tuple[tuple[Window, ...], bool], ...] = ()
    """The windows of each #if time(...) of the files, and whether they were open when it was read."""
    digest: str = ""
    """Fingerprint of the files, for the record of a reconfig."""

    def resource(self, name: str) -> Resource | None:
        """The resource called `name`, built-in or defined in lsf.shared; None if there is none."""
        return BUILTIN.get(name) or self.resources.get(name) or provided(name)

    @property
    def is_shared(self) -> bool:
        """Whether other hosts and other users take part: the master listens on a port."""
        return self.network.port is not None

    @property
    def administration_hosts(self) -> tuple[str, ...]:
        """The hosts on whose word administrators are such, and the master's own user is heard."""
        if ALL_HOSTS in self.admin_hosts:
            return tuple(self.hosts)
        return self.admin_hosts or self.master_hosts

    @property
    def master_hosts(self) -> tuple[str, ...]:
        """The hosts that may lead."""
        return self.masters or (self.master_host,)

    @property
    def master_address(self) -> str:
        """`HOST:PORT` of a shared cluster's master; of several that may lead, with commas between them."""
        return ",".join(f"{host}:{self.network.port}" for host in self.master_hosts)

    @property
    def munge_address(self) -> str:
        """The same where the master listens for munge credentials."""
        return ",".join(f"{host}:{self.network.munge_port}" for host in self.master_hosts)

    @property
    def web_hosts(self) -> tuple[str, ...]:
        """The hosts on which `gsched web` runs as a service; none where it is not configured."""
        return (self.web.hosts or self.master_hosts) if self.web.is_on else ()

    def folder_of(self, daemon: str) -> str:
        """Where sockets and locks of `master`, `door`, `agent` or `web` lie: in a shared cluster each has its own."""
        return f"{self.locations.run_dir}/{daemon}" if self.is_shared else self.locations.run_dir

    @property
    def hist_hours(self) -> float:
        """HIST_HOURS of queues that have none of their own."""
        return self.params.factors.get("hist_hours", FairshareFactors().hist_hours)

    def queue_hist_hours(self) -> dict[str, float]:
        """HIST_HOURS of the queues that have their own."""
        found = ((name, queue.factors.get("hist_hours")) for name, queue in self.queues.items())
        return {name: hours for name, hours in found if hours is not None}

    def members_of(self, names: Iterable[str]) -> Iterator[str]:
        """Users, and the members of user groups."""
        for name in names:
            group = self.user_groups.get(name)
            yield from group.users if group is not None else (name,)

    def external_on(self, host: str) -> tuple[str, ...]:
        """Names of the mapped external resources that `host` has, in lsf.shared's order."""
        return self._external.get(host, ())

    def shared_on(self, host: str) -> Mapping[str, SharedInstance]:
        """Resource -> the instance of it that `host` shares with others."""
        return self._shared_on.get(host, {})

    @cached_property
    def instances(self) -> tuple[SharedInstance, ...]:
        """The instances of all shared resources."""
        return tuple(each for several in self.shared.values() for each in several)

    @cached_property
    def shared_limits(self) -> tuple[Limit, ...]:
        """What may be taken of consumable shared resources."""
        return limits_of(self.instances)

    @cached_property
    def windows(self) -> frozenset[Window]:
        """The time windows of all queues and hosts."""
        queues = (window for queue in self.queues.values() for window in (*queue.run_window, *queue.dispatch_window))
        return frozenset((*queues, *(window for host in self.hosts.values() for window in host.dispatch_window)))

    @cached_property
    def can_suspend(self) -> bool:
        """Whether anything is configured that can suspend a started job: windows, load thresholds, conditions."""
        queues = self.queues.values()
        on_queues = any(each.run_window or each.thresholds or each.stop_cond or each.resume_cond for each in queues)
        return on_queues or any(host.thresholds for host in self.hosts.values())

    def orphan_grace_s(self, queue: str) -> float | None:
        """How many seconds after that has come out a job of the queue ends whose dependency can never hold; None: it
        does not.
        """
        found = self.queues.get(queue)
        if found is not None and found.orphan_grace_s is not None:
            return found.orphan_grace_s
        return self.params.orphan_grace_s if self.params.end_on_invalid_dependency else None

    @cached_property
    def _shared_on(self) -> dict[str, dict[str, SharedInstance]]:
        found: dict[str, dict[str, SharedInstance]] = {}
        for instance in self.instances:
            for host in instance.hosts:
                found.setdefault(host, {})[instance.resource] = instance
        return found

    @cached_property
    def _external(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for name in self.resources:
            for host in dict.fromkeys(self.mapped.get(name, ())):
                found.setdefault(host, []).append(name)
        return {host: tuple(names) for host, names in found.items()}
