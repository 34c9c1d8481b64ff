"""Python functions as jobs: a concurrent.futures.Executor whose calls run on the cluster (docs/python.md#functions).

Start with `executor`. Calls and results travel through a folder that this machine and the hosts share; the program that
runs in a job (run_calls) imports nothing of gsched.
"""

from gsched.api.executor.call_future import CallFuture
from gsched.api.executor.call_outcome import CallFailed
from gsched.api.executor.executor import Executor

__all__ = ["CallFailed", "CallFuture", "Executor"]
