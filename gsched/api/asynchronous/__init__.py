"""A running cluster for coroutines: AsyncCluster has the words of Cluster, and blocks no event loop.

Start with `async_cluster`. There is no second protocol: it has a Cluster. What is answered once is asked for in a few
threads, what comes bit by bit has a thread for as long as it is followed, and ends of jobs come on the Cluster's one
stream, so that ten thousand waits take no thread of their own.
"""

from gsched.api.asynchronous.async_cluster import AsyncCluster
from gsched.api.asynchronous.async_job import AsyncJob

__all__ = ["AsyncCluster", "AsyncJob"]
