"""Tests of the built-in load indices."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.hosts.resource import LOAD_INDICES
from gsched.probe import load
from gsched.probe.load import (
    PEOPLE_S,
    Average,
    LoadSampler,
    Rate,
    Utilization,
    disk_kib,
    memory_kib,
    paged_pages,
    processor_times,
)
from tests.support.manual_clock import ManualClock


def test_report_has_every_built_in_index_in_its_unit() -> None:
    clock = ManualClock()
    sampler = LoadSampler(clock)
    first = sampler.sample()
    assert set(first.indices) == {index.name for index in LOAD_INDICES}
    assert first.ncpus >= 1
    assert (first.ostype, first.osrel, first.machine) == (os.uname().sysname, os.uname().release, os.uname().machine)
    assert first.maxmem_mib == pytest.approx(psutil.virtual_memory().total / 2**20)
    assert first.indices["mem"] is not None
    assert 0 < first.indices["mem"] <= first.maxmem_mib
    assert (first.indices["pg"], first.indices["io"], first.indices["ut"]) == (None, None, None)
    clock.advance(15.0)
    second = sampler.sample()
    assert second.indices["pg"] is not None
    assert second.indices["pg"] >= 0
    assert second.indices["ut"] is None or 0 <= second.indices["ut"] <= 1
    assert first.maxtmp_mib is not None
    assert first.indices["tmp"] is not None
    assert first.indices["tmp"] <= first.maxtmp_mib


def test_value_that_cannot_be_read_is_unknown_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise PermissionError

    for name in ("running_processes", "memory_kib", "disk_kib"):
        monkeypatch.setattr(load, name, refuse)
    report = LoadSampler(ManualClock(), tmp_dir="/no/such/folder").sample()
    assert [report.indices[name] for name in ("r15s", "mem", "tmp", "io")] == [None] * 4
    assert (report.maxmem_mib, report.maxtmp_mib) == (None, None)
    assert report.indices["r1m"] is not None


def test_average_forgets_as_time_goes_by() -> None:
    average = Average(15.0)
    assert average.add(4.0, 0.0) == 4.0
    assert average.add(0.0, 15.0) == pytest.approx(4.0 / math.e)
    assert average.add(0.0, 1000.0) == pytest.approx(0.0, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 100)), min_size=1))
def test_average_stays_within_what_was_seen(readings: list[tuple[float, float]]) -> None:
    average = Average(15.0)
    now = 0.0
    for value, passed in readings:
        now += passed
        last = average.add(value, now)
    values = [value for value, _ in readings]
    assert min(values) - 1e-9 <= last <= max(values) + 1e-9


def test_rate_needs_two_readings_and_a_counter_that_grows() -> None:
    rate = Rate()
    assert rate.add(100.0, 0.0) is None
    assert rate.add(150.0, 10.0) == 5.0
    assert rate.add(150.0, 10.0) == 5.0  # no time has passed: still the last rate
    assert rate.add(20.0, 20.0) is None
    assert rate.add(20.0, 30.0) == 0.0


def test_utilization_is_a_share() -> None:
    use = Utilization()
    assert use.add(100.0, 1000.0) is None
    assert use.add(105.0, 1010.0) == 0.5
    assert use.add(105.0, 1010.0) == 0.5
    assert use.add(200.0, 1020.0) == 1.0


def test_paging_counts_swapping_only(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("pgpgin 1000\npgpgout 1000\npswpin 3\npswpout 4\n")
    assert paged_pages(str(tmp_path / "vmstat")) == 7.0
    (tmp_path / "vmstat").write_text("pgpgin 1000\n")
    with pytest.raises(ValueError, match="counts no swapping"):
        paged_pages(str(tmp_path / "vmstat"))


def test_each_byte_of_a_disk_is_counted_once(tmp_path: Path) -> None:
    names = ["sda", "sda1", "nvme0n1", "nvme0n1p2", "dm-0", "md127", "loop3", "vdb", "vdb12", "mmcblk0", "mmcblk0p1"]
    lines = [f"   8       0 {name} 10 0 2 7 20 0 2 9 0 5 16 0 0 0 0\n" for name in names]
    (tmp_path / "diskstats").write_text("".join(lines))
    assert disk_kib(str(tmp_path / "diskstats")) == 2 * 4  # sda, nvme0n1, vdb, mmcblk0
    (tmp_path / "diskstats").write_text("   7       0 loop0 1 0 1 0 0 0 0 0 0 0 0\n")
    with pytest.raises(ValueError, match="has no disk"):
        disk_kib(str(tmp_path / "diskstats"))


def test_the_host_reads_as_others_read_it() -> None:
    """psutil is somebody else's reading of the same files."""
    memory, swap, times = psutil.virtual_memory(), psutil.swap_memory(), psutil.cpu_times()
    found = memory_kib()
    assert found[b"MemTotal"] * 1024 == memory.total
    assert found[b"MemAvailable"] * 1024 == pytest.approx(memory.available, rel=0.2)
    assert (found[b"SwapTotal"] * 1024, found[b"SwapFree"] * 1024) == (swap.total, pytest.approx(swap.free, rel=0.2))
    busy, total = processor_times()
    idle_s = times.idle + times.iowait
    assert (total - busy) / os.sysconf("SC_CLK_TCK") == pytest.approx(idle_s, rel=0.05)
    disks = psutil.disk_io_counters()
    assert disks is None or disk_kib() >= 0


def test_memory_of_old_kernels_and_of_containers(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text(
        "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 20 kB\nCached: 30 kB\nSwapTotal: 8 kB\nSwapFree: 7 kB\n"
    )
    assert memory_kib(str(path))[b"MemAvailable"] == 150
    path.write_text("MemTotal: 1000 kB\nMemAvailable: 64000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
    found = memory_kib(str(path))
    assert (found[b"MemAvailable"], found[b"SwapFree"]) == (1000, 0)
    path.write_text("MemFree: 7 kB\n")
    with pytest.raises(KeyError):
        memory_kib(str(path))


def test_time_of_processors(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("cpu  100 20 30 800 40 5 6 7 90 9\ncpu0 1 1 1 1\n")
    assert processor_times(str(path)) == (168.0, 1008.0)
    path.write_text("intr 5\n")
    with pytest.raises(ValueError, match="something else"):
        processor_times(str(path))


def test_idle_time_is_that_of_the_terminal_used_last(tmp_path: Path) -> None:
    """It is looked up every half minute; in between it grows."""
    (tmp_path / "pts").mkdir()
    for name, used in (
        ("tty1", 1000),
        ("pts/3", 4000),
        ("tty", 9000),
        ("tty0", 9000),
        ("null", 9000),
        ("ttyprintk", 9000),
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (used, 0))
    clock = ManualClock(4600.0)
    sampler = LoadSampler(clock, dev_dir=str(tmp_path))
    assert sampler.sample().indices["it"] == 10.0
    os.utime(tmp_path / "tty1", (4600, 0))
    clock.advance(PEOPLE_S - 6.0)
    assert sampler.sample().indices["it"] == pytest.approx(10.4)
    clock.advance(6.0)
    assert sampler.sample().indices["it"] == 0.5
    assert LoadSampler(ManualClock(100.0), dev_dir=str(tmp_path)).sample().indices["it"] == 0.0
    assert LoadSampler(clock, dev_dir=str(tmp_path / "missing")).sample().indices["it"] is None
