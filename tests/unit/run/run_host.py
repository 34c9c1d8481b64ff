"""A host with an executor, its events collected, for tests that run real processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.jobs.job import AttemptResult
from gsched.run import fork_server_client
from gsched.run.executor import ProcessExecutor
from gsched.run.order import Order, RunKey, StartedInfo, Unkillable
from gsched.run.processes import process_tree

PATIENCE_S = 60.0
SEARCHED = ":".join(each for each in os.environ.get("PATH", os.defpath).split(":") if os.access(each, os.X_OK))
"""PATH without folders that are closed to this user: a shell that finds nothing has another exit code with them."""
CLUSTER = f"test-{os.getpid()}"
"""Runs of these tests beside each other must not end each other's processes."""


def let_supervisors_sleep() -> None:
    """As the environment says, after which time (seconds) and with which program: for processes of their own, and to
    run all of these tests with supervisors that sleep soon."""
    if program := os.environ.get("RUN_TEST_WAITER"):
        fork_server_client.waiter = lambda: program
        fork_server_client.SLEEP_AFTER_S = float(os.environ["RUN_TEST_SLEEP_AFTER_S"])


let_supervisors_sleep()


class Host:
    """One executor over a spool folder, and what it has reported."""

    def __init__(self, root: Path, cluster: str = CLUSTER) -> None:
        self.root = root
        self.spool = root / "spool 작업 폴더"
        self.locks = root / "locks"
        self.started: dict[RunKey, StartedInfo] = {}
        self.ended: dict[RunKey, AttemptResult] = {}
        self.reports: list[tuple[str, RunKey]] = []
        self.unkillable: dict[RunKey, list[Unkillable]] = {}
        self._changed = asyncio.Event()
        self.executor = ProcessExecutor(
            self.spool,
            cluster,
            on_started=self._on_started,
            on_ended=self._on_ended,
            on_unkillable=self._on_unkillable,
            gpu_locks=GpuLockFolders(str(self.locks), "", False),
        )

    def _on_started(self, job_id: int, attempt: int, info: StartedInfo) -> None:
        self.reports.append(("started", (job_id, attempt)))
        self.started[job_id, attempt] = info
        self._changed.set()

    def _on_ended(self, job_id: int, attempt: int, result: AttemptResult) -> None:
        self.reports.append(("ended", (job_id, attempt)))
        self.ended[job_id, attempt] = result
        self._changed.set()

    def _on_unkillable(self, job_id: int, attempt: int, processes: tuple[Unkillable, ...]) -> None:
        self.unkillable.setdefault((job_id, attempt), []).extend(processes)
        self._changed.set()

    def order(self, command: str = "", job_id: int = 1, attempt: int = 1, **fields: object) -> Order:
        fields.setdefault("cwd", str(self.root))
        fields.setdefault("environment", {"PATH": SEARCHED})
        return Order(job_id=job_id, attempt=attempt, command=command, **fields)  # type: ignore[arg-type]

    async def run(self, command: str = "", job_id: int = 1, **fields: object) -> AttemptResult:
        """Start it and wait for its end."""
        await self.executor.start(self.order(command, job_id, **fields))
        return await self.end_of(job_id)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for reports until the condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def end_of(self, job_id: int, attempt: int = 1) -> AttemptResult:
        await self.until(lambda: (job_id, attempt) in self.ended)
        return self.ended[job_id, attempt]

    async def start_of(self, job_id: int, attempt: int = 1) -> StartedInfo:
        await self.until(lambda: (job_id, attempt) in self.started)
        return self.started[job_id, attempt]

    def output(self, job_id: int = 1, stream: str = "stdout") -> str:
        return self.executor.read_output(job_id, 1, stream, 0, 1 << 20).decode()

    def folder(self, job_id: int = 1, attempt: int = 1) -> Path:
        return self.spool / "attempts" / f"{job_id}.{attempt}"

    def supervisor_pid(self, job_id: int = 1) -> int:
        claim = self.executor._spool.claim(f"{job_id}.1")
        assert claim is not None
        return claim.pid


def marked_processes(name: str) -> list[process_tree.Process]:
    """Living processes that carry the mark of the attempt called `name`."""
    return process_tree.marked(f"{CLUSTER}/{name}", process_tree.scan())


async def appears(condition: Callable[[], object]) -> None:
    """Wait for something outside of our event loop, such as a file that a job writes."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def has_heard(pid: int, signal_number: int) -> bool:
    """Whether the process has taken a signal that was sent to it, and waits for the next one."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    pending = int(status["ShdPnd"], 16) | int(status["SigPnd"], 16)
    return not pending >> (signal_number - 1) & 1 and status["State"].startswith("S")
