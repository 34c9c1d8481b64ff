"""What running attempts use, as it is told to the master: news at once, what says nothing new at most now and then.

An attempt is told of whenever its figures, its steps or what is known of its GPUs have changed since the session's last
word, and at every sample while one of its GPUs may be idle or its service unused: the master counts on these. How often
samples are taken is for others to say.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gsched.agent.attempts.attempt_memory import AttemptMemory
from gsched.agent.gpu_use.gpu_use_recorder import GpuUseRecorder
from gsched.agent.output.idle_warnings import IdleWarnings
from gsched.agent.services.job_services import JobServices
from gsched.agent.tasks.step_records import StepRecords
from gsched.base.clock import Clock
from gsched.model.gpus.gpu_idle import AttemptIdleness
from gsched.model.jobs.job import Usage
from gsched.model.jobs.step_facts import MOST_PACKED_STEPS
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.executor import ProcessExecutor
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2

REPORTED_STEPS = 4 << 20
"""Bytes that a report of what attempts use says of their steps."""
TOLD_AGAIN_S = 15.0
"""So often the time of the last sample and the mean of the memory are told when nothing else has changed."""


class UsageReports:
    """Reports of one host's attempts."""

    def __init__(
        self,
        executor: ProcessExecutor,
        clock: Clock,
        memory: AttemptMemory,
        steps: StepRecords,
        *,
        gpu_use: GpuUseRecorder,
        services: JobServices,
        idle_warnings: IdleWarnings,
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._memory = memory
        self._steps = steps
        self._gpu_use = gpu_use
        self._services = services
        self._idle_warnings = idle_warnings
        self._told: dict[AttemptKey, tuple[float, Usage]] = {}
        """When, and what of each attempt was told in this session."""

    def begin(self) -> None:
        """A new session: its master knows nothing yet."""
        self._told.clear()

    def report(self, keys: Iterable[AttemptKey] | None = None) -> agent_pb2.UsageReport | None:
        """A sample of every running attempt, or of these alone; None when there is nothing to tell."""
        report = agent_pb2.UsageReport()
        started = self._memory.started
        self._told = {key: told for key, told in self._told.items() if key in started}
        meant = [key for key in (started if keys is None else keys) if key in started]
        most_steps = min(REPORTED_STEPS // max(1, len(meant)), MOST_PACKED_STEPS)
        for key in meant:
            usage = self._executor.usage(*key) if key not in self._memory.ended else None
            if usage is not None:
                steps = self._steps.packed(key, most_steps)
                self._tell(key, msgspec.structs.replace(usage, gpus=self._gpu_use.summary(key), steps=steps), report)
        return report if report.attempts else None

    def _tell(self, key: AttemptKey, usage: Usage, report: agent_pb2.UsageReport) -> None:
        idle, unused_s = self._idleness(key), self._services.idle_s(key)
        lasting = msgspec.structs.replace(usage, sampled_at=None, avg_mem_mib=None)
        now = self._clock.monotonic()
        at, before = self._told.get(key, (now, None))
        if lasting == before and not idle.gpus and unused_s is None and now - at < TOLD_AGAIN_S:
            return
        # What is idle has to be told of again when it is idle no longer, whatever else has changed.
        self._told[key] = now, lasting if not idle.gpus and unused_s is None else Usage()
        told = report.attempts.add(job_id=key[0], attempt=key[1])
        fill(told.usage, usage)
        if idle.gpus:
            fill(told.idle, idle)
        if unused_s is not None:
            told.service_idle_s = unused_s

    def _idleness(self, key: AttemptKey) -> AttemptIdleness:
        limits, warned = self._gpu_use.limits(key), self._idle_warnings.last(key)
        return AttemptIdleness(limits=limits, warned=warned, gpus=self._gpu_use.idleness(key))
