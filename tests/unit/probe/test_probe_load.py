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
from gsched.probe.load import Average, LoadSampler, Rate, Utilization, disk_kib, idle_minutes, paged_pages
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

    monkeypatch.setattr(load, "running_processes", refuse)
    monkeypatch.setattr(psutil, "virtual_memory", refuse)
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **more: None)  # what it gives where there is no disk
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


def test_each_byte_of_a_disk_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Disk:
        read_bytes = 1024
        write_bytes = 1024

    names = ["sda", "sda1", "nvme0n1", "nvme0n1p2", "dm-0", "md127", "loop3", "vdb", "vdb12", "mmcblk0", "mmcblk0p1"]
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **more: dict.fromkeys(names, Disk))
    assert disk_kib() == 2 * 4  # sda, nvme0n1, vdb, mmcblk0


def test_idle_time_is_that_of_the_terminal_used_last(tmp_path: Path) -> None:
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
    assert idle_minutes(4600.0, str(tmp_path)) == 10.0
    assert idle_minutes(3000.0, str(tmp_path)) == 0.0
    assert idle_minutes(4600.0, str(tmp_path / "missing")) is None
