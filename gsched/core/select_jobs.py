"""Does a filter admit a job? One answer for queries and for controls."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Protocol

from gsched.base.ids import array_of, index_of
from gsched.model.allocation import Allocation
from gsched.model.job import FINISHED, JobSpec
from gsched.model.view import JobFilter


_WITH_INDICES = re.compile(r"(.*)\[([0-9 ,:-]+)\]", re.DOTALL)
_LARGEST = 2**31 - 1


class Filterable(Protocol):
    """What a filter looks at: jobs in the state and views of jobs have it."""

    @property
    def job_id(self) -> int: ...
    @property
    def spec(self) -> JobSpec: ...
    @property
    def state(self) -> str: ...
    @property
    def allocation(self) -> Allocation | None: ...


def admits(wanted: JobFilter, job: Filterable, *, any_user: bool = False) -> bool:
    """Whether `job` is one of those wanted. With `any_user` the filter's user is not looked at."""
    spec = job.spec
    if wanted.ids:
        if job.job_id not in wanted.ids and array_of(job.job_id) not in wanted.ids:
            return False
    elif not wanted.finished and job.state in FINISHED and not wanted.states:
        return False
    if wanted.states and job.state not in wanted.states:
        return False
    if not any_user and wanted.user not in ("", "all", spec.user):
        return False
    if wanted.queue and wanted.queue != spec.queue:
        return False
    if wanted.project and wanted.project != spec.project:
        return False
    if wanted.group and not (spec.group + "/").startswith(wanted.group.rstrip("/") + "/"):
        return False
    if wanted.arrays and not index_of(job.job_id) and not spec.indices:
        return False
    if wanted.host and (job.allocation is None or all(part.host != wanted.host for part in job.allocation.hosts)):
        return False
    if wanted.arrays and not index_of(job.job_id):
        return False
    if wanted.group and not in_group(spec.group, wanted.group):
        return False
    return not wanted.name or has_name(job, wanted.name)


def in_group(group: str, wanted: str) -> bool:
    """Whether the job group is `wanted` or below it; "/" has all jobs that are in a group."""
    wanted = wanted.rstrip("/")
    return bool(group) and (group == wanted or group.startswith(wanted + "/"))


def has_name(job: Filterable, pattern: str) -> bool:
    """Whether -J means the job: `*` stands for anything, the name alone for all elements of an array, and `name[3,5-7]`
    for some of them.
    """
    escaped = pattern.replace("[", "[[]")
    if fnmatchcase(job.spec.display_name, escaped) or fnmatchcase(job.spec.shown_name(job.job_id), escaped):
        return True
    name, indices = split_name(pattern)
    return indices is not None and index_of(job.job_id) in indices and fnmatchcase(job.spec.name, name)


@lru_cache(maxsize=256)
def split_name(pattern: str) -> tuple[str, Indices | None]:
    """`train[3,5-7]` as (pattern of the name, indices); None where it does not end in indices."""
    found = _WITH_INDICES.fullmatch(pattern)
    if found is None:
        return pattern.replace("[", "[[]"), None
    try:
        return found[1].replace("[", "[[]"), parse_indices(found[2], _LARGEST)
    except BadRequest:
        return pattern.replace("[", "[[]"), None
