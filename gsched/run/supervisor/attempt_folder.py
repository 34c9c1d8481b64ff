"""An attempt's folder as its supervisor has it: the claim, what changed since the order, the record of start and end.

The agent's side of it is gsched.run.spool. What is written here survives both; each file is whole or not there. Never
gives up the last word on an attempt: nobody else knows it. Never deletes what another one has claimed.

Order, claim, record of the start and the lists of hosts stay open: where somebody removes the folder, agents read them
from /proc/PID/fd of the supervisor, and know the attempt as before (gsched.run.attempts.lost_folders). Where no agent
has done so before the attempt is over, the folder is made again here, for its last word.

Runs in the fork server's bare interpreter: standard library and msgspec only.
"""

from __future__ import annotations

import json
import os
import time

import msgspec

from gsched.base.coded_text import AnyText
from gsched.base.machine.atomic_write import replace_file, write_deadline, write_file
from gsched.run.attempt_files import (
    AFFINITY,
    CLAIM,
    DEADLINE,
    FAILED,
    HOSTFILE,
    LAST,
    LIMITS,
    ORDER,
    STARTED,
    STATUS,
    SUSPENDED,
    UNKILLABLE,
    WAITED,
    WANTS_REQUEUE,
    WARNED,
)
from gsched.run.order import AttemptLimits, JobStep, Order, read_order
from gsched.run.processes import process_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gsched.run.supervisor.job_process import Nowhere, Output


def as_json(value: object) -> bytes:
    """As JSON. Names of files may hold bytes that are not UTF-8, which only the standard library writes down; it takes
    several times as long, and each supervisor writes three of them.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=msgspec.to_builtins).encode()


_own_starts: dict[int, int] = {}
"""Process number of this process -> its start, in clock ticks since boot."""


def _own_start() -> int:
    pid = os.getpid()
    if pid not in _own_starts:
        me = process_tree.read_process(pid)
        _own_starts[pid] = me.start if me else 0
    return _own_starts[pid]


class AttemptFolder:
    """The folder of an attempt, at `path`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.failed = f"{path}/{FAILED}"
        """Where the job's process says which step before it has failed."""
        self._claim: dict[str, int | str] = {}
        self._order_fd = -1
        self._started_fd = -1
        self._kept: list[int] = []
        """Kept open to the end, for others."""

    def state(self) -> tuple[dict[str, int | str], int, int, list[int]]:
        """The claim, and the descriptors of order, record of the start and what else is kept open; for `take_up`."""
        return self._claim, self._order_fd, self._started_fd, self._kept

    def take_up(self, claim: dict[str, int | str], order_fd: int, started_fd: int, kept: list[int]) -> None:
        """Go on in another interpreter of the same process."""
        self._claim, self._order_fd, self._started_fd, self._kept = claim, order_fd, started_fd, kept

    def claim(self, boot_id: str) -> bool:
        """Win or lose the right to start this attempt."""
        try:  # before the claim: who has that open has the order open too
            self._order_fd = os.open(f"{self.path}/{ORDER}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # said by who reads it
            pass
        claim: dict[str, int | str] = {"pid": os.getpid(), "start": _own_start(), "boot_id": boot_id}
        try:
            fd = os.open(f"{self.path}/{CLAIM}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            return False
        try:
            os.write(fd, as_json(claim))
        except OSError:  # a full disk: nobody has started anything, so leave the attempt unclaimed
            os.unlink(f"{self.path}/{CLAIM}")
            os.close(fd)
            return False
        self._kept.append(fd)
        for name in (HOSTFILE, AFFINITY):
            try:
                self._kept.append(os.open(f"{self.path}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
            except OSError:  # it has none
                pass
        self._claim = claim
        return True

    def order(self) -> Order:
        """The order as it was written. Raises OSError, ValueError."""
        if self._order_fd < 0:
            self._order_fd = os.open(f"{self.path}/{ORDER}", os.O_RDONLY | os.O_CLOEXEC)
        return read_order(os.pread(self._order_fd, os.fstat(self._order_fd).st_size, 0))

    def limited(self, order: Order) -> Order:
        """The order with the limits that were changed after it was written; itself where none were."""
        try:
            with open(f"{self.path}/{LIMITS}", "rb") as file:
                changed = msgspec.json.decode(file.read(), type=AttemptLimits)
        except (OSError, ValueError, msgspec.MsgspecError):
            return order
        if (changed.run_limit_s, changed.limits) == (order.run_limit_s, order.limits):
            return order
        return msgspec.structs.replace(order, run_limit_s=changed.run_limit_s, limits=changed.limits)

    def record_start(self, pid: int, order: Order, output: Output | Nowhere, error: Output | Nowhere) -> None:
        """Who the job's main process is, and where its output goes. Raises OSError."""
        job = process_tree.read_process(pid)
        record = {
            "pid": pid,
            "start": job.start if job else 0,
            "started_at": time.time(),
            "supervisor": self._claim,
            "exec_home": order.home,
            "exec_cwd": order.cwd,
            "stdout": output.path,
            "stdout_from": output.size,
            "stdout_inode": (output.device, output.inode),
            "stdout_room": output.room,
            "stderr": error.path,
            "stderr_from": error.size,
            "stderr_inode": (error.device, error.inode),
        }
        data = as_json(record)
        self._started_fd = os.open(f"{self.path}/{STARTED}", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if os.write(self._started_fd, data) != len(data):
            raise OSError("the disk is full")

    def is_suspended(self) -> bool:
        """Whether the job was suspended and not resumed since."""
        return os.path.exists(f"{self.path}/{SUSPENDED}")

    def mark_warned(self) -> None:
        """Who follows the job in the supervisor's place must not warn it again."""
        try:
            write_file(f"{self.path}/{WARNED}", b"")
        except OSError:  # it may then be warned twice
            pass

    def note_deadline(self, at: float) -> None:
        """Tell a job that saves its state until when it may, UTC seconds."""
        try:
            write_deadline(f"{self.path}/{DEADLINE}", at)
        except OSError:  # it has no such file, or is not told
            pass

    def wants_requeue(self) -> bool:
        """Whether the job has asked to run again when it has ended."""
        return os.path.exists(f"{self.path}/{WANTS_REQUEUE}")

    def mark_past_job(self) -> None:
        """From here on who ends the attempt means a step that follows the job, not the job. Raises OSError."""
        write_file(f"{self.path}/{LAST}", b"")

    def waited_until(self) -> float:
        """When the job's main process ended, if the program saw it that waited in this one's place; 0.0: it has not.
        Seconds since the epoch.
        """
        try:
            with open(f"{self.path}/{WAITED}", "rb") as file:
                return float(json.loads(file.read())["ended_at"])
        except (OSError, ValueError, LookupError, TypeError):
            return 0.0

    def failed_step(self) -> tuple[int, int, bool] | None:
        """Exit code and place of the step that kept the job from running, and whether it took too long; None when none
        did.
        """
        try:
            with open(self.failed, encoding="ascii") as file:
                code, place, *late = file.read().split()
        except (OSError, ValueError):
            return None
        return int(code), int(place), late == ["1"]

    def steps_after(self, order: Order) -> list[JobStep]:
        """What runs after the job: all but what takes back the very first step, where that one has failed."""
        failed = self.failed_step()
        is_made = failed is None or failed[1] > 0
        return [step for step in order.last if is_made or not step.undoes_first]

    def write_unkillable(self, named: list[tuple[int, str]]) -> bool:
        """Who does not end by SIGKILL, number and name of each; False when it could not be written."""
        try:
            replace_file(f"{self.path}/{UNKILLABLE}", as_json(named))
        except OSError:  # a full disk: the next look tries again
            return False
        return True

    def write_status(self, result: dict[str, object], problem: AnyText) -> bool:
        """Write the last word, and do not leave before it is written: nobody else knows it. Whether the folder was in
        its place.
        """
        is_in_place = True
        data = as_json({"ended_at": time.time(), **result, "problem": problem})
        pause_s = 0.1
        while True:
            try:
                if not os.path.isdir(self.path):
                    if not os.path.isdir(os.path.dirname(os.path.dirname(os.path.dirname(self.path)))):
                        return False  # all spool folders are gone, so nobody wants to know
                    is_in_place = False
                    self._make_again()
                replace_file(f"{self.path}/{STATUS}", data)
                return is_in_place
            except OSError:
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, 10.0)

    def close(self) -> None:
        """Nothing of it is open here any more: whoever has its files open counts as its supervisor."""
        for descriptor in (self._order_fd, self._started_fd, *self._kept):
            if descriptor >= 0:
                os.close(descriptor)
        self._order_fd = self._started_fd = -1
        self._kept.clear()

    def _make_again(self) -> None:
        """Somebody has removed it. Raises OSError."""
        attempts = os.path.dirname(self.path)
        for folder in (os.path.dirname(attempts), attempts, self.path):
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:
                pass
        for name, descriptor in ((ORDER, self._order_fd), (STARTED, self._started_fd)):
            if descriptor >= 0:
                replace_file(f"{self.path}/{name}", os.pread(descriptor, os.fstat(descriptor).st_size, 0))
        replace_file(f"{self.path}/{CLAIM}", as_json(self._claim))
