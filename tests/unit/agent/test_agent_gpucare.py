"""GPUs before an attempt gets them and after it: refused, waited for, dirty, clean again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from gsched.agent.gpu import gpu_cleanup, gpu_watch
from gsched.agent.gpu.gpu_cleanup import GpuCleanup
from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.agent.gpu.gpu_prolog_epilog import GpusUnfit
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.coded_text import sentence
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.run.processes.attempt_marks import left_by
from tests.support.manual_clock import ManualClock
from tests.support.process_start import await_environment

CLUSTER = f"care-{os.getpid()}"
KEY = (17, 1)
PART = HostAllocation(host="h", slots=1, gpus=(HeldGpu(uuid="GPU-0", index=0, claim="ngpus_excl_p"),))
SPEC = JobSpec(command="true", user="ann", queue="normal")
ANN = GpuProcess(pid=999_999_999, user="", used_mib=700)
IGNORES_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"


def gpu(*processes: GpuProcess, **fields: Any) -> Gpu:
    used = sum(each.used_mib or 0 for each in processes)
    values: dict[str, Any] = {"used_mib": used, "reserved_mib": 0, "mode": ComputeMode.EXCLUSIVE_PROCESS}
    values |= {"process_count": len(processes), "processes": processes}
    return Gpu(uuid="GPU-0", index=0, **(values | fields))


class Machine:
    """A host with one GPU: a probe whose sights are given, and everything that hears of them."""

    def __init__(self, *sights: Gpu | Callable[[], Gpu]) -> None:
        self.sights = list(sights)
        self.known = True
        self.provider = "simulated"
        self.looks = 0
        self.told: list[GpuReport] = []
        self.running: dict[str, frozenset[str]] = {}
        self.returning: dict[str, frozenset[str]] = {}
        self.watch = GpuWatch(
            "h", CLUSTER, GpuOwners(lambda pids: left_by(pids, CLUSTER, {}.get)), on_look=self.told.append
        )
        self.care = self.new_care()

    def new_care(self) -> GpuCleanup:
        """As after a restart of the agent."""
        care = GpuCleanup(self.watch, ManualClock(), running=lambda: self.running, returning=lambda: self.returning)
        self.watch.judges[:] = [care.judge]
        return care

    async def sample(self) -> GpuReport:
        """The sights one after the other; the last one stays."""
        self.looks += 1
        sight = self.sights.pop(0) if len(self.sights) > 1 else self.sights[0]
        return GpuReport(
            gpus=(sight if isinstance(sight, Gpu) else sight(),),
            provider=self.provider,
            known=self.known,
            reason="hangs",
        )

    async def close(self) -> None:
        return None

    async def ends(self) -> None:
        """The attempt has ended; its GPU is seen to."""
        self.running, self.returning = {}, {"17.1": frozenset({"GPU-0"})}
        await self.care.after(KEY, PART)
        self.returning = {}

    @property
    def problems(self) -> list[str]:
        return [sentence(each.problem) for report in self.told for each in report.gpus]


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine, Callable[[], Awaitable[None]]], None]:
    monkeypatch.setattr(gpu_cleanup, "CONFIRM_S", (0.0, 0.001, 0.001))
    monkeypatch.setattr(gpu_cleanup, "FIRST_LOOK_S", 0.5)

    def run(machine: Machine, work: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            monkeypatch.setattr(gpu_watch, "probe_for", lambda provider, host, on_news: machine)
            await machine.watch.use("fake", "")
            await machine.watch.look()
            machine.looks = 0
            machine.told.clear()
            await work()
            machine.care.close()

        asyncio.run(main())

    return run


@pytest.fixture
def leftover() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Processes that carry the mark of attempt 17.1."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        env = {"GSCHED_ATTEMPT_ID": f"{CLUSTER}/17.1", "PATH": os.environ["PATH"]}
        child = subprocess.Popen(words or ("sleep", "60"), env=env, stdout=subprocess.PIPE)
        if words:
            assert child.stdout is not None and child.stdout.readline()
        children.append(child)
        await_environment(child.pid)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def seen_as_long_as_it_lives(child: subprocess.Popen[bytes]) -> Callable[[], Gpu]:
    return lambda: gpu() if child.poll() is not None else gpu(GpuProcess(pid=child.pid, user="ann", used_mib=700))


def test_a_clean_gpu_costs_one_look(story: Any) -> None:
    machine = Machine(gpu())

    async def work() -> None:
        await machine.care.before(KEY, PART, SPEC)
        assert machine.looks == 1
        machine.running = {"17.1": frozenset({"GPU-0"})}
        await machine.ends()
        assert (machine.looks, machine.problems) == (2, ["", ""])

    story(machine, work)


def test_a_stranger_since_the_last_look_is_told_before_the_attempt_is_refused(story: Any) -> None:
    """pains 4."""
    machine = Machine(gpu(), gpu(ANN))

    async def work() -> None:
        with pytest.raises(GpusUnfit, match=r"GPU 0 \(GPU-0\) must not be used: foreign\(\?,999999999,700\)"):
            await machine.care.before(KEY, PART, SPEC)
        assert set(machine.problems) == {"foreign(?,999999999,700)"}
        looks = machine.looks
        await machine.care.after(KEY, PART)
        assert machine.looks == looks, "it has left nothing"

    story(machine, work)


def test_one_look_at_something_that_is_just_ending_refuses_nothing(story: Any) -> None:
    machine = Machine(gpu(), gpu(ANN), gpu())

    async def work() -> None:
        await machine.care.before(KEY, PART, SPEC)
        assert machine.problems == ["foreign(?,999999999,700)", ""]

    story(machine, work)


def test_a_gpu_with_another_problem_or_none_at_all_is_refused(story: Any) -> None:
    machine = Machine(gpu(problem="lost"))

    async def work() -> None:
        with pytest.raises(GpusUnfit, match="lost"):
            await machine.care.before(KEY, PART, SPEC)
        other = HostAllocation(host="h", slots=1, gpus=(HeldGpu(uuid="GPU-9", index=9, claim="ngpus"),))
        with pytest.raises(GpusUnfit, match="it is not there any more"):
            await machine.care.before((18, 1), other, SPEC)
        machine.known = False
        machine.looks = 0
        with pytest.raises(GpusUnfit, match="the GPUs are unknown: hangs"):
            await machine.care.before((19, 1), PART, SPEC)
        assert machine.looks == 1, "a probe that hangs is not asked again and again"

    story(machine, work)


def test_where_processes_are_not_shown_nothing_is_looked_at(story: Any) -> None:
    machine = Machine(gpu(process_count=None, used_mib=70_000))

    async def work() -> None:
        await machine.care.before(KEY, PART, SPEC)
        await machine.ends()
        assert machine.looks == 0

    story(machine, work)


def test_what_goes_in_time_is_never_called_dirty(story: Any, leftover: Any) -> None:
    child = leftover()
    machine = Machine(seen_as_long_as_it_lives(child))

    async def work() -> None:
        await machine.ends()
        assert child.poll() is not None, "it was told to end"
        assert set(machine.problems) == {""}

    story(machine, work)


def test_what_does_not_listen_is_killed(story: Any, leftover: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(gpu_cleanup, "RETURN_S", (0.01, 0.01, 0.01, 60.0))
    monkeypatch.setattr(gpu_cleanup, "KILL_FROM", 3)
    child = leftover(sys.executable, "-c", IGNORES_TERM)
    machine = Machine(seen_as_long_as_it_lives(child))

    async def work() -> None:
        await machine.ends()
        assert child.poll() == -9
        assert set(machine.problems) == {""}

    story(machine, work)


def test_memory_that_stays_is_dirty_until_it_is_back(story: Any, monkeypatch: Any) -> None:
    """pains 1."""
    monkeypatch.setattr(gpu_cleanup, "RETURN_S", (0.001, 0.001))
    machine = Machine(gpu(used_mib=5000))

    async def work() -> None:
        machine.running = {"17.1": frozenset({"GPU-0"})}
        await machine.watch.look()
        await machine.ends()
        assert machine.problems == ["", "", "", "", "dirty(?,5000)"]
        assert machine.told[-1].gpus[0].left_behind == ("17.1",)
        with pytest.raises(GpusUnfit, match="dirty"):
            await machine.care.before((18, 1), PART, SPEC)
        machine.care.close()
        machine.care = machine.new_care()  # the agent was killed: who it was is forgotten, that it is dirty is not
        await machine.watch.look()
        assert machine.problems[-1] == "dirty(?,5000)"
        machine.sights = [gpu()]
        await machine.watch.look()
        assert (machine.problems[-1], machine.told[-1].gpus[0].left_behind) == ("", ())
        machine.sights = [gpu(used_mib=900)]
        await machine.watch.look()
        assert machine.told[-1].gpus[0].left_behind == (), "that is somebody else's"

    story(machine, work)


def test_a_process_that_cannot_be_ended_is_dirty_and_its_end_is_noticed_at_once(
    story: Any, leftover: Any, monkeypatch: Any
) -> None:
    """pains 1, 21."""
    monkeypatch.setattr(gpu_cleanup, "RETURN_S", (0.001,))
    monkeypatch.setattr(gpu_cleanup, "_end", lambda left, number: None)
    child = leftover()
    machine = Machine(seen_as_long_as_it_lives(child))

    async def work() -> None:
        await machine.ends()
        assert machine.problems[-1] == f"dirty({child.pid},700)"
        assert machine.told[-1].gpus[0].left_behind == ("17.1",)
        machine.care.close()
        machine.care = machine.new_care()  # also after a restart: the process carries its attempt's mark
        await machine.watch.look()
        assert machine.told[-1].gpus[0].left_behind == ("17.1",)
        child.kill()
        async with asyncio.timeout(60):
            while machine.problems[-1]:
                await asyncio.sleep(0.005)

    story(machine, work)


def test_a_neighbour_on_a_shared_gpu_holds_nothing_up(story: Any) -> None:
    mine = GpuProcess(pid=os.getpid(), user="ann", used_mib=700, job="18.1")
    machine = Machine(gpu(mine, used_mib=3000))

    async def work() -> None:
        machine.running = {"18.1": frozenset({"GPU-0"})}
        machine.returning = {"17.1": frozenset({"GPU-0"})}
        await machine.care.after(KEY, PART)
        assert (machine.looks, machine.problems) == (1, [""])

    story(machine, work)


def test_a_process_that_cannot_be_seen_may_be_the_jobs_own(story: Any) -> None:
    """In a container, say: while the job runs it says nothing, after it one waits for its end."""
    machine = Machine(gpu(), gpu(), gpu(ANN), gpu(ANN), gpu(ANN), gpu())

    async def work() -> None:
        await machine.care.before(KEY, PART, SPEC)
        machine.running = {"17.1": frozenset({"GPU-0"})}
        await machine.watch.look()
        await machine.ends()
        assert (machine.looks, machine.problems) == (5, [""] * 5)

    story(machine, work)


def test_memory_of_something_that_ended_under_the_look_closes_the_gpu_for_a_moment_alone(story: Any) -> None:
    machine = Machine(gpu(), gpu(used_mib=5000), gpu())

    async def work() -> None:
        await machine.watch.look()
        assert machine.problems == ["dirty(?,5000)"]
        async with asyncio.timeout(60):
            while machine.problems[-1]:
                await asyncio.sleep(0.005)

    story(machine, work)


def test_a_server_of_mps_is_no_stranger(story: Any, tmp_path: Any) -> None:
    """Its clients are listed themselves. One that has ended since it was listed does not count either."""
    program = tmp_path / "nvidia-cuda-mps-server"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "60"], env={"CUDA_MPS_PIPE_DIRECTORY": "/somewhere"})
    try:
        pids = (child.pid, 999_999_998)
        listed = (GpuProcess(pid=pid, user="ann", used_mib=700) for pid in pids)
        machine = Machine(gpu(*listed, mode=ComputeMode.DEFAULT))
        machine.provider = "nvml"

        async def work() -> None:
            await machine.care.before(KEY, PART, SPEC)
            assert machine.problems == [""]

        story(machine, work)
    finally:
        child.kill()
        child.wait()


def test_an_end_before_the_first_look_waits_for_one(monkeypatch: Any) -> None:
    """pains 1: after a restart of the agent somebody may want a look before the master has said how to probe."""
    monkeypatch.setattr(gpu_cleanup, "RETURN_S", (0.0,) * 10)
    monkeypatch.setattr(gpu_watch, "probe_for", lambda provider, host, on_news: machine)
    machine = Machine(gpu(used_mib=5000))

    async def main() -> None:
        assert not (await machine.watch.look()).known
        ending = asyncio.create_task(machine.ends())
        await asyncio.sleep(0.01)
        assert not ending.done() and machine.told == []
        await machine.watch.use("fake", "")
        await machine.watch.look()
        await ending
        assert machine.problems[-1] == "dirty(?,5000)" and machine.told[-1].gpus[0].left_behind == ("17.1",)
        machine.care.close()

    asyncio.run(main())
