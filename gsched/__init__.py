"""gsched: a GPU-aware batch job scheduler in the manner of LSF. Importing it costs nothing.

`from gsched import Cluster` loads gsched.api, which speaks to a running cluster (docs/python.md).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.api import Cluster as Cluster
    from gsched.api import GschedError as GschedError
    from gsched.api import Job as Job
    from gsched.api import JobFailed as JobFailed
    from gsched.api.asynchronous import AsyncCluster as AsyncCluster
    from gsched.api.asynchronous import AsyncJob as AsyncJob
    from gsched.api.executor import Executor as Executor
    from gsched.api.job_table import table as table
    from gsched.api.past_jobs import history as history
    from gsched.api.progress_bar import progress as progress
    from gsched.api.simulating import simulate as simulate

__version__ = "0.1.0"
_HOMES = {
    "AsyncCluster": "gsched.api.asynchronous",
    "AsyncJob": "gsched.api.asynchronous",
    "Cluster": "gsched.api",
    "Executor": "gsched.api.executor",
    "GschedError": "gsched.api",
    "Job": "gsched.api",
    "JobFailed": "gsched.api",
    "history": "gsched.api.past_jobs",
    "progress": "gsched.api.progress_bar",
    "simulate": "gsched.api.simulating",
    "table": "gsched.api.job_table",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        from importlib import import_module  # only now: every command imports gsched

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'gsched' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES} - {"TYPE_CHECKING"})
