"""When a host tells its load: when it has changed noticeably, when asked to, and in time to be taken for alive."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from gsched.agent import host_report
from gsched.agent.host_report import HostReporter
from gsched.agent.load_changes import STEPS, is_news
from gsched.base.coded_text import coded
from gsched.master.agents.agent_sessions import settings
from gsched.model.config import ClusterConfig, Locations, Params, Timing
from gsched.model.hosts.host import HostConfig, LoadReport
from gsched.model.hosts.resource import LOAD_INDICES
from gsched.wire.v1 import agent_pb2
from tests.support.manual_clock import ManualClock

INDICES: dict[str, float | None] = {
    "r15s": 0.2,
    "r1m": 0.2,
    "r15m": 0.2,
    "ut": 0.1,
    "pg": 0.0,
    "io": 10.0,
    "ls": 1.0,
    "it": 5.0,
    "tmp": 90_000.0,
    "swp": 2_000.0,
    "mem": 200_000.0,
}
REPORT = LoadReport(indices=INDICES, external={"licenses": 3.0}, ncpus=8, maxmem_mib=256_000.0)


def changed(**indices: float | None) -> LoadReport:
    return msgspec.structs.replace(REPORT, indices={**INDICES, **indices})


@pytest.mark.parametrize(
    "report",
    [
        REPORT,
        changed(r15s=0.24, r1m=0.16, r15m=0.21, ut=0.11),
        changed(mem=199_000.0, tmp=89_500.0, swp=1_990.0, it=5.9, io=20.0, pg=0.5),
    ],
)
def test_small_changes_are_no_news(report: LoadReport) -> None:
    assert not is_news(report, REPORT)


@pytest.mark.parametrize(
    "report",
    [
        *(changed(**{name: (INDICES[name] or 0.0) + 17.0}) for name in ("r15s", "r1m", "r15m", "ut", "pg", "io", "it")),
        *(changed(**{name: (INDICES[name] or 0.0) * 0.9}) for name in ("mem", "tmp", "swp")),
        changed(ls=2.0),
        changed(it=0.0),
        changed(mem=None),
        changed(gpu_temp=50.0),
        msgspec.structs.replace(REPORT, external={"licenses": 2.0}),
        msgspec.structs.replace(REPORT, notes=(coded("remark.not_fenced", "x"),)),
        msgspec.structs.replace(REPORT, ncpus=4),
    ],
)
def test_what_somebody_may_decide_by_is_news(report: LoadReport) -> None:
    assert is_news(report, REPORT) and is_news(REPORT, report)


def test_each_built_in_index_with_a_step_is_one() -> None:
    assert STEPS.keys() <= {index.name for index in LOAD_INDICES}


def test_what_creeps_is_told_in_the_end() -> None:
    """Each is compared with what was told, not with the sample before."""
    told, creeping = REPORT, REPORT
    for step in range(1, 40):
        creeping = changed(mem=200_000.0 - step * 100.0)
        if is_news(creeping, told):
            break
    assert step == 20


def test_a_host_at_rest_tells_its_load_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once after hello, then as often as it must show that it lives; a change, and what is asked for, at once."""
    clock, heard = ManualClock(), list[float]()
    sampled: list[LoadReport] = []

    def tell(message: agent_pb2.AgentMessage) -> None:
        if message.HasField("load"):
            heard.append(clock.monotonic())

    async def story() -> None:
        reporter = HostReporter("h", str(tmp_path), "c", clock, send=tell)
        now = REPORT

        def sample() -> LoadReport:
            sampled.append(now)
            return now

        async def tick() -> None:
            """Another interval is over."""
            count = len(sampled)
            clock.advance(1.0)
            async with asyncio.timeout(60):
                while len(sampled) == count:
                    await asyncio.sleep(0.001)

        monkeypatch.setattr(reporter._sampler, "sample", sample)
        monkeypatch.setattr(host_report, "rest_s", lambda host, interval_s, now: 0.002 if interval_s == 1.0 else 1000.0)
        await reporter.configure(agent_pb2.Settings(gpu_provider="none", exchange_s=1.0, quiet_s=4.0, gpu_probe_s=1000))
        try:
            await tick()
            heard.clear()
            begun = clock.monotonic()
            for _ in range(9):
                await tick()
            gaps = [after - before for before, after in zip([begun, *heard], heard, strict=False)]
            assert 2 <= len(heard) <= 3 and max(gaps) <= 4.0
            heard.clear()
            now = changed(mem=100_000.0)
            await tick()
            assert len(heard) == 1
            reporter.tell_soon()
            await asyncio.sleep(0)
            await tick()
            assert len(heard) == 2
        finally:
            await reporter.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("exchange_s", "lost_s", "quiet_s"), [(1.0, 10.0, 2.5), (15.0, 30.0, 15.0), (5.0, 30.0, 7.5), (0.2, 0.4, 0.2)]
)
def test_the_master_says_how_long_an_agent_may_be_silent(exchange_s: float, lost_s: float, quiet_s: float) -> None:
    folders = dict.fromkeys(("conf_dir", "state_dir", "log_dir", "server_dir", "run_dir", "spool_dir"), "/none")
    config = ClusterConfig(
        cluster="c",
        master_host="a",
        hosts={"a": HostConfig(name="a")},
        queues={},
        locations=Locations(**folders),
        timing=Timing(exchange_s=exchange_s),
        params=Params(host_lost_after_s=lost_s),
    )
    assert settings(config, "a").quiet_s == pytest.approx(quiet_s)
