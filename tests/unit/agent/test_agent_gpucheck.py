"""The site's health program: when it runs, what closes a GPU, and that none is offered unchecked."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gsched.agent.gpu_check import CheckRules, GpuCheck
from gsched.base.coded_text import AnyText, sentence
from gsched.base.errors import ResourceExhausted
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.run.program import Program, ProgramEnd
from tests.support.manual_clock import ManualClock

JOB = JobSpec(command="", user="", queue="")


def part_of(uuid: str) -> HostAllocation:
    return HostAllocation(host="h", slots=1, gpus=(HeldGpu(uuid=uuid, index=0, claim="ngpus"),))


class Host:
    """One GPU, and a program that ends as it is told to."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.gpu = Gpu(uuid="GPU-0", index=0, mode=ComputeMode.DEFAULT)
        self.held: set[str] = set()
        self.ends: asyncio.Future[ProgramEnd] | None = None
        self.programs: list[Program] = []
        self.limits: list[float | None] = []
        self.distrusted: AnyText = ""
        self.rules = CheckRules(**({"program": "/site/check", "limit_s": 30.0} | rules))
        self.restart()

    def restart(self) -> None:
        self.check = GpuCheck(
            self.folder / "gpu-checks.json",
            self.clock,
            run=self._run,
            held=lambda: self.held,
            look=self._look,
            may_run=lambda path: self.distrusted,
        )
        self.check.rules = self.rules

    async def _run(self, program: Program, limit_s: float | None = None) -> ProgramEnd:
        self.programs.append(program)
        self.limits.append(limit_s)
        self.ends = asyncio.get_running_loop().create_future()
        return await self.ends

    async def _look(self) -> GpuReport:
        return GpuReport(gpus=(self.see(),), provider="nvml")

    def see(self, **changes: Any) -> Gpu:
        gpu = msgspec.structs.replace(self.gpu, **changes)
        return self.check.judge(GpuReport(gpus=(gpu,), provider="nvml")).gpus[0]

    def problem(self, **changes: Any) -> str:
        return sentence(self.see(**changes).problem)

    async def end(self, status: int = 0, printed: bytes = b"", error: Exception | None = None) -> None:
        """The program that runs ends so."""
        for _ in range(5):
            await asyncio.sleep(0)
        assert self.ends is not None
        if error is None:
            self.ends.set_result(ProgramEnd(status=status, printed=printed))
        else:
            self.ends.set_exception(error)
        self.ends = None
        for _ in range(5):
            await asyncio.sleep(0)


def played(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 60))


def test_after_a_fault_it_is_offered_only_when_the_program_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        assert host.problem() == "" and not host.programs
        host.see(fault="lost", problem="lost")
        assert host.problem() == "its health is to be checked by check first"
        await host.end()
        assert host.problem() == "" and len(host.programs) == 1
        program = host.programs[0]
        assert program.words == ("/site/check",) and host.limits == [30.0]
        told = {name: program.environment[name] for name in ("CUDA_VISIBLE_DEVICES", "GSCHED_GPU_CHECK")}
        assert told == {"CUDA_VISIBLE_DEVICES": "GPU-0", "GSCHED_GPU_CHECK": "failure"}

    played(story())


def test_after_a_job_has_failed_it_is_checked_as_soon_as_the_job_has_given_it_back(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        host.held = {"GPU-0"}
        host.see()
        host.check.suspect(part_of("GPU-0"))
        assert "to be checked" in host.problem() and not host.programs  # not below what is left of the job
        host.held = set()
        host.see()
        await host.end(status=3 << 8, printed=b"testing\n\x1b[31mrow 7 is bad\x07\n\n")
        assert host.problem() == "check, which checks its health, ended with exit code 3: [31mrow 7 is bad"
        with pytest.raises(ResourceExhausted, match="row 7"):
            await host.check.before((17, 1), part_of("GPU-0"), JOB)
        host.restart()  # another agent
        assert "row 7" in host.problem()
        assert host.check.open("GPU-0") and not host.check.open("GPU-0")
        assert host.problem() == ""
        await host.check.before((17, 1), part_of("GPU-0"), JOB)

    played(story())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TimeoutError(), "did not end within 30 s"),
        (FileNotFoundError(2, "No such file or directory"), "cannot be run: No such file or directory"),
    ],
)
def test_one_that_hangs_or_cannot_be_run_closes_it_by_name(tmp_path: Path, error: Exception, told: str) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        host.check.suspect(part_of("GPU-0"))
        host.see()
        await host.end(error=error)
        assert told in host.problem() and host.problem().startswith("check, ")

    played(story())


def test_what_others_than_root_can_change_is_not_run(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        host.distrusted = "everybody can change it"
        host.check.suspect(part_of("GPU-0"))
        host.see()
        for _ in range(5):
            await asyncio.sleep(0)
        assert "everybody can change it" in host.problem() and not host.programs

    played(story())


def test_an_idle_one_is_checked_each_so_many_hours_and_a_later_run_may_open_it(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path, idle_s=3600.0)
        host.see()
        host.clock.advance(3599)
        host.held = {"GPU-0"}
        host.see()
        host.held = set()
        host.clock.advance(3599)
        assert host.problem() == "" and not host.programs
        host.clock.advance(1)
        assert "to be checked" in host.problem()
        await host.end(status=1 << 8)
        assert host.problem().endswith("ended with exit code 1")
        host.clock.advance(3600)
        host.see()
        await host.end()
        assert host.problem() == "" and [each.environment["GSCHED_GPU_CHECK"] for each in host.programs] == ["idle"] * 2

    played(story())


def test_a_job_between_two_looks_counts(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path, idle_s=60.0)
        host.see()
        host.clock.advance(59)
        await host.check.before((17, 1), part_of("GPU-0"), JOB)
        await host.check.after((17, 1), part_of("GPU-0"))
        host.clock.advance(59)
        assert host.problem() == ""
        host.clock.advance(1)
        assert "to be checked" in host.problem()

    played(story())


def test_an_attempt_that_comes_meanwhile_waits_for_its_end(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path, idle_s=60.0)
        host.see()
        host.clock.advance(60)
        host.see()
        start = asyncio.ensure_future(host.check.before((17, 1), part_of("GPU-0"), JOB))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not start.done()
        await host.end()
        await start

    played(story())


def test_without_a_program_nothing_is_checked_and_old_verdicts_do_not_count(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        host.check.suspect(part_of("GPU-0"))
        host.see()
        await host.end(status=1 << 8)
        host.check.rules = CheckRules()
        assert host.problem() == ""
        await host.check.before((17, 1), part_of("GPU-0"), JOB)

    played(story())


def test_should_the_agent_be_killed_it_is_ended_all_the_same(tmp_path: Path) -> None:
    program = tmp_path / "check"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    async def story() -> None:
        host = Host(tmp_path, program=str(program))
        host.check.suspect(part_of("GPU-0"))
        host.see()
        await host.end()
        assert host.programs[0].words[1:] == ("-s", "KILL", "35", str(program))

    if shutil.which("timeout", path=os.defpath) is None:
        pytest.skip("there is no program timeout")
    played(story())


def test_as_long_as_something_else_is_wrong_it_is_not_run(tmp_path: Path) -> None:
    async def story() -> None:
        host = Host(tmp_path)
        host.check.suspect(part_of("GPU-0"))
        assert host.problem(problem="too hot") == "too hot" and not host.programs

    played(story())
