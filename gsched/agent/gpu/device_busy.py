"""`device busy`: an attempt failed while somebody else was on its GPU, which takes one process in its compute mode.

Who that is, is told in the job's history, and the GPU is offered again only after a look at it has shown nobody. It is
judged by what is on the GPU, never by what a program printed or returned. Nobody is signalled.
"""

from __future__ import annotations

import logging

import msgspec

from gsched.agent.gpu.foreign_processes import named, takes
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.base.coded_text import AnyText, CodedText, coded, listed
from gsched.base.ids import attempt_name
from gsched.model.hosts.host import EXCLUSIVE_MODES, Gpu, GpuProcess, GpuReport
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.mps_daemon import pipes_of, serves_host

log = logging.getLogger(__name__)


class DeviceBusy:
    """A judge of GpuWatch, and what PrologEpilog asks about attempts that have failed."""

    def __init__(self, watch: GpuWatch) -> None:
        self._watch = watch
        self._busy: dict[str, CodedText] = {}
        """UUID -> `busy(USER,PID,MIB)`: the GPUs that have failed an attempt and have not been seen free since."""

    async def blame(self, key: AttemptKey, part: HostAllocation) -> AnyText:
        """Who else, beside an attempt that has failed, is on its GPUs that take one process alone; empty when nobody
        is.
        """
        before = _by_uuid(self._watch.gpus)
        if not any(held.uuid in before and before[held.uuid].mode in EXCLUSIVE_MODES for held in part.gpus):
            return ""
        seen = _by_uuid(await self._watch.look())
        found = []
        for held in part.gpus:
            gpu = seen.get(held.uuid)
            others = [] if gpu is None else _occupants(gpu, but=attempt_name(*key))
            if gpu is not None and others:
                users = listed([each.described for each in others])
                found.append(coded("gpu.held_by", gpu.index, gpu.uuid, str(gpu.mode), users))
                self._busy[gpu.uuid] = named("gpu.busy", others[0].user or "?", others)
        if not found:
            return ""
        holders = listed(found, "list.semicolon")
        log.warning("attempt %s has failed: %s", attempt_name(*key), holders)
        return coded("gpu.device_busy", holders)

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with the GPUs closed that are still in somebody's hands."""
        if not self._busy or not report.known:
            return report
        return msgspec.structs.replace(report, gpus=tuple(self._judged(gpu) for gpu in report.gpus))

    def _judged(self, gpu: Gpu) -> Gpu:
        busy = self._busy.get(gpu.uuid)
        if busy is None:
            return gpu
        others = _occupants(gpu)
        if others:
            busy = self._busy[gpu.uuid] = named("gpu.busy", others[0].user or "?", others)
        elif gpu.process_count is not None:
            del self._busy[gpu.uuid]
            return gpu
        return gpu if gpu.problem else msgspec.structs.replace(gpu, problem=busy)


def _by_uuid(report: GpuReport | None) -> dict[str, Gpu]:
    return {gpu.uuid: gpu for gpu in report.gpus} if report is not None else {}


def _occupants(gpu: Gpu, but: str = "") -> list[GpuProcess]:
    """The processes that keep all others off the GPU, but those of one attempt."""
    there = [each for each in gpu.processes if takes(gpu, each) and not (but and each.job == but)]
    return [each for each in there if not _serves_jobs(each)]


def _serves_jobs(process: GpuProcess) -> bool:
    """Whether it is the MPS server of jobs, or of the whole host: who computes by it is not kept off."""
    return serves_host(process.pid) or bool(process.job and pipes_of(process.pid))
