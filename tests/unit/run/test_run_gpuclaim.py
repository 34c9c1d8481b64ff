"""GPUs of a machine whose agent is root's: no user can lock them away, and no GPU ever has two clusters."""

from __future__ import annotations

import fcntl
import os
import stat

import pytest
from run_host import CLUSTER

from gsched.base.machine import gpu_lock
from gsched.base.machine.gpu_lock import CLAIMED, SINCE_BOOT, GpuLockError, GpuLockFolders, lock_gpus, places, release
from gsched.run.executor import ProcessExecutor


@pytest.fixture
def top(tmp_path):
    return tmp_path


@pytest.fixture
def private(top):
    return GpuLockFolders(str(top / "common"), str(top / "roots"), False)


@pytest.fixture
def systems(top):
    return GpuLockFolders(str(top / "common"), str(top / "roots"), True)


def test_nobody_but_root_can_open_the_systems_locks(systems, top):
    release(lock_gpus(["GPU-a"], "system", systems))
    assert stat.S_IMODE(os.stat(top / "roots").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(top / "roots" / "GPU-a").st_mode) == 0o600


def test_no_user_keeps_the_system_off_a_gpu(systems, private, top):
    """Whoever plays by no rules locks whatever he can open, for ever."""
    release(lock_gpus(["GPU-a"], "system", systems))
    with open(top / "common" / "GPU-a", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        release(lock_gpus(["GPU-a"], "system", systems, patience_s=0))


def test_a_machine_that_was_the_systems_when_it_booted_looks_at_no_common_lock(systems, private, top):
    theirs = lock_gpus(["GPU-a"], "private", private)
    (top / "roots").mkdir(mode=0o700)
    (top / "roots" / SINCE_BOOT).touch()
    release(lock_gpus(["GPU-a"], "system", systems, patience_s=0))
    release(theirs)
    with pytest.raises(GpuLockError, match="not the UUID"):
        lock_gpus([SINCE_BOOT], "system", systems)


def test_a_private_cluster_gets_no_gpu_of_the_systems(systems, private):
    mine = lock_gpus(["GPU-a"], "system", systems)
    for uuid in ("GPU-a", "GPU-never-seen"):
        with pytest.raises(GpuLockError, match=f"^{CLAIMED}$"):
            lock_gpus([uuid], "private", private, patience_s=0)
    release(mine)
    with pytest.raises(GpuLockError, match=f"^{CLAIMED}$"):  # also between the system's jobs
        lock_gpus(["GPU-a"], "private", private, patience_s=0)


def test_what_a_private_cluster_holds_as_the_systems_comes_it_keeps_to_the_end(systems, private):
    first, second = (lock_gpus(["GPU-a"], "private", private) for _ in range(2))
    for _ in range(2):
        with pytest.raises(GpuLockError, match=r"^GPU GPU-a is in use by another cluster$"):
            lock_gpus(["GPU-a"], "system", systems, patience_s=0)
        release(lock_gpus(["GPU-b"], "system", systems, patience_s=0))
        release(first)
        first = []
    with pytest.raises(GpuLockError, match=f"^{CLAIMED}$"):
        lock_gpus(["GPU-a"], "private", private, patience_s=0)
    release(second)
    release(lock_gpus(["GPU-a"], "system", systems, patience_s=0))


def test_of_the_two_that_begin_at_once_the_private_one_steps_back(systems, private, monkeypatch):
    """The system's comes after the private cluster has looked for it, and before that has locked."""
    lock_one = gpu_lock._lock_one

    def after_the_claim(*arguments):
        with monkeypatch.context() as real:
            real.setattr(gpu_lock, "_lock_one", lock_one)
            release(lock_gpus(["GPU-a"], "system", systems))
        return lock_one(*arguments)

    monkeypatch.setattr(gpu_lock, "_lock_one", after_the_claim)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GpuLockError, match=f"^{CLAIMED}$"):
        lock_gpus(["GPU-a"], "private", private)
    assert len(os.listdir("/proc/self/fd")) == before


def test_jobs_of_an_agent_before_this_one_share_their_gpu_with_those_of_this_one(systems, private, top):
    """They hold the common lock, as all did once: until they end it is the one that counts, for every cluster."""
    old = lock_gpus(["GPU-a"], "system", private)
    mine = lock_gpus(["GPU-a"], "system", systems)
    release(old)
    with pytest.raises(GpuLockError):
        lock_gpus(["GPU-a"], "another", systems, patience_s=0)
    assert not (top / "roots" / "GPU-a").exists()
    release(mine)
    theirs = lock_gpus(["GPU-a"], "another", systems, patience_s=0)
    with pytest.raises(GpuLockError):
        lock_gpus(["GPU-a"], "system", systems, patience_s=0)
    release(theirs)


def test_two_of_the_systems_that_take_a_gpu_over_at_once_exclude_each_other(systems, private, monkeypatch):
    """One finds the common lock held by the other's look, and takes it when that has made the GPU the system's."""
    mine: list[int] = []
    lock_one = gpu_lock._lock_one

    def after_the_other(*arguments):
        monkeypatch.setattr(gpu_lock, "_lock_one", lock_one)
        release(old)
        mine.extend(lock_gpus(["GPU-a"], "one", systems))
        return lock_one(*arguments)

    old = lock_gpus(["GPU-a"], "two", private)
    monkeypatch.setattr(gpu_lock, "_lock_one", after_the_other)
    with pytest.raises(GpuLockError, match="in use by another cluster"):
        lock_gpus(["GPU-a"], "two", systems, patience_s=0)
    assert mine
    release(mine)


def test_a_folder_that_others_can_open_locks_nothing(systems, top):
    (top / "roots").mkdir()
    (top / "roots").chmod(0o755)
    with pytest.raises(GpuLockError, match=r"roots: it must be root's alone"):
        lock_gpus(["GPU-a"], "system", systems)


def test_only_a_shared_cluster_of_roots_is_the_systems(monkeypatch):
    assert not places(is_shared=False).is_root
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not places(is_shared=True).is_root
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert places(is_shared=True).is_root == (os.stat("/run").st_uid == 0)


def test_a_job_locks_its_gpus_where_its_agent_says(on_host, tmp_path, systems):
    async def scenario(host):
        host.executor.close()
        host.executor = ProcessExecutor(
            host.spool, CLUSTER, on_started=host._on_started, on_ended=host._on_ended, gpu_locks=systems
        )
        assert (await host.run("true", 1, gpu_lock_uuids=("GPU-0",))).exit_code == 0
        assert (tmp_path / "roots" / "GPU-0").exists()

    on_host(scenario)
