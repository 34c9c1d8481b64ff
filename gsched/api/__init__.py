"""The scheduler for Python programs: submit jobs, wait for them, ask about them. Synchronous, typed, safe in threads.

Start with `cluster`. It speaks to the master as the commands do and knows nothing that they could not know. It never
prints and never polls.
"""

from gsched.api.cluster import Cluster
from gsched.api.failure import JobFailed
from gsched.api.job import Job
from gsched.api.request import JobRequest, SubmitOptions
from gsched.base.errors import (
    BadRequest,
    Conflict,
    GschedError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
)
from gsched.model.views.explanation import JobDryRun, JobExplanation
from gsched.model.views.job_comparison import JobComparison
from gsched.model.views.view import EventRecord, HostView, JobEnd, JobView, QueueView

__all__ = [
    "BadRequest",
    "Cluster",
    "Conflict",
    "EventRecord",
    "GschedError",
    "HostView",
    "Job",
    "JobComparison",
    "JobDryRun",
    "JobEnd",
    "JobExplanation",
    "JobFailed",
    "JobRequest",
    "JobView",
    "NotFound",
    "PermissionDenied",
    "QueueView",
    "ResourceExhausted",
    "SubmitOptions",
    "Unavailable",
]
