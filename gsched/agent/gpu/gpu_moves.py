"""Jobs that are moved off their GPU while they are suspended, and back, by NVIDIA's `cuda-checkpoint`.

What a job has in the memory of the device goes into that of the host. A GPU counts as given back only when a look at it
has shown no process of the job after all of the job was stopped; a job is moved back only when nobody else is on its
GPU. Where that cannot be done the job keeps the GPU, and the master is told why. It decides of no job whether it is to
be suspended, and touches no process but those of the attempt that it was told of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from gsched.agent.attempts.held_resources import HeldResources
from gsched.agent.gpu.foreign_processes import takes
from gsched.base.clock import RecentValue
from gsched.base.coded_text import AnyText, coded
from gsched.base.ids import attempt_name
from gsched.base.machine.atomic_write import replace_file
from gsched.model.gpus.gpu_move import GpuMove
from gsched.model.hosts.host import Gpu, GpuProcess, GpuReport
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.executor import ProcessExecutor
from gsched.run.processes import process_tree
from gsched.run.program import Program, RunsPrograms
from gsched.wire.messages.convert import fill
from gsched.wire.v1 import agent_pb2

log = logging.getLogger(__name__)

RECORD = "moved"
"""The file in an attempt's folder that tells which processes are, or are being, moved off."""
TOGGLE_S = 120.0
"""How long the program may take for one process."""
OFF_S = 10.0
"""How soon after it the driver must show the device without it."""
FREE_S = 60.0
"""How long a job that goes on waits for others to leave its GPU."""
LOOK_S = 0.2
TRIES = 5
GPU_LOST = "TERM_GPU"
"""Why a job ends whose GPU cannot be had again."""
RUNNING, CHECKPOINTED = "running", "checkpointed"
"""States of a process, as the program names them."""


LookAtGpus = Callable[[], Awaitable[GpuReport]]


async def _no_look() -> GpuReport:
    return GpuReport(known=False)


class MoveTools(NamedTuple):
    """What jobs are moved with."""

    program: str
    """cuda-checkpoint: a path, or a name in PATH."""
    look: LookAtGpus
    """Looks at the GPUs now."""
    may_run: Callable[[str], AnyText] | None = None
    """Says why root's agent must not run a program."""


NO_MOVES = MoveTools("none", _no_look)
PROGRAM_S = 15.0
"""So often, in seconds, the program is looked for where nobody is to be moved."""


class MovedProcess(msgspec.Struct, frozen=True):
    """One process of a job that was on the device."""

    pid: int
    start: int


class MoveRecord(msgspec.Struct, frozen=True):
    """What outlives the agent."""

    processes: tuple[MovedProcess, ...]
    is_done: bool = False
    """The GPU was seen without them."""


class GpuMoves:
    """Of one agent. `end` ends an attempt whose GPU cannot be had again."""

    def __init__(
        self,
        tools: MoveTools,
        *,
        executor: ProcessExecutor,
        holdings: HeldResources,
        folder: Callable[[AttemptKey], Path],
        run: RunsPrograms,
        send: Callable[[agent_pb2.AgentMessage], None],
        end: Callable[[AttemptKey], Awaitable[None]],
    ) -> None:
        self._program, self._look, self._may_run = tools
        self._executor = executor
        self._holdings = holdings
        self._folder = folder
        self._run = run
        self._send = send
        self._end = end
        self._why_none_lately = RecentValue(self._why_no_program, PROGRAM_S)
        self._told: dict[AttemptKey, AnyText] = {}
        """What has come of a move, by attempt: why it was not moved; empty: it was."""
        self._working: dict[AttemptKey, asyncio.Task[None]] = {}

    # -- what can be done -----------------------------------------------------------------------------------------

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with the GPUs marked that jobs can be moved off: whole ones whose processes can be seen."""
        if not report.known or not report.gpus or self._why_none_lately():
            return report
        gpus = tuple(
            msgspec.structs.replace(gpu, moves_jobs=not gpu.mig and gpu.process_count is not None)
            for gpu in report.gpus
        )
        return msgspec.structs.replace(report, gpus=gpus)

    def _why_no_program(self) -> AnyText:
        path = shutil.which(self._program)
        if path is None:
            return coded("moves.no_program", self._program)
        problem = self._may_run(os.path.abspath(path)) if self._may_run is not None else ""
        return coded("moves.not_run", path, problem) if problem else ""

    # -- orders ---------------------------------------------------------------------------------------------------

    def adopt(self, keys: Collection[AttemptKey]) -> None:
        """Take up what an earlier agent has moved off."""
        for key in keys:
            record = self._read(key)
            if record is not None and record.is_done:
                self._told[key] = ""
                self._holdings.move_off(key)

    def concerns(self, key: AttemptKey) -> bool:
        """Whether the attempt is, or is being, moved off its GPU."""
        return key in self._working or self._read(key) is not None

    def off(self, key: AttemptKey) -> None:
        """Move it off its GPU, stop it, and tell the master. Told again it only tells again."""
        self._work(key, self._move_off)

    def back(self, key: AttemptKey) -> None:
        """Let it go on, on its GPU."""
        self._work(key, self._move_back)

    def ended(self, key: AttemptKey) -> None:
        """The attempt is over."""
        self._told.pop(key, None)

    def tell(self) -> None:
        """Tell a master that has just heard hello."""
        for key in self._told:
            self._tell(key)

    def close(self) -> None:
        """Go on with nothing; a later agent does."""
        for task in self._working.values():
            task.cancel()

    def _work(self, key: AttemptKey, what: Callable[[AttemptKey], Coroutine[object, object, None]]) -> None:
        """One after another for each attempt; no other order about it waits."""
        before = self._working.get(key)
        task = asyncio.get_running_loop().create_task(_after(before, what(key)))
        self._working[key] = task
        task.add_done_callback(lambda done: self._worked(key, done))

    def _worked(self, key: AttemptKey, task: asyncio.Task[None]) -> None:
        if self._working.get(key) is task:
            del self._working[key]
        if not task.cancelled() and task.exception() is not None:
            log.error("attempt %s is not moved", attempt_name(*key), exc_info=task.exception())

    def _tell(self, key: AttemptKey) -> None:
        moved = agent_pb2.AttemptMoved(job_id=key[0], attempt=key[1])
        fill(moved.outcome, GpuMove(why=self._told[key]))
        self._send(agent_pb2.AgentMessage(moved=moved))

    # -- off ------------------------------------------------------------------------------------------------------

    async def _move_off(self, key: AttemptKey) -> None:
        if key not in self._holdings or self._executor.is_ending(*key):
            return
        if key not in self._told:
            why = self._why_no_program() or await self._freed(key)
            await self._executor.suspend(*key)
            if not why and await self._on_device(key):  # it has come to the device in between
                await self._executor.resume(*key)
                await self._restore(key)
                await self._executor.suspend(*key)
                why = coded("moves.still_there")
            self._settle(key, why)
        else:
            await self._executor.suspend(*key)
        self._tell(key)

    def _settle(self, key: AttemptKey, why: AnyText) -> None:
        record = self._read(key)
        if why or record is None:
            self._forget(key)
        else:
            self._write(key, msgspec.structs.replace(record, is_done=True))
            self._holdings.move_off(key)
        self._told[key] = why
        if why:
            log.warning("attempt %s keeps its GPU while it is suspended: %s", attempt_name(*key), why)

    async def _freed(self, key: AttemptKey) -> AnyText:
        """Have its processes leave the device; why that cannot be done, and then all is as before."""
        before = self._read(key)
        seen = await self._processes(key)
        if seen is None:
            return coded("moves.unseen")
        known = {each.pid: each for each in before.processes} if before is not None else {}
        found = [process_tree.read_process(each.pid) for each in seen]
        known |= {each.pid: MovedProcess(each.pid, each.start) for each in found if each is not None}
        self._write(key, MoveRecord(tuple(known.values())))
        for each in known.values():
            problem = await self._toggle(each, CHECKPOINTED)
            if problem:
                await self._restore(key)
                return coded("moves.failed", each.pid, problem)
        for _ in range(round(OFF_S / LOOK_S)):
            if not await self._on_device(key):
                return ""
            await asyncio.sleep(LOOK_S)
        await self._restore(key)
        return coded("moves.still_there")

    async def _on_device(self, key: AttemptKey) -> bool:
        """Whether a process of it is on its GPU, or nobody knows."""
        seen = await self._processes(key)
        return seen is None or bool(seen)

    async def _processes(self, key: AttemptKey) -> list[GpuProcess] | None:
        """Its processes on its GPU; None where they cannot be seen."""
        gpu = await self._gpu(key)
        if gpu is None or gpu.process_count is None or gpu.process_count > len(gpu.processes):
            return None
        return [each for each in gpu.processes if each.job == attempt_name(*key)]

    async def _gpu(self, key: AttemptKey) -> Gpu | None:
        part = self._holdings.whole_part(key)
        report = await self._look()
        uuids = {gpu.uuid for gpu in part.gpus} if part is not None else set()
        found = [gpu for gpu in report.gpus if gpu.uuid in uuids] if report.known else []
        return found[0] if len(found) == 1 == len(uuids) else None

    # -- back -----------------------------------------------------------------------------------------------------

    async def _move_back(self, key: AttemptKey) -> None:
        await self._executor.resume(*key)
        self._told.pop(key, None)
        if self._read(key) is None:
            return
        await self._await_free(key)
        self._holdings.move_back(key)
        problem = await self._restore(key)
        if problem and not self._executor.is_ending(*key):
            log.error("attempt %s does not get its GPU again, and is ended: %s", attempt_name(*key), problem)
            await self._end(key)

    async def _await_free(self, key: AttemptKey) -> None:
        """The master has seen to it that no job has the GPU; what a job has left on it may take a moment to go."""
        for _ in range(round(FREE_S / LOOK_S)):
            gpu = await self._gpu(key)
            there = [each for each in gpu.processes if each.job or takes(gpu, each)] if gpu is not None else []
            if all(each.job == attempt_name(*key) for each in there):
                return
            await asyncio.sleep(LOOK_S)

    async def _restore(self, key: AttemptKey) -> AnyText:
        """Move its processes back; what is wrong with one that does not come back."""
        record = self._read(key)
        problem: AnyText = ""
        for each in record.processes if record is not None else ():
            for attempt in range(TRIES):
                failed = await self._toggle(each, RUNNING)
                if not failed:
                    break
                await asyncio.sleep(attempt * LOOK_S)
            else:
                problem = problem or coded("moves.failed", each.pid, failed)
        self._forget(key)
        return problem

    async def _toggle(self, process: MovedProcess, wanted: str) -> str:
        """Have it in that state; why it is not, or nothing. One that has ended is in any state."""
        now = process_tree.read_process(process.pid)
        if now is None or now.start != process.start:
            return ""
        code, said = await self._ask("--get-state", process.pid)
        if code == 0 and said == wanted:
            return ""
        code, said = await self._ask("--toggle", process.pid)
        return "" if code == 0 else said or f"exit code {code}"

    async def _ask(self, option: str, pid: int) -> tuple[int, str]:
        words = (shutil.which(self._program) or self._program, option, "--pid", str(pid))
        try:
            end = await self._run(Program(words=words, environment=_environment(os.environ)), TOGGLE_S)
        except (OSError, TimeoutError) as error:
            return 255, str(error) or type(error).__name__
        return end.exit_code, end.last_line.strip()

    # -- records --------------------------------------------------------------------------------------------------

    def _read(self, key: AttemptKey) -> MoveRecord | None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode((self._folder(key) / RECORD).read_bytes(), type=MoveRecord)
        return None

    def _write(self, key: AttemptKey, record: MoveRecord) -> None:
        """Raises OSError: nothing is moved of which a later agent would not know."""
        replace_file(str(self._folder(key) / RECORD), msgspec.json.encode(record))

    def _forget(self, key: AttemptKey) -> None:
        with contextlib.suppress(OSError):
            (self._folder(key) / RECORD).unlink()


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    return {name: own[name] for name in ("PATH", "HOME", "LANG") if name in own}


async def _after(before: asyncio.Task[None] | None, work: Coroutine[object, object, None]) -> None:
    if before is not None:
        await asyncio.wait([before])
    await work
