"""What jobs use of their host: processors over time, memory, files; from samples, across agents, in the end."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import msgspec
import pytest
from run_host import Host, appears, has_heard, marked_processes

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.jobs.job import Usage
from gsched.run import attempt_files
from gsched.run.executor import ProcessExecutor
from gsched.run.fence.v2 import V2Group
from gsched.run.processes import process_io, process_usage
from gsched.run.processes.process_tree import PAGE_BYTES, TICKS_PER_S, Process
from gsched.run.processes.process_usage import Figures, Sampler, SessionUse
from gsched.run.supervisor.supervisor_signals import POKE

MIB = 1 << 20


def process(pid: int, cpu_s: float, *, children_s: float = 0.0, mib: float = 1.0) -> Process:
    fields = [
        "S",
        "1",
        "1",
        "1",
        *["0"] * 7,
        str(round(cpu_s * TICKS_PER_S)),
        "0",
        str(round(children_s * TICKS_PER_S)),
    ]
    fields += ["0", "0", "0", "1", "0", "5", "0", str(round(mib * MIB / PAGE_BYTES))]
    return Process(pid, f"{pid} (job) {' '.join(fields)}".encode())


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The made-up processes have no files in /proc."""
    if "on_host" not in request.fixturenames:
        monkeypatch.setattr(
            process_usage, "sum_io", lambda pids: sum(1 for _ in pids) and (4 * MIB, 3 * MIB, 2 * MIB, MIB)
        )
        monkeypatch.setattr(process_usage, "read_swap_kib", lambda pid: 0)
        monkeypatch.setattr(os, "cpu_count", lambda: 64)


def played(sampler: Sampler, cpu_s: list[float], step_s: float = 10.0) -> Usage:
    """CPU seconds of the job's process at each look."""
    usage = None
    for place, each in enumerate(cpu_s):
        at = place * step_s
        usage = sampler.sample([process(7, each)], None, pgid=7, now=1000.0 + at, monotonic=at)
    assert usage is not None
    return usage


def test_the_peak_of_the_cpu_is_that_of_a_minute() -> None:
    """Steps: 1 core, then 4 for a minute and a half, then none; and a burst of ten seconds that no minute shows."""
    steps = [0.0]
    for cores in [1] * 12 + [4] * 12 + [0] * 12:
        steps.append(steps[-1] + cores * 10)
    usage = played(Sampler(), steps)
    assert (usage.cpu_s, usage.cpu_peak, usage.cpu_peak_s) == (600.0, 4.0, 60.0)
    burst = [0.0, 0.0, 0.0, 120.0, *[120.0] * 9]
    usage = played(Sampler(), burst)
    assert (usage.cpu_peak, usage.cpu_peak_s) == (2.0, 60.0)
    short = Sampler()
    short.window_s = 10.0
    assert played(short, burst).cpu_peak == 12.0


def test_a_process_that_ends_makes_no_peak() -> None:
    """While nobody has waited for it its time is missing, and then all of it comes at once."""
    sampler, worker = Sampler(), process(8, 600.0)
    shell = process(7, 0.0)
    for at, members in ((0, [shell, process(8, 540.0)]), (60, [shell, worker]), (120, [shell])):
        usage = sampler.sample(members, None, pgid=7, now=1000.0 + at, monotonic=float(at))
        assert usage is not None and usage.cpu_s == (540.0 if at == 0 else 600.0)
    usage = sampler.sample([process(7, 0.0, children_s=606.0)], None, pgid=7, now=1180.0, monotonic=180.0)
    assert usage is not None and (usage.cpu_s, usage.cpu_peak) == (606.0, 1.0)


def test_what_each_session_uses_is_kept_from_the_last_sample() -> None:
    sampler = Sampler()
    both = [process(7, 1.0, children_s=0.5, mib=2.0), process(8, 2.0, mib=5.0)]
    sampler.sample(both, None, pgid=7, now=1.0, monotonic=1.0)
    assert sampler.sessions == {1: SessionUse(3.5, 5 * 1024)}
    sampler.sample(both[:1], None, pgid=7, now=2.0, monotonic=2.0)
    assert sampler.sessions == {1: SessionUse(1.5, 2 * 1024)}


def test_no_more_cores_than_there_are() -> None:
    """One that is seen twice, by itself and in its parent, while it ends."""
    assert played(Sampler(), [0.0, *[0.0] * 5, 6e6]).cpu_peak == 64.0


def test_a_clock_that_goes_back_makes_no_peak() -> None:
    sampler = Sampler()
    for at, cpu_s in ((500.0, 0.0), (10.0, 100.0), (70.0, 130.0)):
        usage = sampler.sample([process(7, cpu_s)], None, pgid=7, now=1000.0, monotonic=at)
    assert usage is not None and usage.cpu_peak == 0.5


def test_a_job_that_is_over_before_a_window_is() -> None:
    final = Sampler().final(Usage(cpu_s=30.0), run_s=20.0)
    assert (final.cpu_peak, final.cpu_peak_s) == (1.5, 20.0)
    unseen = Sampler().final(Usage(), run_s=20.0)
    assert (unseen.cpu_peak, unseen.max_mem_mib, unseen.avg_mem_mib, unseen.read_mib) == (None, None, None, None)


def test_the_last_word_on_files_is_the_supervisors() -> None:
    sampler = Sampler()
    usage = played(sampler, [1.0])
    assert [getattr(usage, name) for name in process_io.FIELDS] == [4.0, 3.0, 2.0, 1.0]
    final = sampler.final(Usage(read_mib=9.0, written_mib=8.0, disk_read_mib=7.0, disk_written_mib=6.0), 5.0)
    assert [getattr(final, name) for name in process_io.FIELDS] == [9.0, 8.0, 7.0, 6.0]


def test_what_may_not_be_read_of_one_process_is_unknown_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_usage, "sum_io", lambda pids: None)
    usage = played(Sampler(), [1.0])
    assert [getattr(usage, name) for name in process_io.FIELDS] == [None] * 4


def test_a_control_group_tells_better(tmp_path: Path) -> None:
    """Its CPU time counts those that have ended, its memory counts a shared page once and no file."""
    (tmp_path / "cpu.stat").write_text("usage_usec 90000000\nuser_usec 80000000\n")
    (tmp_path / "memory.stat").write_text(f"anon {5 * MIB}\nfile {900 * MIB}\nshmem {2 * MIB}\n")
    group = V2Group(str(tmp_path))
    members = [process(7, 1.0, mib=50.0), process(8, 1.0, mib=50.0)]
    usage = Sampler().sample(members, None, pgid=7, now=1.0, monotonic=1.0, group=group)
    assert usage is not None and (usage.cpu_s, usage.mem_mib, usage.max_mem_mib) == (90.0, 7.0, 7.0)
    (tmp_path / "memory.stat").unlink()  # the memory controller is not there
    (tmp_path / "cpu.stat").write_text("usage_usec nothing\n")
    usage = Sampler().sample(members, None, pgid=7, now=1.0, monotonic=1.0, group=group)
    assert usage is not None and (usage.cpu_s, usage.mem_mib) == (2.0, 100.0)


def test_figures_go_on_where_they_stopped() -> None:
    first = Sampler()
    played(first, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 180.0])
    kept = msgspec.json.decode(msgspec.json.encode(first.figures), type=Figures)
    second = Sampler(kept)
    usage = second.sample([process(7, 181.0, mib=3.0)], None, pgid=7, now=1100.0, monotonic=100.0)
    assert usage is not None
    assert (usage.cpu_peak, usage.max_mem_mib, usage.avg_mem_mib) == (3.0, 3.0, pytest.approx((7 * 1.0 + 3.0) / 8))


def test_the_next_agent_knows_what_the_last_one_saw(on_host):
    """Also what it has read and written, up to its end, is what the kernel counted."""

    async def scenario(host: Host):
        code = (
            "import os, time; x = bytearray(b'x') * (80 << 20); data = b'y' * (3 << 20); open('w', 'wb').write(data)\n"
            "open('w', 'rb').read(); del x; open('ready', 'w').close()\n"
            "while not os.path.exists('go'): time.sleep(0.01)"
        )
        await host.executor.start(host.order(f"python3 -c {shlex.quote(code)} & wait; true"))
        await host.start_of(1)
        peak = 0.0
        while not (host.root / "ready").exists():
            await appears(lambda: host.executor.usage(1, 1) is not None)
            peak = max(peak, host.executor.usage(1, 1).mem_mib)
        seen = host.executor.usage(1, 1)
        host.executor.close()
        second = ProcessExecutor(
            host.spool,
            host.executor._cluster,
            on_started=host._on_started,
            on_ended=host._on_ended,
            on_unkillable=host._on_unkillable,
            gpu_locks=GpuLockFolders(str(host.locks), "", False),
        )
        host.executor = second
        await second.adopt()
        usage = second.usage(1, 1)
        assert usage is not None and usage.max_mem_mib >= peak and usage.cpu_s >= seen.cpu_s
        (host.folder() / attempt_files.USAGE).write_bytes(b"\xff rubbish")  # costs figures, no job
        (host.root / "go").touch()
        result = await host.end_of(1)
        assert result.exit_code == 0 and result.usage.max_mem_mib >= peak
        assert 3.0 <= result.usage.written_mib < 4.0 and 3.0 <= result.usage.read_mib < 20.0
        assert result.usage.disk_written_mib is not None and result.usage.cpu_peak is not None

    on_host(scenario)


def test_processes_that_are_gone_have_read_nothing() -> None:
    gone = 1 << 22  # above the largest number that Linux gives
    assert process_io.read_io(gone) == process_io.NOTHING
    assert process_io.sum_io([os.getpid(), gone]) is not None
    assert process_io.read_io("self") is not None


def are_stopped(processes: list[Process]) -> bool:
    """There are some, and all stand still."""
    return bool(processes) and all(process.is_stopped for process in processes)


def test_the_time_in_which_a_job_was_suspended_is_told(on_host):
    async def scenario(host: Host):
        os.mkfifo(host.root / "go")
        # A shell that has a child by vfork is not seen stopped, and before `exec` nobody carries the mark.
        await host.executor.start(host.order("cat go"))
        await appears(lambda: marked_processes("1.1"))
        await host.executor.suspend(1, 1)
        await appears(lambda: are_stopped(marked_processes("1.1")))
        # Told to go on before it has heard that it stands still, the supervisor would know of no pause.
        await appears(lambda: has_heard(host.supervisor_pid(), POKE))
        await host.executor.resume(1, 1)
        (host.root / "go").write_text("on")
        result = await host.end_of(1)
        assert result.exit_code == 0 and 0.0 < result.suspended_s <= result.run_s
        assert (await host.run("true", 2)).suspended_s == 0.0

    on_host(scenario)
