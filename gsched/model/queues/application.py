"""Application profiles as configured in lsb.applications: what jobs of one kind have in common."""

from __future__ import annotations

import msgspec

from gsched.model.queues.job_controls import JobControls
from gsched.model.queues.preempt_sparing import Sparing
from gsched.model.queues.queue import Queue


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """One profile. What it says counts before the queue and after the job; None and "" say nothing."""

    name: str
    description: str = ""
    task_limit: tuple[int, int, int] | None = None
    """TASKLIMIT: least, default and most slots of one job; with JOB_SIZE_LIST those of its sizes."""
    job_sizes: tuple[int, ...] = ()
    """JOB_SIZE_LIST, as of a queue."""
    run_limit_s: int | None = None
    estimate_s: int | None = None
    """RUNTIME."""
    limits: dict[str, float] = {}
    """By the names and in the units of model.queue.Queue.limits."""
    res_req: str = ""
    gpu_req: str = ""
    rerunnable: bool | None = None
    resizable: str = ""
    requeue_exit_values: str = ""
    success_exit_values: str = ""
    nice: int | None = None
    """NICE, in place of the queue's."""
    max_requeue: int | None = None
    max_preexec_retry: int | None = None
    preexec_exit: bool | None = None
    sparing: Sparing = Sparing()
    pre_exec: str = ""
    post_exec: str = ""
    host_pre_exec: str = ""
    host_post_exec: str = ""
    job_starter: str = ""
    container: str = ""
    """CONTAINER, as of a queue."""
    job_cwd: str = ""
    """JOB_CWD: where its jobs run that do not say it; patterns in it. Relative: to where they are submitted."""
    output_dir: str = ""
    """OUTDIR: as -outdir, of jobs that give none."""
    pre_timeout_s: int | None = None
    post_timeout_s: int | None = None
    """JOB_PREPROC_TIMEOUT, JOB_POSTPROC_TIMEOUT, in seconds; None: as for the cluster."""
    env_vars: dict[str, str] = {}
    """ENV_VARS: variables of its jobs and of the commands around them that the submission does not set itself."""
    controls: JobControls = JobControls()
    """SUSPEND_CONTROL, RESUME_CONTROL, TERMINATE_CONTROL: as JOB_CONTROLS of a queue."""
    source: str = ""


def niceness(queue: Queue | None, profile: Application | None) -> int:
    """NICE of the profile, else of the queue; 0 where neither is known."""
    if profile is not None and profile.nice is not None:
        return profile.nice
    return queue.nice if queue is not None else 0
