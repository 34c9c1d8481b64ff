"""Does a filter admit a job? One answer for queries and for controls."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from gsched.base.ids import array_of, index_of
from gsched.base.wildcards import looks, wildcards
from gsched.model.jobs.job import FINISHED, JobSpec
from gsched.model.ledgers.allocation import Allocation
from gsched.model.views.view import JobFilter

LOOKS_OF_STEP = 8
"""At a name, in one step."""
MOST_OF_NAME = 4095
"""Characters of a job's name that are held against a pattern: one without a name is called as its command line."""


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


def admits(
    wanted: JobFilter, job: Filterable, *, any_user: bool = False, numbers: Collection[int] | None = None
) -> bool:
    """Whether `job` is one of those wanted. With `any_user` the filter's user is not looked at.

    `numbers`: the filter's ids as a set, from whoever asks of many jobs.
    """
    spec = job.spec
    if wanted.ids:
        ids = wanted.ids if numbers is None else numbers
        if job.job_id not in ids and array_of(job.job_id) not in ids:
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
    if wanted.group and spec.group.rstrip("/") != wanted.group.rstrip("/"):
        return False  # jobs in the groups below are not meant: bkill(1)
    if wanted.application not in ("", spec.application) or wanted.service_class not in ("", spec.service_class):
        return False
    if wanted.arrays and not index_of(job.job_id) and not spec.indices:
        return False
    if wanted.host and (job.allocation is None or all(part.host != wanted.host for part in job.allocation.hosts)):
        return False
    return not wanted.name or _has_name(job, wanted.name)


def name_looks(wanted: JobFilter, spec: JobSpec) -> int:
    """How often at most a job's name is looked at to hold it against the filter's."""
    return looks(wanted.name, min(len(spec.display_name), MOST_OF_NAME))


def name_weight(wanted: JobFilter, spec: JobSpec) -> int:
    """Cost of the filter's name in steps of a turn (gsched.core.command_turns), beside that of looking at the job."""
    return name_looks(wanted, spec) // LOOKS_OF_STEP


def _has_name(job: Filterable, wanted: str) -> bool:
    """By its name; an element also by that of its array, an index in the pattern names the element."""
    fits = wildcards(wanted).fits
    if fits(job.spec.display_name[:MOST_OF_NAME]):
        return True
    return bool(index_of(job.job_id)) and fits(job.spec.shown_name(job.job_id))
