"""What counts as a foreign process on a GPU, and as left behind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.agent.gpu.foreign_processes import ForeignRules, judged, lost_memory, strangers_of
from gsched.base.coded_text import sentence
from gsched.model.config import GpuForeign
from gsched.model.hosts.host import ComputeMode, Gpu, GpuProcess, ProcessKind

ANN = GpuProcess(pid=4711, user="ann", used_mib=700)
SMALL = GpuProcess(pid=4712, user="ann", used_mib=256)
UNSEEN = GpuProcess(pid=4713, used_mib=900)
UNTOLD = GpuProcess(pid=4714, user="bob")
ESCAPED = GpuProcess(pid=4716, user="ann", used_mib=600, job="18.1", escaped=True)
OURS = GpuProcess(pid=4715, user="ann", used_mib=500, job="17.1")


def gpu(*processes: GpuProcess, **fields: Any) -> Gpu:
    used = sum(each.used_mib or 0 for each in processes)
    values = {"used_mib": used, "reserved_mib": 500, "process_count": len(processes), "processes": processes}
    return Gpu(uuid="GPU-a", index=0, **(values | fields))


def verdict(seen: Gpu, **how: Any) -> Gpu:
    values = {"rules": ForeignRules(), "is_over": lambda name: True, "is_used": False}
    return judged(seen, **(values | how))


@pytest.mark.parametrize(
    ("processes", "problem", "foreign_pids"),
    [
        ((), "", ()),
        ((SMALL,), "", ()),
        ((ANN,), "foreign(ann,4711,700)", (4711,)),
        ((UNSEEN, ANN, SMALL), "foreign(?,4713,900) and 1 more", (4713, 4711)),
        ((UNTOLD,), "foreign(bob,4714,?)", (4714,)),
        ((OURS, ANN), "dirty(4715,500)", (4711,)),
    ],
)
def test_what_is_found_on_a_free_gpu(
    processes: tuple[GpuProcess, ...], problem: str, foreign_pids: tuple[int, ...]
) -> None:
    seen = verdict(gpu(*processes))
    assert (sentence(seen.problem), seen.foreign_pids) == (problem, foreign_pids)
    assert seen.left_behind == (("17.1",) if OURS in processes else ())


def test_a_job_is_no_stranger_and_what_it_does_is_not_judged() -> None:
    seen = gpu(OURS, UNSEEN, used_mib=9000)
    assert verdict(seen, is_used=True, is_over=lambda name: False) is seen
    assert (
        sentence(verdict(gpu(OURS, ANN), is_used=True, is_over=lambda name: False).problem) == "foreign(ann,4711,700)"
    )


@pytest.mark.parametrize(
    ("processes", "action", "problem"),
    [
        ((ESCAPED,), GpuForeign.AVOID, "escaped(18.1,4716,600)"),
        ((ESCAPED,), GpuForeign.KILL_AFTER, "escaped(18.1,4716,600)"),
        ((ESCAPED,), GpuForeign.WARN, ""),
        ((ANN, ESCAPED), GpuForeign.AVOID, "foreign(ann,4711,700)"),
        ((msgspec.structs.replace(ESCAPED, used_mib=256),), GpuForeign.AVOID, ""),
    ],
)
def test_what_has_escaped_from_a_job_closes_the_gpu_and_is_no_stranger(
    processes: tuple[GpuProcess, ...], action: GpuForeign, problem: str
) -> None:
    seen = verdict(gpu(*processes), rules=ForeignRules(action=action), is_over=lambda name: False)
    assert sentence(seen.problem) == problem
    assert ESCAPED.pid not in seen.foreign_pids and seen.left_behind == ()


def test_a_process_of_untold_memory_counts_by_what_the_gpu_has_in_use() -> None:
    assert verdict(gpu(UNTOLD, foreign_mib=100)).foreign_pids == ()
    assert verdict(gpu(UNTOLD, foreign_mib=300)).foreign_pids == (4714,)


def test_one_that_has_ended_since_it_was_listed_does_not_count() -> None:
    assert verdict(gpu(ANN), passed=(4711,)) == gpu(ANN)
    assert sentence(verdict(gpu(ANN, used_mib=2000), passed=(4711,)).problem) == "dirty(?,1300)"


@pytest.mark.parametrize(
    ("fields", "mib"),
    [
        ({"used_mib": 756}, 0),
        ({"used_mib": 957}, 257),
        ({"used_mib": 1900, "reserved_mib": None}, 0),
        ({"used_mib": 2000, "reserved_mib": None}, 1300),
        ({"used_mib": None}, 0),
        ({"used_mib": 5000, "mig": True}, 0),
        ({"used_mib": 5000, "process_count": 2}, 0),
        ({"used_mib": 5000, "processes": (UNTOLD,)}, 0),
    ],
)
def test_memory_that_nothing_explains(fields: dict[str, Any], mib: int) -> None:
    seen = gpu(ANN, **fields)
    assert lost_memory(seen, 256) == mib


def test_lost_memory_makes_a_free_gpu_dirty() -> None:
    assert sentence(verdict(gpu(used_mib=5000)).problem) == "dirty(?,5000)"
    assert verdict(gpu(used_mib=5000), suspect="17.1").left_behind == ("17.1",)
    assert sentence(verdict(gpu(used_mib=5000), is_used=True).problem) == ""


def test_warn_closes_nothing_but_what_a_job_has_left() -> None:
    rules = ForeignRules(action=GpuForeign.WARN)
    seen = verdict(gpu(ANN), rules=rules)
    assert (sentence(seen.problem), seen.foreign_pids) == ("", (4711,))
    assert sentence(verdict(gpu(used_mib=5000), rules=rules).problem) == ""
    assert sentence(verdict(gpu(used_mib=5000), rules=rules, suspect="17.1").problem) == "dirty(?,5000)"
    assert sentence(verdict(gpu(OURS), rules=rules).problem) == "dirty(4715,500)"


def test_a_problem_that_is_there_already_stays() -> None:
    seen = verdict(gpu(ANN, problem="lost"))
    assert (sentence(seen.problem), seen.foreign_pids) == ("lost", (4711,))


def test_where_processes_are_not_shown_nothing_is_said() -> None:
    seen = gpu(used_mib=70_000, process_count=None)
    assert verdict(seen) is seen


EXCLUSIVE = (ComputeMode.EXCLUSIVE_PROCESS, ComputeMode.EXCLUSIVE_THREAD)
TINY = GpuProcess(pid=4717, user="ann", used_mib=74)


def of_kind(kind: ProcessKind, process: GpuProcess = TINY) -> GpuProcess:
    return msgspec.structs.replace(process, kind=kind)


@pytest.mark.parametrize("mode", EXCLUSIVE)
@pytest.mark.parametrize(
    ("process", "problem"),
    [
        (TINY, "foreign(ann,4717,74)"),
        (msgspec.structs.replace(TINY, used_mib=0), "foreign(ann,4717,0)"),
        (msgspec.structs.replace(TINY, used_mib=None), "foreign(ann,4717,?)"),
        (msgspec.structs.replace(TINY, user=""), "foreign(?,4717,74)"),
        (of_kind(ProcessKind.COMPUTE), "foreign(ann,4717,74)"),
        (of_kind(ProcessKind.COMPUTE_AND_GRAPHICS), "foreign(ann,4717,74)"),
        (of_kind(ProcessKind.GRAPHICS), ""),
        (of_kind(ProcessKind.MPS_CLIENT), ""),
        (of_kind(ProcessKind.GRAPHICS, ANN), "foreign(ann,4711,700)"),
        (msgspec.structs.replace(ESCAPED, used_mib=1), "escaped(18.1,4716,1)"),
    ],
)
def test_one_process_closes_a_gpu_that_takes_one_process_however_little_memory_it_has(
    mode: ComputeMode, process: GpuProcess, problem: str
) -> None:
    def found(**how: Any) -> str:
        return sentence(verdict(gpu(process, mode=mode, foreign_mib=0), is_over=lambda name: False, **how).problem)

    assert found() == problem
    is_by_memory = process.used_mib == 700
    assert found(rules=ForeignRules(action=GpuForeign.WARN)) == ""
    assert sentence(
        verdict(gpu(process, mode=ComputeMode.DEFAULT, foreign_mib=0), is_over=lambda name: False).problem
    ) == (problem if is_by_memory else "")
    assert sentence(verdict(gpu(process, mode=mode), passed=(process.pid,)).problem) == "" or process.escaped


PROCESSES = st.builds(
    GpuProcess,
    pid=st.integers(1, 50),
    user=st.sampled_from(["", "ann"]),
    used_mib=st.none() | st.integers(0, 2000),
    job=st.sampled_from(["", "17.1", "18.1"]),
)


@given(st.lists(PROCESSES, max_size=6), st.none() | st.integers(0, 9000), st.integers(0, 3000), st.booleans())
def test_verdicts_hold_together(
    processes: list[GpuProcess], used_mib: int | None, limit_mib: int, is_used: bool
) -> None:
    seen = gpu(*processes, used_mib=used_mib)
    found = judged(seen, ForeignRules(limit_mib=limit_mib), is_over=lambda name: name == "18.1", is_used=is_used)
    assert bool(found.left_behind) == any(each.job == "18.1" for each in processes)
    assert set(found.foreign_pids) <= {each.pid for each in processes if not each.job}
    assert bool(sentence(found.problem)) or not (found.foreign_pids or found.left_behind)
    assert len(strangers_of(seen, limit_mib, is_used=True)) <= len(strangers_of(seen, limit_mib, is_used=False))
