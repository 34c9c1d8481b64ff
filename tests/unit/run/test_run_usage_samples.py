"""Samples of what attempts use: one that rests is not read, and nothing that it does then is missed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from run_host import Host, appears

from gsched.model.jobs.job import Usage
from gsched.run.attempts import usage_samples
from gsched.run.attempts.usage_samples import GROUP_AGAIN_S, KEPT_AGAIN_S, READ_AGAIN_S
from gsched.run.processes import process_clocks, process_tree
from gsched.run.processes.process_usage import Figures
from tests.support.manual_clock import ManualClock

RESTING = "cat go; "
GROWING = (
    "import subprocess, threading\n"
    "x = bytearray(b'x') * (80 << 20)\n"
    "child = [None]\n"
    "def start():\n"
    "    child[0] = subprocess.Popen(['cat', 'end'])\n"
    "    open('grown', 'w').close()\n"
    "    child[0].wait()\n"
    "other = threading.Thread(target=start)\n"
    "other.start(); other.join()\n"
)
"""A child of another thread than the first, and memory; it rests then until `end` is written to."""


class Looks:
    """How often processes were read: those of one attempt, those of the whole host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.families = self.scans = 0
        self._family, self._scan = process_tree.family, process_tree.scan
        monkeypatch.setattr(usage_samples.process_tree, "family", self.family)
        monkeypatch.setattr(usage_samples.process_tree, "scan", self.scan)

    def family(self, root: int) -> list[process_tree.Process]:
        self.families += 1
        return self._family(root)

    def scan(self) -> dict[int, process_tree.Process]:
        self.scans += 1
        return self._scan()

    @property
    def all(self) -> int:
        return self.families + self.scans


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    yield Looks(monkeypatch)


def rested(host: Host, looks: Looks) -> bool:
    """Whether a sample has just been taken without reading anything."""
    before = looks.all
    return host.executor.usage(1, 1) is not None and looks.all == before


async def begun(host: Host, command: str) -> ManualClock:
    """Start job 1, with two pipes that it may wait at; its samples go by the clock that is returned."""
    clock = ManualClock()
    host.executor.samples._clock = clock
    for name in ("go", "end"):
        os.mkfifo(host.root / name)
    await host.executor.start(host.order(command))
    await host.start_of(1)
    return clock


def wake(path: Path) -> None:
    """Let who reads this pipe go on."""
    path.write_text("")


def seen(host: Host) -> Usage:
    usage = host.executor.usage(1, 1)
    assert usage is not None
    return usage


def test_a_job_that_rests_is_not_read_and_seen_as_soon_as_it_wakes(on_host, looks):
    async def scenario(host: Host):
        await begun(host, f"{RESTING}python3 -c {shlex.quote(GROWING)}; true")
        await appears(lambda: rested(host, looks))
        before = seen(host)
        assert len(before.pids) == 2 and before.mem_mib < 40
        wake(host.root / "go")
        await appears((host.root / "grown").exists)
        after = seen(host)
        assert after.mem_mib > 80 and after.max_mem_mib == after.mem_mib and after.cpu_s >= before.cpu_s
        assert len(after.pids) == after.max_processes == 3 and after.threads == 4
        await appears(lambda: rested(host, looks))
        wake(host.root / "end")
        result = await host.end_of(1)
        assert result.exit_code == 0 and result.usage.max_mem_mib >= after.max_mem_mib

    on_host(scenario)


def test_a_sample_that_reads_nothing_counts_as_any_other(on_host, looks):
    """The mean over all samples, the time of the last one, the peak of the CPU use over a window."""

    async def scenario(host: Host):
        clock = await begun(host, f"{RESTING}true")
        await appears(lambda: rested(host, looks))
        figures = host.executor._held["1.1"].usage.figures
        memory, count = seen(host).mem_mib, figures.samples
        figures.mem_total_mib = 0.0
        clock.advance(1.0)
        usage = seen(host)
        assert figures.samples == count + 1 and usage.avg_mem_mib == pytest.approx(memory / (count + 1))
        assert usage.sampled_at == clock.now() and usage.mem_mib == memory
        assert usage.cpu_peak is None
        for _ in range(60):  # a window of a minute is over, and the samples in it that read nothing count
            clock.advance(1.0)
            usage = seen(host)
        assert usage.cpu_peak is not None and usage.cpu_peak_s == pytest.approx(60.0, abs=2.0)
        wake(host.root / "go")
        await host.end_of(1)

    on_host(scenario)


def test_a_job_that_rests_is_read_now_and_then(on_host, looks):
    """The kernel may swap it out meanwhile."""

    async def scenario(host: Host):
        clock = await begun(host, f"{RESTING}true")
        await appears(lambda: rested(host, looks))
        clock.advance(READ_AGAIN_S)
        assert not rested(host, looks)
        assert rested(host, looks)
        wake(host.root / "go")
        await host.end_of(1)

    on_host(scenario)


def test_figures_that_have_not_changed_are_not_written_each_time(on_host, looks, monkeypatch):
    async def scenario(host: Host):
        kept = list[float]()
        keep = host.executor._spool.keep_figures
        clock = await begun(host, f"{RESTING}true")

        def keep_figures(name: str, figures: Figures) -> None:
            kept.append(clock.monotonic())
            keep(name, figures)

        await appears(lambda: rested(host, looks))
        monkeypatch.setattr(host.executor._spool, "keep_figures", keep_figures)
        for _ in range(9):
            clock.advance(READ_AGAIN_S)
            seen(host)
        assert [late - early for early, late in pairwise([0.0, *kept])] == [KEPT_AGAIN_S] * 2
        wake(host.root / "go")
        result = await host.end_of(1)
        assert result.usage.max_processes == 2

    on_host(scenario)


def test_who_is_put_into_the_group_of_a_job_that_rests_is_found(on_host, looks):
    """As a session of ssh is: no process of the job runs for that."""

    class Group:
        def __init__(self) -> None:
            self.inside: list[int] = []

        def pids(self) -> list[int]:
            return self.inside

        def cpu_s(self) -> None:
            return None

        mem_mib = cpu_s

        def remove(self) -> None:
            pass

    async def scenario(host: Host):
        clock = await begun(host, f"{RESTING}true")
        held = host.executor._held["1.1"]
        held.group = group = Group()
        await appears(lambda: rested(host, looks))
        group.inside.append(os.getpid())
        clock.advance(GROUP_AGAIN_S)
        assert os.getpid() in seen(host).pids
        wake(host.root / "go")
        group.inside.clear()
        await host.end_of(1)

    on_host(scenario)


def test_processes_of_others_are_not_read_unless_that_is_less(on_host, looks, monkeypatch):
    async def scenario(host: Host):
        await begun(host, f"{RESTING}true")
        await appears(lambda: rested(host, looks))
        assert looks.families and not looks.scans
        found = seen(host).pids
        monkeypatch.setattr(usage_samples, "FEW_THREADS", 0)
        host.executor._held["1.1"].clocks.clear()
        families = looks.families
        assert seen(host).pids == found and (looks.families, looks.scans) == (families, 1)
        wake(host.root / "go")
        await host.end_of(1)

    on_host(scenario)


def test_what_is_gone_has_no_clock() -> None:
    me, gone = os.getpid(), 1 << 22  # above the largest number that Linux gives
    assert process_clocks.ran_ns(me) > 0 and process_clocks.ran_ns(gone) == process_clocks.GONE
    assert not process_clocks.have_rested({}) and not process_clocks.have_rested(process_clocks.readings([gone]))
    assert not process_clocks.have_rested(process_clocks.readings([me]))  # it has run to ask
