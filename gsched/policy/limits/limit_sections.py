"""What sections of lsb.resources and budgets of GPU hours refuse in a cycle, and the rows that glimits shows of them.

It knows nothing of other limits (job_limits) and counts nothing itself. Texts: pending reasons of LSF 10.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gsched.base.coded_text import AnyText, CodedText, coded
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.queues.limit import GPUS, JOBS, PARTS, PER_PROCESSOR, SLOTS, Consumers, Limit
from gsched.model.scheduling.snapshot import Bucket, RequirementClass, Snapshot
from gsched.model.views.room_view import LimitView
from gsched.policy.limits.limit_claims import OF_SECTION, LimitClaim, LimitCounter
from gsched.policy.limits.limit_counts import CountedSection, CycleCounts, Member, budget_key, concerns, may_reserve
from gsched.policy.requirement.reasons import reserving

BUCKET: Final = "bucket"
CLASS: Final = "class"
QUEUE: Final = "queue"
GPU_HOURS: Final = "gpu_hours"
"""Resource of a budget in views and reasons."""
_HOUR_S = 3600.0
_ROUNDING = 1e-6
_NOBODY: Member = ("", "", "", "", "")

Needs = Callable[[RequirementClass], Mapping[str, float]]
"""What a job of the class takes at the least of everything but slots, all hosts together (`ngpus`: devices)."""


class LimitDenial(NamedTuple):
    """Why a job may not start for a limit's sake: LSF's text, our numbers, and whom the refusal reaches:

    "bucket": the next jobs of the same bucket; "class": all jobs of the requirement class in the queue; "queue": all
    jobs of the queue.
    """

    text: AnyText
    detail: AnyText = ""
    scope: str = BUCKET
    hosts: tuple[str, ...] = ()
    """Further hosts that refuse the same part for the same reason."""

    @property
    def reason(self) -> PendingReason:
        """As the plan keeps it."""
        return PendingReason(self.text, detail=self.detail)


class SectionUse:
    """The sections and budgets of a cycle."""

    def __init__(self, snapshot: Snapshot, counts: CycleCounts, needs: Needs | None) -> None:
        self._snapshot = snapshot
        self._counts = counts
        self._needs = needs
        self._all = counts.added.sections
        self._budgets = [limit for limit in snapshot.limits if limit.gpu_hours is not None]
        minute = snapshot.minute_of_week
        self._allowed = {
            section.name: {
                resource: allowed
                for resource in section.resources
                if (allowed := section.allowed(resource, minute)) is not None
            }
            for section in self._all
        }
        self._shared = [section for section in self._all if section.shared]
        self._sharing: dict[RequirementClass, tuple[CountedSection, ...]] = {}
        """What jobs of a class may take of resources that hosts share."""
        self._concerning: dict[tuple[str, str, str, str, tuple[CountedSection, ...]], list[CountedSection]] = {}

    def shares(self, requirement: RequirementClass) -> tuple[CountedSection, ...]:
        """The instances of shared resources of which jobs of the class may take."""
        if not self._shared:
            return ()
        found = self._sharing.get(requirement)
        if found is None:
            text = requirement.requirement
            found = tuple(each for each in self._shared if may_reserve(text, each.shared))
            self._sharing[requirement] = found
        return found

    def reason(self, bucket: Bucket) -> LimitDenial | None:
        """What can be said before a place is known."""
        if not self._snapshot.limits:
            return None
        requirement = bucket.requirement
        wanted = {SLOTS: float(requirement.slots), JOBS: 1.0}
        wanted |= self._needs(requirement) if self._needs is not None else {}
        for section in self._of(bucket):
            if not section.by_host:
                denial = self._over(section, section.member(bucket), wanted)
                if denial is not None:
                    return denial
        return self._budget_denial(bucket, wanted)

    def place_reason(self, bucket: Bucket, parts: Sequence[HostAllocation]) -> LimitDenial | None:
        """Why a job of the bucket may not have those parts."""
        for section in self._of(bucket):
            for member, taken in section.takes(bucket, parts).items():
                denial = self._over(section, member, taken)
                if denial is not None:
                    return denial
        return None

    def claims(self, bucket: Bucket, parts: Sequence[HostAllocation], minute: int) -> Iterator[LimitClaim]:
        """What a job of the bucket with those parts takes of the sections that hold at that minute of the week. A part
        without a host counts for those that look at no hosts.
        """
        for section in self._of(bucket):
            if section.by_host and not all(part.host for part in parts):
                continue
            for member, taken in section.takes(bucket, parts).items():
                for resource, want in taken.items():
                    allowed = section.allowed(resource, minute) if want > 0 else None
                    if allowed is not None:
                        counter = LimitCounter(OF_SECTION, section=section, member=member, resource=resource)
                        used = self._counts.of_section(section.name, member, resource)
                        yield LimitClaim(
                            counter,
                            want,
                            used,
                            self._amount(resource, allowed, member),
                            _reached(section.limit, resource),
                        )

    def budgets(self, bucket: Bucket) -> Iterator[tuple[Limit, AnyText, float]]:
        """The budgets that jobs of the bucket with GPUs count for: each with what is said of jobs that it keeps from
        starting, and the GPU hours that are used of it.
        """
        who = (bucket.user, bucket.queue, bucket.project)
        for limit in self._budgets:
            if concerns(limit, *who):
                used = self._snapshot.gpu_seconds.get(budget_key(limit, *who), 0.0) / _HOUR_S
                yield limit, _reached(limit, GPU_HOURS), used

    def may_share(self, one: Bucket, other: Bucket) -> bool:
        """Whether a section concerns both."""
        concerning = self._of(other)
        return any(section in concerning for section in self._of(one))

    def has_spent(self, bucket: Bucket) -> bool:
        """Whether a budget of GPU hours keeps its jobs from starting."""
        wanted = self._needs(bucket.requirement) if self._needs is not None else {}
        return self._budget_denial(bucket, wanted) is not None

    def until_change_min(self, bucket: Bucket, minute: int) -> int | None:
        """Minutes until an amount may change that concerns the bucket; None: none does."""
        amounts = (each for section in self._of(bucket) for some in section.limit.amounts.values() for each in some)
        return min((window.until_change_min(minute) for each in amounts for window in each.windows), default=None)

    def need_a_place(self, bucket: Bucket) -> bool:
        """Whether `place_reason` may say more than `reason`."""
        return any(section.needs_a_place for section in self._of(bucket))

    def room(self, bucket: Bucket, host: str = "") -> float:
        """Slots that one more job of the bucket may take on the host as far as sections with hosts go; without a
        host, altogether as far as the others go. None where it may not start.
        """
        left = math.inf
        for section in self._of(bucket):
            if section.by_host == bool(host) and (not host or section.has_host(host)):
                left = min(left, self._room(section, bucket, host))
        return left

    def views(self) -> list[LimitView]:
        """A row for each amount that is limited now; where members are told apart, for each that uses some."""
        rows: list[LimitView] = []
        for section in self._all:
            rows += self._section_views(section) if not section.shared else ()
        for limit in self._budgets:
            rows += self._budget_views(limit)
        return rows

    def _over(self, section: CountedSection, member: Member, wanted: Mapping[str, float]) -> LimitDenial | None:
        for resource, amount in self._allowed[section.name].items():
            want = wanted.get(resource, 0.0)
            if want > 0:
                allowed = self._amount(resource, amount, member)
                used = self._counts.of_section(section.name, member, resource)
                if used + want > allowed + _ROUNDING:
                    return _section_denial(section, resource, used, want, allowed)
        return None

    def _room(self, section: CountedSection, bucket: Bucket, host: str) -> float:
        """Slots that the section leaves to the bucket's next job; none when it leaves it no job."""
        member, allowed = section.member(bucket, host), self._allowed[section.name]
        jobs = allowed.get(JOBS)
        if jobs is not None and self._counts.of_section(section.name, member, JOBS) + 1 > jobs:
            return 0
        left = math.inf
        for resource in (SLOTS, PER_PROCESSOR):
            if resource in allowed:
                most = self._amount(resource, allowed[resource], member)
                left = min(left, most - self._counts.of_section(section.name, member, resource))
        return left

    def _amount(self, resource: str, amount: float, member: Member) -> float:
        """What the member is allowed: of slots for each CPU as many as his host's CPUs make, rounded up; of a part
        of a host's memory, swap or temporary space so many MiB.
        """
        host = self._snapshot.hosts.get(member[2])
        if resource in PARTS:
            total = host.values.get(f"max{PARTS[resource]}") if host is not None else None
            return amount / 100 * total if isinstance(total, float | int) else 0.0
        if resource != PER_PROCESSOR:
            return amount
        return float(math.ceil(amount * max(1, host.ncpus if host is not None else 1)))

    def _budget_denial(self, bucket: Bucket, wanted: Mapping[str, float]) -> LimitDenial | None:
        if not self._budgets:
            return None
        if self._needs is None:
            wants_gpus = seems_to_want_gpus(bucket.requirement)
        else:
            wants_gpus = any(amount > 0 for resource, amount in wanted.items() if resource.startswith(GPUS))
        if not wants_gpus:
            return None
        for limit, text, used in self.budgets(bucket):
            allowed = limit.gpu_hours or 0.0
            if used >= allowed:
                scope = CLASS if limit.users is None and limit.projects is None else BUCKET
                detail = coded("limit.section_used", *_numbers(limit, GPU_HOURS, allowed), used)
                return LimitDenial(text, detail, scope)
        return None

    def _of(self, bucket: Bucket) -> list[CountedSection]:
        if not self._all:
            return self._all
        key = (bucket.user, bucket.queue, bucket.project, bucket.application, self.shares(bucket.requirement))
        found = self._concerning.get(key)
        if found is None:
            found = self._concerning[key] = [section for section in self._all if section.concerns(bucket)]
        return found

    def _section_views(self, section: CountedSection) -> Iterator[LimitView]:
        limit = section.limit
        apart = any(each is not None and each.per for each in consumers_of(limit))
        for resource, amount in self._allowed[section.name].items():
            shown = SLOTS if resource == PER_PROCESSOR else PARTS.get(resource, resource)
            members = self._counts.members(section.name) if apart else [_NOBODY]
            using = [each for each in members if self._counts.of_section(section.name, each, resource)]
            for member in using if apart else members:
                used = self._counts.of_section(section.name, member, resource)
                yield _line(limit, shown, used, self._amount(resource, amount, member), member, idle=not used)
            if apart and not using:
                named = resource if resource in PARTS else shown
                yield _line(limit, named, 0.0, amount, idle=True)

    def _budget_views(self, limit: Limit) -> Iterator[LimitView]:
        per = [
            name
            for name, each in (("user", limit.users), ("queue", limit.queues), ("project", limit.projects))
            if each is not None and each.per
        ]
        allowed = limit.gpu_hours or 0.0
        if not per:
            used = self._snapshot.gpu_seconds.get(limit.name, 0.0) / _HOUR_S
            yield _line(limit, GPU_HOURS, used, allowed, idle=not used)
            return
        is_idle = True
        for key, seconds in sorted(self._snapshot.gpu_seconds.items()):
            name, *members = key.split("/", len(per))
            if name == limit.name and len(members) == len(per):
                who = dict(zip(per, members, strict=True))
                user, queue, project = (who.get(kind, "") for kind in ("user", "queue", "project"))
                is_idle = False
                yield _line(limit, GPU_HOURS, seconds / _HOUR_S, allowed, (user, queue, "", project, ""))
        if is_idle:
            yield _line(limit, GPU_HOURS, 0.0, allowed, idle=True)


def _line(
    limit: Limit, resource: str, used: float, allowed: float, member: Member = _NOBODY, *, idle: bool = False
) -> LimitView:
    """Of each kind of consumers it names the member, or else all for whom the limit is."""
    kinds = zip(member, consumers_of(limit), strict=True)
    user, queue, host, project, application = (one or (said(all_) if all_ is not None else "") for one, all_ in kinds)
    return LimitView(
        name=limit.name,
        user=user,
        queue=queue,
        host=host,
        project=project,
        application=application,
        resource=resource,
        used=used,
        allowed=allowed,
        idle=idle,
    )


def consumers_of(limit: Limit) -> tuple[Consumers | None, ...]:
    """In the order of a Member."""
    return (limit.users, limit.queues, limit.hosts, limit.projects, limit.applications)


def said(consumers: Consumers) -> str:
    """`ann bob`, `all ~ann`; empty for all."""
    if consumers.names:
        return " ".join(consumers.names)
    return " ".join(["all", *(f"~{name}" for name in consumers.excluded)]) if consumers.excluded else ""


def seems_to_want_gpus(requirement: RequirementClass) -> bool:
    """Whether jobs of the class claim devices, as far as the text of the requirement tells."""
    return bool(requirement.gpu) or requirement.auto_gpu or "ngpus" in requirement.requirement.partition("rusage")[2]


def _section_denial(section: CountedSection, resource: str, used: float, want: float, allowed: float) -> LimitDenial:
    if section.shared:
        return LimitDenial(reserving(resource), _shared_numbers(section, used, want, allowed), CLASS)
    scope = BUCKET
    if section.is_of_everybody:
        is_full = resource in (SLOTS, JOBS) and used >= allowed
        scope = QUEUE if is_full and not section.by_host else CLASS
    detail = coded("limit.section_wanted", *_numbers(section.limit, resource, allowed), used, want)
    return LimitDenial(_reached(section.limit, resource), detail, scope)


def _shared_numbers(section: CountedSection, used: float, want: float, allowed: float) -> AnyText:
    hosts = section.limit.hosts.names if section.limit.hosts is not None else ()
    where = " ".join(hosts[:3]) + (" ..." if len(hosts) > 3 else "")
    return coded("limit.shared_left", want, max(0.0, allowed - used), allowed, where)


def _reached(limit: Limit, resource: str) -> AnyText:
    if limit.is_shared_resource:
        return reserving(resource)
    return coded("limit.jobs_section" if resource == JOBS else "limit.section", _where(limit))


def _numbers(limit: Limit, resource: str, allowed: float) -> tuple[str, str, float]:
    return resource, limit.name, allowed


def _where(limit: Limit) -> CodedText:
    """LSF's words for the kind of consumer; for a limit on several the narrowest."""
    if limit.hosts is not None and limit.gpu_hours is None:
        return coded("limit.on_hosts")
    if limit.users is not None:
        return coded("limit.on_users")
    if limit.queues is not None:
        return coded("limit.on_queue")
    if limit.projects is not None:
        return coded("limit.on_project")
    return coded("limit.on_application" if limit.applications is not None else "limit.on_cluster")
