"""Users and user groups as gusers shows them: limits of lsb.users, and the slots of their jobs that have not ended.

Pure: everything comes in. Source of the columns: busers(1) of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gsched.base.errors import NotFound
from gsched.master.views.array_views import ArrayCopy
from gsched.master.views.queue_views import job_slots
from gsched.master.views.withheld_slots import Withheld
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import FINISHED, PENDING, JobState
from gsched.model.queues.user import UserLimits
from gsched.model.views.catalogue import UserLimitView
from gsched.model.views.view import JobView

ALL = "all"
_NO_LIMITS = UserLimits(name="")


@dataclass(slots=True)
class SlotCount:
    """Slots and jobs that have not ended, and the GPUs that they hold."""

    pend: int = 0
    run: int = 0
    ssusp: int = 0
    ususp: int = 0
    rsv: int = 0
    pending_jobs: int = 0
    started_jobs: int = 0
    suspended_jobs: int = 0
    gpus: dict[str, float] = field(default_factory=dict)

    def add_job(self, job: JobView) -> None:
        slots = job_slots(job)
        if job.state in PENDING:
            self.add_pending(1, slots)
            return
        self.started_jobs += 1
        self.suspended_jobs += job.state in (JobState.SSUSP, JobState.USUSP)
        if job.state == JobState.SSUSP:
            self.ssusp += slots
        elif job.state == JobState.USUSP:
            self.ususp += slots
        else:
            self.run += slots
        for part in job.allocation.hosts if job.allocation is not None else ():
            for gpu in part.gpus:
                self.gpus[gpu.claim] = self.gpus.get(gpu.claim, 0.0) + gpu.share

    def add_pending(self, jobs: int, slots: int) -> None:
        self.pending_jobs += jobs
        self.pend += slots


def user_views(
    config: ClusterConfig,
    arrays: Iterable[ArrayCopy],
    jobs: Iterable[JobView],
    kept: Iterable[Withheld],
    names: Sequence[str],
) -> list[UserLimitView]:
    """The named users and groups in the order named; `all`: everybody who is known, groups behind users.

    Somebody is known who has a row in lsb.users, is a member of a group, or has jobs. Raises NotFound.
    """
    counts: dict[str, SlotCount] = {}
    for job in jobs:
        if job.state not in FINISHED:
            counts.setdefault(job.spec.user, SlotCount()).add_job(job)
    for array in arrays:
        if array.count:
            spec = array.template.spec
            counts.setdefault(spec.user, SlotCount()).add_pending(array.count, array.count * spec.slots)
    for each in kept:
        counts.setdefault(each.bucket.user, SlotCount()).rsv += each.slots
    groups = config.user_groups
    listed = {name for name in config.users if name != "default" and name not in groups and not name.endswith("@")}
    known = {*listed, *counts, *(user for group in groups.values() for user in group.users if user != ALL)}
    wanted = [name.rstrip("/") for name in names]
    if ALL in wanted:
        wanted = [*(("default",) if "default" in config.users else ()), *sorted(known), *groups]
    for name in wanted:
        if name not in known and name not in groups and name != "default":
            raise NotFound(f"{name}: Unknown user")
    return [_view(name, config, counts) for name in dict.fromkeys(wanted)]


def _view(name: str, config: ClusterConfig, counts: Mapping[str, SlotCount]) -> UserLimitView:
    group = config.user_groups.get(name)
    limits = config.users.get(name) or (None if group is not None else config.users.get("default")) or _NO_LIMITS
    if group is None:
        mine = [counts[name]] if name in counts else []
    else:
        mine = [count for user, count in counts.items() if user in group.users or ALL in group.users]
    gpus: dict[str, float] = {}
    for count in mine:
        for claim, amount in count.gpus.items():
            gpus[claim] = gpus.get(claim, 0.0) + amount
    return UserLimitView(
        name=name if group is None else f"{name}/",
        per_processor=limits.max_jobs_per_processor,
        max_slots=limits.max_jobs,
        max_pending=limits.max_pending,
        max_pending_slots=limits.max_pending_slots,
        pend=sum(count.pend for count in mine),
        run=sum(count.run for count in mine),
        ssusp=sum(count.ssusp for count in mine),
        ususp=sum(count.ususp for count in mine),
        rsv=sum(count.rsv for count in mine),
        pending_jobs=sum(count.pending_jobs for count in mine),
        started_jobs=sum(count.started_jobs for count in mine),
        suspended_jobs=sum(count.suspended_jobs for count in mine),
        gpus=gpus,
    )
