"""A bar that shows how many of the jobs have ended, in a terminal or a notebook; nothing is shown anywhere else.

The bar is tqdm's, of the extra gsched[progress].
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gsched.api.job import Job
from gsched.api.named import NamesJob, numbers_of
from gsched.api.values import members
from gsched.base.errors import BadRequest, GschedError
from gsched.model.views.view import JobEnd

if TYPE_CHECKING:
    from gsched.api.cluster import Cluster


def progress(jobs: Iterable[Job] | Job, timeout: float | None = None) -> Iterator[tuple[Job, JobEnd]]:
    """As `Cluster.progress`, for handles of jobs of one cluster."""
    handles = [jobs] if isinstance(jobs, Job) else members("jobs", jobs, "a list of jobs")
    for each in handles:
        if not isinstance(each, Job):
            raise BadRequest(f"{each!r} is no Job: cluster.progress(...) takes numbers and views too")
    return handles[0].cluster.progress(handles, timeout) if handles else iter(())


def with_bar(
    cluster: Cluster, jobs: Iterable[NamesJob] | NamesJob, timeout: float | None
) -> Iterator[tuple[Job, JobEnd]]:
    """What `as_completed` yields, with a bar. Raises GschedError where tqdm is not installed."""
    try:
        tqdm = import_module("tqdm.auto").tqdm  # of an extra, and it takes time to load
    except ImportError:
        raise GschedError("progress needs the package tqdm: python -m pip install 'gsched[progress]'") from None
    numbers = list(dict.fromkeys(numbers_of("jobs", jobs)))
    return _shown(tqdm, cluster, numbers, timeout)


def _shown(tqdm: Any, cluster: Cluster, numbers: list[int], timeout: float | None) -> Iterator[tuple[Job, JobEnd]]:
    failed = 0
    with tqdm(total=len(numbers), unit="job", disable=not _is_watched()) as bar:
        for job, end in cluster.as_completed(numbers, timeout):
            failed += not end.succeeded
            if failed:
                bar.set_postfix(failed=failed, refresh=False)
            bar.update()
            yield job, end


def _is_watched() -> bool:
    """Whether there is a terminal or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", ()) or (sys.stderr is not None and sys.stderr.isatty())
