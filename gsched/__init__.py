"""gsched: a GPU-aware batch job scheduler in the manner of LSF. Importing it costs nothing.

`from gsched import Cluster` loads gsched.api, which speaks to a running cluster (docs/python.md).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.api import Cluster as Cluster
    from gsched.api import GschedError as GschedError
    from gsched.api import Job as Job
    from gsched.api import JobFailed as JobFailed
    from gsched.api.simulating import simulate as simulate

__version__ = "0.1.0"
_FROM_API = ("Cluster", "GschedError", "Job", "JobFailed")
_FROM_SIMULATING = ("simulate",)


def __getattr__(name: str) -> object:
    if name in _FROM_API + _FROM_SIMULATING:
        from importlib import import_module  # only now: every command imports gsched

        return getattr(import_module("gsched.api" if name in _FROM_API else "gsched.api.simulating"), name)
    raise AttributeError(f"module 'gsched' has no attribute '{name}'")
