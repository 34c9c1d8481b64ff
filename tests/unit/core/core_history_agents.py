"""Configurations, requirements and agents of histories (see core_histories): what is random there is chosen here."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from core_world import START, make_config

from gsched.core.command import (
    AttemptEnded,
    AttemptStarted,
    Command,
    NoticeSettled,
    SignalsSent,
)
from gsched.core.instruction import (
    ForgetNotices,
    Instruction,
    SendNotice,
    SignalAttempt,
    SpareAttempt,
    StartJob,
    TerminateAttempt,
)
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig, GpuUnrequested, Params
from gsched.model.hosts.host import HostConfig
from gsched.model.hosts.topology import Processor, Topology
from gsched.model.jobs.job import EXIT_SAVED, STARTED, AttemptResult
from gsched.model.jobs.notice import NoticeEnd
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.model.queues.gpu_idle_policy import GpuIdlePolicy, IdleAction
from gsched.model.queues.queue import Preemption, Queue, Threshold
from gsched.model.queues.user import UserGroup
from gsched.model.queues.window import DAY_MIN, Window, minute_of_week

DEVICES = {"a": 3, "b": 2, "c": 0}
TOPOLOGY = Topology(tuple(Processor(cpu, cpu % 3, 0, 0) for cpu in range(6)))
REQUIREMENTS = (
    "{select[mem<0]} || {rusage[mem=10]}@5",
    "", "rusage[ngpus_excl_p=1]", "rusage[ngpus_excl_p=2]", "rusage[ngpus_shared=1]", "select[ngpus>0] rusage[ngpus=1]",
    "rusage[mem=(60000 40000):duration=(5s 3):decay=(0 1)]", "rusage[ngpus_excl_p=1/task]",
    "rusage[seats=1] order[mem]",
    "affinity[thread(1,exclusive=(core)):distribute=balance]", "cu[excl]",
)  # fmt: skip


def configs() -> list[ClusterConfig]:
    """What the cluster may be switched between: hosts, queues and resources come and go while in use."""
    normal = Queue(
        name="normal", priority=2, requeue_exit_values="1", max_requeue=2, exclusive=True, exclusive_units="rack",
        thresholds={"r1m": Threshold(1.0, 2.0)}, administrators=("bob",), new_job_delay_s=1.0,
        retry="gpu_busy:2@other_host unknown:1 xid:1",
        gpu_idle=GpuIdlePolicy(window_s=20.0, grace_s=10.0, action=IdleAction.REQUEUE),
    )  # fmt: skip
    small = Queue(
        name="small", priority=9, job_limit=3, user_limit=2, host_limit=2, retry="gpu_busy:1 xid:1",
        gpu_idle=GpuIdlePolicy(window_s=20.0, grace_s=10.0, action=IdleAction.KILL, may_ask=True),
    )  # fmt: skip
    plain = (normal, small, Queue(name="high", priority=20, preemption=Preemption(preemptive=())))
    minute = minute_of_week(START) % DAY_MIN
    windowed = msgspec.structs.replace(small, run_window=(Window(minute, (minute + 30) % DAY_MIN),))
    racks = {"rack": {"r1": ("a", "b"), "r2": ("c",)}}
    groups = {"lab": UserGroup(name="lab", users=("ann",), admins=("bob",))}
    ageing = Params(max_user_priority=10, priority_over_time=(1, 1), preempt_requeue=True)
    tight = [HostConfig(name="a", max_slots=2, user_slots=2), HostConfig(name="b", max_slots=1, affinity=(0, 1)), "c"]
    bound = [HostConfig(name=name, max_slots=16, affinity=()) for name in "abc"]
    return [
        make_config(
            bound,
            plain,
            params=Params(gpu_shared_jobs=2, max_dispatch_per_cycle=3),
            user_groups=groups,
            compute_units=racks,
        ),
        make_config(tight, plain[:1], params=Params(job_accept_interval_s=2.0, gpu_unrequested=GpuUnrequested.AUTO)),
        make_config("ac", (normal, windowed), params=Params(clean_period_s=20, end_on_invalid_dependency=False)),
        make_config(
            "abc", plain, mapped={"ngpus": ("a", "b"), "ngpus_excl_p": ("a",)}, params=ageing, compute_units=racks
        ),
    ]


@dataclass
class AgentModel:
    """A host with an honest agent: what really runs, what it has not told yet, what it has been ordered."""

    name: str
    connected: bool = False
    session: int = 0
    boot: int = 1
    parts: dict[AttemptKey, HostAllocation] = field(default_factory=dict)
    started: dict[AttemptKey, AttemptStarted] = field(default_factory=dict)
    ended: dict[AttemptKey, AttemptEnded] = field(default_factory=dict)
    news: list[Command] = field(default_factory=list)
    orders: list[tuple[Instruction, HostAllocation | None]] = field(default_factory=list)
    elsewhere: set[AttemptKey] = field(default_factory=set)
    """Attempts whose jobs have another first host: what runs here is a part, which ends when it is told to."""
    opened: set[AttemptKey] = field(default_factory=set)
    """Parts that have ever been opened here."""
    saving: dict[AttemptKey, str] = field(default_factory=dict)
    """Attempts that save their state -> the keyword for why they are asked to."""
    signalled: dict[AttemptKey, int] = field(default_factory=dict)
    """Number of the last signal that attempts were sent."""
    notices: dict[str, bool] = field(default_factory=dict)
    """Notices on its disk, and whether they were sent."""
    sent: list[str] = field(default_factory=list)
    """All that it has ever sent."""

    def running(self) -> dict[AttemptKey, HostAllocation]:
        return {key: part for key, part in self.parts.items() if key not in self.ended}

    def start(self, key: AttemptKey, at: float) -> None:
        if key in self.running() and key not in self.started:
            self.opened.add(key)
            self.started[key] = AttemptStarted(*key, self.name, 7, at, boot_id=str(self.boot))
            self.news.append(self.started[key])

    def end(self, key: AttemptKey, result: AttemptResult) -> None:
        if key in self.running():
            self.ended[key] = AttemptEnded(*key, self.name, result, is_part=key in self.elsewhere)
            self.news.append(self.ended[key])

    def save(self, key: AttemptKey, at: float, exit_code: int | None = EXIT_SAVED) -> None:
        """One that saves its state ends. `exit_code`: None: it is killed at the end of its time."""
        reason = self.saving.pop(key, "")
        self.end(
            key,
            AttemptResult(
                exit_code=exit_code, signal=None if exit_code is not None else 9, ended_at=at, term_reason=reason
            ),
        )

    def send_notices(self) -> list[Command]:
        """Those that it has not sent yet; what it tells of them."""
        new = [notice_id for notice_id, is_sent in self.notices.items() if not is_sent]
        self.sent += new
        self.notices |= dict.fromkeys(new, True)
        return [NoticeSettled(self.name, NoticeEnd(notice_id=notice_id)) for notice_id in new]

    def obey_about_notice(self, order: SendNotice | ForgetNotices) -> None:
        if isinstance(order, SendNotice):
            self.notices.setdefault(order.notice.notice_id, False)
            return
        for notice_id in order.notice_ids:
            self.notices.pop(notice_id, None)

    def obey(self, order: Instruction, part: HostAllocation | None, at: float) -> None:
        match order:
            case StartJob(job_id=job_id, attempt=attempt):
                if (job_id, attempt) in self.ended:
                    self.news.append(self.ended[job_id, attempt])
                elif part is not None:
                    self.parts.setdefault((job_id, attempt), part)
            case SendNotice() | ForgetNotices():
                self.obey_about_notice(order)
            case SignalAttempt(job_id=job_id, attempt=attempt) if (job_id, attempt) in self.elsewhere:
                self._pass_on(order)
            case TerminateAttempt(job_id=job_id, attempt=attempt, given_up=True) if (job_id, attempt) not in self.parts:
                result = AttemptResult(started=False, ended_at=at)
                self.news.append(AttemptEnded(job_id, attempt, self.name, result, given_up=True))
            case SpareAttempt(job_id=job_id, attempt=attempt):
                self.saving.pop((job_id, attempt), None)
            case TerminateAttempt() | SignalAttempt():
                self._obey_about_end(order, at)
            case _ if hasattr(order, "attempts"):
                for key in order.attempts:
                    if self.ended.pop(key, None) is not None:
                        self.parts.pop(key, None)
                        self.started.pop(key, None)

    def _pass_on(self, order: SignalAttempt) -> None:
        """It is for what runs in the part, and sent once."""
        key = (order.job_id, order.attempt)
        if key in self.parts and order.number > self.signalled.get(key, 0):
            self.signalled[key] = order.number
            self.news.append(SignalsSent(*key, self.name, order.number))

    def _obey_about_end(self, order: TerminateAttempt | SignalAttempt, at: float) -> None:
        """It ends, or saves its state first."""
        key = (order.job_id, order.attempt)
        started = key in self.started
        if started and isinstance(order, TerminateAttempt) and order.save is not None and key in self.running():
            self.saving[key] = order.reason
        else:
            self.end(key, AttemptResult(signal=15, started=started, ended_at=at))

    def reboot(self) -> None:
        """Everything that ran is gone; what had ended is in the journal, and every other time what was lost, too."""
        self.boot += 1
        self.saving.clear()
        for key in self.running():
            if self.boot % 2 and key in self.started:
                self.end(key, AttemptResult(problem="the host restarted while the job ran", host_down=True))
            else:
                del self.parts[key]
                self.started.pop(key, None)


def held_by_jobs(state: ClusterState) -> dict[tuple[str, AttemptKey], dict[str, float]]:
    """What is held of amounts, without that of attempts that only agents know."""
    started = {job.key for job in state.jobs.values() if job.state in STARTED}
    return {
        (host, key): part.amounts
        for host, host_ledger in state.ledger.hosts.items()
        for key, part in host_ledger.held.items()
        if key in started
    }
