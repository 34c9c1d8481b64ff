"""Settings of `--set` that cannot matter: said in a line each, so that none is taken in silence.

It compares configurations and looks at the workload; it plays nothing. A setting that it passes may still change
nothing, which only the comparison of the tables tells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from gsched.config.changed_files import Setting
from gsched.model.config import ClusterConfig
from gsched.sim.scenarios import Scenario
from gsched.sim.sim_config import simulation_config
from gsched.sim.simulation import SimulationTables, in_known_queues
from gsched.sim.workload import Workload

_SIMULATED = (
    *("hosts", "queues", "applications", "resources", "mapped", "shared", "params", "limits", "users", "user_groups"),
    *("host_groups", "compute_units", "reservation_method", "host_types", "host_models", "model_factors"),
)
"""Fields of ClusterConfig that engine and scheduler look at in a simulation."""
_PARAMS_NOT_SIMULATED = frozenset(
    {
        *("egroup_update_s", "mail_to", "mail_program", "mail_server", "notice_ways", "notice_proxy", "clean_period_s"),
        *(
            "host_history_days",
            "job_history_days",
            "event_history_days",
            "event_history_mb",
            "clean_period_done_s",
            "detect_idle_after_s",
            "default_job_group",
        ),
        *("max_requeue", "users_resume", "only_admins_move", "only_admins_force", "max_messages", "max_attached_kib"),
        "reservations_of_user",
        *("gmem_action", "gpu_foreign", "gpu_foreign_kill_s", "gpu_foreign_mib", "gpu_fatal_xids", "gpu_clean_probes"),
        *("gpu_max_temperature_c", "gpu_health_check", "gpu_health_timeout_s", "gpu_health_interval_h"),
        *("host_lost_after_s", "job_report", "stdout_direct", "max_requests_per_s", "max_preexec_retry"),
        *("pre_timeout_s", "post_timeout_s"),
        *("default_after_failed_control", "default_job_cwd", "default_job_outdir"),
        *("preexec_exit", "prices", "container_mounts", "container_images", "efficiency_min_run_s"),
    }
)
"""Fields of Params about what no simulation has: failures, other people's processes, mail, prices, histories."""


def idle_settings(scenario: Scenario, workload: Workload) -> list[tuple[Setting, str]]:
    """The settings of the scenario that cannot matter for this workload, and why. Raises as `simulation_config`."""
    found = []
    before = simulation_config(scenario.folder, scenario.hosts)
    for count, setting in enumerate(scenario.settings, 1):
        after = simulation_config(scenario.folder, scenario.hosts, scenario.settings[:count])
        why = _why_idle(setting, before, after, workload)
        if why:
            found.append((setting, why))
        before = after
    return found


def notes_on(settings: Sequence[Setting], before: SimulationTables, after: SimulationTables) -> list[str]:
    """A line where these settings, the only change, came to nothing."""
    if not settings or (before.summary, before.jobs) != (after.summary, after.jobs):
        return []
    words = " ".join(setting.words for setting in settings)
    return [f"{words}: nothing comes out otherwise with this workload"]


def _why_idle(setting: Setting, before: ClusterConfig, after: ClusterConfig, workload: Workload) -> str:
    if setting.file == "lsb.queues" and setting.section not in _queues(workload, after):
        return f"no job of the workload goes to the queue {setting.section}"
    if setting.file == "lsb.applications" and setting.section not in _applications(workload, after):
        return f"no job of the workload has the application profile {setting.section}"
    if _looked_at(before, after):
        return ""
    same = msgspec.structs.replace(before, digest=after.digest) == after
    return "that is so already" if same else "nothing that is simulated depends on it"


def _looked_at(before: ClusterConfig, after: ClusterConfig) -> list[str]:
    """What is another of that which a simulation looks at."""
    fields = [name for name in _SIMULATED if getattr(before, name) != getattr(after, name)]
    if fields != ["params"]:
        return fields
    names = before.params.__struct_fields__
    return [
        name
        for name in names
        if name not in _PARAMS_NOT_SIMULATED and getattr(before.params, name) != getattr(after.params, name)
    ]


def _queues(workload: Workload, config: ClusterConfig) -> Collection[str]:
    jobs, _ = in_known_queues(workload, config)
    return {job.queue for job in jobs}


def _applications(workload: Workload, config: ClusterConfig) -> Collection[str]:
    return {job.spec().application or config.params.default_application for job in workload.jobs}
