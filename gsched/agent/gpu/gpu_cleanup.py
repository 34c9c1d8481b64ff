"""Foreign processes before a job, leftovers after it: a GPU with either is not offered, given to nobody, and watched.

What it finds out is in the reports; the master hears of it before it hears of the attempt that was refused or has
ended. All of it is derived from what is on the GPUs, so an agent that restarts comes to the same verdicts. Waits for a
bounded time, and never ends a process but those of an attempt that is over, and foreign
processes where GPU_FOREIGN says so.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping

import msgspec

from gsched.agent.gpu.foreign_eviction import Eviction
from gsched.agent.gpu.foreign_processes import (
    DIRTY,
    ForeignRules,
    judged,
    lost_memory,
    shows_processes,
    strangers_of,
    takes,
)
from gsched.agent.gpu.gpu_prolog_epilog import GpusUnfit
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText, coded, has_code
from gsched.base.ids import attempt_name
from gsched.model.config import GpuForeign
from gsched.model.hosts.host import Gpu, GpuProcess, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.devices import devices_of
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.fork_server_client import Watch
from gsched.run.mps_daemon import pipes_of, serves_host
from gsched.run.processes import process_tree

log = logging.getLogger(__name__)

FIRST_LOOK_S = 10.0
"""How long the first look after the agent's start is waited for."""
CONFIRM_S = (0.0, 0.03, 0.1)
"""Pauses before the looks that must all find a GPU unfit, before an attempt is refused: one may show a process that is
just ending."""
AGAIN_S = 0.1
"""Until one looks again at a GPU that has just been called dirty for its memory alone."""
RETURN_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
"""Pauses between looks at GPUs that an attempt has left, until they are given up as dirty; an end shortens each."""
KILL_FROM = 7
"""From that look on what an attempt has left is killed, 1.6 s after it was told to end."""

GpusOfAttempts = Callable[[], Mapping[str, frozenset[str]]]
"""Attempt (`17.1`) -> UUIDs of its GPUs on this host, of the whole ones where it has parts."""


class GpuCleanup:
    """A hook of PrologEpilog and a judge of GpuWatch.

    `running`: attempts whose processes may be there; `returning`: those that have ended and whose end is not told
    yet.
    """

    def __init__(self, watch: GpuWatch, clock: Clock, *, running: GpusOfAttempts, returning: GpusOfAttempts) -> None:
        self.rules = ForeignRules()
        self._watch = watch
        self._clock = clock
        self._running = running
        self._returning = returning
        self._eviction = Eviction()
        self._refused: set[AttemptKey] = set()
        self._given_up: set[str] = set()
        """Attempts whose GPUs are dirty, until their ends are told."""
        self._suspects: dict[str, str] = {}
        """UUID -> the attempt after which its memory did not come back."""
        self._alarmed: dict[str, str] = {}
        """UUID -> what the log says of it."""
        self._followed: dict[tuple[int, int], Watch] = {}
        self._gone = asyncio.Event()
        self._looks: set[asyncio.Task[GpuReport]] = set()
        self._again: asyncio.TimerHandle | None = None

    # -- the judge ------------------------------------------------------------------------------------------------

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with foreign processes, with what was left behind, and with the GPUs closed that have either."""
        running, returning = self._running(), self._returning()
        self._given_up &= returning.keys()
        current = {**running, **{name: uuids for name, uuids in returning.items() if name not in self._given_up}}
        used = {uuid for uuids in current.values() for uuid in uuids}

        def verdict(gpu: Gpu) -> Gpu:
            return judged(
                gpu,
                self.rules,
                is_over=lambda name: name not in current,
                is_used=gpu.uuid in used,
                suspect=self._suspects.get(gpu.uuid, ""),
                passed=_passed(gpu) if report.provider == "nvml" else (),
            )

        report = msgspec.structs.replace(report, gpus=tuple(verdict(gpu) for gpu in report.gpus))
        if report.known:
            self._suspects = {
                gpu.uuid: name
                for gpu in report.gpus
                for name in gpu.left_behind
                if self._suspects.get(gpu.uuid) == name
            }
            self._alarm(report.gpus)
            is_over = [each for gpu in report.gpus for each in gpu.processes if each.job and each.job not in running]
            escaped = [each for gpu in report.gpus for each in gpu.processes if each.escaped]
            self._follow([*_strangers(report), *is_over, *escaped])
            if self.rules.action is GpuForeign.KILL_AFTER and report.provider == "nvml":
                self._eviction.consider(report.gpus, self.rules.kill_s, self._clock.monotonic())
        return report

    def _alarm(self, gpus: Iterable[Gpu]) -> None:
        """Into the log, once for each thing that is wrong."""
        for gpu in gpus:
            ours = gpu.left_behind or gpu.foreign_pids or has_code(gpu.problem, DIRTY)
            what = f"{gpu.left_behind} {gpu.foreign_pids}" if ours else ""
            if what == self._alarmed.get(gpu.uuid, ""):
                continue
            if not ours:
                del self._alarmed[gpu.uuid]
                log.info("GPU %d (%s) is clean again", gpu.index, gpu.uuid)
                continue
            self._alarmed[gpu.uuid] = what
            if not gpu.left_behind and not gpu.foreign_pids:
                self._look_soon()
            after = f" after {', '.join(gpu.left_behind)}" if gpu.left_behind else ""
            foreign_pids = f"used by processes {', '.join(map(str, gpu.foreign_pids))} of nobody's job"
            log.warning("GPU %d (%s)%s: %s", gpu.index, gpu.uuid, after, gpu.problem or foreign_pids)

    def _follow(self, processes: Iterable[GpuProcess]) -> None:
        """Look again as soon as one of them has ended: no GPU waits for the next round of the probe."""
        wanted = {}
        for each in processes:
            seen = process_tree.read_process(each.pid)
            if seen is not None and not seen.is_dead:
                wanted[seen.pid, seen.start] = seen
        for key in self._followed.keys() - wanted.keys():
            self._followed.pop(key).close()
        for pid, start in wanted.keys() - self._followed.keys():
            self._followed[pid, start] = Watch(pid, start, lambda key=(pid, start): self._on_gone(key))  # type: ignore[misc]

    def _on_gone(self, key: tuple[int, int]) -> None:
        self._followed.pop(key, None)
        self._gone.set()
        self._gone = asyncio.Event()
        self._look()

    def _look_soon(self) -> None:
        """Memory that nothing explains may be that of a process which has ended while the GPU was looked at."""
        if self._again is not None:
            self._again.cancel()
        self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._look)

    def _look(self) -> None:
        look = asyncio.create_task(self._watch.look())
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    def close(self) -> None:
        """Follow nobody any more."""
        if self._again is not None:
            self._again.cancel()
        for watch in self._followed.values():
            watch.close()
        self._followed.clear()

    # -- the hook -------------------------------------------------------------------------------------------------

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Look at the attempt's GPUs now. Raises GpusUnfit when one of them must not be used."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                report = await self._watch.first_gpus()
        except TimeoutError:
            raise self._refusal(key, coded("gpus.not_probed")) from None
        if not any(shows_processes(gpu) for gpu in _of(report, part)):
            problem = _unfit(report, part)
            if problem:
                raise self._refusal(key, problem)
            return
        for pause_s in CONFIRM_S:
            await asyncio.sleep(pause_s)
            report = await self._watch.look()
            problem = _unfit(report, part)
            if not problem:
                return
            if not report.known:
                break
        raise self._refusal(key, problem)

    def _refusal(self, key: AttemptKey, problem: AnyText) -> GpusUnfit:
        self._refused.add(key)
        return GpusUnfit(problem)

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """Wait until nothing of the attempt is on its GPUs; what does not go makes them dirty."""
        if key in self._refused:
            self._refused.discard(key)
            return
        name = attempt_name(*key)
        await self._watch.chosen()  # an agent that has just started; without a master nobody is told of the end anyway
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                report = await self._watch.first_gpus()
        except TimeoutError:
            return  # unknown GPUs are not offered
        if not any(shows_processes(gpu) for gpu in _of(report, part)):
            return
        lost = await self._lost_by(name, part)
        if lost is None:
            return
        self._given_up.add(name)
        self._suspects.update(dict.fromkeys(lost, name))
        await self._watch.look()  # told before the end is

    async def _lost_by(self, name: str, part: HostAllocation) -> list[str] | None:
        """None when the attempt has left nothing; else the GPUs whose memory is not back, after all patience."""
        for turn in range(len(RETURN_S) + 1):
            gone = self._gone
            report = await self._watch.look()
            left = [each for gpu in report.gpus for each in gpu.processes if each.job == name]
            alone = self._held_alone(report, name, part)
            lost = [gpu.uuid for gpu in alone if lost_memory(gpu, self.rules.limit_mib)]
            if not report.known or not (left or lost or any(self._hides(gpu) for gpu in alone)):
                return None
            if turn == len(RETURN_S):
                return lost
            if turn == 0:
                names = ", ".join(str(each.pid) for each in left)
                log.warning("attempt %s is over, but not gone from its GPUs: %s", name, names or "memory is in use")
                _end(left, signal.SIGTERM)
            elif turn >= KILL_FROM:
                _end(left, signal.SIGKILL)
            try:
                async with asyncio.timeout(RETURN_S[turn]):
                    await gone.wait()
            except TimeoutError:
                continue
        raise AssertionError("the last turn returns")

    def _held_alone(self, report: GpuReport, name: str, part: HostAllocation) -> list[Gpu]:
        """The attempt's GPUs that no other attempt holds: what is in use there is its own, or a foreign process's."""
        others = {uuid for uuids in self._running().values() for uuid in uuids}
        others |= {uuid for other, uuids in self._returning().items() if other != name for uuid in uuids}
        return [gpu for gpu in _of(report, part) if gpu.uuid not in others and shows_processes(gpu)]

    def _hides(self, gpu: Gpu) -> bool:
        """Whether something is on it that cannot be seen from here: it may be the attempt's."""
        return any(not each.user for each in strangers_of(gpu, self.rules.limit_mib, is_used=False))


def _end(left: Iterable[GpuProcess], number: signal.Signals) -> None:
    """End what an attempt that is over has left on GPUs."""
    for each in left:
        process = process_tree.read_process(each.pid)
        problem = process_tree.send(process, number) if process is not None and not process.is_dead else ""
        if problem:
            log.warning("process %s: %s", process, problem)


def _passed(gpu: Gpu) -> tuple[int, ...]:
    """Processes of no job that do not count: those that were there when they were listed (they have a user) and have
    ended since, and MPS servers, whose clients are listed themselves. Where one process takes the GPU a server does
    count, but for that of the whole host, which serves jobs as well.
    """
    others = [each for each in gpu.processes if not each.job and each.user]
    return tuple(each.pid for each in others if not os.path.exists(f"/proc/{each.pid}") or _serves(gpu, each))


def _serves(gpu: Gpu, process: GpuProcess) -> bool:
    """Whether it is an MPS server that stands in nobody's way."""
    return serves_host(process.pid) if takes(gpu, process) else bool(pipes_of(process.pid))


def _of(report: GpuReport, part: HostAllocation) -> list[Gpu]:
    own = {held.parent or held.uuid for held in part.gpus}
    return [gpu for gpu in report.gpus if gpu.uuid in own]


def _strangers(report: GpuReport) -> list[GpuProcess]:
    """Simulated ones are numbers in a file: a real process of that number has nothing to do with them."""
    if report.provider != "nvml":
        return []
    return [each for gpu in report.gpus for each in gpu.processes if each.pid in gpu.foreign_pids]


def _unfit(report: GpuReport, part: HostAllocation) -> AnyText:
    """Why a GPU of the attempt must not be used; empty when all of them may be."""
    if not report.known:
        return coded("gpus.unknown", report.reason)
    seen = devices_of(report)
    for held in part.gpus:
        gpu = seen.get(held.uuid)
        problem = coded("gpu.not_there") if gpu is None else gpu.problem
        if problem:
            return coded("gpu.unfit", held.index, held.uuid, problem)
    return ""
