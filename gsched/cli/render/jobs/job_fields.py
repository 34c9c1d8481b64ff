"""The fields of `gjobs -o`: names, widths and other names as in bjobs(1) of LSF 10.1.

A field of LSF for something that gsched does not have is known and empty, so that formats written for LSF work.
"""

from __future__ import annotations

from collections.abc import Callable

from gsched.base.coded_text import sentence
from gsched.cli.render.jobs.shown_job import ShownJob, slots_on_host
from gsched.cli.render.text.output_formats import Field, FieldTable, FieldValue, FormatSetting
from gsched.cli.render.text.time_texts import hms, hours_minutes, long_stamp, short_stamp
from gsched.model.jobs.failure import failure_advice, failure_text
from gsched.model.jobs.job import TERM_TEXTS
from gsched.model.jobs.job_plot import shown_plots


def _rounded(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:.0f}{unit}"


def _plain(value: Callable[[ShownJob], str | float | None]) -> FieldValue[ShownJob]:
    return lambda job, _: value(job)


def _moment(value: Callable[[ShownJob], float | None]) -> FieldValue[ShownJob]:
    def text(job: ShownJob, setting: FormatSetting) -> str | None:
        at = value(job)
        return None if at is None else short_stamp(at, setting.zone)

    return text


def _as_second(value: Callable[[ShownJob], float | None]) -> FieldValue[ShownJob]:
    """A moment to the second."""

    def text(job: ShownJob, setting: FormatSetting) -> str | None:
        at = value(job)
        return None if at is None else long_stamp(at, setting.zone, year=True)

    return text


def _nothing(job: ShownJob, setting: FormatSetting) -> None:
    return None


def _seconds(value: float, setting: FormatSetting) -> str:
    """Without words: those are RUN_TIME's and CPU_USED's alone."""
    return hms(value) if setting.hms else f"{value:.0f}"


def _run_seconds(job: ShownJob, setting: FormatSetting) -> float | None:
    if job.view.dispatched_at is None:
        return None
    end = setting.now if job.ended_at is None else job.ended_at
    return max(0.0, end // 1 - job.view.dispatched_at // 1)


def _run_time(job: ShownJob, setting: FormatSetting) -> str:
    """Of a job that waits it is 0: Balsam takes the first word of what stands there."""
    seconds = _run_seconds(job, setting) or 0.0
    return hms(seconds) if setting.hms else f"{seconds:.0f} second(s)"


def _pend_time(job: ShownJob, setting: FormatSetting) -> str:
    ends = [at for at in (job.view.dispatched_at, job.ended_at, setting.now) if at is not None]
    return _seconds(max(0.0, ends[0] // 1 - job.view.submitted_at // 1), setting)


def _cpu_used(job: ShownJob, setting: FormatSetting) -> str | None:
    if job.usage.sampled_at is None and (job.ended_at is None or not job.ran):
        return None
    return hms(job.usage.cpu_s) if setting.hms else f"{job.usage.cpu_s:.1f} second(s)"


def _gpu_idle(job: ShownJob, setting: FormatSetting) -> str | None:
    """Summed over its GPUs."""
    seconds = job.gpu_use.idle_s
    return None if seconds is None else _seconds(seconds, setting)


def _idle_for(job: ShownJob, setting: FormatSetting) -> str | None:
    """For how long all its GPUs have been idle; 0 as long as one works."""
    return None if job.idle is None else _seconds(job.idle.idle_s, setting)


def _idle_kind(job: ShownJob) -> str | None:
    return None if job.idle is None else job.idle.kind or None


def _idle_warned(job: ShownJob) -> float | None:
    warning = job.view.idle_warning
    return None if warning is None else warning.at


def _idle_factor(job: ShownJob, setting: FormatSetting) -> str | None:
    return None if job.idle_factor is None else f"{job.idle_factor:.2f}"


def _cpu_efficiency(job: ShownJob, setting: FormatSetting) -> str | None:
    """`100.69%` of the time of all its slots."""
    share = job.idle_factor
    slots = sum(host.slots for host in job.placed)
    return None if share is None or not slots else f"{100 * share / slots:.2f}%"


def _cpu_peak(job: ShownJob) -> str | None:
    """`1.69`: processor cores."""
    cores = job.usage.cpu_peak
    return None if cores is None else f"{cores:.2f}"


def _cpu_peak_efficiency(job: ShownJob) -> str | None:
    """`169.23%` of its slots."""
    cores, slots = job.usage.cpu_peak, sum(host.slots for host in job.placed)
    return None if cores is None or not slots else f"{100 * cores / slots:.2f}%"


def _cpu_peak_time(job: ShownJob, setting: FormatSetting) -> str | None:
    seconds = job.usage.cpu_peak_s
    return None if seconds is None else hms(seconds) if setting.hms else f"{seconds:.0f} second(s)"


def _mem_efficiency(job: ShownJob) -> str | None:
    """`42.10%`: the most memory that it used, of what it had reserved."""
    most, reserved = job.usage.max_mem_mib, job.reserved_mem_mib
    return None if most is None or not reserved else f"{100 * most / reserved:.2f}%"


def _finish_time(job: ShownJob, setting: FormatSetting) -> str | None:
    """When it ended, or when its run limit will end it (marked `L`)."""
    if job.ended_at is not None:
        return short_stamp(job.ended_at, setting.zone)
    limit_ends = _limit_ends(job)
    return None if limit_ends is None else f"{short_stamp(limit_ends, setting.zone)} L"


def _limit_ends(job: ShownJob) -> float | None:
    if job.view.dispatched_at is None or job.spec.run_limit_s is None or job.ended_at is not None:
        return None
    return job.view.dispatched_at + job.spec.run_limit_s


def _time_left(job: ShownJob, setting: FormatSetting) -> str | None:
    limit_ends = _limit_ends(job)
    if limit_ends is None:
        return None
    left = limit_ends - setting.now
    return f"{hours_minutes(left)} L" if left >= 0 else "0:0 X"


def _complete(job: ShownJob, setting: FormatSetting) -> str | None:
    """`15.00% L`. Clients rely on it being absent whenever FINISH_TIME is."""
    if job.ended_at is not None:
        return "100.00%"
    seconds = _run_seconds(job, setting)
    if _limit_ends(job) is None or seconds is None or not job.spec.run_limit_s:
        return None
    return f"{min(100.0, 100.0 * seconds / job.spec.run_limit_s):.2f}% L"


def _exit_code(job: ShownJob) -> str | None:
    """Empty for 0 and before the end; a signal counts as 128 more, as in a shell."""
    if job.ended_at is None:
        return None
    code = job.exit_code if job.signal is None else 128 + job.signal
    return str(code) if code else None


def _exit_reason(job: ShownJob, setting: FormatSetting) -> str | None:
    """Why the job was ended, if it was: one that merely failed has none.

    In JSON neither has one that its owner ended: a client (PSI/J 0.9.11) that does so itself stumbles over any reason
    and would ask for ever. What ends jobs by themselves (a limit, say) is said there too.
    """
    if job.ended_at is None or not job.term_reason or (setting.json and job.term_reason == "TERM_OWNER"):
        return None
    return f"{job.term_reason}: {TERM_TEXTS.get(job.term_reason, 'unknown')}"


def _fail_reason(job: ShownJob) -> str | None:
    return None if job.failure is None else sentence(failure_text(job.failure))


def _fail_advice(job: ShownJob) -> str | None:
    advice = None if job.failure is None else failure_advice(job.failure)
    return None if advice is None else sentence(advice)


def _retries(job: ShownJob) -> str | None:
    """`gpu_busy:1 xid:2`: how often it was run again after failures of these classes."""
    return " ".join(f"{kind}:{count}" for kind, count in sorted(job.view.retries.items())) or None


def _pend_reason(job: ShownJob) -> str | None:
    return f"{job.pending_reasons[0]};" if job.pending_reasons else None


def _pend_state(job: ShownJob) -> str:
    """IPEND: it could not start even on an empty cluster; EPEND: it waits for a place."""
    if job.view.state not in ("PEND", "PSUSP"):
        return "NOTPEND"
    return "IPEND" if job.is_ineligible else "EPEND"


def _exec_host(job: ShownJob) -> str:
    return ":".join(slots_on_host(host) for host in job.placed)


def _slots(job: ShownJob) -> str:
    return str(sum(host.slots for host in job.placed) or job.spec.slots)


def _estimated_run_time(job: ShownJob, setting: FormatSetting) -> str | None:
    return None if job.spec.estimate_s is None else _seconds(job.spec.estimate_s, setting)


def _mib(job: ShownJob, limit: str) -> float | None:
    value = job.spec.limits.get(limit)
    return None if value is None else value / 1024


def _count(job: ShownJob, limit: str) -> str | None:
    value = job.spec.limits.get(limit)
    return None if value is None else f"{value:.0f}"


def _gpu(job: ShownJob, option: str) -> str | None:
    """An option of the job's -gpu requirement, as `mode` of `num=2:mode=shared`."""
    parts = (part.partition("=") for part in job.spec.combined_gpu_req.split(":"))
    return next((value for name, _, value in parts if name == option), None)


TIME_COLUMNS: dict[str, tuple[str, FieldValue[ShownJob]]] = {
    "WL": ("TIME_LEFT", _time_left),
    "WP": ("%COMPLETE", _complete),
    "WF": ("FINISH_TIME", _finish_time),
}
"""Options of gjobs that add one column about time to the usual ones."""


def _priority(job: ShownJob) -> str | None:
    return None if job.spec.priority is None else str(job.spec.priority)


def _warning_time(job: ShownJob) -> str | None:
    return None if job.spec.warning_s is None else f"{job.spec.warning_s / 60:g}"


EXCEPTION_STATUS = "exception_status"
"""The field for which the thresholds of queues are asked for."""

_GIVEN: tuple[Field[ShownJob], ...] = (
    Field("jobid", 7, _plain(lambda job: str(job.job_id)), ("id",)),
    Field("jobindex", 8, _plain(lambda job: str(job.index))),
    Field("stat", 5, _plain(lambda job: job.view.state)),
    Field("user", 7, _plain(lambda job: job.spec.user)),
    Field("queue", 10, _plain(lambda job: job.spec.queue)),
    Field("job_name", 10, _plain(lambda job: job.display_name), ("name",), keeps_tail=True),
    Field("proj_name", 11, _plain(lambda job: job.spec.project), ("proj", "project")),
    Field("command", 15, _plain(lambda job: job.spec.command), ("cmd",)),
    Field("pend_reason", 11, _plain(_pend_reason)),
    Field("pending_reasons_at", 18, _as_second(lambda job: job.view.pending_reasons_at)),
    Field("pids", 20, _plain(lambda job: ",".join(str(pid) for pid in job.usage.pids))),
    Field("exit_code", 10, _plain(_exit_code)),
    Field("exit_reason", 50, _exit_reason),
    Field("fail_class", 17, _plain(lambda job: job.failure.kind if job.failure is not None else None)),
    Field("fail_reason", 60, _plain(_fail_reason)),
    Field("fail_advice", 60, _plain(_fail_advice)),
    Field("retries", 20, _plain(_retries)),
    Field("restarts", 8, _plain(lambda job: str(job.view.restarts))),
    Field("kill_reason", 50, _plain(lambda job: job.view.kill_reason)),
    Field("from_host", 11, _plain(lambda job: job.spec.submit_host)),
    Field(EXCEPTION_STATUS, 16, _plain(lambda job: "  ".join(job.exceptions)), ("except_stat",)),
    Field("first_host", 11, _plain(lambda job: job.placed[0].host if job.placed else None)),
    Field("exec_host", 11, _plain(_exec_host)),
    Field("nexec_host", 10, _plain(lambda job: str(len(job.placed)) if job.placed else None)),
    Field("ask_hosts", 30, _plain(lambda job: " ".join(job.hosts_asked))),
    Field("alloc_slot", 20, _plain(lambda job: ":".join(f"{host.slots}*{host.host}" for host in job.placed))),
    Field("nalloc_slot", 10, _plain(lambda job: _slots(job) if job.placed else None)),
    Field("nreq_slot", 10, _plain(lambda job: str(job.spec.slots))),
    Field("min_req_proc", 12, _plain(lambda job: str(job.spec.slots))),
    Field("max_req_proc", 12, _plain(lambda job: str(job.spec.max_slots or job.spec.slots))),
    Field("slots", 5, _plain(_slots)),
    Field("submit_time", 15, _moment(lambda job: job.view.submitted_at)),
    Field("start_time", 15, _moment(lambda job: job.view.dispatched_at)),
    Field("finish_time", 16, _finish_time),
    Field("time_left", 11, _time_left),
    Field("%complete", 11, _complete),
    Field("pend_time", 12, _pend_time),
    Field("run_time", 15, _run_time),
    Field("cpu_used", 10, _cpu_used),
    Field("idle_factor", 11, _idle_factor),
    Field("average_cpu_efficiency", 10, _cpu_efficiency),
    Field("cpu_peak", 10, _plain(_cpu_peak)),
    Field("cpu_peak_efficiency", 10, _plain(_cpu_peak_efficiency)),
    Field("cpu_peak_reached_duration", 10, _cpu_peak_time),
    Field("mem_efficiency", 10, _plain(_mem_efficiency)),
    Field("mem", 10, _plain(lambda job: job.usage.mem_mib), sized=True),
    Field("max_mem", 10, _plain(lambda job: job.usage.max_mem_mib), sized=True),
    Field("avg_mem", 10, _plain(lambda job: job.usage.avg_mem_mib), sized=True),
    Field("io_read", 10, _plain(lambda job: job.usage.read_mib), sized=True),
    Field("io_written", 10, _plain(lambda job: job.usage.written_mib), sized=True),
    Field("disk_read", 10, _plain(lambda job: job.usage.disk_read_mib), sized=True),
    Field("disk_written", 12, _plain(lambda job: job.usage.disk_written_mib), sized=True),
    Field("swap", 10, _plain(lambda job: job.usage.swap_mib), sized=True),
    Field("nthreads", 10, _plain(lambda job: None if job.usage.threads is None else str(job.usage.threads))),
    Field("gpu_num", 10, _plain(lambda job: str(job.gpu_count) if job.gpu_count else None), ("gnum",)),
    Field("gpu_mode", 20, _plain(lambda job: _gpu(job, "mode")), ("gmode",)),
    Field("j_exclusive", 15, _plain(lambda job: _gpu(job, "j_exclusive")), ("j_excl",)),
    Field("user_group", 15, _plain(lambda job: job.spec.user_group), ("ugroup",)),
    Field("job_description", 17, _plain(lambda job: job.spec.description), ("description",)),
    Field("job_group", 10, _plain(lambda job: job.spec.group), ("group",)),
    Field("job_priority", 12, _plain(_priority), ("priority",)),
    Field("rsvid", 40, _plain(lambda job: job.spec.reservation)),
    Field("suspend_reason", 50, _plain(lambda job: "; ".join(job.suspending_reasons))),
    Field("dependency", 15, _plain(lambda job: job.spec.dependency)),
    Field("charged_saap", 50, _plain(lambda job: job.view.share_group), ("saap",)),
    Field("interactive", 11, _plain(lambda job: "Y" if job.spec.interactive else "N")),
    Field("exclusive", 13, _plain(lambda job: "Y" if job.spec.exclusive else "N")),
    Field("pendstate", 9, _plain(_pend_state)),
    Field(
        "estimated_start_time",
        20,
        _moment(lambda job: None if job.view.planned is None else job.view.planned.at),
        ("estart_time",),
    ),
    Field("specified_start_time", 20, _moment(lambda job: job.spec.begin_at), ("sstart_time",)),
    Field("specified_terminate_time", 24, _moment(lambda job: job.spec.terminate_at), ("sterminate_time",)),
    Field("estimated_run_time", 20, _estimated_run_time, ("ertime",)),
    Field("memlimit", 10, _plain(lambda job: job.spec.limits.get("MEMLIMIT")), sized=True),
    Field("swaplimit", 10, _plain(lambda job: job.spec.limits.get("SWAPLIMIT")), sized=True),
    Field("corelimit", 10, _plain(lambda job: _mib(job, "CORELIMIT")), sized=True),
    Field("stacklimit", 10, _plain(lambda job: _mib(job, "STACKLIMIT")), sized=True),
    Field("filelimit", 10, _plain(lambda job: _mib(job, "FILELIMIT")), sized=True),
    Field("processlimit", 12, _plain(lambda job: _count(job, "PROCESSLIMIT"))),
    Field("gpu_util", 8, _plain(lambda job: _rounded(job.gpu_use.util_percent, "%"))),
    Field("gpu_mem", 10, _plain(lambda job: job.gpu_use.mem_mean_mib), sized=True),
    Field("gpu_mem_peak", 12, _plain(lambda job: job.gpu_use.mem_max_mib), sized=True),
    Field("gpu_energy", 12, _plain(lambda job: _rounded(job.gpu_use.energy_j, " J"))),
    Field("gpu_idle", 10, _gpu_idle),
    Field("gpu_idle_kind", 13, _plain(_idle_kind)),
    Field("gpu_idle_for", 12, _idle_for),
    Field("gpu_idle_since", 26, _as_second(lambda job: None if job.idle is None else job.idle.since)),
    Field("gpu_idle_warned", 26, _as_second(_idle_warned)),
    Field("gpu_idle_ok", 20, _plain(lambda job: job.spec.gpu_idle_ok or None)),
    Field("plots", 30, _plain(lambda job: shown_plots(job.spec.plots) or None)),
    Field("service_port", 12, _plain(lambda job: str(job.view.service_port or "") or None)),
    Field("service_since", 26, _as_second(lambda job: job.view.service_at)),
    Field("gpu_alloc", 30, _plain(lambda job: job.gpus), ("galloc",)),
    Field("combined_resreq", 20, _plain(lambda job: job.combined_req), ("cresreq",)),
    Field("effective_resreq", 17, _plain(lambda job: job.effective_req), ("eresreq",)),
    Field("runtimelimit", 12, _plain(lambda job: f"{job.spec.run_limit_s / 60:.1f}" if job.spec.run_limit_s else None)),
    Field("input_file", 10, _plain(lambda job: job.spec.input_file)),
    Field("output_file", 11, _plain(lambda job: job.spec.output_file)),
    Field("error_file", 10, _plain(lambda job: job.spec.error_file)),
    Field("sub_cwd", 10, _plain(lambda job: job.spec.cwd)),
    Field("exec_home", 10, _plain(lambda job: job.view.exec_home)),
    Field("exec_cwd", 10, _plain(lambda job: job.view.exec_cwd)),
    Field("application", 13, _plain(lambda job: job.spec.application), ("app",)),
    Field("service_class", 13, _plain(lambda job: job.spec.service_class), ("sla",)),
    Field("pre_exec_command", 16, _plain(lambda job: job.spec.pre_exec), ("pre_cmd",)),
    Field("post_exec_command", 17, _plain(lambda job: job.spec.post_exec), ("post_cmd",)),
    Field("warning_action", 15, _plain(lambda job: job.spec.warning_signal), ("warn_act",)),
    Field("action_warning_time", 19, _plain(_warning_time), ("warn_time",)),
    Field("output_dir", 15, _plain(lambda job: job.spec.output_dir)),
)

_EMPTY = (
    "resume_reason:50 "
    "resize_notification_command:27:resize_cmd host_file:10 "
    "estimated_sim_start_time:24:esstart_time effective_plimit:18 plimit_remain:15 effective_eplimit:19 "
    "eplimit_remain:16 network_req:15 plimit:10 "
    "eplimit:10 licproject:20 forward_cluster:15:fwd_cluster forward_time:15:fwd_time srcjobid:8 "
    "dstjobid:8 source_cluster:15:srcluster"
)
"""Fields of what there is not here at all: no job has them."""

_REFUSED = {
    "user and system time are not told apart; cpu_used is their sum": "ru_utime:12 ru_stime:12",
    "what a job uses is added up over its hosts; mem, swap and cpu_used have it": "hrusage:50",
    "time in which a job could not have started is not told apart; pend_time is all of it": "ependtime:12 ipendtime:12",
    "the energy of whole hosts is not measured; gpu_energy is": "energy:10",
    "what a job reads and writes is not measured": "gpfsio:10",
    "which esub programs a job went through is not kept": "esub:20",
    "only who asked for it is kept, not from where; ghist -l names the user": (
        "kill_issue_host:50 suspend_issue_host:50 resume_issue_host:50"
    ),
}
"""Why there is no value of fields that a job of LSF may have."""


def _empty(text: str, refused: str = "") -> tuple[Field[ShownJob], ...]:
    parts = (word.split(":") for word in text.split())
    return tuple(Field(part[0], int(part[1]), _nothing, tuple(part[2:]), refused=refused) for part in parts)


JOB_FIELDS: FieldTable[ShownJob] = FieldTable(
    "-o", (*_GIVEN, *_empty(_EMPTY), *(field for why, names in _REFUSED.items() for field in _empty(names, why)))
)

USUAL_FIELDS = "jobid user stat queue from_host exec_host job_name submit_time"
"""The columns of the table without -o."""
