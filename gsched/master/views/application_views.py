"""Application profiles as gapp shows them: what lsb.applications says, and the slots of their jobs.

Pure: everything comes in. Source of the words: bapp(1) of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.config.files.queue_parameters import exit_or_suspend, shared_with_profiles
from gsched.config.parameters.job_surroundings import shown_env_vars
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.user_views import SlotCount
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import FINISHED
from gsched.model.queues.application import Application
from gsched.model.views.catalogue import ApplicationView
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
        "TASKLIMIT": " ".join(str(each) for each in profile.task_limit or ()),
        "RUNTIME": "" if profile.estimate_s is None else f"{profile.estimate_s / 60:g} min",
        "RES_REQ": profile.res_req,
        "GPU_REQ": profile.gpu_req,
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
