"""What the executor keeps in memory of one attempt. All of it can be read again from its folder and from /proc."""

from __future__ import annotations

import asyncio

from gsched.base.coded_text import AnyText
from gsched.model.jobs.job import Usage
from gsched.run.attempts.supervisor_pool import SupervisorLink
from gsched.run.attempts.unsupervised_job import UnsupervisedJob
from gsched.run.containers.container_processes import SignalReach
from gsched.run.fence.group import FenceGroup, group_of
from gsched.run.fork_server_client import Watch
from gsched.run.order import AttemptLimits, Order, RunKey, Unkillable
from gsched.run.processes import process_tree
from gsched.run.processes.process_usage import Sampler
from gsched.run.spool import Started


class Attempt:
    """One attempt, from the order to its end."""

    def __init__(self, order: Order, name: str) -> None:
        self.name = name
        self.key: RunKey = (order.job_id, order.attempt)
        self.account = order.account
        """Its user, where that is not the agent's."""
        self.mark = order.environment.get(process_tree.MARK_VARIABLE, "")
        self.limits = AttemptLimits(run_limit_s=order.run_limit_s, limits=order.limits)
        self.is_part = order.is_part
        """The part of a job on another than its first host: its supervisor is its main process."""
        self.reach = SignalReach(is_contained=order.container is not None)
        fence = order.fence
        self.group: FenceGroup | None = group_of(fence.kind, fence.folders) if fence is not None else None
        self.terminate_interval_s = order.terminate_interval_s
        self.ends_by_term = order.ends_by_term
        self.controls = order.controls
        self.action: asyncio.Task[None] | None = None
        """The last action of `controls` that was begun to stop it, or to let it go on."""
        self.has_chosen_delay = False
        """Whoever had it ended has said how long before SIGKILL."""
        self.awaits_answer = False
        self.tries = 0
        self.looks = 0
        self.supervisor: tuple[int, int] | None = None
        self.started: Started | None = None
        self.was_seen = False
        """Its supervisor or its main process was seen alive, and their ends are events: what is in the job's session
        when those come is the job's."""
        self.let_go = asyncio.Event()
        """Set when the job has started or the attempt has ended."""
        self.ended = asyncio.Event()
        self.news = asyncio.Event()
        """Set when its supervisor tells something, or it has ended; then there is another one."""
        self.watch: Watch | None = None
        self.link: SupervisorLink | None = None
        """To its supervisor, where that takes further orders when it is over; `watch` is its then."""
        self.timers: list[asyncio.TimerHandle] = []
        self.ending: asyncio.Task[None] | None = None
        self.is_killed_again = False
        """SIGKILL did not end it, and is sent until it does."""
        self.saves = False
        """That asks it to save its state, and gives it time."""
        self.sparing: asyncio.Task[None] | None = None
        """Waits until its time to save its state is over, after which it is not ended."""
        self.is_swept = False
        """Its supervisor was killed and the job is over: what it left is being ended, and what follows it run."""
        self.problem: AnyText = ""
        self.unkillable: set[Unkillable] = set()
        """Processes that were told to be so."""
        self.usage = Sampler()
        self.clocks: dict[int, int] = {}
        """Its processes and its supervisor when they were last read -> how long each had run (process_clocks)."""
        self.read_at = float("-inf")
        """When that was, monotonic."""
        self.group_read_at = float("-inf")
        self.kept: tuple[float, Usage] = (float("-inf"), Usage())
        """When figures were kept, and what they were."""
        self.unsupervised: UnsupervisedJob | None = None
        """Enforces the limits in the place of a supervisor that was killed."""

    def tell_news(self) -> None:
        """Wake who waits for news of it."""
        news, self.news = self.news, asyncio.Event()
        news.set()
