"""Application profiles as gapp shows them, and service classes as gsla does: what their files say, and their jobs.

Pure: everything comes in. Source of the words: bapp(1) and bsla(1) of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.config.files.queue_parameters import exit_or_suspend, shared_with_profiles
from gsched.config.parameters.job_limits import resizable_text
from gsched.config.parameters.job_surroundings import shown_env_vars
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.queue_views import job_slots
from gsched.master.views.user_views import SlotCount
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import FINISHED, PENDING, JobState
from gsched.model.queues.application import Application
from gsched.model.views.catalogue import ApplicationView
from gsched.model.views.guarantee_view import ServiceClassView
from gsched.model.views.view import JobView


def application_views(
    config: ClusterConfig, arrays: Iterable[ArrayCopy], jobs: Iterable[JobView]
) -> list[ApplicationView]:
    """All profiles in the file's order."""
    counts = {name: SlotCount() for name in config.applications}
    for job in jobs:
        count = counts.get(job.spec.application)
        if count is not None and job.state not in FINISHED:
            count.add_job(job)
    for array in arrays:
        count = counts.get(array.template.spec.application)
        if count is not None and array.count:
            count.add_pending(array.count, array.count * array.template.spec.slots)
    return [_view(each, counts[name]) for name, each in config.applications.items()]


def _view(profile: Application, count: SlotCount) -> ApplicationView:
    return ApplicationView(
        name=profile.name,
        description=profile.description,
        pend=count.pend,
        run=count.run,
        ssusp=count.ssusp,
        ususp=count.ususp,
        limits=profile.limits,
        run_limit_s=profile.run_limit_s,
        facts=dict(_facts(profile)),
    )


def _facts(profile: Application) -> Iterator[tuple[str, str]]:
    """Parameters by LSF's names; only what is set."""
    given = {
        "TASKLIMIT": "" if profile.job_sizes else " ".join(str(each) for each in profile.task_limit or ()),
        "JOB_SIZE_LIST": " ".join(str(each) for each in profile.job_sizes),
        "RUNTIME": "" if profile.estimate_s is None else f"{profile.estimate_s / 60:g} min",
        "RES_REQ": profile.res_req,
        "GPU_REQ": profile.gpu_req,
        "RESIZABLE_JOBS": profile.resizable and resizable_text(profile.resizable),
        "RERUNNABLE": "" if profile.rerunnable is None else ("N", "Y")[profile.rerunnable],
        "REQUEUE_EXIT_VALUES": profile.requeue_exit_values,
        "SUCCESS_EXIT_VALUES": profile.success_exit_values,
        "LOCAL_MAX_PREEXEC_RETRY_ACTION": "" if profile.preexec_exit is None else exit_or_suspend(profile.preexec_exit),
        **dict(shared_with_profiles(profile)),
        "NICE": "" if profile.nice is None else str(profile.nice),
        "MAX_JOB_REQUEUE": "" if profile.max_requeue is None else str(profile.max_requeue),
        "PRE_EXEC": profile.pre_exec,
        "POST_EXEC": profile.post_exec,
        "HOST_PRE_EXEC": profile.host_pre_exec,
        "HOST_POST_EXEC": profile.host_post_exec,
        "JOB_STARTER": profile.job_starter,
        "CONTAINER": profile.container,
        "JOB_CWD": profile.job_cwd,
        "OUTDIR": profile.output_dir,
        "JOB_PREPROC_TIMEOUT": _minutes(profile.pre_timeout_s),
        "JOB_POSTPROC_TIMEOUT": _minutes(profile.post_timeout_s),
        "ENV_VARS": shown_env_vars(profile.env_vars),
        "SUSPEND_CONTROL": profile.controls.suspend,
        "RESUME_CONTROL": profile.controls.resume,
        "TERMINATE_CONTROL": profile.controls.terminate,
    }
    return ((name, text) for name, text in given.items() if text)


def _minutes(seconds: int | None) -> str:
    return "" if seconds is None else f"{seconds // 60} min"


_SHOWN = {JobState.SSUSP.value: "SSUSP", JobState.USUSP.value: "USUSP"}


def service_class_views(
    config: ClusterConfig, arrays: Iterable[ArrayCopy], jobs: Iterable[JobView]
) -> list[ServiceClassView]:
    """All classes in the file's order."""
    counts: dict[str, tuple[dict[str, int], dict[str, int]]] = {name: ({}, {}) for name in config.service_classes}
    for job in jobs:
        if job.spec.service_class in counts:
            _add(counts[job.spec.service_class], _shown(job.state), 1, job_slots(job))
    for array in arrays:
        spec = array.template.spec
        if spec.service_class in counts and array.count:
            _add(counts[spec.service_class], "PEND", array.count, array.count * spec.slots)
    return [
        ServiceClassView(
            name=name,
            description=each.description,
            access=each.access,
            auto_attach=each.auto_attach,
            jobs=counts[name][0],
            slots=counts[name][1],
        )
        for name, each in config.service_classes.items()
    ]


def _shown(state: str) -> str:
    if state in PENDING:
        return "PEND"
    return "FINISH" if state in FINISHED else _SHOWN.get(state, "RUN")


def _add(counts: tuple[dict[str, int], dict[str, int]], state: str, jobs: int, slots: int) -> None:
    for count, more in zip(counts, (jobs, slots), strict=True):
        count[state] = count.get(state, 0) + more
