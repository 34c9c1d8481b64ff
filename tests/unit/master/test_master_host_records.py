"""What is recorded of hosts: what decides at once, what moves seldom, so little that it may be kept for ever."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest

from gsched.base.value_delta import delta_of, patched
from gsched.core.engine import Engine
from gsched.core.resources.host_entries import unpack_entries
from gsched.core.resources.kept_observations import KeptObservation, kept_observation
from gsched.core.resources.observed_hosts import Observations
from gsched.core.state.cluster_state import replay
from gsched.master.host_recorder import BRISK_S, SAMPLE_S, HostRecorder
from gsched.model.config import ClusterConfig, Locations
from gsched.model.gpus.gpu_use import GpuUsage
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, HostConfig, LoadReport
from gsched.model.jobs.job import Usage
from gsched.model.queues.queue import Queue, Threshold
from gsched.store.tables.schema import HostRecordRow

NOW = 1_000_000.0
PLACES = Locations(conf_dir="/c", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
DAY_S = 86_400
MONTH_DAYS = 30


def config_of(names: list[str], **of_host: Any) -> ClusterConfig:
    hosts = {name: HostConfig(name=name, max_slots=64, **of_host) for name in names}
    return ClusterConfig(
        cluster="c", master_host=names[0], hosts=hosts, queues={"normal": Queue(name="normal", priority=3)},
        locations=PLACES,
    )  # fmt: skip


def gpu(index: int, **changed: Any) -> Gpu:
    return Gpu(
        uuid=f"GPU-{index:032x}", index=index, model="NVIDIA H100 80GB HBM3", mode=ComputeMode.DEFAULT,
        memory_mib=81_559, pci_bus_id=f"00000000:{index:02X}:00.0", numa=index // 4, **changed,
    )  # fmt: skip


def gpus(count: int = 1, **changed: Any) -> GpuReport:
    return GpuReport(gpus=tuple(gpu(index, **changed) for index in range(count)), provider="nvml", driver="550.54.15")


def load(**indices: float) -> LoadReport:
    return LoadReport(indices=dict(indices), ncpus=128, maxmem_mib=2_000_000.0, ostype="Linux")


@dataclass
class Records:
    """A recorder, and what a reader makes of its rows."""

    names: list[str]
    of_host: dict[str, Any] = field(default_factory=dict)
    rows: list[HostRecordRow] = field(default_factory=list)
    seq: int = 0

    def __post_init__(self) -> None:
        self.engine = Engine(replay([]), config_of(self.names, **self.of_host), NOW)
        self.recorder = HostRecorder(0, NOW)
        self.rows += self.recorder.take()

    def see(self, now: float, **changed: Any) -> list[HostRecordRow]:
        """Host a is seen so."""
        seen = self.engine.observations.of("a")
        for name, value in changed.items():
            setattr(seen, name, value)
        self.recorder.note(self.engine, ["a"], self.seq, now)
        due = self.recorder.take() if self.recorder.is_due(now) else []
        self.rows += due
        return due

    def read(self, at: float) -> dict[str, KeptObservation]:
        """What was known of each host at that time."""
        known: dict[str, Any] = {}
        for row in self.rows:
            if row.whole and row.at <= at:
                known = {}
            for host, when, _, delta in unpack_entries(row.data):
                if when <= at:
                    known[host] = patched(known.get(host, {}), delta)
        return {host: msgspec.convert(value, KeptObservation) for host, value in known.items()}


@pytest.fixture
def records() -> Records:
    made = Records(["a"])
    made.see(NOW, connected=True, load=load(ut=0.5), gpus=gpus(2, utilization_percent=10))
    return made


def test_a_host_that_comes_is_recorded_at_once_and_read_back(records: Records) -> None:
    (found,) = records.read(NOW).values()
    assert found == kept_observation(records.engine.observations.of("a"))
    assert found.connected and found.gpus == gpus(2, utilization_percent=10)
    assert records.read(NOW - 1) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"connected": False},
        {"gpus": gpus(2, problem="lost")},
        {"gpus": gpus(1)},
        {"gpus": None},
    ],
)
def test_what_decides_is_recorded_at_once(records: Records, changed: dict[str, Any]) -> None:
    assert len(records.see(NOW + 1, **changed)) == 1
    (found,) = records.read(NOW + 1).values()
    assert found == kept_observation(records.engine.observations.of("a"))
    assert records.read(NOW + 0.5)["a"].connected


def test_load_beyond_a_threshold_is_recorded_at_once() -> None:
    records = Records(["a"], {"thresholds": {"ut": Threshold(sched=0.8)}})
    records.see(NOW, connected=True, load=load(ut=0.1))
    assert records.see(NOW + 1, load=load(ut=0.5)) == []
    assert len(records.see(NOW + 2, load=load(ut=0.9))) == 1
    assert records.read(NOW + 2)["a"].load == load(ut=0.9)


def test_what_moves_is_recorded_after_a_while_as_it_is_then(records: Records) -> None:
    assert records.see(NOW + 1, load=load(ut=0.6)) == []
    assert records.see(NOW + 2, load=load(ut=0.7), gpus=gpus(2, utilization_percent=90)) == []
    records.recorder.note(records.engine, [], 0, NOW + SAMPLE_S)  # nobody reports any more
    records.rows += records.recorder.take()
    assert records.read(NOW + SAMPLE_S)["a"].load == load(ut=0.7)
    assert records.read(NOW + SAMPLE_S - 1)["a"].load == load(ut=0.5)


def test_what_others_keep_on_gpus_is_recorded_once_a_minute(records: Records) -> None:
    for second in range(1, 180):
        records.see(NOW + second, gpus=gpus(2, foreign_mib=100 * second))
    records.rows += records.recorder.take()
    times = [when for row in records.rows for _, when, _, _ in unpack_entries(row.data)]
    assert times == [NOW, NOW + BRISK_S, NOW + 2 * BRISK_S]


def test_a_record_of_everything_comes_now_and_then(records: Records) -> None:
    records.see(NOW + 7 * 3600, load=load(ut=0.1))
    records.rows += records.recorder.take()
    first, *_, last = records.rows
    assert first.whole and last.whole
    (entry,) = unpack_entries(last.data)
    assert msgspec.convert(patched({}, entry[3]), KeptObservation).load == load(ut=0.1)


@pytest.mark.slow
def test_a_month_of_a_hundred_hosts_stays_below_100_mb() -> None:
    """Eight GPUs each, four jobs that use them, all of which is another with every report, as it never is: 84 MB."""
    dice, count, records = random.Random(7), 100, Records([f"node{number:03}" for number in range(100)])
    observations: Observations = records.engine.observations
    step_s, hours = 180, 7

    def usage(job: int, now: float) -> Usage:
        return Usage(
            cpu_s=now - NOW + job, mem_mib=dice.random() * 1e5, max_mem_mib=2e5, threads=64, sampled_at=now,
            gpus=tuple(
                GpuUsage(
                    host="node001", index=index, uuid=f"GPU-{index:032x}", samples=int(now - NOW),
                    covered_s=now - NOW, sm_mean=round(dice.random() * 100, 1), mem_mean_mib=dice.randrange(80_000),
                )
                for index in (2 * job, 2 * job + 1)
            ),
        )  # fmt: skip

    for now in range(int(NOW), int(NOW) + hours * 3600, step_s):
        for name in records.names:
            seen = observations.of(name)
            seen.connected = True
            seen.load = load(
                r15s=dice.random() * 128, r1m=dice.random() * 128, r15m=dice.random() * 128, ut=dice.random(),
                pg=dice.random() * 100, io=dice.random() * 1000, ls=1.0, it=float(dice.randrange(100)),
                tmp=dice.random() * 1e6, swp=4096.0, mem=dice.random() * 1e6,
            )  # fmt: skip
            seen.gpus = GpuReport(
                provider="nvml",
                gpus=tuple(
                    gpu(
                        index, used_mib=dice.randrange(81_000), utilization_percent=dice.randrange(101),
                        temperature_c=dice.randrange(30, 85), power_w=dice.randrange(70, 700),
                        memory_utilization_percent=dice.randrange(101), foreign_mib=0,
                    )
                    for index in range(8)
                ),
            )  # fmt: skip
            seen.usage = {(job, 1): usage(job, float(now)) for job in range(4)}
        records.recorder.note(records.engine, records.names, 0, float(now))
        if records.recorder.is_due(float(now)):
            records.rows += records.recorder.take()
    assert count == len(records.read(NOW + hours * 3600))
    per_day = sum(len(row.data) + 40 for row in records.rows) * 24 / hours
    assert per_day * MONTH_DAYS < 100e6


VALUES = [None, 1, "x", [], [1, 2], {}, {"a": 1}, {"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}, "d": None}]


@pytest.mark.parametrize("old", VALUES)
@pytest.mark.parametrize("new", VALUES)
def test_a_delta_leads_from_one_value_to_another(old: object, new: object) -> None:
    delta = delta_of(old, new)
    assert (delta is None) == (old == new)
    assert delta is None or patched(old, delta) == new
    assert delta is None or msgspec.msgpack.decode(msgspec.msgpack.encode(delta)) == delta


@pytest.mark.parametrize("delta", [None, [], [7], [1, {"a": [0, 1]}], [2, {"9": [0, 1]}], [1, 2, 3], "no"])
def test_what_is_no_delta_is_refused(delta: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        patched([1], delta)
    nested: object = [0, 1]
    for _ in range(100):
        nested = [2, {"0": nested}]
    deep: list[object] = []
    deep.append(deep)
    with pytest.raises(ValueError, match="too deep"):
        patched(deep, nested)


@pytest.mark.parametrize("data", [b"", b"x", cast("bytes", HostRecorder(0, NOW).take()[0].data)[:-3]])
def test_a_damaged_row_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(unpack_entries(data))
