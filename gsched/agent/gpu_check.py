"""The site's health program (GPU_HEALTH_CHECK): where something has failed, a GPU is offered again only if it says so.

It is run for a GPU, by the fork server, when a fault of the GPU is over, when a job on it has failed by itself, and
after so many hours without a job. Exit code 0 means well; anything else, or no end in time, closes the GPU until a
later run is well or an administrator opens it. It never runs on a GPU that an attempt holds, and ends no job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path

import msgspec

from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import ResourceExhausted
from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.program import Program, ProgramEnd, RunsPrograms

log = logging.getLogger(__name__)

_WITHOUT_AGENT_S = 5.0
"""So much longer than its time it may run where no agent is left to end it."""


class CheckRules(msgspec.Struct, frozen=True, kw_only=True):
    """GPU_HEALTH_CHECK, _TIMEOUT and _INTERVAL of lsb.params."""

    program: str = ""
    """GPU_HEALTH_CHECK; empty: there is none."""
    limit_s: float = 60.0
    """GPU_HEALTH_TIMEOUT."""
    idle_s: float = 0.0
    """GPU_HEALTH_INTERVAL; 0: an idle GPU is not checked."""


class CheckedGpu(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known of one GPU."""

    had_fault: bool = False
    due: str = ""
    """Why the program is to run before the GPU is offered: `failure`; empty: it need not."""
    verdict: AnyText = ""
    """Why the last run closed it; empty when it did not."""


class GpuCheck:
    """A judge of reports and a hook of PrologEpilog. `look` looks at the GPUs now; `held()`: UUIDs of whole GPUs that
    attempts hold; `may_run` says why root's agent must not run a program.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        run: RunsPrograms,
        held: Callable[[], Collection[str]],
        look: Callable[[], Coroutine[object, object, GpuReport]],
        may_run: Callable[[str], AnyText] | None = None,
    ) -> None:
        self.rules = CheckRules()
        self._path = path
        self._clock = clock
        self._run = run
        self._held = held
        self._look = look
        self._may_run = may_run
        self._running: dict[str, asyncio.Task[None]] = {}
        self._well_since: dict[str, float] = {}
        """UUID -> when it was last seen held, or checked."""
        self._gpus = self._read()
        self._written = b""

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with the GPUs closed that are being checked, or have not passed."""
        if not report.known or not self.rules.program:
            return report
        held = frozenset(self._held())
        gpus = tuple(self._judged(gpu, gpu.uuid in held) for gpu in report.gpus)
        self._write()
        return msgspec.structs.replace(report, gpus=gpus)

    def _judged(self, gpu: Gpu, is_held: bool) -> Gpu:
        known = self._gpus.setdefault(gpu.uuid, CheckedGpu())
        now = self._clock.monotonic()
        since = self._well_since.setdefault(gpu.uuid, now)
        if is_held:
            self._well_since[gpu.uuid] = now
        if gpu.fault:
            known.had_fault = True
            return gpu
        if known.had_fault:
            known.had_fault, known.due = False, "failure"
        is_idle_long = self.rules.idle_s > 0 and not is_held and now - since >= self.rules.idle_s
        if (known.due or is_idle_long) and not is_held and not gpu.problem and gpu.uuid not in self._running:
            self._running[gpu.uuid] = asyncio.get_running_loop().create_task(self._check(gpu, known))
        if gpu.problem:
            return gpu
        is_pending = bool(known.due) or gpu.uuid in self._running
        problem = known.verdict or (coded("gpu.being_checked", self._name) if is_pending else "")
        return msgspec.structs.replace(gpu, problem=problem)

    def suspect(self, part: HostAllocation) -> None:
        """A job on these GPUs has failed by itself."""
        for board in {held.board for held in part.gpus} if self.rules.program else ():
            self._gpus.setdefault(board, CheckedGpu()).due = "failure"

    def open(self, uuid: str) -> bool:
        """An administrator says that the GPU is well; whether it was not."""
        known = self._gpus.get(uuid)
        if known is None or not (known.verdict or known.due or known.had_fault):
            return False
        self._gpus[uuid] = CheckedGpu()
        self._well_since[uuid] = self._clock.monotonic()
        self._write()
        return True

    def close(self) -> None:
        """Nobody waits for the runs any more; what is due is due for the next agent."""
        for task in self._running.values():
            task.cancel()

    # -- a hook (gpu_prolog_epilog) -----------------------------------------------------------------------------------

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Waits for a run that is under way. Raises ResourceExhausted where a GPU has not passed."""
        for held in part.gpus if self.rules.program else ():
            task = self._running.get(held.board)
            if task is not None:
                await asyncio.wait([task])
            known = self._gpus.get(held.board)
            problem = known.verdict or (coded("gpu.being_checked", self._name) if known.due else "") if known else ""
            if problem:
                raise ResourceExhausted(coded("gpu.unfit", held.index, held.board, problem))

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """The master hears that a GPU is to be checked before it hears that its job is over. Its idle time begins, also
        of one whose job nobody has seen on it.
        """
        self._well_since.update(dict.fromkeys((held.board for held in part.gpus), self._clock.monotonic()))
        if any((known := self._gpus.get(held.board)) is not None and known.due for held in part.gpus):
            await self._look()

    # -- the program ------------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return os.path.basename(self.rules.program)

    async def _check(self, gpu: Gpu, known: CheckedGpu) -> None:
        try:
            verdict = await self._verdict(gpu, known.due or "idle")
            if verdict:
                log.error("GPU %d (%s) is closed: %s", gpu.index, gpu.uuid, verdict)
            if self._gpus.get(gpu.uuid) is known:  # else it was opened meanwhile
                known.verdict, known.due = verdict, ""
            self._well_since[gpu.uuid] = self._clock.monotonic()
        finally:
            del self._running[gpu.uuid]
        await self._look()

    async def _verdict(self, gpu: Gpu, why: str) -> AnyText:
        """Why the GPU must not be offered; empty when it is well."""
        rules, name = self.rules, self._name
        problem = self._may_run(rules.program) if self._may_run is not None else ""
        if problem:
            return coded("gpu.check_not_run", name, problem)
        environment = {
            "PATH": os.defpath,
            "CUDA_VISIBLE_DEVICES": gpu.uuid,
            "GSCHED_GPU_UUID": gpu.uuid,
            "GSCHED_GPU_INDEX": str(gpu.index),
            "GSCHED_GPU_CHECK": why,
        }
        try:
            end = await self._run(Program(words=_words(rules), environment=environment), rules.limit_s)
        except TimeoutError:
            return coded("gpu.check_hangs", name, rules.limit_s)
        except OSError as error:
            return coded("gpu.check_not_run", name, error.strerror or str(error))
        return _judgement(name, end)

    # -- the file -----------------------------------------------------------------------------------------------------

    def _read(self) -> dict[str, CheckedGpu]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, CheckedGpu])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s is of no use, what is due for a check of its health is unknown: %s", self._path, error)
            return {}

    def _write(self) -> None:
        data = msgspec.json.encode({uuid: known for uuid, known in self._gpus.items() if known != CheckedGpu()})
        if data == self._written:
            return
        try:
            replace_file(str(self._path), data)
            self._written = data
        except OSError as error:  # judged all the same; only the next agent does not know
            log.warning("%s cannot be written: %s", self._path, error)


def _words(rules: CheckRules) -> tuple[str, ...]:
    """The program, below one (timeout of coreutils, where it is there) that ends it should the agent be killed."""
    watcher = shutil.which("timeout", path=os.defpath)
    if watcher is None or not os.access(rules.program, os.X_OK):  # what cannot be executed is told by its own name
        return (rules.program,)
    return (watcher, "-s", "KILL", f"{rules.limit_s + _WITHOUT_AGENT_S:g}", rules.program)


def _judgement(name: str, end: ProgramEnd) -> AnyText:
    if end.exit_code == 0:
        return ""
    last = "".join(character if character.isprintable() else " " for character in end.last_line).strip()
    return (
        coded("gpu.check_failed", name, end.exit_code, last) if last else coded("gpu.check_code", name, end.exit_code)
    )
