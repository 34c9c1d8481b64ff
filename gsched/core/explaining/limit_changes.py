"""Limits that an administrator could raise for a waiting job: of lsb.resources, lsb.queues, lsb.users, lsb.hosts; and
those of job groups and of job arrays, which their owners may raise, too.

Each way raises one amount, by one and more. Which of them suffices is not known here: that is tried (`admin_measures`).
It never changes a configuration: a step changes a snapshot. Source of the files: lsb.resources(5) and the others.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from gsched.core.decision import Decision
from gsched.core.explaining.cluster_changes import MOST_OF_A_KIND, ClusterStep, ClusterWay, usable_hosts
from gsched.core.explaining.start_trial import AlterCluster
from gsched.model.queues.limit import PARTS, PER_PROCESSOR, Limit
from gsched.model.queues.window import is_open
from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.model.views.explanation import AdminChange
from gsched.policy.limits.limit_counts import CountedSection, budget_key, concerns
from gsched.policy.limits.limit_members import EVERYBODY, groups_above, limit_of
from gsched.policy.limits.limit_sections import seems_to_want_gpus

MOST_RAISED = 1 << 10
"""By how much a count may be raised."""
MOST_RAISED_MIB = 1 << 22
_SIZES = frozenset({"mem", "swp", "tmp"})
_HOUR_S = 3600.0

Raised = Callable[[int], AlterCluster]
"""New amount -> what it means for a snapshot."""


def _raising(change: Callable[..., Snapshot], *of_what: str | int) -> Raised:
    """`change` takes what it is told here, the new amount, and a snapshot."""
    return lambda new: lambda seen: change(*of_what, new, seen)


def _reconfig(_: int) -> str:
    return "gadmin reconfig"


@dataclass(frozen=True, slots=True)
class RaisedLimit:
    """The steps of one way, each made when it is looked at: the amount and one more, two more ..."""

    told: AdminChange
    """Without the new amount."""
    least: int
    most: int
    raised: Raised
    command: Callable[[int], str] = _reconfig

    def __len__(self) -> int:
        return self.most - self.least + 1

    def __getitem__(self, place: int) -> ClusterStep:
        new = self.least + (place if place >= 0 else len(self) + place)
        told = msgspec.structs.replace(self.told, new=str(new))
        by_how_much = (new - self.least) / (self.most - self.least + 1)
        return ClusterStep(told, 0.3 + 0.15 * by_how_much, self.raised(new), self.command(new))


def limit_ways(decision: Decision, seen: Snapshot, bucket: Bucket) -> list[ClusterWay]:
    """All limits that count jobs of the bucket. `seen`: as things are."""
    of_sections = (way for limit in seen.limits for way in _of_section(limit, seen, bucket))
    found = [*of_sections, *_of_queue(seen, bucket), *_of_users(seen, bucket), *_of_job_groups(seen, bucket)]
    found += _of_array(seen, bucket)
    return found + list(_of_hosts(decision, seen, bucket))[:MOST_OF_A_KIND]


def _way(
    told: AdminChange, raised: Raised, most: int = MOST_RAISED, command: Callable[[int], str] = _reconfig
) -> ClusterWay:
    least = math.floor(float(told.old)) + 1
    return ClusterWay(
        f"limit {told.file} {told.name} {told.setting}", RaisedLimit(told, least, least + most - 1, raised, command)
    )


def _told(file: str, name: str, setting: str, old: float) -> AdminChange:
    return AdminChange(what="limit", name=name, file=file, setting=setting, old=f"{old:.10g}")


# -- sections of lsb.resources ----------------------------------------------------------------------------------------


def _of_section(limit: Limit, seen: Snapshot, bucket: Bucket) -> Iterator[ClusterWay]:
    if limit.is_shared_resource or not CountedSection(limit).concerns(bucket):
        return
    for resource in limit.amounts:
        allowed = CountedSection(limit).allowed(resource, seen.minute_of_week)
        if allowed is not None:
            most = MOST_RAISED_MIB if resource in _SIZES else 100 if resource in PARTS else MOST_RAISED
            told = _told("lsb.resources", limit.name, _keyword(resource), allowed)
            yield _way(told, _raising(_with_amount, limit.name, resource), most)
    who = (bucket.user, bucket.queue, bucket.project)
    if limit.gpu_hours is not None and concerns(limit, *who) and seems_to_want_gpus(bucket.requirement):
        used = seen.gpu_seconds.get(budget_key(limit, *who), 0.0) / _HOUR_S
        if used >= limit.gpu_hours:
            told = _told("lsb.resources", limit.name, "GPU_HOURS", limit.gpu_hours)
            least = math.floor(used) + 1
            steps = RaisedLimit(told, least, least, _raising(_with_hours, limit.name))
            yield ClusterWay(f"budget {limit.name}", steps)


def _keyword(resource: str) -> str:
    return resource.removesuffix("%").upper() if resource != PER_PROCESSOR else "SLOTS_PER_PROCESSOR"


def _with_section(name: str, change: Callable[[Limit], Limit], seen: Snapshot) -> Snapshot:
    return replace(seen, limits=tuple(change(each) if each.name == name else each for each in seen.limits))


def _with_amount(name: str, resource: str, new: int, seen: Snapshot) -> Snapshot:
    """With what is in force now raised; amounts of windows that are closed stay."""

    def change(limit: Limit) -> Limit:
        amounts = tuple(
            msgspec.structs.replace(each, amount=max(each.amount, float(new)))
            if is_open(each.windows, seen.minute_of_week)
            else each
            for each in limit.amounts[resource]
        )
        return msgspec.structs.replace(limit, amounts={**limit.amounts, resource: amounts})

    return _with_section(name, change, seen)


def _with_hours(name: str, new: int, seen: Snapshot) -> Snapshot:
    return _with_section(name, lambda limit: msgspec.structs.replace(limit, gpu_hours=float(new)), seen)


# -- queues, users, hosts, job groups ---------------------------------------------------------------------------------

_OF_QUEUES = {
    "QJOB_LIMIT": "job_limit",
    "UJOB_LIMIT": "user_limit",
    "HJOB_LIMIT": "host_limit",
    "PJOB_LIMIT": "processor_limit",
}


def _of_queue(seen: Snapshot, bucket: Bucket) -> Iterator[ClusterWay]:
    queue = seen.queues.get(bucket.queue)
    for keyword, field in _OF_QUEUES.items():
        old = getattr(queue, field, None)
        if old is not None:
            told = _told("lsb.queues", f"queue {bucket.queue}", keyword, old)
            yield _way(told, _raising(_with_queue, bucket.queue, field))


def _with_queue(name: str, field: str, new: int, seen: Snapshot) -> Snapshot:
    return replace(seen, queues={**seen.queues, name: msgspec.structs.replace(seen.queues[name], **{field: new})})


def _of_users(seen: Snapshot, bucket: Bucket) -> Iterator[ClusterWay]:
    """Of the user alone, whoever's row it comes from, and of the groups that he is in."""
    user = bucket.user
    own = limit_of(seen.user_limits, seen.user_groups, user)
    if own is not None:
        told = _told("lsb.users", f"user {user}", "MAX_JOBS", own)
        yield _way(told, _raising(_with_user, user))
    per_cpu = limit_of(seen.processor_limits, seen.user_groups, user)
    if per_cpu is not None:
        told = _told("lsb.users", f"user {user}", "JL/P", per_cpu)
        yield _way(told, _raising(_with_processors, user))
    for group, (members, most) in seen.group_limits.items():
        if user in members or EVERYBODY in members:
            told = _told("lsb.users", f"user group {group}", "MAX_JOBS", most)
            yield _way(told, _raising(_with_group, group))


def _with_user(name: str, new: int, seen: Snapshot) -> Snapshot:
    return replace(seen, user_limits={**seen.user_limits, name: float(new)})


def _with_processors(name: str, new: int, seen: Snapshot) -> Snapshot:
    return replace(seen, processor_limits={**seen.processor_limits, name: float(new)})


def _with_group(name: str, new: int, seen: Snapshot) -> Snapshot:
    return replace(seen, group_limits={**seen.group_limits, name: (seen.group_limits[name][0], new)})


def _of_hosts(decision: Decision, seen: Snapshot, bucket: Bucket) -> Iterator[ClusterWay]:
    for name in sorted(usable_hosts(decision, bucket)):
        host = seen.hosts.get(name)
        if host is not None and host.user_limit is not None:
            told = _told("lsb.hosts", f"host {name}", "JL/U", host.user_limit)
            yield _way(told, _raising(_with_host, name))


def _with_host(name: str, new: int, seen: Snapshot) -> Snapshot:
    hosts = {**seen.hosts, name: replace(seen.hosts[name], user_limit=new)}
    return replace(seen, hosts=hosts, columns=None)


def _of_job_groups(seen: Snapshot, bucket: Bucket) -> Iterator[ClusterWay]:
    for group in groups_above(bucket.job_group) if bucket.job_group else ():
        old = seen.job_group_limits.get(group)
        if old is not None:
            told = _told("", f"job group {group}", "-L", old)
            yield _way(told, _raising(_with_job_group, group), command=partial(_gbgmod, group))


def _gbgmod(name: str, new: int) -> str:
    return f"gbgmod -L {new} {shlex.quote(name)}"


def _with_job_group(name: str, new: int, seen: Snapshot) -> Snapshot:
    return replace(seen, job_group_limits={**seen.job_group_limits, name: new})


def _of_array(seen: Snapshot, bucket: Bucket) -> Iterator[ClusterWay]:
    """How many elements of the job's array may run at a time (`%n` of -J)."""
    old = seen.array_limits.get(bucket.array) if bucket.array else None
    if old is not None:
        told = _told("", f"job array {bucket.array}", "-J %", old)
        yield _way(told, _raising(_with_array, bucket.array), command=partial(_gmod, bucket.array))


def _gmod(array: int, new: int) -> str:
    return f"gmod -J %{new} {array}"


def _with_array(array: int, new: int, seen: Snapshot) -> Snapshot:
    return replace(seen, array_limits={**seen.array_limits, array: new})
