"""kill-after: who is ended, when, and who never is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from gsched.agent.gpu import foreign_eviction
from gsched.agent.gpu.foreign_eviction import Eviction, spared
from gsched.base.coded_text import AnyText, coded
from gsched.model.hosts.host import Gpu, GpuProcess
from gsched.run.processes import attempt_marks, process_tree
from tests.support.process_start import await_environment

STAYS = ("/bin/sh", "-c", "trap '' TERM; echo; read end")
"""It keeps its name, which the log tells. Not this test's interpreter: other users may be unable to execute that."""


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Processes of some person; where this test has no right to make any, of its own user."""
    children: list[subprocess.Popen[bytes]] = []
    if os.getuid():
        monkeypatch.setattr(foreign_eviction, "FIRST_PERSON", os.getuid())
    # A child of the agent is spared; this test is not the agent.
    monkeypatch.setattr(foreign_eviction.os, "getpid", lambda: 1)

    def start(*words: str, **env: str) -> subprocess.Popen[bytes]:
        user = 4242 if os.getuid() == 0 else None
        child = subprocess.Popen(
            words or STAYS,
            env={"PATH": "/usr/bin:/bin", **env},
            user=user,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        children.append(child)
        if not words:
            assert child.stdout is not None and child.stdout.readline()
        await_environment(child.pid)
        return child

    yield start
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()
        for stream in filter(None, (child.stdin, child.stdout)):
            stream.close()


FOREIGN = coded("gpu.foreign", "eve", 1, 700, "")


def gpu(*pids: int, problem: AnyText = FOREIGN) -> Gpu:
    processes = tuple(GpuProcess(pid=pid, user="eve", used_mib=700) for pid in pids)
    return Gpu(uuid="GPU-0", index=0, process_count=len(pids), processes=processes, foreign_pids=pids, problem=problem)


def test_it_is_told_to_go_and_then_killed(
    stranger: Callable[..., subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    child, act = stranger(), Eviction()
    for now in (100.0, 129.9, 130.0, 135.0, 139.9):
        act.consider([gpu(child.pid)], 30.0, now)
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.startswith(f"process {child.pid} (")
    assert said.endswith(" of eve on GPU 0 (GPU-0) belongs to no job and gets SIGTERM")
    assert child.poll() is None
    act.consider([gpu(child.pid)], 30.0, 140.0)
    assert child.wait(60) == -signal.SIGKILL


def test_who_goes_in_between_begins_anew(
    stranger: Callable[..., subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    child, act = stranger(), Eviction()
    act.consider([gpu(child.pid)], 30.0, 100.0)
    act.consider([gpu()], 30.0, 110.0)
    act.consider([gpu(child.pid)], 30.0, 131.0)
    assert caplog.records == []
    act.consider([gpu(999999999)], 0.0, 300.0)
    assert caplog.records == [], "it has ended"
    for now in (400.0, 500.0):
        act.consider([gpu(child.pid, problem="GPU GPU-0 is in use by another cluster")], 30.0, now)
    assert caplog.records == []


def test_who_is_never_ended(stranger: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    places: dict[int, str] = {}
    monkeypatch.setattr(attempt_marks.cgroup_files, "places_of", lambda pid: [places.get(pid, "/init.scope")])
    jobs = [stranger("sleep", "60", GSCHED_ATTEMPT_ID="elsewhere/1.1") for _ in "12"]
    places[jobs[0].pid] = "/gsched/0123456789abcdef/1.1"
    places[jobs[1].pid] = "/user.slice/gsched/0123456789abcdef/1.1"

    def why(pid: int) -> str:
        process = process_tree.read_process(pid)
        assert process is not None
        return spared(process)

    assert why(1) == "it belongs to the system"
    assert why(jobs[0].pid) == "it is a job's of another cluster"
    # What it says of itself, and a group that its user may have made, prove nothing where it is another user's.
    assert why(jobs[1].pid) == ("" if os.getuid() == 0 else "it is a job's of another cluster")
    assert why(stranger().pid) == ""


@pytest.mark.needs_root
def test_a_mark_keeps_nobody_else_on_a_gpu(stranger: Callable[..., subprocess.Popen[bytes]]) -> None:
    """Anybody can put GSCHED_ATTEMPT_ID into the environment of a program of his own."""
    child, act = stranger(*STAYS, GSCHED_ATTEMPT_ID="elsewhere/1.1"), Eviction()
    act.consider([gpu(child.pid)], 30.0, 100.0)
    act.consider([gpu(child.pid)], 30.0, 140.0)
    assert child.wait(60) == -signal.SIGKILL


def test_a_job_of_another_cluster_of_the_agents_own_user_is_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_eviction.os, "getpid", lambda: 1)
    monkeypatch.setattr(foreign_eviction, "FIRST_PERSON", os.getuid())
    with subprocess.Popen(["sleep", "60"], env={"GSCHED_ATTEMPT_ID": "elsewhere/1.1"}) as child:
        await_environment(child.pid)
        process = process_tree.read_process(child.pid)
        assert process is not None and spared(process) == "it is a job's of another cluster"
        child.kill()


def test_the_agent_and_its_like(monkeypatch: pytest.MonkeyPatch) -> None:
    me = process_tree.read_process(os.getpid())
    assert me is not None and spared(me) == "it belongs to the agent"
    child = subprocess.Popen(["sleep", "60"], env={})
    try:
        process = process_tree.read_process(child.pid)
        assert process is not None and spared(process) == "it belongs to the agent"
        monkeypatch.setattr(foreign_eviction.os, "getpid", lambda: 1)
        monkeypatch.setattr(foreign_eviction, "FIRST_PERSON", os.getuid() + 1)
        assert spared(process) == "it is root's or a service's"
        process.name = "Xorg"
        assert spared(process) == "it draws a screen"
    finally:
        child.kill()
        child.wait()
