"""Whose processes are on the GPUs, and what of their memory is nobody's of ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping

import msgspec
import pytest

from gsched.agent.gpu.gpu_owners import GpuOwners
from gsched.model.hosts.host import Gpu, GpuProcess, GpuReport, MigDevice
from gsched.run.processes import process_tree
from gsched.wire.identity.caller_identity import user_name

ME = str(os.getuid())


def told(gpu: Gpu, attempts: Mapping[int, str]) -> Gpu:
    def owners(pids: Iterable[int]) -> Mapping[int, str]:
        return {pid: attempts[pid] for pid in pids if pid in attempts}

    return asyncio.run(GpuOwners(owners).told(GpuReport(gpus=(gpu,)))).gpus[0]


def gpu(used_mib: int | None, *processes: GpuProcess) -> Gpu:
    return Gpu(uuid="GPU-a", index=0, used_mib=used_mib, process_count=len(processes), processes=processes)


def test_users_by_name_and_attempts() -> None:
    seen = told(gpu(800, GpuProcess(pid=4, user=ME, used_mib=500), GpuProcess(pid=5, used_mib=300)), {4: "17.1"})
    assert seen.processes == (
        GpuProcess(pid=4, user=user_name(os.getuid()), used_mib=500, job="17.1"),
        GpuProcess(pid=5, used_mib=300),
    )
    assert seen.foreign_mib == 300


def test_user_without_a_name_keeps_the_number() -> None:
    assert told(gpu(0, GpuProcess(pid=4, user="3999999999")), {}).processes[0].user == "3999999999"


@pytest.mark.parametrize(
    ("used_mib", "processes", "foreign_mib"),
    [
        (700, (), 700),  # somebody in another container
        (None, (GpuProcess(pid=4, used_mib=500),), None),
        (500, (GpuProcess(pid=4, used_mib=510),), 0),
        (900, (GpuProcess(pid=4), GpuProcess(pid=5, used_mib=300)), 300),  # the job's own memory is not told
    ],
)
def test_memory_of_strangers(used_mib: int | None, processes: tuple[GpuProcess, ...], foreign_mib: int | None) -> None:
    assert told(gpu(used_mib, *processes), {4: "17.1"}).foreign_mib == foreign_mib


def test_where_processes_cannot_be_seen_nothing_is_said() -> None:
    seen = Gpu(uuid="GPU-a", index=0, used_mib=700)
    assert told(seen, {}) == seen


def test_a_process_of_an_attempt_that_does_not_hold_the_gpu_has_escaped() -> None:
    """pains 3."""
    held = {"17.1": frozenset({"GPU-a"}), "18.1": frozenset({"GPU-b"}), "19.1": frozenset[str](), "20.1": None}
    attempts = {pid: f"{pid}.1" for pid in (17, 18, 19, 20)}
    owners = GpuOwners(lambda pids: {pid: attempts[pid] for pid in pids if pid in attempts}, held=held.get)
    seen = gpu(0, *(GpuProcess(pid=pid) for pid in (17, 18, 19, 20, 21)))
    told = asyncio.run(owners.told(GpuReport(gpus=(seen,)))).gpus[0]
    assert [each.pid for each in told.processes if each.escaped] == [18, 19]


def test_memory_of_an_escaped_process_is_not_to_be_had() -> None:
    owners = GpuOwners(lambda pids: dict.fromkeys(pids, "17.1"), held=lambda name: frozenset({"GPU-b"}))
    seen = gpu(700, GpuProcess(pid=17, used_mib=500))
    assert asyncio.run(owners.told(GpuReport(gpus=(seen,)))).gpus[0].foreign_mib == 700


def test_a_part_of_a_gpu_is_held_as_the_gpu_is() -> None:
    owners = GpuOwners(lambda pids: dict.fromkeys(pids, "17.1"), held=lambda name: frozenset({"MIG-1"}))
    seen = msgspec.structs.replace(gpu(0, GpuProcess(pid=17)), mig_devices=(MigDevice(uuid="MIG-1"),))
    assert not asyncio.run(owners.told(GpuReport(gpus=(seen,)))).gpus[0].processes[0].escaped


def test_overuse_is_told_after_three_looks_running() -> None:
    """pains 15."""
    asker = GpuOwners(
        lambda pids: dict.fromkeys(pids, "17.1"), lambda: {("17.1", "GPU-a"): 500.0, ("18.1", "GPU-a"): 1.0}
    )

    def look(*used_mib: int) -> tuple[str, ...]:
        processes = (GpuProcess(pid=pid, used_mib=used) for pid, used in enumerate(used_mib, 4))
        return asyncio.run(asker.told(GpuReport(gpus=(gpu(900, *processes),)))).gpus[0].over_gmem

    assert [look(300, 201), look(501), look(500), look(501), look(501), look(501), look(501), look(1)] == [
        *[()] * 5,
        *[("17.1",)] * 2,
        (),
    ]


def test_whose_a_process_was_is_remembered_as_long_as_it_is_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """pains 1: one that cleared its environment is known by its parents only while its job runs."""
    known: dict[int, str] = {os.getpid(): "17.1"}
    asker = GpuOwners(lambda pids: {pid: known[pid] for pid in pids if pid in known})

    def look(*pids: int) -> list[str]:
        processes = (GpuProcess(pid=pid, used_mib=1) for pid in pids)
        return [each.job for each in asyncio.run(asker.told(GpuReport(gpus=(gpu(9, *processes),)))).gpus[0].processes]

    assert look(os.getpid(), 1) == ["17.1", ""]
    known.clear()
    assert look(os.getpid()) == look(os.getpid(), 1)[:1] == ["17.1"]
    assert look() == []
    assert look(os.getpid()) == [""], "it may be another's by now that it came back"
    known[os.getpid()] = "17.1"
    assert look(os.getpid()) == ["17.1"]
    known.clear()
    other = process_tree.read_process(1)
    monkeypatch.setattr(process_tree, "read_process", lambda pid: other)
    assert look(os.getpid()) == [""], "the number is another process's"


def test_what_the_driver_lists_of_a_process_that_is_gone_is_still_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """pains 1: memory that a driver does not let go of is named after whom it was, not after a foreign process."""
    known = {os.getpid(): "17.1"}
    asker = GpuOwners(lambda pids: {pid: known[pid] for pid in pids if pid in known})

    def look(user: str = "") -> str:
        seen = gpu(9, GpuProcess(pid=os.getpid(), user=user, used_mib=1))
        return asyncio.run(asker.told(GpuReport(gpus=(seen,)))).gpus[0].processes[0].job

    assert look() == "17.1"
    known.clear()
    there = process_tree.read_process
    monkeypatch.setattr(process_tree, "read_process", lambda pid: None)
    assert look("root") == "", "it was there when it was listed, and has just gone"
    assert [look(), look()] == ["17.1", "17.1"]
    monkeypatch.setattr(process_tree, "read_process", lambda pid: there(1))
    assert look() == "", "the number is another process's"
