"""All that sees to the GPUs of a host, put together: who judges what is seen of them, who keeps them around jobs.

Only wiring: each verdict and each deed is that of one of the parts. Nothing here knows the master.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gsched.agent.attempts.held_resources import uuids_of
from gsched.agent.attempts.host_attempts import Attempts
from gsched.agent.gpu.device_busy import DeviceBusy
from gsched.agent.gpu.foreign_processes import ForeignRules
from gsched.agent.gpu.gpu_cleanup import GpuCleanup
from gsched.agent.gpu.gpu_condition import HealthRules
from gsched.agent.gpu.gpu_health import GpuHealth
from gsched.agent.gpu.gpu_prolog_epilog import PrologEpilog
from gsched.agent.gpu.gpu_watch import GpuWatch
from gsched.agent.gpu.lost_gpus import LostGpus
from gsched.agent.gpu.mig_layout import MigLayouts
from gsched.agent.gpu.mps_for_jobs import Mps
from gsched.agent.gpu_check import CheckRules, GpuCheck
from gsched.agent.gpu_modes.compute_mode_records import ModeRecords
from gsched.agent.gpu_modes.compute_modes import ComputeModes
from gsched.base.clock import Clock
from gsched.base.coded_text import AnyText
from gsched.model.config import GpuForeign
from gsched.model.ledgers.allocation import HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey
from gsched.run.processes.process_tree import boot_id
from gsched.wire.v1 import agent_pb2


class GpuGuard:
    """The hooks and judges of one host. `attempts()` gives what is made after them, because it needs them."""

    def __init__(
        self,
        watch: GpuWatch,
        spool: Path,
        mps: Mps,
        clock: Clock,
        attempts: Callable[[], Attempts],
        *,
        may_run: Callable[[str], AnyText] | None = None,
    ) -> None:
        """What is to outlive the agent is written to `spool`; `may_run`: why root's agent must not run a program."""
        self._attempts = attempts
        self._watch = watch
        self._health = GpuHealth(
            spool / "gpu-health.json",
            boot_id(),
            clock,
            holdings=self._holdings,
            look=watch.look,
        )
        self._cleanup = GpuCleanup(
            watch, clock, running=lambda: attempts().on_gpus(), returning=lambda: attempts().giving_back()
        )
        self._check = GpuCheck(
            spool / "gpu-checks.json",
            clock,
            run=lambda program, limit_s=None: attempts().run_program(program, limit_s),
            held=self._held_boards,
            look=watch.look,
            may_run=may_run,
        )
        self._modes = ComputeModes(watch, ModeRecords(spool / "gpu-modes.json", boot_id()), clock)
        self._mps = mps
        busy = self._busy = DeviceBusy(watch)
        layouts = MigLayouts(self._holdings)
        lost = LostGpus(
            lambda: attempts().holdings.unknown,
            self._held_boards,
        )
        watch.judges += [
            self._health.judge,
            self._cleanup.judge,
            lost.judge,
            busy.judge,
            self._modes.judge,
            self._mps,
            layouts,
            self._check.judge,
        ]
        watch.may_be_set = self._modes.may_be_set
        watch.remarks.append(lambda: layouts.notes)
        # First who is on a GPU, then its mode, before and after: none is changed below a process.
        self.prolog_epilog = PrologEpilog(
            [self._check, self._cleanup, self._health, self._modes, self._mps],
            blame=self._blame,
            returning=[self._mps, self._health, self._cleanup, self._modes, self._check],
        )

    def _held_boards(self) -> set[str]:
        return {uuid for part in self._holdings().values() for uuid in uuids_of(part)}

    async def _blame(self, key: AttemptKey, part: HostAllocation) -> AnyText:
        self._check.suspect(part)
        return await self._busy.blame(key, part)

    def _holdings(self) -> Mapping[AttemptKey, HostAllocation]:
        return self._attempts().holdings.all()

    def owners(self, pids: Iterable[int]) -> Mapping[int, str]:
        """The attempt of each process that belongs to one; MPS daemons and their servers are those of their users."""
        wanted = list(pids)
        found = self._attempts().owners(wanted)
        return {**self._mps.owners(pid for pid in wanted if pid not in found), **found}

    async def adopt(self) -> None:
        """The attempts of an earlier agent are known: end and set back what nobody needs any more."""
        attempts = self._attempts()
        await self._mps.adopt(attempts.holdings.all())
        self._modes.recover(attempts.holdings.running, attempts.unforgotten)

    async def open(self, uuid: str) -> None:
        """An administrator says that the GPU is well."""
        had_failed = self._health.open(uuid)
        if self._check.open(uuid) or had_failed:
            await self._watch.look()

    def configure(self, settings: agent_pb2.Settings) -> None:
        """Take over the master's settings."""
        self._cleanup.rules = ForeignRules(
            action=GpuForeign(settings.gpu_foreign or GpuForeign.AVOID),
            kill_s=settings.gpu_foreign_kill_s,
            limit_mib=settings.gpu_foreign_mib,
        )
        self._health.rules = HealthRules(
            fatal_xids=frozenset(settings.gpu_fatal_xids),
            clean_probes=settings.gpu_clean_probes,
            max_temperature_c=settings.gpu_max_temperature_c if settings.HasField("gpu_max_temperature_c") else None,
            probe_s=settings.gpu_probe_s,
        )
        self._check.rules = CheckRules(
            program=settings.gpu_health_check,
            limit_s=settings.gpu_health_timeout_s,
            idle_s=settings.gpu_health_interval_s,
        )

    def close(self) -> None:
        """Follow nobody any more."""
        self._cleanup.close()
        self._check.close()
