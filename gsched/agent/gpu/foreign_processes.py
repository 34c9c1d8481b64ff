"""What is on a GPU that should not be: processes of nobody's job, and what ended attempts have left.

Pure: reports in, verdicts out; time and signals are not its matter. Where a probe does not show processes (an inventory
without `processes`, a driver that cannot) nothing is said. Unknown is not zero: a process whose memory is not told
counts, unless the GPU as a whole has too little in use. On a GPU in an exclusive compute mode every process that
computes counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from gsched.base.coded_text import AnyText, CodedText, CodedValue, coded
from gsched.model.config import GpuForeign
from gsched.model.hosts.host import EXCLUSIVE_MODES, Gpu, GpuProcess

FOREIGN, DIRTY = "gpu.foreign", "gpu.dirty"
"""Codes of problems: a process of nobody's job, what a job has left."""
UNTOLD_RESERVE_MIB = 1024
"""A driver before 510 counts what it keeps for itself as used, and does not tell how much that is: less than this."""


class ForeignRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is done about foreign processes: GPU_FOREIGN and GPU_FOREIGN_MIB."""

    action: GpuForeign = GpuForeign.AVOID
    kill_s: float = 0.0
    limit_mib: int = 256


def judged(
    gpu: Gpu,
    rules: ForeignRules,
    *,
    is_over: Callable[[str], bool],
    is_used: bool,
    suspect: str = "",
    passed: Iterable[int] = (),
) -> Gpu:
    """The GPU with its foreign processes, with who has left something on it, and with why it must not be offered.

    `is_over(name)`: that attempt has ended, and all that was to be done for its GPUs was. `is_used`: an attempt that
    is not over holds it. `suspect`: who held it last, where its memory did not come back. `passed`: processes that do
    not count. A problem that is there already stays.
    """
    if gpu.process_count is None:
        return gpu
    left = [each for each in gpu.processes if each.job and is_over(each.job)]
    foreign_pids = strangers_of(gpu, rules.limit_mib, is_used=is_used, passed=passed)
    lost_mib = 0 if is_used else lost_memory(gpu, rules.limit_mib)
    if rules.action is GpuForeign.WARN and not suspect:
        lost_mib = 0  # it may be a foreign process's that cannot be seen
    behind = {each.job for each in left} | ({suspect} if lost_mib and suspect else set())
    problem = gpu.problem or dirty(left, lost_mib)
    if rules.action is not GpuForeign.WARN:
        problem = problem or foreign(foreign_pids) or escaped(escaped_of(gpu, rules.limit_mib))
    if not (foreign_pids or behind or problem):
        return gpu
    return msgspec.structs.replace(
        gpu, foreign_pids=tuple(each.pid for each in foreign_pids), left_behind=tuple(sorted(behind)), problem=problem
    )


def strangers_of(gpu: Gpu, limit_mib: int, *, is_used: bool, passed: Iterable[int] = ()) -> list[GpuProcess]:
    """Processes of nobody's job that use more than `limit_mib`, or take the GPU (see `takes`), the largest first.

    A process without a user cannot be seen from here, so on a GPU that is used it may well be the job's own.
    """
    others = set(passed)
    return [
        each
        for each in gpu.processes
        if not each.job and each.pid not in others and (each.user or not is_used) and _counts(gpu, each, limit_mib)
    ]


def escaped_of(gpu: Gpu, limit_mib: int) -> list[GpuProcess]:
    """Processes of jobs that do not hold the GPU and use more than `limit_mib` of it, or take it. They are not
    foreign processes, whom GPU_FOREIGN may have ended: it is their job's owner who is to end them.
    """
    return [each for each in gpu.processes if each.escaped and _counts(gpu, each, limit_mib)]


def takes(gpu: Gpu, process: GpuProcess) -> bool:
    """Whether nobody else can compute on the GPU as long as the process is there, however little memory it has."""
    return gpu.mode in EXCLUSIVE_MODES and process.occupies


def lost_memory(gpu: Gpu, limit_mib: int) -> int:
    """MiB in use that no process on it explains, 0 up to `limit_mib` and where it cannot be told.

    A split GPU keeps some for each of its parts.
    """
    known = [each.used_mib for each in gpu.processes]
    if gpu.used_mib is None or gpu.mig or gpu.process_count != len(known) or None in known:
        return 0
    reserve = UNTOLD_RESERVE_MIB if gpu.reserved_mib is None else 0
    lost = gpu.used_mib - sum(each or 0 for each in known)
    return lost if lost > limit_mib + reserve else 0


def foreign(foreign_pids: list[GpuProcess]) -> AnyText:
    """`foreign(USER,PID,MIB)` of the largest, and how many more there are; empty without any."""
    if not foreign_pids:
        return ""
    return named(FOREIGN, foreign_pids[0].user or "?", foreign_pids)


def escaped(processes: list[GpuProcess]) -> AnyText:
    """`escaped(JOB.RUN,PID,MIB)` of the first, and how many more there are; empty without any."""
    if not processes:
        return ""
    return named("gpu.escaped", processes[0].job, processes)


def dirty(left: list[GpuProcess], lost_mib: int) -> AnyText:
    """`dirty(PID,MIB)` of what an attempt has left; PID is `?` for memory that no process explains."""
    if left:
        return named(DIRTY, "", sorted(left, key=lambda each: -(each.used_mib or 0)))
    return coded(DIRTY, "?", lost_mib, "") if lost_mib else ""


def named(code: str, whose: str, processes: list[GpuProcess]) -> CodedText:
    """The first of them, and how many more there are."""
    first, more = processes[0], len(processes) - 1
    mib: CodedValue = "?" if first.used_mib is None else first.used_mib
    return coded(code, *filter(None, (whose,)), first.pid, mib, coded("gpu.and_more", more) if more else "")


def shows_processes(gpu: Gpu) -> bool:
    """Whether the probe can tell who is on it."""
    return gpu.process_count is not None


def _counts(gpu: Gpu, process: GpuProcess, limit_mib: int) -> bool:
    return _mib(gpu, process) > limit_mib or takes(gpu, process)


def _mib(gpu: Gpu, process: GpuProcess) -> float:
    if process.used_mib is not None:
        return process.used_mib
    return float("inf") if gpu.foreign_mib is None else gpu.foreign_mib
