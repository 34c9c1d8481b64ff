"""Attempts whose folders were removed while nobody looked: what their supervisors keep, and what is proven without."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from run_host import CLUSTER, Host, appears

from gsched.base.machine.gpu_lock import GpuLockFolders
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.run import attempt_files
from gsched.run.attempts import lost_folders
from gsched.run.executor import ProcessExecutor
from gsched.run.fence import cgroup_files
from gsched.run.fence.cgroup_root import tag_of
from gsched.run.processes import process_tree
from gsched.run.spool import Spool

pytestmark = pytest.mark.fault
GO = "while [ ! -e go ]; do sleep 0.01; done; "
HOLDING = HostAllocation(host="h", slots=2, gpus=(HeldGpu(uuid="GPU-7", index=7, claim="ngpus_excl_p"),))


def lose(host: Host) -> None:
    """The executor is gone, and somebody removes the spool folder."""
    host.executor.close()
    shutil.rmtree(host.spool)
    host.started.clear()
    host.executor = ProcessExecutor(
        host.spool,
        CLUSTER,
        on_started=host._on_started,
        on_ended=host._on_ended,
        gpu_locks=GpuLockFolders(str(host.locks), "", False),
    )


async def kill_supervisor(host: Host) -> None:
    pid = host.supervisor_pid()
    os.kill(pid, signal.SIGKILL)
    await appears(lambda: process_tree.read_process(pid) is None)


def test_the_order_is_had_again_whole_from_the_supervisor(on_host):
    async def scenario(host):
        given = {"holding": HOLDING, "cluster_id": "abc", "generation": 3, "terminate_interval_s": 7.0}
        await host.executor.start(host.order(f"{GO}exit 3", output_file=f"{host.root}/out", **given))
        began = await host.start_of(1)
        before = host.executor.order(1, 1)
        lose(host)
        assert await host.executor.adopt() == [(1, 1)]
        assert host.executor.order(1, 1) == before and before.holding == HOLDING
        assert await host.start_of(1) == began
        (host.root / "go").touch()
        assert (await host.end_of(1)).exit_code == 3

    on_host(scenario)


def test_a_folder_that_is_removed_while_its_executor_lives_is_put_back(on_host):
    """With all that its supervisor has open: the list of hosts as well, which glaunch and mpirun read."""

    async def scenario(host):
        given = {"hostfile": "h\nother\n", "affinity_hostfile": "h 0,1\n"}
        await host.executor.start(host.order(f"{GO}exit 3", output_file=f"{host.root}/out", **given))
        await host.start_of(1)
        assert host.executor.put_back_folders() == set()
        folder = host.spool / "attempts" / "1.1"
        before = {name: (folder / name).read_bytes() for name in ("order", "claim", "started", "hostfile", "affinity")}
        shutil.rmtree(host.spool)
        assert host.executor.put_back_folders() == {"1.1"}
        assert {name: (folder / name).read_bytes() for name in before} == before
        for path in folder.iterdir():
            path.unlink()
        assert host.executor.put_back_folders() == {"1.1"}, "the folder was emptied"
        assert {name: (folder / name).read_bytes() for name in before} == before
        assert host.executor.put_back_folders() == set()
        (host.root / "go").touch()
        assert (await host.end_of(1)).exit_code == 3
        assert host.executor.put_back_folders() == set()

    on_host(scenario)


def test_how_an_attempt_ends_whose_folder_was_just_removed_is_known(on_host):
    """Nobody has put it back yet."""

    async def scenario(host):
        await host.executor.start(host.order(f"{GO}exit 3", output_file=f"{host.root}/out"))
        await host.start_of(1)
        shutil.rmtree(host.spool)
        host.spool.parent.mkdir(exist_ok=True)
        (host.root / "go").touch()
        result = await host.end_of(1)
        assert (result.exit_code, result.problem) == (3, "")
        host.executor.forget(1, 1)
        assert not (host.spool / "attempts" / "1.1").exists()

    on_host(scenario)


def test_a_part_stays_a_part_also_one_without_any_process(on_host):
    async def scenario(host):
        await host.executor.start(host.order(is_part=True, gpu_lock_uuids=("GPU-p",), holding=HOLDING))
        await host.start_of(1)
        lose(host)
        assert await host.executor.adopt() == [(1, 1)]
        order = host.executor.order(1, 1)
        assert order.is_part and order.holding == HOLDING
        await host.executor.terminate(1, 1, 300.0)  # nothing runs there: no signal is waited for
        assert (await host.end_of(1)).succeeded

    on_host(scenario)


def test_a_job_that_has_not_executed_anything_yet_is_known_by_its_supervisor(on_host):
    async def scenario(host):
        fifo = host.root / "fifo"
        os.mkfifo(fifo)
        await host.executor.start(host.order("cat; exit 4", input_file=str(fifo)))
        await appears(lambda: host.executor._spool.claim("1.1"))  # it hangs on its input, before there is a job
        lose(host)
        assert await host.executor.adopt() == [(1, 1)]
        with open(fifo, "w"):
            await host.start_of(1)
        assert (await host.end_of(1)).exit_code == 4

    on_host(scenario)


def test_a_script_that_is_gone_is_never_executed_in_part(on_host):
    async def scenario(host):
        fifo = host.root / "fifo"
        os.mkfifo(fifo)
        script = "#!/bin/sh\ntouch ran\nexit 0\n"
        await host.executor.start(host.order("script", script=script, input_file=str(fifo)))
        await appears(lambda: host.executor._spool.claim("1.1"))
        lose(host)
        await host.executor.adopt()
        with open(fifo, "w"):
            ended = await host.end_of(1)
        assert not ended.succeeded and not (host.root / "ran").exists()

    on_host(scenario)


KEEPER = """
import json, os, sys, time
folder, claims, uid = sys.argv[2:]
files = [open(f"{folder}/order")]
if claims:
    with open(f"{folder}/claim", "w") as file:
        json.dump({"pid": os.getpid(), "start": 0, "boot_id": ""}, file)
    files.append(open(f"{folder}/claim"))
for each in files:
    os.fchown(each.fileno(), int(uid), -1)
print(flush=True)
time.sleep(600)
"""
"""Something that calls itself a supervisor."""


@pytest.mark.parametrize(
    ("claims", "uid", "names"),
    [
        ("", -1, []),
        ("claims", -1, ["1.1"]),
        pytest.param("claims", 54321, [], marks=pytest.mark.needs_root),
    ],
    ids=["who lost the claim", "a supervisor", "files of another user"],
)
def test_who_is_taken_for_a_supervisor(tmp_path, claims, uid, names):
    folder = tmp_path / "spool" / "attempts" / "1.1"
    folder.mkdir(parents=True)
    order = {"job_id": 1, "attempt": 1, "command": "", "environment": {"GSCHED_ATTEMPT_ID": f"{CLUSTER}/1.1"}}
    (folder / attempt_files.ORDER).write_text(json.dumps(order))
    words = [sys.executable, "-c", f"import os; os.umask(0o077)\n{KEEPER}", "gsched.run.forkserver"]
    (folder / attempt_files.ORDER).chmod(0o600)
    keeper = subprocess.Popen([*words, str(folder), claims, str(uid)], stdout=subprocess.PIPE)
    try:
        assert keeper.stdout is not None and keeper.stdout.readline()
        shutil.rmtree(tmp_path / "spool")
        spool = Spool(tmp_path / "spool")
        lost_folders.record_again(spool, CLUSTER)
        assert spool.names() == names
    finally:
        keeper.kill()
        keeper.communicate()


def test_without_a_supervisor_the_gpus_are_not_known(on_host):
    async def scenario(host):
        await host.executor.start(host.order(f"{GO}exit 3", holding=HOLDING))
        await host.start_of(1)
        await kill_supervisor(host)
        lose(host)
        assert await host.executor.adopt() == [(1, 1)]
        order = host.executor.order(1, 1)
        assert order.gpus_unknown and not order.any_gpu and order.holding is None
        (host.root / "go").touch()
        assert (await host.end_of(1)).exit_code is None

    on_host(scenario)


@pytest.mark.parametrize(
    ("place", "is_proven"),
    [
        ("/gsched/{tag}/17.1", True),
        ("/gsched/{tag}/17.1/inner", True),
        ("/gsched/{other}/17.1", False),
        ("/user.slice/17.1", False),
        ("/gsched/{tag}/7.1", False),
        ("/gsched/{tag}/17.10", False),
    ],
)
def test_a_group_proves_what_is_in_it_only_by_its_whole_name(monkeypatch, place, is_proven):
    line = "0::" + place.format(tag=tag_of(CLUSTER), other=tag_of("other"))
    monkeypatch.setattr(cgroup_files, "read", lambda path: line + "\n")
    monkeypatch.setattr(process_tree, "owner_of", lambda pid: 4711)
    process = process_tree.read_process(os.getpid())
    assert process is not None
    assert lost_folders._is_proven(process, CLUSTER, "17.1") is is_proven


@pytest.mark.needs_root
def test_a_mark_alone_proves_nothing_of_another_users_process(tmp_path: Path):
    mark = {"GSCHED_ATTEMPT_ID": f"{CLUSTER}/17.1", "PATH": os.environ["PATH"]}
    forged = subprocess.Popen(["sleep", "600"], env=mark, user=65534, group=65534, extra_groups=[])
    try:
        spool = Spool(tmp_path)
        lost_folders.record_again(spool, CLUSTER)
        assert spool.names() == []
    finally:
        forged.kill()
        forged.wait()


@pytest.mark.needs_root
def test_whose_an_attempt_is_that_another_user_owns():
    child = subprocess.Popen(["sleep", "600"], user=65534, group=65533, extra_groups=[])
    try:
        account = lost_folders._account_of(child.pid)
        assert account is not None
        assert (account.name, account.uid, account.gid, account.groups) == ("65534", 65534, 65533, (65533,))
        assert lost_folders._account_of(os.getpid()) is None
    finally:
        child.kill()
        child.wait()
    assert lost_folders._account_of(child.pid) is None


def test_nothing_of_what_a_supervisor_has_open_is_the_jobs(on_host):
    async def scenario(host):
        order = host.order("ls -l /proc/self/fd; exit 0", output_file=f"{host.root}/out", input_file="/dev/null")
        await host.executor.start(order)
        assert (await host.end_of(1)).succeeded
        text = (host.root / "out").read_text()
        assert f"{host.root}/out" in text and "attempts" not in text

    on_host(scenario)
