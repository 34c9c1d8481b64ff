"""What is different between two looks, so that a recording need not hold all of a large cluster each second."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import job_order
from gsched.top.watching.look import ClusterLook, HostLook, JobLook, QueueLook

TAG = b'{"kind":"changes"'
"""How its line begins: a whole look has no kind."""


class LookChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="changes", tag_field="kind"):
    """What a look has other than the one before it. Jobs and hosts stand in it whole; `gone`: numbers of jobs."""

    at: float
    jobs: tuple[JobLook, ...] = ()
    gone: tuple[int, ...] = ()
    hosts: tuple[HostLook, ...] = ()
    queues: tuple[QueueLook, ...] = ()
    is_cut: bool = False


def changes_between(old: ClusterLook, new: ClusterLook) -> LookChanges | None:
    """What makes `new` of `old`; None where there are other hosts or queues: that is told by a whole look."""
    if (old.me, old.cluster) != (new.me, new.cluster) or _names(old.hosts) != _names(new.hosts):
        return None
    if _names(old.queues) != _names(new.queues):
        return None
    before = {job.job_id: job for job in old.jobs}
    now = {job.job_id for job in new.jobs}
    return LookChanges(
        at=new.at,
        jobs=tuple(job for job in new.jobs if before.get(job.job_id) != job),
        gone=tuple(job_id for job_id in before if job_id not in now),
        hosts=_changed(old.hosts, new.hosts),
        queues=_changed(old.queues, new.queues),
        is_cut=new.is_cut,
    )


def changed_look(old: ClusterLook, changes: LookChanges) -> ClusterLook:
    """The look that follows. Raises BadRequest for changes that are not those of this look."""
    jobs = {job.job_id: job for job in old.jobs}
    for job_id in changes.gone:
        if jobs.pop(job_id, None) is None:
            raise BadRequest("a job is gone that was not there")
    is_in_order = not any(job.job_id not in jobs for job in changes.jobs)
    jobs |= {job.job_id: job for job in changes.jobs}
    found = jobs.values() if is_in_order else sorted(jobs.values(), key=lambda job: job_order(job.job_id))
    return msgspec.structs.replace(
        old,
        at=changes.at,
        jobs=tuple(found),
        hosts=_replaced(old.hosts, changes.hosts),
        queues=_replaced(old.queues, changes.queues),
        is_cut=changes.is_cut,
    )


_Named = TypeVar("_Named", HostLook, QueueLook)


def _names(looks: tuple[_Named, ...]) -> list[str]:
    return [look.name for look in looks]


def _changed(old: tuple[_Named, ...], new: tuple[_Named, ...]) -> tuple[_Named, ...]:
    return tuple(now for was, now in zip(old, new, strict=True) if was != now)


def _replaced(old: tuple[_Named, ...], changed: tuple[_Named, ...]) -> tuple[_Named, ...]:
    by_name = {look.name: look for look in changed}
    if not by_name.keys() <= {look.name for look in old}:
        raise BadRequest("something changes that was not there")
    return tuple(by_name.get(look.name, look) for look in old) if by_name else old
