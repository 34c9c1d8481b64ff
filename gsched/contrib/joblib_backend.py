"""A backend of joblib whose batches are jobs: `register()`, then `joblib.parallel_config(backend="gsched", gpus=1)`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib import register_parallel_backend
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from gsched.api.executor import Executor


class GschedBackend(AutoBatchingMixin, ParallelBackendBase):
    """Calls as jobs of an Executor, which gets all options that are not joblib's. `n_jobs`: batches that are submitted
    at once; negative: one for each slot of the cluster.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self, nesting_level: int | None = None, inner_max_num_threads: int | None = None, **options: Any
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._options = options
        self._executor: Executor | None = None

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Called by joblib when it begins. Raises GschedError."""
        self.parallel = parallel
        self._executor = Executor(**self._options)
        return self.effective_n_jobs(n_jobs)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many batches are submitted at once. Raises ValueError for 0."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs > 0 or self._executor is None:
            return abs(n_jobs)
        return max(1, sum(host.max_slots or 0 for host in self._executor.cluster.hosts()))

    def submit(self, func: Callable[[], Any], callback: Callable[[Future[Any]], None] | None = None) -> Future[Any]:
        """A batch, as a job."""
        assert self._executor is not None
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """What the batch returned. Raises what it raised, JobFailed."""
        return out.result()

    def terminate(self) -> None:
        """All is over."""
        self._end(cancels=False)
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A call has failed: the jobs of the others are ended."""
        self._end(cancels=True)
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel)

    def _end(self, *, cancels: bool) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=cancels)


def register() -> None:
    """Make the backend known to joblib by the name gsched."""
    register_parallel_backend("gsched", GschedBackend)
