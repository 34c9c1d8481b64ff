"""Why a queue does not take a job, or a host does not have the place that a plan names."""

from __future__ import annotations

REFUSAL_TEXTS: dict[str, str] = {
    # Why one of a job's queues does not take it; the queue is the first parameter, of refusal.profile_* the profile.
    "refusal.queue_closed": "{0}: Queue has been closed",
    "refusal.user": "{0}: User cannot use the queue: for {1} and {2}",
    "refusal.run_limit": "Cannot exceed queue's hard limit(s): {1} minutes, queue {0} allows {2}",
    "refusal.limit": "Cannot exceed queue's hard limit(s): {1} {2:.10g}{3}, queue {0} allows {4:.10g}{3}",
    "refusal.exclusive": "{0}: Queue does not accept EXCLUSIVE jobs",
    "refusal.interactive": "{0}: Queue does not accept interactive jobs",
    "refusal.not_interactive": "{0}: Queue only accepts interactive jobs",
    "refusal.gpu_idle_ok": "{0}: Queue does not let jobs say that their GPUs may be idle (GPU_IDLE has no ok=yes)",
    "refusal.most_tasks": "Too many processors requested: {1}, queue {0} allows {2}",
    "refusal.fewest_tasks": "Too few processors requested: {1}, queue {0} wants {2}",
    "refusal.job_sizes": "Job size {1} is not allowed: queue {0} takes jobs of these sizes (JOB_SIZE_LIST): {2}",
    "refusal.profile_job_sizes": (
        "Job size {1} is not allowed: application profile {0} takes jobs of these sizes (JOB_SIZE_LIST): {2}"
    ),
    "refusal.slots": "Too many processors requested: {1}, queue {0} allows {2:slots} ({3})",
    "refusal.queues": "{0}: {1}",
    "refusal.profile_most_tasks": "Too many processors requested: {1}, application profile {0} allows {2}",
    "refusal.profile_fewest_tasks": "Too few processors requested: {1}, application profile {0} wants {2}",
    # Why a placement is not carried out.
    "misfit.gpu_twice": "a GPU of {0} is named twice",
    "misfit.gpu_not_claimable": "GPU {0} of {1} cannot be claimed as {2} now",
    "misfit.gpu_not_there": "GPU {0} is not on {1}",
    "misfit.still_there": "attempt {0} of job {1} is still on {2}",
    "misfit.why": "{0}: {1}",
}
