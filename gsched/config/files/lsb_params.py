"""lsb.params: what holds for the whole cluster.

Source: lsb.params(5); EFFICIENCY_MIN_RUN, EVENT_HISTORY_DAYS, EVENT_HISTORY_SIZE, GMEM_ACTION, GPU_CLEAN_PROBES,
GPU_FATAL_XIDS, GPU_FOREIGN, GPU_FOREIGN_MIB, GPU_GROW_INTERVAL, GPU_HEALTH_CHECK, GPU_HEALTH_INTERVAL,
GPU_HEALTH_TIMEOUT, GPU_HOUR_PRICE, GPU_MAX_TEMPERATURE, GPU_PLACEMENT, GPU_SHARED_JOBS, GPU_UNREQUESTED,
HOST_HISTORY_DAYS, JOB_HISTORY_DAYS, KILL_ON_INVALID_DEPENDENCY, KWH_PRICE, MIN_RUN_BEFORE_PREEMPT, PREEMPT_ACTION
and RESERVE_CORES_PER_GPU are gsched's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import LARGEST_JOB_NUMBER
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.sections import ConfigSection, KeyValue, read_entries
from gsched.config.grammar.unsupported import AS_HERE_PARAMS, REFUSED_PARAMS, WITHOUT_EFFECT_PARAMS
from gsched.config.grammar.values import (
    KeyValues,
    absolute_path,
    default_group,
    group_name,
    integer,
    job_folder,
    minutes,
    plain_text,
    queue_name,
    real,
    seconds,
    yes_or_no,
)
from gsched.config.names.external_groups import update_interval
from gsched.config.parameters.job_limits import resizable_jobs
from gsched.config.parameters.preemption import read_sparing
from gsched.config.parameters.prices import read_prices
from gsched.config.parameters.requirements import GPUS_OF_LSF, gpu_requirement
from gsched.config.parameters.retries import exit_values, preexec_retries, read_exit_rates, retry_action
from gsched.config.parameters.shares import read_factors
from gsched.model.config import (
    GmemAction,
    GpuForeign,
    GpuPlacement,
    GpuUnrequested,
    Params,
    Timing,
)
from gsched.model.hosts.resource import BUILTIN, GPU_COUNTERS, Resource
from gsched.model.queues.queue import Queue

DEFAULT_SLEEP_S = 10.0
"""MBD_SLEEP_TIME where it is not set: the unit of JOB_ACCEPT_INTERVAL and of MAX_RESERVE_TIME."""

_LARGEST = 2**31 - 2
_COUNT = integer(0, _LARGEST)
_FACTOR = real(0, 1e6)
_WORDS_OF_PREEMPTION = {"suspend": False, "requeue": True}


class ParamsFile(msgspec.Struct):
    """What lsb.params says, with where the default queue is named (None: it is gsched's default)."""

    params: Params
    usage_sample_s: float
    cpu_peak_s: float
    sleep_s: float
    sleep_at: SourcePlace | None
    unit_types: tuple[str, ...]
    """COMPUTE_UNIT_TYPES, the default one first."""
    default_queue_at: SourcePlace | None = None
    default_application_at: SourcePlace | None = None
    default_user_group_at: SourcePlace | None = None
    gpu_req_at: SourcePlace | None = None


def read_params(
    sections: Sequence[ConfigSection], resources: Mapping[str, Resource], unit: str, findings: Findings
) -> ParamsFile:
    """lsb.params' sections as one value; defaults for what is not set. Every problem goes to `findings`.

    A size without a unit is in `unit`, a letter.
    """
    entries: list[KeyValue] = []
    for section in sections:
        if section.name.casefold() == "parameters":
            entries += read_entries(section, findings)
        else:
            findings.error(section.at, f"unknown section {section.name} in lsb.params; it holds Parameters")
    settings = KeyValues(entries, findings, where="lsb.params")
    sleep_s = settings.take("MBD_SLEEP_TIME", seconds(0.05), DEFAULT_SLEEP_S)
    params = _params(settings, sleep_s, unit, findings)
    sample_s = settings.take("SBD_SLEEP_TIME", seconds(0.05), Timing().usage_sample_s)
    cpu_peak_s = settings.take("CPU_PEAK_SAMPLE_DURATION", seconds(0.05), Timing().cpu_peak_s)
    unit_types = settings.take("COMPUTE_UNIT_TYPES", _unit_types, ())
    _check_preemptable(settings, params, resources, findings)
    _check_history(settings, params, findings)
    settings.finish(REFUSED_PARAMS, WITHOUT_EFFECT_PARAMS, as_here=AS_HERE_PARAMS)
    gpu_req_at = settings.place("GPU_REQ")
    return ParamsFile(
        params=params,
        usage_sample_s=sample_s,
        cpu_peak_s=cpu_peak_s,
        sleep_s=sleep_s,
        sleep_at=settings.place("MBD_SLEEP_TIME"),
        unit_types=unit_types,
        default_queue_at=settings.place("DEFAULT_QUEUE"),
        default_application_at=settings.place("DEFAULT_APPLICATION"),
        default_user_group_at=settings.place("DEFAULT_USER_GROUP"),
        gpu_req_at=gpu_req_at,
    )


def check_sleep_time(file: ParamsFile, queues: Mapping[str, Queue], findings: Findings) -> None:
    """Notes a MBD_SLEEP_TIME that is the unit of nothing."""
    is_used = file.params.job_accept_interval_s > 0 or any(
        queue.reserve_s is not None or queue.accept_interval_s for queue in queues.values()
    )
    if file.sleep_at is not None and not is_used:
        why = "it is the unit of JOB_ACCEPT_INTERVAL, which is 0, and of MAX_RESERVE_TIME, which no queue sets"
        findings.note(file.sleep_at, f"MBD_SLEEP_TIME has no effect: {why}")


def _params(settings: KeyValues, sleep_s: float, unit: str, findings: Findings) -> Params:
    default = Params()
    foreign, foreign_kill_s = settings.take("GPU_FOREIGN", _foreign, (default.gpu_foreign, default.gpu_foreign_kill_s))
    return Params(
        default_queues=settings.take("DEFAULT_QUEUE", _default_queues, default.default_queues),
        default_project=settings.take("DEFAULT_PROJECT", _project, default.default_project),
        default_job_cwd=settings.take("DEFAULT_JOB_CWD", job_folder, ""),
        default_job_outdir=settings.take("DEFAULT_JOB_OUTDIR", job_folder, ""),
        default_application=settings.take("DEFAULT_APPLICATION", queue_name, ""),
        master_sleep_s=sleep_s,
        job_accept_interval_s=settings.take("JOB_ACCEPT_INTERVAL", _FACTOR, 0.0) * sleep_s,
        host_history_days=settings.take("HOST_HISTORY_DAYS", integer(0, 36_500), default.host_history_days),
        max_job_id=settings.take("MAX_JOBID", integer(1, LARGEST_JOB_NUMBER), default.max_job_id),
        max_pending=settings.take("MAX_PEND_JOBS", _COUNT, settings.take("MAX_PENDING_JOBS", _COUNT, None)),
        max_pending_slots=settings.take("MAX_PEND_SLOTS", integer(0, _LARGEST), None),
        job_terminate_interval_s=settings.take("JOB_TERMINATE_INTERVAL", seconds(0), default.job_terminate_interval_s),
        gpu_shared_jobs=settings.take("GPU_SHARED_JOBS", integer(1, 1024), default.gpu_shared_jobs),
        gpu_unrequested=settings.take("GPU_UNREQUESTED", _unrequested, default.gpu_unrequested),
        gmem_action=settings.take("GMEM_ACTION", _gmem_action, default.gmem_action),
        gpu_foreign=foreign,
        gpu_foreign_kill_s=foreign_kill_s,
        gpu_foreign_mib=settings.take("GPU_FOREIGN_MIB", integer(0, 1 << 30), default.gpu_foreign_mib),
        gpu_fatal_xids=settings.take("GPU_FATAL_XIDS", _xids, default.gpu_fatal_xids),
        gpu_clean_probes=settings.take("GPU_CLEAN_PROBES", integer(1, 1_000_000), default.gpu_clean_probes),
        gpu_max_temperature_c=settings.take("GPU_MAX_TEMPERATURE", integer(1, 200), default.gpu_max_temperature_c),
        gpu_health_check=settings.take("GPU_HEALTH_CHECK", absolute_path, default.gpu_health_check),
        gpu_health_timeout_s=settings.take("GPU_HEALTH_TIMEOUT", real(1, 3600), default.gpu_health_timeout_s),
        gpu_health_interval_h=settings.take("GPU_HEALTH_INTERVAL", real(0, 8760), default.gpu_health_interval_h),
        gpu_placement=settings.take("GPU_PLACEMENT", _placement, default.gpu_placement),
        max_array_size=settings.take("MAX_JOB_ARRAY_SIZE", integer(1, _LARGEST), default.max_array_size),
        max_user_priority=settings.take("MAX_USER_PRIORITY", integer(1, _LARGEST), None),
        priority_over_time=settings.take("JOB_PRIORITY_OVER_TIME", _over_time, None),
        dependency_last_only=settings.take("JOB_DEP_LAST_SUB", _zero_or_one, default.dependency_last_only),
        end_on_invalid_dependency=settings.take(
            "KILL_ON_INVALID_DEPENDENCY", yes_or_no, default.end_on_invalid_dependency
        ),
        orphan_grace_s=_orphan_grace(settings, findings),
        gpu_req=settings.take("GPU_REQ", gpu_requirement(unit), default.gpu_req),
        gpu_req_merge=settings.take("GPU_REQ_MERGE", yes_or_no, default.gpu_req_merge),
        reserve_cores_per_gpu=settings.take("RESERVE_CORES_PER_GPU", integer(0, 4096), default.reserve_cores_per_gpu),
        min_run_before_preempt_s=settings.take("MIN_RUN_BEFORE_PREEMPT", seconds(0), default.min_run_before_preempt_s),
        gpu_grow_interval_s=settings.take("GPU_GROW_INTERVAL", seconds(0), default.gpu_grow_interval_s),
        preempt_requeue=settings.take("PREEMPT_ACTION", _preempt_action, default.preempt_requeue),
        resizable=settings.take("RESIZABLE_JOBS", resizable_jobs, ""),
        reserves_per_task=_reserves_per_task(settings),
        preexec_excludes=settings.take("PREEXEC_EXCLUDE_HOST_EXIT_VALUES", _excluding_codes, ""),
        sparing=read_sparing(settings),
        exit_rates=read_exit_rates(settings),
        max_preexec_retry=preexec_retries(settings),
        pre_timeout_s=settings.take("JOB_PREPROC_TIMEOUT", minutes, None),
        post_timeout_s=settings.take("JOB_POSTPROC_TIMEOUT", minutes, None),
        default_after_failed_control=settings.take("JOB_CONTROLS_FAIL_DEFAULT_ACTION", yes_or_no, False),
        preexec_exit=settings.take("LOCAL_MAX_PREEXEC_RETRY_ACTION", retry_action, default.preexec_exit),
        factors=read_factors(settings),
        prices=read_prices(settings, findings),
        detect_idle_after_s=settings.take("DETECT_IDLE_JOB_AFTER", minutes, default.detect_idle_after_s),
        efficiency_min_run_s=settings.take("EFFICIENCY_MIN_RUN", seconds(0), default.efficiency_min_run_s),
        egroup_update_s=settings.take("EGROUP_UPDATE_INTERVAL", update_interval, None),
        **_of_jobs(settings, findings),
    )


def _check_history(settings: KeyValues, params: Params, findings: Findings) -> None:
    """What happened to a job is of no use without the job."""
    jobs, events, at = params.job_history_days, params.event_history_days, settings.place("EVENT_HISTORY_DAYS")
    if jobs and events > jobs and at is not None:
        findings.error(at, f"EVENT_HISTORY_DAYS = {events} is longer than JOB_HISTORY_DAYS = {jobs}")


def _of_jobs(settings: KeyValues, findings: Findings) -> dict[str, Any]:
    """Who may do what with jobs, in which group they are, and for how long they are listed and kept."""
    cleans = settings.take("JOB_GROUP_CLEAN", yes_or_no, True)
    at = settings.place("JOB_GROUP_CLEAN")
    if not cleans and at is not None:
        why = "a job group that a submission made goes with its last job"
        findings.note(at, f"JOB_GROUP_CLEAN = N has no effect: {why}")
    clean_period_s = settings.take("CLEAN_PERIOD", integer(0, 10**9), Params().clean_period_s)
    return {
        "job_history_days": settings.take("JOB_HISTORY_DAYS", integer(0, 36_500), Params().job_history_days),
        "event_history_days": settings.take("EVENT_HISTORY_DAYS", integer(0, 36_500), Params().event_history_days),
        "event_history_mb": settings.take("EVENT_HISTORY_SIZE", integer(0, _LARGEST), Params().event_history_mb),
        "clean_period_s": clean_period_s,
        "clean_period_done_s": _clean_period_done(settings, clean_period_s, findings),
        "default_job_group": settings.take("DEFAULT_JOBGROUP", default_group, ""),
        "max_requeue": settings.take("MAX_JOB_REQUEUE", _COUNT, None),
        "users_resume": settings.take("ENABLE_USER_RESUME", yes_or_no, False),
        "reservations_of_user": settings.take("ADVRSV_USER_LIMIT", _COUNT, Params().reservations_of_user),
        "default_user_group": settings.take("DEFAULT_USER_GROUP", group_name, ""),
        "host_intersection": settings.take("ENABLE_HOST_INTERSECTION", yes_or_no, False),
        "max_messages": settings.take("MAX_JOB_MSG_NUM", _COUNT, None),
        "max_attached_kib": settings.take("MAX_JOB_ATTA_SIZE", integer(0, _LARGEST + 1), None),
        "only_admins_force": settings.take("PRIVILEGED_USER_FORCE_BKILL", yes_or_no, False),
        "only_admins_move": settings.take("JOB_POSITION_CONTROL_BY_ADMIN", yes_or_no, False),
    }


def _orphan_grace(settings: KeyValues, findings: Findings) -> float:
    """ORPHAN_JOB_TERM_GRACE_PERIOD, in seconds."""
    found = settings.take("ORPHAN_JOB_TERM_GRACE_PERIOD", seconds(0), 0.0)
    at = settings.place("ORPHAN_JOB_TERM_GRACE_PERIOD")
    if at is not None and not settings.take("KILL_ON_INVALID_DEPENDENCY", yes_or_no, True):
        findings.note(at, "ORPHAN_JOB_TERM_GRACE_PERIOD has no effect: KILL_ON_INVALID_DEPENDENCY is N")
    return found


def _clean_period_done(settings: KeyValues, period: float, findings: Findings) -> int | None:
    """CLEAN_PERIOD_DONE; None: as CLEAN_PERIOD. It counts only where it is shorter."""
    found = settings.take("CLEAN_PERIOD_DONE", integer(0, 10**9), None)
    at = settings.place("CLEAN_PERIOD_DONE")
    if found is not None and at is not None and found >= period:
        findings.note(at, f"CLEAN_PERIOD_DONE has no effect: it is not shorter than CLEAN_PERIOD, {period} s")
        return None
    return found


def _check_preemptable(
    settings: KeyValues, params: Params, resources: Mapping[str, Resource], findings: Findings
) -> None:
    """PREEMPTABLE_RESOURCES: what a job that is suspended would have to give back, which it never does here."""
    names = settings.take("PREEMPTABLE_RESOURCES", lambda text: tuple(text.split()), ())
    at = settings.place("PREEMPTABLE_RESOURCES")
    known = {GPUS_OF_LSF: None, **resources, **BUILTIN}
    for name in names:
        if at is None or findings.is_full(at.path):
            return
        if name not in known:
            near = suggestion(name, known)
            findings.error(at, f"PREEMPTABLE_RESOURCES: {show(name)} is not defined in lsf.shared{near}")
        elif params.preempt_requeue:
            findings.note(at, f"PREEMPTABLE_RESOURCES: {name} has no effect: a job that is requeued frees all it held")
        elif name == GPUS_OF_LSF or name in GPU_COUNTERS:
            why = "GPUs are freed only by requeueing a job (PREEMPT_ACTION = requeue)"
            findings.note(at, f"PREEMPTABLE_RESOURCES: {name} has no effect: {why}")
        else:
            why = "a job that is suspended keeps what it reserved; PREEMPT_ACTION = requeue frees all of it"
            findings.error(at, f"PREEMPTABLE_RESOURCES: {name} is not supported yet: {why}")


def _default_queues(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(queue_name(word) for word in text.split()))


def _project(text: str) -> str:
    if len(text.split()) != 1 or len(text) > 511:
        raise BadRequest(f"'{show(text)}' is not one word")
    return plain_text(text)


def _unrequested(text: str) -> GpuUnrequested:
    if text.replace(" ", "").casefold() == "auto=1":
        return GpuUnrequested.AUTO
    if text.casefold() in ("hide", "allow"):
        return GpuUnrequested(text.casefold())
    raise BadRequest(f"'{show(text)}' is none of hide, allow and auto=1")


def _gmem_action(text: str) -> GmemAction:
    if text.casefold() not in list(GmemAction):
        raise BadRequest(f"'{show(text)}' is none of none, notify and kill")
    return GmemAction(text.casefold())


def _foreign(text: str) -> tuple[GpuForeign, float]:
    """GPU_FOREIGN: the action, and the seconds of kill-after."""
    word, colon, time = text.replace(" ", "").casefold().partition(":")
    if word == GpuForeign.KILL_AFTER and colon:
        return GpuForeign.KILL_AFTER, seconds(1)(time)
    if colon or word not in (GpuForeign.WARN, GpuForeign.AVOID):
        raise BadRequest(f"'{show(text)}' is none of warn, avoid and kill-after:SECONDS")
    return GpuForeign(word), 0.0


def _xids(text: str) -> tuple[int, ...]:
    """Numbers of XIDs; `none`: there are none."""
    if text.casefold() == "none":
        return ()
    words = text.replace(",", " ").split()
    wrong = next((word for word in words if re.fullmatch(r"[0-9]{1,6}", word, re.ASCII) is None), None)
    if wrong is not None or not words:
        raise BadRequest(f"'{show(wrong or text)}' is no number of an XID (wanted: numbers such as 48 79, or none)")
    return tuple(sorted({int(word) for word in words}))


def _placement(text: str) -> GpuPlacement:
    if text.casefold() not in list(GpuPlacement):
        raise BadRequest(f"'{show(text)}' is neither pack nor scarce")
    return GpuPlacement(text.casefold())


def _over_time(text: str) -> tuple[int, int]:
    """(increment, minutes) of `increment/minutes`."""
    found = re.fullmatch(r"([0-9]{1,9})\s*/\s*([0-9]{1,9})", text, re.ASCII)
    if found is None or not int(found[1]) or not int(found[2]):
        raise BadRequest(f"'{show(text)}' is not of the form INCREMENT/MINUTES, both at least 1")
    return int(found[1]), int(found[2])


def _reserves_per_task(settings: KeyValues) -> bool:
    """By either of its names."""
    per_slot = settings.take("RESOURCE_RESERVE_PER_SLOT", yes_or_no, False)
    return settings.take("RESOURCE_RESERVE_PER_TASK", yes_or_no, per_slot)


def _excluding_codes(text: str) -> str:
    """PREEXEC_EXCLUDE_HOST_EXIT_VALUES: codes, or all but some. Raises BadRequest."""
    found = exit_values(text.replace("~", " ~") if text.casefold().startswith("all") else text)
    if "exclude" in found.casefold():
        raise BadRequest(f"'{show(text)}': all of them exclude the host; say no EXCLUDE()")
    return found


def _zero_or_one(text: str) -> bool:
    return text == "1" if text in ("0", "1") else yes_or_no(text)


def _preempt_action(text: str) -> bool:
    if text.casefold() not in _WORDS_OF_PREEMPTION:
        raise BadRequest(f"'{show(text)}' is neither suspend nor requeue")
    return _WORDS_OF_PREEMPTION[text.casefold()]


def _unit_types(text: str) -> tuple[str, ...]:
    """Types of compute units, the one marked `!` first."""
    words = text.split()
    if sum(word.endswith("!") for word in words) > 1:
        raise BadRequest(f"'{show(text)}': one type at most is the default (TYPE!)")
    types = [group_name(word.removesuffix("!")) for word in sorted(words, key=lambda word: not word.endswith("!"))]
    if len(set(types)) != len(types):
        raise BadRequest(f"'{show(text)}' names a type twice")
    return tuple(types)
