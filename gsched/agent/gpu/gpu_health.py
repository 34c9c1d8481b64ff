"""Which GPUs have failed: lost ones, those with a fatal error of the driver (XID), failing memory, too hot ones.

A judge of the host's reports (see gpu_watch). A GPU with a fault is closed; it is offered again when it was
clean at so many looks running, twice as many after each further fault of this boot. What is known is kept in a file for
the next agent, as long as the machine is not restarted. Nobody is signalled here: the master ends the jobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path

import msgspec

from gsched.agent.gpu.foreign_processes import shows_processes
from gsched.agent.gpu.gpu_condition import GpuRecord, HealthRules, is_placeholder, still_of
from gsched.base.clock import Clock
from gsched.base.coded_text import coded
from gsched.base.errors import ResourceExhausted
from gsched.base.ids import attempt_name
from gsched.base.machine.atomic_write import replace_file
from gsched.model.hosts.host import Gpu, GpuReport
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey

log = logging.getLogger(__name__)

HeldParts = Callable[[], Mapping[AttemptKey, HostAllocation]]
"""What the attempts of this host have, those that have ended and not given it back among them."""

GONE = coded("gpu.not_listed")
LOOK_PATIENCE_S = 2.0
"""How long the end of an attempt may wait for a look at its GPUs."""
LATE_NEWS_S = 5.0
"""An error of the driver that is heard so soon after an attempt has given the GPU back, and before anybody else holds
it, came from that attempt: a program often ends by the very error, and the news of it has its own way here."""


class _Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The file."""

    boot_id: str
    provider: str = ""
    records: dict[str, GpuRecord] = {}


class GpuHealth:
    """Judges reports, and keeps attempts off GPUs that have failed. `look` looks at the GPUs now."""

    def __init__(
        self,
        path: Path,
        boot_id: str,
        clock: Clock,
        *,
        holdings: HeldParts,
        look: Callable[[], Coroutine[object, object, GpuReport]],
    ) -> None:
        self.rules = HealthRules()
        self._path = path
        self._boot_id = boot_id
        self._clock = clock
        self._holdings = holdings
        self._look = look
        self._counted_at = float("-inf")
        self._written = b""
        self._unwritten = ""
        """Why the file was not written the last time, as the log has it; empty when it was."""
        self._watched: frozenset[str] = frozenset()
        """UUIDs of those whose processes were seen last."""
        self._held_last: dict[str, tuple[float, list[str]]] = {}
        """UUID -> when it was last seen to be held, and by which attempts. There is a look whenever one ends."""
        self._provider, self._records = self._read()

    def judge(self, report: GpuReport) -> GpuReport:
        """The report with faults, whom they hit, and what the driver has told."""
        if not report.known:  # neither sick nor well
            return report
        if report.provider != self._provider:
            self._provider, self._records = report.provider, {}
        now = self._clock.monotonic()
        counts = now - self._counted_at >= self.rules.probe_s / 2
        if counts:
            self._counted_at = now
        holders = self._holders(now)
        gpus = tuple(self._judged(gpu, counts, holders) for gpu in self._listed(report))
        self._watched = frozenset(gpu.uuid for gpu in report.gpus if shows_processes(gpu))
        self._write()
        return msgspec.structs.replace(report, gpus=gpus)

    def _holders(self, now: float) -> Mapping[str, list[str]]:
        """UUID -> the attempts that hold the GPU, or have held it a moment ago."""
        holders: dict[str, list[str]] = {}
        for key, part in self._holdings().items():
            for board in {held.board for held in part.gpus}:
                holders.setdefault(board, []).append(attempt_name(*key))
        self._held_last |= {board: (now, names) for board, names in holders.items()}
        for board, (at, names) in self._held_last.items():
            if now - at < LATE_NEWS_S:
                holders.setdefault(board, names)
        return holders

    def open(self, uuid: str) -> bool:
        """An administrator says that the GPU is well; whether it had a fault. What is still wrong closes it again."""
        record = self._records.get(uuid)
        if record is None or not record.fault:
            return False
        log.warning("GPU %s is opened by an administrator: %s is over", uuid, record.fault)
        record.open()
        self._write()
        return True

    def _judged(self, gpu: Gpu, counts: bool, holders: Mapping[str, list[str]]) -> Gpu:
        record = self._records.get(gpu.uuid)
        if record is None:
            record = self._records[gpu.uuid] = GpuRecord(still=still_of(gpu), ecc=gpu.ecc_errors)
        was = record.fault
        problem = record.see(gpu, tuple(sorted(holders.get(gpu.uuid, ()))), self.rules, counts=counts)
        if record.fault != was:
            name = f"GPU {gpu.index} ({gpu.uuid})"
            if record.fault:
                log.error("%s has failed: %s; held by: %s", name, record.fault, ", ".join(record.hit) or "nobody")
            else:
                log.warning("%s is clean again and offered: %s is over", name, was)
        return msgspec.structs.replace(
            gpu,
            fault=record.fault,
            hit=record.hit,
            xids=tuple(record.xids),
            problem=gpu.problem or problem,
        )

    def _listed(self, report: GpuReport) -> list[Gpu]:
        """The GPUs of the report under the names they had, and those that it no longer lists."""
        if report.provider != "nvml":  # an inventory is whatever somebody wrote
            return list(report.gpus)
        seen = {gpu.uuid for gpu in report.gpus}
        gone = {
            uuid: record.still
            for uuid, record in self._records.items()
            if uuid not in seen and not is_placeholder(uuid)
        }
        found = []
        for gpu in report.gpus:
            before = next((still for still in gone.values() if still.index == gpu.index), None)
            if before is None or not is_placeholder(gpu.uuid):
                found.append(gpu)
                continue
            del gone[before.uuid]
            found.append(msgspec.structs.replace(before, problem=gpu.problem, fault=gpu.fault))
        lost = [still for still in gone.values() if still.uuid.startswith("GPU-")]
        # Its index may have gone to another one, that of several to one after the other; each must be one of a kind.
        taken = {gpu.index for gpu in found}
        free = max([*taken, *(still.index for still in lost)], default=-1) + 1
        for still in lost:
            index, free = (still.index, free) if still.index not in taken else (free, free + 1)
            taken.add(index)
            found.append(msgspec.structs.replace(still, index=index, problem=GONE, fault=GONE))
        return found

    # -- a hook (gpu_prolog_epilog) -----------------------------------------------------------------------------------

    async def before(self, key: AttemptKey, part: HostAllocation, spec: JobSpec) -> None:
        """Raises ResourceExhausted when a GPU of the attempt has failed."""
        for held in part.gpus:
            record = self._records.get(held.board)
            if record is not None and record.fault:
                raise ResourceExhausted(coded("gpu.failed", held.index, held.board, record.fault))

    async def after(self, key: AttemptKey, part: HostAllocation) -> None:
        """Look once more: a program may notice that its GPU is lost before any probe does.

        Where processes are seen somebody else looks (gsched.agent.gpu.gpu_cleanup).
        """
        if any(held.board in self._watched for held in part.gpus):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_PATIENCE_S):
                await self._look()

    # -- the file -------------------------------------------------------------------------------------------------

    def _read(self) -> tuple[str, dict[str, GpuRecord]]:
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return "", {}
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s is of no use, the health of the GPUs is judged anew: %s", self._path, error)
            return "", {}
        return (kept.provider, kept.records) if kept.boot_id == self._boot_id else ("", {})

    def _write(self) -> None:
        kept = _Kept(boot_id=self._boot_id, provider=self._provider, records=self._records)
        data = msgspec.json.encode(kept)
        if data == self._written:
            return
        try:
            replace_file(str(self._path), data)
            self._written, self._unwritten = data, ""
        except OSError as error:  # judged all the same; only the next agent does not know
            if str(error) != self._unwritten:  # it is tried again at each look
                log.warning("%s cannot be written: %s", self._path, error)
            self._unwritten = str(error)
