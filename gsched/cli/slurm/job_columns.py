"""Fields of squeue, by names (-O) and letters (-o). What gsched does not have is N/A or (null), as Slurm prints it.

A slot is a CPU. Source: squeue(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gsched.base.patterns import expand_job_id, without_widths
from gsched.cli.slurm.facts.dependency_words import waits_for
from gsched.cli.slurm.facts.job_facts import MOST_PRIORITY, SlurmJob
from gsched.cli.slurm.facts.slurm_clock import SlurmClock
from gsched.cli.slurm.facts.tres_texts import gres_per_node, held_tres, requested_tres, shown_size
from gsched.cli.slurm.formats import FormatColumn
from gsched.cli.slurm.job_states import CODES, REASON_SHOWN
from gsched.dialect.slurm.slurm_values import show_duration
from gsched.model.views.view import JobView

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
JobColumns = Mapping[str, FormatColumn[SlurmJob]]
_Value = Callable[[SlurmJob], str]


def shown_id(job: JobView) -> str:
    """`12`, and `12_3` of an array's element."""
    return SlurmJob(job, SlurmClock.unused()).shown_id


def _fixed(text: str) -> _Value:
    return lambda job: text


def _moment(at: Callable[[SlurmJob], float | None]) -> _Value:
    return lambda job: job.clock.moment(at(job), "N/A")


def _left(job: SlurmJob) -> str:
    limit = job.spec.run_limit_s
    return "UNLIMITED" if limit is None else show_duration(limit - job.elapsed_s)


def _limit(job: SlurmJob) -> str:
    return "UNLIMITED" if job.spec.run_limit_s is None else show_duration(job.spec.run_limit_s)


def _reason_list(job: SlurmJob) -> str:
    return f"({job.reason})" if job.state in REASON_SHOWN else job.node_list


def _group(job: SlurmJob) -> str:
    return job.group[1] if job.group else ""


def _file(job: SlurmJob, name: str) -> str:
    if job.elements:
        text = without_widths(name).replace("%J", str(job.array_id)).replace("%I", "%a").replace("%i", "%a")
    else:
        text = expand_job_id(name, job.view.job_id, host=(job.hosts or [""])[0]).replace("%0N", "%N")
    return text if text.startswith("/") or not text else f"{job.spec.run_dir.rstrip('/')}/{text}"


def standard_output(job: SlurmJob) -> str:
    """Path of its output, as far as it is known before the job runs."""
    return _file(job, job.spec.output_file) or "/dev/null"


def standard_error(job: SlurmJob) -> str:
    """Path of its error output."""
    return _file(job, job.spec.error_file) or standard_output(job)


def standard_input(job: SlurmJob) -> str:
    """Path of its input."""
    return _file(job, job.spec.input_file) or "/dev/null"


def excluded_nodes(job: SlurmJob) -> list[str]:
    """Nodes that its requirement excludes by name."""
    return re.findall(r"hname!=([A-Za-z0-9.\-]+)", job.spec.res_req)


def tasks_of(job: SlurmJob) -> int:
    """A slot is a CPU, and of how many a task has several nothing is kept: as many tasks as CPUs."""
    return job.cpus


def _waited(job: SlurmJob) -> str:
    return f"{max(0.0, (job.started_at or job.view.finished_at or job.clock.now) - job.view.submitted_at):.0f}"


def _exit_code(job: SlurmJob) -> str:
    return str(job.exit_code[0] or job.exit_code[1])


_NULL, _NOT_THERE, _NO, _STAR = _fixed("(null)"), _fixed("N/A"), _fixed("0"), _fixed("*")
_FIELDS: tuple[tuple[str, str, str, _Value], ...] = (
    ("Account", "a", "ACCOUNT", lambda job: job.spec.project or "(null)"),
    ("AccrueTime", "", "ACCRUE_TIME", _moment(lambda job: job.eligible_at)),
    ("admin_comment", "", "ADMIN_COMMENT", _NULL),
    ("AllocNodes", "", "ALLOC_NODES", lambda job: job.spec.submit_host or "N/A"),
    ("AllocSID", "", "ALLOC_SID", _NO),
    ("ArrayJobID", "F", "ARRAY_JOB_ID", lambda job: str(job.array_id)),
    ("ArrayTaskID", "K", "ARRAY_TASK_ID", lambda job: job.index or "N/A"),
    ("AssocID", "", "ASSOC_ID", _NO),
    ("BatchFlag", "", "BATCH_FLAG", lambda job: "0" if job.spec.interactive else "1"),
    ("BatchHost", "B", "EXEC_HOST", lambda job: (job.hosts or ["n/a"])[0]),
    ("BoardsPerNode", "", "BOARDS_PER_NODE", _NOT_THERE),
    ("BurstBuffer", "", "BURST_BUFFER", _NOT_THERE),
    ("BurstBufferState", "", "BURST_BUFFER_STATE", _NOT_THERE),
    ("Cluster", "", "CLUSTER", _NOT_THERE),
    ("ClusterFeature", "", "CLUSTER_FEATURES", _NULL),
    ("Command", "o", "COMMAND", lambda job: job.spec.command),
    ("Comment", "k", "COMMENT", lambda job: job.spec.description or "(null)"),
    ("Contiguous", "O", "CONTIGUOUS", _NO),
    ("Container", "", "CONTAINER", _NULL),
    ("Cores", "I", "CORES_PER_SOCKET", _STAR),
    ("CoreSpec", "X", "CORE_SPEC", _NOT_THERE),
    ("CPUFreq", "", "CPU_FREQ", _NOT_THERE),
    ("cpus-per-task", "", "CPUS_PER_TASK", _NOT_THERE),
    ("cpus-per-tres", "", "CPUS_PER_TRES", _NOT_THERE),
    ("Deadline", "", "DEADLINE", _moment(lambda job: job.spec.terminate_at)),
    ("DelayBoot", "", "DELAY_BOOT", _fixed("0:00")),
    ("Dependency", "E", "DEPENDENCY", lambda job: waits_for(job) or "(null)"),
    ("DerivedEC", "", "DERIVED_EC", _exit_code),
    ("EligibleTime", "", "ELIGIBLE_TIME", _moment(lambda job: job.eligible_at)),
    ("EndTime", "e", "END_TIME", _moment(lambda job: job.ends_at)),
    ("exit_code", "", "EXIT_CODE", _exit_code),
    ("Feature", "f", "FEATURES", _NULL),
    ("GroupID", "G", "GROUP", lambda job: str(job.group[0]) if job.group else ""),
    ("GroupName", "g", "GROUP", _group),
    ("HetJobID", "", "HET_JOB_ID", _NOT_THERE),
    ("HetJobIDSet", "", "HET_JOB_ID_SET", _NOT_THERE),
    ("HetJobOffset", "", "HET_JOB_OFFSET", _NOT_THERE),
    ("JobArrayID", "i", "JOBID", lambda job: job.shown_id),
    ("JobID", "A", "JOBID", lambda job: job.raw_id),
    ("LastSchedEval", "", "LAST_SCHED_EVAL", _moment(lambda job: job.view.pending_reasons_at)),
    ("Licenses", "W", "LICENSES", _NULL),
    ("MaxCPUs", "", "MAX_CPUS", _NO),
    ("MaxNodes", "", "MAX_NODES", _NO),
    ("MCSLabel", "", "MCSLABEL", _NOT_THERE),
    ("mem-per-tres", "", "MEM_PER_TRES", _NOT_THERE),
    ("MinCpus", "c", "MIN_CPUS", _fixed("1")),
    ("MinMemory", "m", "MIN_MEMORY", lambda job: shown_size(job.memory_mib) if job.memory_mib else "0"),
    ("MinTime", "", "MIN_TIME", _fixed("0:00")),
    ("MinTmpDisk", "d", "MIN_TMP_DISK", _NO),
    ("Name", "j", "NAME", lambda job: job.name),
    ("Network", "", "NETWORK", _NULL),
    ("Nice", "y", "NICE", _NO),
    ("Nodes", "", "NODES", lambda job: job.node_list),
    ("NodeList", "N", "NODELIST", lambda job: job.node_list),
    ("NTPerBoard", "", "TASKS_PER_BOARD", _NOT_THERE),
    ("NTPerCore", "", "TASKS_PER_CORE", _NOT_THERE),
    ("NTPerNode", "", "TASKS_PER_NODE", _NO),
    ("NTPerSocket", "", "TASKS_PER_SOCKET", _NOT_THERE),
    ("NumCPUs", "C", "CPUS", lambda job: str(job.cpus)),
    ("NumNodes", "D", "NODES", lambda job: str(job.nodes)),
    ("NumTasks", "", "TASKS", lambda job: str(tasks_of(job))),
    ("Origin", "", "ORIGIN", _NOT_THERE),
    ("OriginRaw", "", "ORIGIN_RAW", _NOT_THERE),
    ("OverSubscribe", "h", "OVER_SUBSCRIBE", lambda job: "NO" if job.spec.exclusive else "OK"),
    ("Partition", "P", "PARTITION", lambda job: job.spec.queue),
    ("PendingTime", "", "PENDING_TIME", _waited),
    ("PreemptTime", "", "PREEMPT_TIME", _NOT_THERE),
    ("Prefer", "", "PREFER", _NULL),
    ("Priority", "p", "PRIORITY", lambda job: f"{job.priority / MOST_PRIORITY:.14f}"),
    ("PriorityLong", "Q", "PRIORITY", lambda job: str(job.priority)),
    ("Profile", "", "PROFILE", _NOT_THERE),
    ("QOS", "q", "QOS", _fixed("normal")),
    ("Reason", "r", "REASON", lambda job: job.reason),
    ("ReasonList", "R", "NODELIST(REASON)", _reason_list),
    ("Reboot", "", "REBOOT", _NO),
    ("ReqNodes", "n", "REQ_NODES", lambda job: ",".join(job.spec.hosts)),
    ("ReqSwitch", "", "REQ_SWITCH", _NO),
    ("Requeue", "", "REQUEUE", lambda job: str(int(bool(job.spec.rerunnable)))),
    ("Reservation", "v", "RESERVATION", lambda job: job.spec.reservation or "(null)"),
    ("ResizeTime", "", "RESIZE_TIME", _NOT_THERE),
    ("RestartCnt", "", "RESTART_COUNT", lambda job: str(job.view.requeues)),
    ("ResvPort", "", "RESV_PORTS", _NULL),
    ("SchedNodes", "Y", "SCHEDNODES", _NULL),
    ("SCT", "z", "S:C:T", _fixed("*:*:*")),
    ("SelectJobInfo", "s", "SELECT_JOBINFO", _fixed("")),
    ("SiblingsActive", "", "ACTIVE_SIBLINGS", _NOT_THERE),
    ("SiblingsActiveRaw", "", "ACTIVE_SIBLINGS_RAW", _NOT_THERE),
    ("SiblingsViable", "", "VIABLE_SIBLINGS", _NOT_THERE),
    ("SiblingsViableRaw", "", "VIABLE_SIBLINGS_RAW", _NOT_THERE),
    ("Sockets", "H", "SOCKETS_PER_NODE", _STAR),
    ("SPerBoard", "", "SOCKETS_PER_BOARD", _NOT_THERE),
    ("StartTime", "S", "START_TIME", _moment(lambda job: job.view.started_at or job.planned_at)),
    ("State", "T", "STATE", lambda job: job.state),
    ("StateCompact", "t", "ST", lambda job: CODES[job.state]),
    ("STDERR", "", "STDERR", standard_error),
    ("STDIN", "", "STDIN", standard_input),
    ("STDOUT", "", "STDOUT", standard_output),
    ("SubmitTime", "V", "SUBMIT_TIME", _moment(lambda job: job.view.submitted_at)),
    ("system_comment", "", "SYSTEM_COMMENT", _NULL),
    ("Threads", "J", "THREADS_PER_CORE", _STAR),
    ("TimeLeft", "L", "TIME_LEFT", _left),
    ("TimeLimit", "l", "TIME_LIMIT", _limit),
    ("TimeUsed", "M", "TIME", lambda job: show_duration(job.elapsed_s)),
    ("tres-alloc", "", "TRES_ALLOC", lambda job: held_tres(job) or requested_tres(job)),
    ("tres-bind", "", "TRES_BIND", _NOT_THERE),
    ("tres-freq", "", "TRES_FREQ", _NOT_THERE),
    ("tres-per-job", "", "TRES_PER_JOB", _NOT_THERE),
    ("tres-per-node", "b", "TRES_PER_NODE", gres_per_node),
    ("tres-per-socket", "", "TRES_PER_SOCKET", _NOT_THERE),
    ("tres-per-step", "", "TRES_PER_STEP", _NOT_THERE),
    ("tres-per-task", "", "TRES_PER_TASK", _NOT_THERE),
    ("UserID", "U", "USER", lambda job: "" if job.uid is None else str(job.uid)),
    ("UserName", "u", "USER", lambda job: job.spec.user),
    ("wait4switch", "", "WAIT4SWITCH", _NO),
    ("wckey", "w", "WCKEY", _NULL),
    ("WorkDir", "Z", "WORK_DIR", lambda job: job.spec.run_dir),
    ("", "x", "EXC_NODES", lambda job: ",".join(excluded_nodes(job))),
)
_FREE = frozenset(
    {
        *("Account", "AllocNodes", "Command", "Comment", "Dependency", "Name", "Reservation", "STDERR", "STDIN"),
        *("STDOUT", "WorkDir"),
    }
)
"""Whose texts users choose."""
BY_NAME: JobColumns = {
    name.lower(): FormatColumn(heading, value, name in _FREE) for name, _, heading, value in _FIELDS if name
}
BY_LETTER: JobColumns = {
    letter: FormatColumn(heading, value, name in _FREE) for name, letter, heading, value in _FIELDS if letter
}
