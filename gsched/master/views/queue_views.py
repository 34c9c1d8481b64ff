"""Queues as gqueues shows them: configuration, what administrators did, counts of their jobs, policies in words.

Pure: everything comes in. Source of the words: bqueues(1) of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gsched.config.files.queue_parameters import shown_parameters
from gsched.config.parameters.shares import FACTORS
from gsched.core.records.entities import QueueState
from gsched.master.views.array_views import ArrayCopy
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobState
from gsched.model.queues.exception_thresholds import ExceptionThresholds
from gsched.model.queues.fairshare_factors import FairshareFactors, factors_of
from gsched.model.queues.queue import Queue, RunLimits
from gsched.model.queues.window import is_open
from gsched.model.views.view import JobView, QueueView, ShareView

_OPEN = QueueState()


def queue_views(
    config: ClusterConfig,
    states: Mapping[str, QueueState],
    arrays: Iterable[ArrayCopy],
    jobs: Iterable[JobView],
    shares: Mapping[str, Sequence[ShareView]],
    minute_of_week: int,
    gpu_hosts: Collection[str] = (),
) -> list[QueueView]:
    """All queues by descending priority; counts are in slots. `gpu_hosts`: the hosts that have GPUs."""
    counts: dict[str, dict[str, int]] = {}
    waiting: dict[str, int] = {}
    for job in jobs:
        table = counts.setdefault(job.spec.queue, {})
        table[job.state] = table.get(job.state, 0) + job_slots(job)
        if job.state in PENDING:
            waiting[job.spec.queue] = waiting.get(job.spec.queue, 0) + 1
    for array in arrays:
        spec, state = array.template.spec, array.template.state
        table = counts.setdefault(spec.queue, {})
        table[state] = table.get(state, 0) + array.count * spec.slots
        waiting[spec.queue] = waiting.get(spec.queue, 0) + array.count
    return [
        _view(
            queue,
            config,
            states.get(queue.name, _OPEN),
            counts.get(queue.name, {}),
            tuple(shares.get(queue.name, ())),
            minute_of_week,
            waiting.get(queue.name, 0),
            gpu_hosts,
        )
        for queue in sorted(config.queues.values(), key=lambda queue: (-queue.priority, queue.name))
    ]


def job_slots(job: JobView) -> int:
    """Slots that the job holds or waits for; none once it has ended."""
    if job.state in FINISHED:
        return 0
    return job.allocation.slots if job.allocation is not None and job.state not in PENDING else job.spec.slots


def _view(
    queue: Queue,
    config: ClusterConfig,
    state: QueueState,
    slots: Mapping[str, int],
    shares: tuple[ShareView, ...],
    minute_of_week: int,
    waiting: int,
    gpu_hosts: Collection[str],
) -> QueueView:
    owner = config.queues.get(queue.share_owner, queue)
    factors = {} if queue.fairshare is None else _factors(factors_of(config.params.factors, owner, gpu_hosts))
    stated = config.params.factors.keys() | queue.factors.keys()
    pending = slots.get(JobState.PEND, 0) + slots.get(JobState.PSUSP, 0)
    started = sum(slots.get(each, 0) for each in STARTED)
    return QueueView(
        name=queue.name,
        priority=queue.priority,
        description=queue.description,
        status=queue_status(queue, state, minute_of_week),
        job_limit=queue.job_limit,
        user_limit=queue.user_limit,
        host_limit=queue.host_limit,
        processor_limit=queue.processor_limit,
        njobs=pending + started,
        pend=pending,
        pjobs=waiting,
        run=slots.get(JobState.RUN, 0) + slots.get(JobState.UNKWN, 0) + slots.get(JobState.ZOMBI, 0),
        ssusp=slots.get(JobState.SSUSP, 0),
        ususp=slots.get(JobState.USUSP, 0),
        nice=queue.nice,
        run_limit_s=queue.run_limit_s,
        default_run_limit_s=queue.default_run_limit_s,
        users=queue.users or (),
        hosts=_hosts(queue),
        res_req=queue.res_req,
        gpu_req=queue.gpu_req,
        policies=tuple(_policies(queue)),
        shares=shares,
        administrators=queue.administrators,
        thresholds={name: each.text for name, each in queue.thresholds.items()},
        exceptions=_exceptions(queue, config.params.detect_idle_after_s) or None,
        facts=dict(_facts(queue, config, state)) | factors,
        defaulted=tuple(name for name in factors if FACTORS[name].field not in stated),
    )


def _exceptions(queue: Queue, idle_after_s: int) -> ExceptionThresholds:
    return ExceptionThresholds(
        overrun_s=queue.job_overrun_s,
        underrun_s=queue.job_underrun_s,
        idle=queue.job_idle,
        idle_after_s=idle_after_s,
    )


def queue_status(queue: Queue, state: QueueState, minute_of_week: int) -> str:
    """`Open:Active`, `Closed:Inact_Adm`, `Open:Inact_Win` …"""
    opened = "Open" if state.is_open else "Closed"
    if not state.is_active:
        return f"{opened}:Inact_Adm"
    in_window = is_open(queue.run_window, minute_of_week) and is_open(queue.dispatch_window, minute_of_week)
    return f"{opened}:{'Active' if in_window else 'Inact_Win'}"


def _hosts(queue: Queue) -> tuple[str, ...]:
    """Empty means everywhere; a queue that was given none says so."""
    if queue.hosts is None:
        return ()
    return tuple(_with_level(host, queue) for host in queue.hosts) or ("none",)


def _with_level(host: str, queue: Queue) -> str:
    level = queue.host_levels.get(host, 0)
    return f"{host}+{level}" if level else host


def _policies(queue: Queue) -> Iterator[str]:
    if queue.fairshare is not None:
        yield "FAIRSHARE"
    if queue.preemption.preemptive is not None:
        yield "PREEMPTIVE"
    if queue.preemption.preemptable_by is not None:
        yield "PREEMPTABLE"
    if queue.backfill:
        yield "BACKFILL"
    if queue.exclusive:
        yield "EXCLUSIVE"
    if queue.interactive != "YES":
        yield f"{queue.interactive}_INTERACTIVE"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _facts(queue: Queue, config: ClusterConfig, state: QueueState) -> Iterator[tuple[str, str]]:
    """Parameters by LSF's names; only what is set. Printing orders them."""
    given = {
        "FAIRSHARE_QUEUES": " ".join(queue.share_queues),
        "DISPATCH_ORDER": "QUEUE" if queue.serves_queues_in_order and queue.share_owner == queue.name else "",
        "USER_SHARES": " ".join(f"[{share.name}, {share.shares}]" for share in queue.fairshare or ()),
        **dict(shown_parameters(queue)),
        "EXCLUDED_USERS": " ".join(queue.excluded_users),
        "TASKLIMIT": "" if queue.job_sizes else " ".join(str(each) for each in queue.task_limit or ()),
        "JOB_SIZE_LIST": " ".join(str(each) for each in queue.job_sizes),
        "SLOT_RESERVE": f"{queue.reserve_s:g}" if queue.reserve_s is not None else "",
        "ADMIN_COMMENT": state.comment,
    }
    yield from ((name, text) for name, text in given.items() if text)
    for name, limits in queue.limits.items():
        yield name, _limits(limits)
    for budget in config.limits:
        if budget.gpu_hours is not None and budget.queues is not None and queue.name in budget.queues.names:
            yield f"GPU_HOURS {budget.name}", f"{budget.gpu_hours:g} in {budget.budget_window_s / 3600:g} hours"


def _factors(factors: FairshareFactors) -> dict[str, str]:
    """All weights of a fairshare queue by LSF's names."""
    values = {name: getattr(factors, each.field) for name, each in FACTORS.items()}
    return {name: ("N", "Y")[value] if isinstance(value, bool) else _number(value) for name, value in values.items()}


def _limits(limits: RunLimits) -> str:
    """`default maximum` in the limit's unit; `-` where there is none."""
    return f"{_number(limits.default)} {_number(limits.maximum)}"
