"""Fields of sacct: what each says of a job and of its steps: its script, `.batch`, and what srun has started, `.0` …

What a job has used stands in the row of its script, as Slurm has it, and CPU time also in the job's own row; of other
steps their agent knows what their tasks have used that have ended. Fields of which gsched knows nothing are empty.
Source: sacct(1) of Slurm 22.05, "Job Accounting Fields".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gsched.base.coded_text import sentence
from gsched.cli.slurm.accounting.field_tables import AccountingFields, TableField, by_name
from gsched.cli.slurm.facts.job_facts import SlurmJob
from gsched.cli.slurm.facts.job_steps import SlurmStep
from gsched.cli.slurm.facts.slurm_clock import cpu_duration, long_duration
from gsched.cli.slurm.facts.tres_texts import (
    held_tres,
    requested_tres,
    shown_size,
    shown_use,
    step_tres,
    used_by_step,
    used_tres,
    written_tres,
)

DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
LONG = (
    "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,"
    "averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,"
    "state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,"
    "maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,"
    "alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,"
    "tresusageinmintask,tresusageintot,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,"
    "tresusageouttot"
)
ALSO = {
    "planned": "reserved",
    "plannedcpu": "resvcpu",
    "plannedcpuraw": "resvcpuraw",
    "tresusageinmaxn": "tresusageinmaxnode",
}
"""Names of later versions."""


@dataclass(frozen=True, slots=True)
class AccountRow:
    """A line of sacct: a job, or one of its steps. `unit` as `shown_size` takes it."""

    job: SlurmJob
    cluster: str
    step: SlurmStep | None = None
    unit: str = ""
    ended_by: int | None = None
    """The user that has cancelled it."""
    since: float | None = None
    until: float | None = None
    """With --truncate: times lie between these."""

    @property
    def is_step(self) -> bool:
        return self.step is not None

    @property
    def script(self) -> SlurmJob | None:
        """The job, in the row of the step of its own program: what is known of its use stands there."""
        return self.job if self.step is not None and self.step.facts is None else None

    def begin(self) -> float | None:
        """When it started."""
        at = self.step.started_at if self.step is not None else self.job.started_at
        return at if at is None or self.since is None else max(at, self.since)

    def end(self) -> float | None:
        """When it ended."""
        at = self.job.view.finished_at if self.job.has_ended else None
        if self.step is not None:
            at = self.step.ended_at
        if self.until is not None and self.begin() is not None:
            return min(at or self.until, self.until)
        return at

    def elapsed_s(self) -> float:
        """Seconds from the one to the other, or to now."""
        begin = None if self.job.is_pending else self.begin()
        return 0.0 if begin is None else max(0.0, (self.end() or self.job.clock.now) - begin)


Getter = Callable[[AccountRow], str]


def _of_job(value: Callable[[SlurmJob], str]) -> Getter:
    """What only the job's own row says."""
    return lambda row: "" if row.is_step else value(row.job)


def _of_script(value: Callable[[AccountRow], str]) -> Getter:
    """What only the row of the job's own program says."""
    return lambda row: value(row) if row.script is not None else ""


def _of_step(value: Callable[[SlurmStep], str]) -> Getter:
    """What the rows of all steps say."""
    return lambda row: value(row.step) if row.step is not None else ""


def _state(row: AccountRow) -> str:
    state = row.job.state
    if row.step is not None:
        return row.step.state
    return f"{state} by {row.ended_by}" if state == "CANCELLED" and row.ended_by is not None else state


def _exit_code(row: AccountRow) -> str:
    code, signal = row.step.exit_code if row.step is not None else row.job.job_exit_code
    return f"{code}:{signal}"


def _start(row: AccountRow) -> str:
    if row.begin() is None:
        return "None" if row.job.has_ended else row.job.clock.moment(row.job.planned_at)
    return row.job.clock.moment(row.begin())


def _identity(row: AccountRow) -> str:
    return f"{row.job.shown_id}.{row.step.label}" if row.step is not None else row.job.shown_id


def _nodes(row: AccountRow) -> str:
    if row.step is not None:
        return row.step.node_list
    return row.job.node_list or "None assigned"


def _cpus(row: AccountRow) -> int:
    return row.step.cpus if row.step is not None else row.job.cpus


def _cpu_time(row: AccountRow) -> float:
    return row.elapsed_s() * _cpus(row)


def _waited_s(job: SlurmJob) -> float:
    until = job.started_at or job.view.finished_at or job.clock.now
    return max(0.0, until - job.eligible_at)


def _energy(row: AccountRow) -> str:
    if row.step is not None and row.script is None:
        return ""
    known = [use.energy_j for use in row.job.usage.gpus if use.energy_j is not None]
    return f"{sum(known):.0f}" if known else "0"


def _size(mib: Callable[[AccountRow], float | None]) -> Getter:
    return _of_script(lambda row: shown_use(mib(row), row.unit))


def _peak(row: AccountRow) -> str:
    return shown_use(row.step.max_mem_mib, row.unit) if row.step is not None else ""


def _step_cpu(step: SlurmStep) -> str:
    return long_duration(step.cpu_s) if step.cpu_s is not None else ""


def _total_cpu(row: AccountRow) -> str:
    seconds = row.step.cpu_s if row.step is not None else row.job.usage.cpu_s
    return cpu_duration(seconds) if seconds is not None else ""


def _allocated(row: AccountRow) -> str:
    return held_tres(row.job, row.unit) if row.step is None else step_tres(row.step, row.unit)


def _submitted(row: AccountRow) -> float | None:
    return row.step.started_at if row.step is not None else row.job.view.submitted_at


def _problem(job: SlurmJob) -> str:
    """What went wrong with it that its exit code does not say."""
    result = job.view.result
    return sentence(result.problem) if result is not None and result.problem else ""


def _first_node(row: AccountRow) -> str:
    return row.job.hosts[0] if row.job.hosts else ""


def _used(row: AccountRow) -> str:
    if row.step is None:
        return ""
    return used_tres(row.job, row.unit) if row.script is not None else used_by_step(row.step, row.unit)


_READ = _size(lambda row: row.job.usage.read_mib)
_WRITTEN = _size(lambda row: row.job.usage.written_mib)
_VIRTUAL = _size(lambda row: _both(row.job.usage.max_mem_mib, row.job.usage.max_swap_mib))
_NODE = _of_script(_first_node)
_TASK = _of_script(lambda row: "0")


def _both(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _nothing(row: AccountRow) -> str:
    return ""


_VALUES: tuple[tuple[str, int, Getter], ...] = (
    ("Account", 10, lambda row: row.job.spec.project),
    ("AdminComment", 19, _nothing),
    ("AllocCPUS", 10, lambda row: str(_cpus(row) if row.job.parts else 0)),
    ("AllocNodes", 10, lambda row: str(row.step.nodes if row.step is not None else len(row.job.parts))),
    ("AllocTRES", 10, _allocated),
    ("AssocID", 7, _of_job(lambda job: "0")),
    ("AveCPU", 10, _of_step(_step_cpu)),
    ("AveCPUFreq", 10, _nothing),
    ("AveDiskRead", 14, _READ),
    ("AveDiskWrite", 14, _WRITTEN),
    ("AvePages", 10, _nothing),
    ("AveRSS", 10, _size(lambda row: row.job.usage.avg_mem_mib or row.job.usage.max_mem_mib)),
    ("AveVMSize", 10, _VIRTUAL),
    ("BlockID", 16, _nothing),
    ("Cluster", 10, lambda row: row.cluster),
    ("Comment", 14, _of_job(lambda job: job.spec.description)),
    ("Constraints", 19, _of_job(lambda job: job.spec.res_req)),
    ("ConsumedEnergy", 14, _energy),
    ("ConsumedEnergyRaw", 17, _energy),
    ("Container", 20, _nothing),
    ("CPUTime", 10, lambda row: long_duration(_cpu_time(row))),
    ("CPUTimeRAW", 10, lambda row: f"{_cpu_time(row):.0f}"),
    ("DBIndex", 10, _of_job(lambda job: job.raw_id)),
    ("DerivedExitCode", 15, _of_job(lambda job: "{}:{}".format(*job.exit_code))),
    ("Elapsed", 10, lambda row: long_duration(row.elapsed_s())),
    ("ElapsedRaw", 10, lambda row: f"{row.elapsed_s():.0f}"),
    ("Eligible", 19, lambda row: row.job.clock.moment(_submitted(row) if row.is_step else row.job.eligible_at)),
    ("End", 19, lambda row: row.job.clock.moment(row.end())),
    ("ExitCode", 8, _exit_code),
    ("Flags", 20, _nothing),
    ("GID", 6, _of_job(lambda job: str(job.group[0]) if job.group else "")),
    ("Group", 9, _of_job(lambda job: job.group[1] if job.group else "")),
    ("JobID", -12, _identity),
    ("JobIDRaw", -12, lambda row: row.job.raw_id + (f".{row.step.label}" if row.step is not None else "")),
    ("JobName", 10, lambda row: row.step.name if row.step is not None else row.job.name),
    ("Layout", 9, _of_step(lambda step: "Unknown")),
    ("MaxDiskRead", 12, _READ),
    ("MaxDiskReadNode", 15, _NODE),
    ("MaxDiskReadTask", 15, _TASK),
    ("MaxDiskWrite", 12, _WRITTEN),
    ("MaxDiskWriteNode", 16, _NODE),
    ("MaxDiskWriteTask", 16, _TASK),
    ("MaxPages", 8, _nothing),
    ("MaxPagesNode", 12, _nothing),
    ("MaxPagesTask", 14, _nothing),
    ("MaxRSS", 10, _peak),
    ("MaxRSSNode", 10, _NODE),
    ("MaxRSSTask", 10, _TASK),
    ("MaxVMSize", 10, _VIRTUAL),
    ("MaxVMSizeNode", 14, _NODE),
    ("MaxVMSizeTask", 14, _TASK),
    ("McsLabel", 10, _nothing),
    ("MinCPU", 10, _of_step(_step_cpu)),
    ("MinCPUNode", 10, _NODE),
    ("MinCPUTask", 10, _TASK),
    ("NCPUS", 10, lambda row: str(_cpus(row))),
    ("NNodes", 8, lambda row: str(row.step.nodes if row.step is not None else row.job.nodes)),
    ("NodeList", 15, _nodes),
    ("NTasks", 8, _of_step(lambda step: str(step.tasks))),
    ("Partition", 10, _of_job(lambda job: job.spec.queue)),
    ("Priority", 10, _of_job(lambda job: str(job.priority))),
    ("QOS", 10, _of_job(lambda job: "normal")),
    ("QOSRAW", 10, _of_job(lambda job: "1")),
    ("Reason", 22, _of_job(lambda job: job.reason)),
    ("ReqCPUFreq", 10, _nothing),
    ("ReqCPUFreqGov", 13, _nothing),
    ("ReqCPUFreqMax", 13, _nothing),
    ("ReqCPUFreqMin", 13, _nothing),
    ("ReqCPUS", 8, lambda row: str(_cpus(row))),
    ("ReqMem", 10, lambda row: "" if row.is_step else shown_size(row.job.memory_mib * row.job.nodes, row.unit)),
    ("ReqNodes", 8, _of_job(lambda job: str(job.nodes))),
    ("ReqTRES", 10, lambda row: "" if row.is_step else requested_tres(row.job, row.unit)),
    ("Reservation", 20, _of_job(lambda job: job.spec.reservation)),
    ("ReservationId", 20, _nothing),
    ("Reserved", 10, _of_job(lambda job: long_duration(_waited_s(job)))),
    ("ResvCPU", 10, _of_job(lambda job: long_duration(_waited_s(job) * job.cpus))),
    ("ResvCPURAW", 10, _of_job(lambda job: f"{_waited_s(job) * job.cpus:.0f}")),
    ("Start", 19, _start),
    ("State", 10, _state),
    ("Submit", 19, lambda row: row.job.clock.moment(_submitted(row))),
    ("SubmitLine", 20, _of_job(lambda job: job.spec.command)),
    ("Suspended", 10, lambda row: long_duration(row.job.view.result.suspended_s if row.job.view.result else 0.0)),
    ("SystemComment", 20, _of_job(_problem)),
    ("SystemCPU", 10, _nothing),
    ("Timelimit", 10, _of_job(lambda job: _limit(job, long_duration))),
    ("TimelimitRaw", 12, _of_job(lambda job: _limit(job, lambda seconds: f"{seconds / 60:.0f}"))),
    ("TotalCPU", 10, _total_cpu),
    ("TRESUsageInAve", 14, _used),
    ("TRESUsageInMax", 14, _used),
    ("TRESUsageInMaxNode", 18, _nothing),
    ("TRESUsageInMaxTask", 18, _nothing),
    ("TRESUsageInMin", 14, _used),
    ("TRESUsageInMinNode", 18, _nothing),
    ("TRESUsageInMinTask", 18, _nothing),
    ("TRESUsageInTot", 14, _used),
    ("TRESUsageOutAve", 15, _of_script(lambda row: written_tres(row.job))),
    ("TRESUsageOutMax", 15, _of_script(lambda row: written_tres(row.job))),
    ("TRESUsageOutMaxNode", 19, _nothing),
    ("TRESUsageOutMaxTask", 19, _nothing),
    ("TRESUsageOutMin", 15, _of_script(lambda row: written_tres(row.job))),
    ("TRESUsageOutMinNode", 19, _nothing),
    ("TRESUsageOutMinTask", 19, _nothing),
    ("TRESUsageOutTot", 15, _of_script(lambda row: written_tres(row.job))),
    ("UID", 6, _of_job(lambda job: "" if job.uid is None else str(job.uid))),
    ("User", 9, _of_job(lambda job: job.spec.user)),
    ("UserCPU", 10, _nothing),
    ("WCKey", 10, _nothing),
    ("WCKeyID", 8, _nothing),
    ("WorkDir", 20, _of_job(lambda job: job.spec.run_dir)),
)


def _limit(job: SlurmJob, shown: Callable[[float], str]) -> str:
    return "UNLIMITED" if job.spec.run_limit_s is None else shown(job.spec.run_limit_s)


_FREE = frozenset({"Account", "Comment", "Constraints", "JobName", "Reason", "Reservation", "SubmitLine", "WorkDir"})
"""Whose texts users choose."""
SACCT_FIELDS: AccountingFields[AccountRow] = by_name(TableField(*each, is_free=each[0] in _FREE) for each in _VALUES)
