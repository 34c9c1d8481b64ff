"""What becomes of jobs that hold GPUs and do not use them: GPU_IDLE of a queue.

The agents say how long each GPU has been idle, by the limits of the job's queue; nothing is measured here. A job is
idle for as long as all its GPUs are, on all its hosts. After the window it is warned, once, and after the grace, if it
is still idle, the queue's action follows. Both are measured by the agents' clocks, which stand still while nobody looks
or the job is suspended; a job that works again, or is exempt, has its warning taken back.

Everything is decided when an agent reports: nothing waits, and nothing is kept of samples.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.ids import show_job
from gsched.core.attempts.attempt_results import SYSTEM
from gsched.core.attempts.restarts import most_requeues, save_by, save_request
from gsched.core.decision import Decision
from gsched.core.instruction import JudgeIdleness, TerminateAttempt, WarnIdle
from gsched.core.records.job import JobRecord
from gsched.model.config import ClusterConfig
from gsched.model.event import (
    JobIdleActed,
    JobIdleOver,
    JobIdleWarned,
    JobMessagePosted,
    JobRequeueRequested,
    JobSignalRequested,
)
from gsched.model.gpus.gpu_idle import (
    GPU_IDLE,
    IDLE_REQUEUE,
    GpuIdleness,
    IdleKind,
    IdleLimits,
    IdleWarning,
    JobIdleness,
    of_job,
)
from gsched.model.jobs.job import JobSpec, JobState
from gsched.model.jobs.requeue_exits import RestartCause
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.queues.gpu_idle_policy import ExemptKind, GpuIdlePolicy, IdleAction
from gsched.model.views.message_boxes import IDLE_BOX

MOST_NAMED = 4
"""GPUs that a warning tells of one by one."""


def judge_idleness(key: AttemptKey, host: str, decision: Decision) -> None:
    """An agent has told how idle the GPUs of an attempt on its host are: do what follows."""
    job = decision.state.jobs.get(key[0])
    if job is None or job.attempt != key[1] or job.allocation is None:
        return
    policy = _policy(job, decision.config)
    if _is_judged_otherwise(job, host, policy, decision):
        return
    # One that is suspended, ending, or of which nobody knows how it is, is let alone.
    if job.state is not JobState.RUN or job.started_at is None or job.kill_by or job.requeue_by:
        return
    if policy is None or is_exempt(job.spec, policy):
        if job.idle_warning is not None:
            _take_back(job, coded("idle.over.no_rule" if policy is None else "idle.over.exempt"), decision)
        return
    gpus = gpus_of(job, decision)
    idle = of_job(gpus, sum(len(part.gpus) for part in job.allocation.hosts))
    if idle is not None:
        _judge(job, policy, idle, gpus, decision)


def is_exempt(spec: JobSpec, policy: GpuIdlePolicy) -> bool:
    """Whether nothing is said about idle GPUs of the job, whatever it does."""
    if policy.may_ask and spec.gpu_idle_ok:
        return True
    named = {(ExemptKind.PROJECT, spec.project), (ExemptKind.APPLICATION, spec.application)}
    if spec.interactive:
        named.add((ExemptKind.INTERACTIVE, ""))
    return spec.user in policy.exempt_users or any(each in named for each in policy.exempt)


def _policy(job: JobRecord, config: ClusterConfig) -> GpuIdlePolicy | None:
    queue = config.queues.get(job.spec.queue)
    return queue.gpu_idle if queue is not None else None


def _is_judged_otherwise(job: JobRecord, host: str, policy: GpuIdlePolicy | None, decision: Decision) -> bool:
    """Whether the agent has judged by other limits than the queue's; then it is told these."""
    wanted = policy.limits if policy is not None else IdleLimits()
    told = decision.observed(host).idle[job.key]
    if told.limits == wanted:
        return False
    decision.instruct(JudgeIdleness(host, job.job_id, job.attempt, wanted))
    return True


def gpus_of(job: JobRecord, decision: Decision) -> list[GpuIdleness]:
    """All that agents that are there tell of its GPUs."""
    parts = job.allocation.hosts if job.allocation is not None else ()
    seen = [decision.observed(part.host) for part in parts if part.gpus]
    told = [each.idle[job.key] for each in seen if each.connected and job.key in each.idle]
    return [gpu for idle in told for gpu in idle.gpus]


def _judge(
    job: JobRecord, policy: GpuIdlePolicy, idle: JobIdleness, gpus: list[GpuIdleness], decision: Decision
) -> None:
    warning = job.idle_warning
    if warning is not None and idle.idle_s < warning.idle_s:
        _take_back(job, coded("idle.over.anew" if idle.kind else "idle.over.works"), decision)
        warning = None
    if warning is None:
        if idle.idle_s >= policy.window_s:
            _warn(job, policy, idle, gpus, decision)
        return
    assert job.allocation is not None
    first = decision.observed(job.allocation.first_host).idle.get(job.key)
    if first is not None and first.warned < warning.number:
        decision.instruct(WarnIdle(job.allocation.first_host, job.job_id, job.attempt, warning))
    if warning.acted != policy.action and idle.idle_s >= warning.idle_s + policy.grace_s:
        _act(job, policy, idle, warning, decision)


def _warn(
    job: JobRecord, policy: GpuIdlePolicy, idle: JobIdleness, gpus: list[GpuIdleness], decision: Decision
) -> None:
    assert job.allocation is not None
    warning = IdleWarning(
        number=job.idle_warnings + 1,
        at=decision.now,
        idle_s=idle.idle_s,
        kind=idle.kind,
        action=policy.action,
        grace_s=policy.grace_s,
        text=_warning_text(job, policy, idle, gpus),
    )
    decision.record(JobIdleWarned(at=decision.now, job_id=job.job_id, attempt=job.attempt, warning=warning))
    _post(job, warning.text, decision)
    decision.instruct(WarnIdle(job.allocation.first_host, job.job_id, job.attempt, warning))


def _take_back(job: JobRecord, why: AnyText, decision: Decision) -> None:
    assert job.idle_warning is not None
    number = job.idle_warning.number
    decision.record(JobIdleOver(at=decision.now, job_id=job.job_id, attempt=job.attempt, number=number, text=why))
    _post(job, why, decision)


def _post(job: JobRecord, text: AnyText, decision: Decision) -> None:
    user = next(iter(decision.config.administrators), SYSTEM)
    decision.record(JobMessagePosted(at=decision.now, job_id=job.job_id, user=user, box=IDLE_BOX, text=str(text)))


def _act(job: JobRecord, policy: GpuIdlePolicy, idle: JobIdleness, warning: IdleWarning, decision: Decision) -> None:
    """What the queue says now, not what it said when the job was warned."""
    span, since = _span(idle.idle_s), _span(idle.idle_s - warning.idle_s)
    if policy.action is IdleAction.NOTIFY:
        return
    why_not = _why_not_requeued(job, decision.config) if policy.action is IdleAction.REQUEUE else None
    text = why_not or coded(f"idle.acted.{policy.action}", span, _kind(idle.kind), since, job.spec.queue)
    decision.record(
        JobIdleActed(
            at=decision.now,
            job_id=job.job_id,
            attempt=job.attempt,
            number=warning.number,
            action=policy.action,
            text=text,
        )
    )
    if why_not is not None:
        return
    now, number = decision.now, job.job_id
    if policy.action is IdleAction.REQUEUE:
        reason, until = coded(IDLE_REQUEUE, span), save_by(job, now)
        decision.record(JobRequeueRequested(at=now, job_id=number, by=SYSTEM, reason=reason, save_by=until))
    else:
        decision.record(JobSignalRequested(at=now, job_id=number, by=SYSTEM, signal=0, keyword=GPU_IDLE))
    for part in job.allocation.hosts if job.allocation is not None else ():
        order = TerminateAttempt(part.host, job.job_id, job.attempt, GPU_IDLE, save=save_request(job, part.host))
        decision.instruct(order)


def _why_not_requeued(job: JobRecord, config: ClusterConfig) -> AnyText | None:
    if not job.runs_again_after(RestartCause.IDLE):
        return coded("idle.kept.not_rerunnable")
    most = most_requeues(job, config)
    return coded("idle.kept.most_requeues", most) if most is not None and job.idle_requeues >= most else None


def _warning_text(job: JobRecord, policy: GpuIdlePolicy, idle: JobIdleness, gpus: list[GpuIdleness]) -> AnyText:
    """How long and in which way its GPUs are idle, with numbers; what follows; what to do."""
    known = sorted(gpus, key=lambda gpu: (gpu.host, gpu.index))
    named = [_gpu_text(gpu) for gpu in known[:MOST_NAMED]]
    more = len(known) - len(named)
    facts = listed([*named, *([coded("idle.more_gpus", more)] if more else [])], "list.semicolon")
    span = _span(idle.idle_s)
    said = coded("idle.warned", show_job(job.job_id), len(known), span, _kind(idle.kind), facts, job.spec.queue)
    follows = coded(f"idle.follows.{policy.action}", _span(policy.grace_s))
    advice = coded("idle.advice.ask", show_job(job.job_id)) if policy.may_ask else ""
    return listed([said, follows, advice], "list.sentences")


def _kind(kind: str) -> AnyText:
    return coded(f"idle.kind.{kind}")


def _gpu_text(gpu: GpuIdleness) -> AnyText:
    where = (gpu.index, gpu.host)
    most, traffic = _number(gpu.util_max), _number(gpu.traffic_max)
    if gpu.kind == IdleKind.NO_PROCESS:
        return coded("idle.gpu.no_process", *where)
    if gpu.kind == IdleKind.FAKED:
        return coded("idle.gpu.faked", *where, most, traffic, _number(gpu.power_max_w))
    return coded(f"idle.gpu.{gpu.kind}", *where, most, traffic, _number(gpu.mem_mib))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _span(seconds: float) -> str:
    """`45 s`, `30 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
