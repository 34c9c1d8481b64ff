"""What running attempts use, as the master is told it: news at once, idle GPUs always, the rest now and then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gsched.agent.attempts.attempt_memory import AttemptMemory
from gsched.agent.attempts.usage_reports import TOLD_AGAIN_S, UsageReports
from gsched.model.gpus.gpu_idle import GpuIdleness, IdleKind, IdleLimits
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.jobs.job import AttemptResult, Usage
from gsched.run.order import StartedInfo
from tests.support.manual_clock import ManualClock

KEY = (7, 1)
IDLE = GpuIdleness(host="h", index=0, uuid="GPU-a", kind=IdleKind.NO_PROCESS, idle_s=60.0, is_known=True)


class Host:
    """An agent's parts, which say what a test wants."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.memory = AttemptMemory()
        self.memory.started[KEY] = StartedInfo(pid=9, exec_home="/", exec_cwd="/", boot_id="", started_at=1.0)
        self.now = Usage(cpu_s=1.0, mem_mib=5.0, pids=(9,))
        self.gpus: tuple[GpuUsage, ...] = ()
        self.idle: tuple[GpuIdleness, ...] = ()
        self.unused_s: float | None = None
        self.steps = b""
        each: Any = self
        self.reports = UsageReports(
            each, self.clock, self.memory, each, gpu_use=each, services=each, idle_warnings=each
        )

    def usage(self, job_id: int, attempt: int) -> Usage:
        return msgspec.structs.replace(self.now, sampled_at=self.clock.now(), avg_mem_mib=self.clock.monotonic())

    def packed(self, key: object, most: int) -> bytes:
        return self.steps

    def summary(self, key: object) -> tuple[GpuUsage, ...]:
        return self.gpus

    def limits(self, key: object) -> IdleLimits:
        return IdleLimits()

    def idleness(self, key: object) -> tuple[GpuIdleness, ...]:
        return self.idle

    def last(self, key: object) -> None:
        return None

    def idle_s(self, key: object) -> float | None:
        return self.unused_s

    def told(self) -> Any:
        """What the master hears after another second; None: nothing."""
        self.clock.advance(1.0)
        report = self.reports.report()
        return report.attempts[0] if report is not None else None


@pytest.fixture
def host() -> Host:
    return Host()


def test_what_says_nothing_new_is_told_now_and_then(host: Host) -> None:
    first = host.told()
    assert (first.job_id, first.usage.cpu_s, first.usage.sampled_at) == (7, 1.0, host.clock.now())
    heard = [host.told() for _ in range(30)]
    assert [second for second, each in enumerate(heard, 1) if each] == [TOLD_AGAIN_S, 2 * TOLD_AGAIN_S]
    assert heard[14].usage.sampled_at == first.usage.sampled_at + TOLD_AGAIN_S


@pytest.mark.parametrize(
    "change",
    [
        lambda host: setattr(host, "now", msgspec.structs.replace(host.now, cpu_s=1.01)),
        lambda host: setattr(host, "now", msgspec.structs.replace(host.now, mem_mib=5.1, max_mem_mib=5.1)),
        lambda host: setattr(host, "now", msgspec.structs.replace(host.now, pids=(9, 10))),
        lambda host: setattr(host, "now", msgspec.structs.replace(host.now, cpu_peak=0.5)),
        lambda host: setattr(host, "steps", b"x"),
        lambda host: setattr(host, "gpus", (GpuUsage(host="h", uuid="GPU-a", samples=1),)),
        lambda host: host.reports.begin(),
    ],
)
def test_news_and_what_a_new_session_does_not_know_are_told_at_once(host: Host, change: Any) -> None:
    assert host.told() is not None and host.told() is None
    change(host)
    assert host.told() is not None and host.told() is None


def test_idle_gpus_are_told_of_at_each_sample_and_once_when_they_work_again(host: Host) -> None:
    """The master counts their idle seconds by these reports, and takes a job for idle until it hears otherwise."""
    assert host.told() is not None and host.told() is None
    host.idle = (IDLE,)
    heard = [host.told() for _ in range(3)]
    assert [each.idle.gpus[0].idle_s for each in heard] == [60.0] * 3
    host.idle = ()
    assert not host.told().HasField("idle")
    assert host.told() is None


def test_a_service_is_told_of_at_each_sample(host: Host) -> None:
    host.unused_s = 3.0
    assert [each.service_idle_s for each in (host.told(), host.told())] == [3.0, 3.0]


def test_nothing_is_told_of_an_attempt_that_has_ended(host: Host) -> None:
    host.memory.ended[KEY] = AttemptResult(exit_code=0)
    assert host.told() is None
    host.memory.forget(KEY)
    assert host.told() is None and not host.reports._told
