"""lsb.params as it counts: every parameter by its name, with its value or its default, written as in the file.

`files.lsb_params` reads them; a test reads with it what is written here. Source of the names: lsb.params(5).
"""

from __future__ import annotations

from collections.abc import Collection

from gsched.config.parameters.job_limits import resizable_text
from gsched.config.parameters.prices import GPU_HOUR, KWH, written_price
from gsched.config.parameters.shares import FACTORS
from gsched.model.config import ClusterConfig, GpuForeign, Params
from gsched.model.hosts.exit_rates import ExitRates
from gsched.model.queues.fairshare_factors import FairshareFactors, factors_of
from gsched.model.views.view import Parameter

UNIT_TYPES = "COMPUTE_UNIT_TYPES"


def effective_parameters(config: ClusterConfig, gpu_hosts: Collection[str] = ()) -> tuple[Parameter, ...]:
    """Parameters that are in force, in the order in which people read them; one that has no value is left out.

    `gpu_hosts`: the hosts that have GPUs, by which default factors of fairshare go.
    """
    params = config.params
    found: dict[str, object] = {
        "DEFAULT_QUEUE": " ".join(params.default_queues),
        "DEFAULT_PROJECT": params.default_project,
        "DEFAULT_APPLICATION": params.default_application or None,
        "DEFAULT_JOB_CWD": params.default_job_cwd or None,
        "DEFAULT_JOB_OUTDIR": params.default_job_outdir or None,
        "MBD_SLEEP_TIME": params.master_sleep_s,
        "SBD_SLEEP_TIME": config.timing.usage_sample_s,
        "CPU_PEAK_SAMPLE_DURATION": config.timing.cpu_peak_s,
        "JOB_ACCEPT_INTERVAL": params.job_accept_interval_s / params.master_sleep_s,
        "CLEAN_PERIOD": params.clean_period_s,
        "CLEAN_PERIOD_DONE": params.clean_period_done_s,
        "DEFAULT_JOBGROUP": params.default_job_group or None,
        "MAX_JOB_REQUEUE": params.max_requeue,
        "ENABLE_USER_RESUME": params.users_resume,
        "JOB_POSITION_CONTROL_BY_ADMIN": params.only_admins_move,
        "PRIVILEGED_USER_FORCE_BKILL": params.only_admins_force,
        "ADVRSV_USER_LIMIT": params.reservations_of_user,
        "DEFAULT_USER_GROUP": params.default_user_group or None,
        "ENABLE_HOST_INTERSECTION": params.host_intersection,
        "MAX_JOB_MSG_NUM": params.max_messages,
        "MAX_JOB_ATTA_SIZE": params.max_attached_kib,
        "HOST_HISTORY_DAYS": params.host_history_days,
        "JOB_HISTORY_DAYS": params.job_history_days,
        "EVENT_HISTORY_DAYS": params.event_history_days,
        "EVENT_HISTORY_SIZE": params.event_history_mb,
        "JOB_TERMINATE_INTERVAL": params.job_terminate_interval_s,
        "MAX_JOBID": params.max_job_id,
        "MAX_PEND_JOBS": params.max_pending,
        "MAX_PEND_SLOTS": params.max_pending_slots,
        "MAX_JOB_ARRAY_SIZE": params.max_array_size,
        "MAX_USER_PRIORITY": params.max_user_priority,
        "JOB_PRIORITY_OVER_TIME": "/".join(map(str, params.priority_over_time or ())) or None,
        "JOB_DEP_LAST_SUB": int(params.dependency_last_only),
        "KILL_ON_INVALID_DEPENDENCY": params.end_on_invalid_dependency,
        "ORPHAN_JOB_TERM_GRACE_PERIOD": params.orphan_grace_s,
        "EGROUP_UPDATE_INTERVAL": None if params.egroup_update_s is None else f"{params.egroup_update_s / 60:.0f}m",
        **_of_gpus(params),
        GPU_HOUR: written_price(params.prices.gpu_hour, params.prices.currency),
        KWH: written_price(params.prices.kwh, params.prices.currency),
        "DETECT_IDLE_JOB_AFTER": params.detect_idle_after_s // 60,
        "EFFICIENCY_MIN_RUN": params.efficiency_min_run_s,
        **_of_preemption(params),
        **_of_fairshare(factors_of(params.factors, None, gpu_hosts)),
        UNIT_TYPES: " ".join(config.compute_units) or None,
    }
    return tuple(Parameter(name, _written(value)) for name, value in found.items() if value is not None)


def _of_gpus(params: Params) -> dict[str, object]:
    unrequested = params.gpu_unrequested.value
    return {
        "GPU_REQ": params.gpu_req or None,
        "GPU_REQ_MERGE": params.gpu_req_merge,
        "GPU_SHARED_JOBS": params.gpu_shared_jobs,
        "GPU_UNREQUESTED": "auto=1" if unrequested == "auto" else unrequested,
        "GMEM_ACTION": params.gmem_action.value,
        "GPU_FOREIGN": f"kill-after:{params.gpu_foreign_kill_s:g}"
        if params.gpu_foreign is GpuForeign.KILL_AFTER
        else params.gpu_foreign.value,
        "GPU_FOREIGN_MIB": params.gpu_foreign_mib,
        "GPU_FATAL_XIDS": " ".join(map(str, params.gpu_fatal_xids)) or "none",
        "GPU_CLEAN_PROBES": params.gpu_clean_probes,
        "GPU_MAX_TEMPERATURE": params.gpu_max_temperature_c,
        "GPU_HEALTH_CHECK": params.gpu_health_check or None,
        "GPU_HEALTH_TIMEOUT": params.gpu_health_timeout_s,
        "GPU_HEALTH_INTERVAL": params.gpu_health_interval_h,
        "GPU_PLACEMENT": params.gpu_placement.value,
        "RESERVE_CORES_PER_GPU": params.reserve_cores_per_gpu,
    }


def _of_preemption(params: Params) -> dict[str, object]:
    return {
        "PREEMPT_ACTION": "requeue" if params.preempt_requeue else "suspend",
        "MIN_RUN_BEFORE_PREEMPT": params.min_run_before_preempt_s,
        "GPU_GROW_INTERVAL": params.gpu_grow_interval_s,
        "MAX_JOB_PREEMPT": params.sparing.most,
        "RESOURCE_RESERVE_PER_TASK": params.reserves_per_task or None,
        "PREEXEC_EXCLUDE_HOST_EXIT_VALUES": params.preexec_excludes or None,
        **_of_exit_rates(params.exit_rates),
        "RESIZABLE_JOBS": resizable_text(params.resizable) if params.resizable else None,
        "NO_PREEMPT_INTERVAL": None if params.sparing.interval_s is None else params.sparing.interval_s // 60,
        "NO_PREEMPT_RUN_TIME": params.sparing.run and params.sparing.run.text,
        "NO_PREEMPT_FINISH_TIME": params.sparing.finish and params.sparing.finish.text,
        "LOCAL_MAX_PREEXEC_RETRY": params.max_preexec_retry,
        "JOB_PREPROC_TIMEOUT": params.pre_timeout_s and params.pre_timeout_s // 60,
        "JOB_POSTPROC_TIMEOUT": params.post_timeout_s and params.post_timeout_s // 60,
        "JOB_CONTROLS_FAIL_DEFAULT_ACTION": params.default_after_failed_control,
        "LOCAL_MAX_PREEXEC_RETRY_ACTION": "EXIT" if params.preexec_exit else "SUSPEND",
    }


def _of_exit_rates(rates: ExitRates) -> dict[str, object]:
    return {
        "GLOBAL_EXIT_RATE": rates.most,
        "JOB_EXIT_RATE_DURATION": rates.within_s / 60,
        "EXIT_RATE_TYPE": " ".join(sorted(rates.kinds)),
        "ENABLE_EXIT_RATE_PER_SLOT": rates.per_slot,
    }


def _of_fairshare(factors: FairshareFactors) -> dict[str, object]:
    return {name: getattr(factors, each.field) for name, each in FACTORS.items()}


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "Y" if value else "N"
    return f"{value:g}" if isinstance(value, float) else str(value)
