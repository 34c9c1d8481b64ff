"""MPS daemons: one for the GPUs of a job, for as long as a job needs it (a stand-in for the control program)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fork_server import fork_server

from gsched.agent.gpu.mps_for_jobs import Mps, wish_of
from gsched.base.errors import ResourceExhausted
from gsched.model.hosts.host import Gpu, GpuReport, MigDevice
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import HeldGpu, HostAllocation
from gsched.run import mps_daemon as daemon
from gsched.run.account import UnixAccount
from gsched.run.fence.cgroup_files import CHARACTER_MAJOR
from gsched.run.fence.cgroup_root import CgroupRoot, find_cgroup_root
from gsched.run.fork_server_client import ForkServer
from gsched.run.mps_daemon import MpsDaemon, pipes_of
from gsched.run.order import Fence
from gsched.run.processes import process_tree
from gsched.run.program import Program, ProgramEnd

STAND_IN = Path(__file__).resolve().parents[2] / "fakemps"
FIRST, SECOND, THIRD = (1, 1), (2, 1), (3, 1)


def spec(gpu_req: str = "num=1:mps=yes") -> JobSpec:
    return JobSpec(command="x", user="ann", queue="q", cwd="/", home="/", submit_host="a", combined_gpu_req=gpu_req)


def part(*indexes: int, gmem_mib: float = 0.0, share: float = 1.0) -> HostAllocation:
    gpus = (
        HeldGpu(uuid=f"GPU-{index}", index=index, claim="gpu_shared", gmem_mib=gmem_mib, share=share)
        for index in indexes
    )
    return HostAllocation(host="a", slots=1, gpus=tuple(gpus))


_SERVERS: list[ForkServer] = []
"""The one of the story that is being told."""


async def run_program(program: Program, limit_s: float | None = None) -> ProgramEnd:
    return await _SERVERS[-1].run(program, limit_s)


class Host:
    """A folder with the stand-in and an agent's spool."""

    def __init__(self, folder: Path, cluster: str) -> None:
        self.bin = folder / "bin"
        self.spool = folder / "spool"
        self.cluster = cluster
        shutil.copytree(STAND_IN, self.bin)
        self.program = str(self.bin / "nvidia-cuda-mps-control")
        self.hook = self.agent()

    def agent(self) -> Mps:
        """A new one, as after a restart."""
        self.hook = Mps(self.program, self.cluster, self.spool, run=run_program)
        return self.hook

    def log(self) -> list[str]:
        log = self.bin / "log"
        return log.read_text().splitlines() if log.exists() else []

    def pid(self, held: HostAllocation) -> int | None:
        """The daemon's that serves a job with these GPUs."""
        pipes = self.hook.variables(spec(), held)["CUDA_MPS_PIPE_DIRECTORY"]
        assert pipes is not None
        return MpsDaemon(Path(pipes).parent).pid()


@pytest.fixture
def host() -> Iterator[Host]:
    """In a folder that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="mps") as folder:
        found = Host(Path(folder), f"test{folder}")
        yield found
        run(found.agent().adopt(()))


def run(*turns: object) -> None:
    async def story() -> None:
        with fork_server() as server:
            _SERVERS.append(server)
            for turn in turns:
                await turn  # type: ignore[misc]
            _SERVERS.pop()

    asyncio.run(story())


def test_pains_24_one_daemon_for_all_jobs_of_a_gpu_until_the_last_has_ended(host: Host) -> None:
    """pains 24."""
    hook = host.hook
    run(hook.before(FIRST, part(3), spec()))
    pid = host.pid(part(3))
    assert pid is not None and host.log() == ["start GPU-3"]
    run(hook.before(SECOND, part(3), spec()), hook.before(THIRD, part(4), spec("mps=per_gpu,shared")))
    assert host.pid(part(3)) == pid and host.pid(part(4)) not in (None, pid)
    run(hook.after(FIRST, part(3)), hook.after(FIRST, part(3)))
    assert host.pid(part(3)) == pid and host.log() == ["start GPU-3", "start GPU-4"]
    run(hook.after(SECOND, part(3)))
    assert host.pid(part(3)) is None and pipes_of(pid) == ""
    assert host.log()[2:] == ["quit GPU-3"] and host.pid(part(4)) is not None
    run(hook.after(THIRD, part(4)))
    assert host.log()[3:] == ["quit GPU-4"] and not (host.spool / "mps").exists()


def test_its_folders_are_its_users_alone(host: Host) -> None:
    run(host.hook.before(FIRST, part(0), spec()))
    said = host.hook.variables(spec(), part(0))
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
        folder = Path(said[name] or "")
        assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o700
        assert len(os.fsencode(folder)) < 87


def test_a_long_spool_is_no_place_for_sockets(host: Host) -> None:
    host.spool = host.spool / ("x" * 60)
    run(host.agent().before(FIRST, part(0), spec()))
    pipes = Path(host.hook.variables(spec(), part(0))["CUDA_MPS_PIPE_DIRECTORY"] or "")
    private = pipes.parents[2]
    assert (private.parent, private.stat().st_mode & 0o777) == (Path("/tmp"), 0o700) and host.pid(part(0)) is not None
    run(host.hook.after(FIRST, part(0)))
    assert not pipes.parents[1].exists()


def test_a_folder_of_others_is_not_used(host: Host) -> None:
    (host.spool / "mps").mkdir(parents=True)
    (host.spool / "mps").chmod(0o777)
    with pytest.raises(ResourceExhausted, match="that this user alone may change"):
        run(host.hook.before(FIRST, part(0), spec()))
    (host.spool / "mps").chmod(0o700)


def test_daemons_outlive_the_agent_and_are_found_again(host: Host) -> None:
    run(host.hook.before(FIRST, part(0), spec()), host.hook.before(SECOND, part(1), spec()))
    pids = host.pid(part(0)), host.pid(part(1))
    later = host.agent()
    run(later.adopt({FIRST}))
    assert (host.pid(part(0)), host.pid(part(1))) == (pids[0], None), "of the second job nothing is known any more"
    run(later.before(SECOND, part(0), spec()))
    assert host.pid(part(0)) == pids[0]
    last = host.agent()
    run(last.after(FIRST, part(0)))
    assert host.pid(part(0)) == pids[0]
    run(last.after(SECOND, part(0)))
    assert host.pid(part(0)) is None and host.log()[-1] == "quit GPU-0"


def test_the_daemon_counts_its_gpus_as_the_job_is_told_them(host: Host) -> None:
    """By their PCI addresses: where NVML counts against these the last is CUDA's first."""
    gpus = [
        HeldGpu(uuid=f"GPU-{index}", index=index, claim="gpu_shared", pci_bus_id=f"00000000:{9 - index:02X}:00.0")
        for index in range(2)
    ]
    held = HostAllocation(host="a", slots=1, gpus=tuple(gpus))
    run(host.hook.before(FIRST, held, spec()))
    assert host.log() == ["start GPU-1,GPU-0"]
    assert host.hook.variables(spec(), held)["CUDA_VISIBLE_DEVICES"] == "0,1"
    run(host.hook.after(FIRST, held))


@pytest.mark.parametrize("gpu_req", ["num=1", "", "num=1:mps=no", "rubbish"])
def test_other_jobs_have_nothing_of_it(host: Host, gpu_req: str) -> None:
    run(host.hook.before(FIRST, part(0), spec(gpu_req)), host.hook.after(FIRST, part(0)))
    assert host.log() == [] and wish_of(spec(gpu_req)) is None
    assert host.hook.variables(spec(gpu_req), part(0)) == {}


def test_what_a_job_is_told(host: Host) -> None:
    """pains 15: memory of a GPU is limited where MPS can do it, and nobody says that it is more."""

    def told(gpu_req: str, held: HostAllocation) -> dict[str, str | None]:
        said = dict(host.hook.variables(spec(gpu_req), held))
        assert said.pop("CUDA_MPS_PIPE_DIRECTORY") and said.pop("CUDA_MPS_LOG_DIRECTORY")
        return said

    assert told("mps=yes", part(3)) == {"CUDA_VISIBLE_DEVICES": "0"}, "its number behind the daemon"
    assert told("mps=yes,nocvd", part(3, 4)) == {"CUDA_VISIBLE_DEVICES": None}
    assert told("num=2:mps=yes:gmem=1G", part(3, 4, gmem_mib=1024.0)) == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1024M,1=1024M",
    }
    assert told("share=0.25:mps=yes", part(3, share=0.25))["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    piece = HeldGpu(uuid="MIG-1", index=3, claim="mig_shared", parent="GPU-3", profile="1g.5gb")
    assert told("mps=yes:mig=1", HostAllocation(host="a", slots=1, gpus=(piece,))) == {}


def test_without_the_program_or_where_it_fails_the_job_waits(host: Host) -> None:
    hook = Mps(str(host.bin / "nothing"), "test", host.spool, run=run_program)
    with pytest.raises(ResourceExhausted, match=r"MPS cannot be had: there is no .*/nothing on this host"):
        run(hook.before(FIRST, part(0), spec()))
    run(hook.after(FIRST, part(0)))
    (host.bin / "broken").touch()
    with pytest.raises(ResourceExhausted, match="GPU-0 does not start: An instance of this daemon is already running"):
        run(host.hook.before(FIRST, part(0), spec()))
    run(host.hook.after(FIRST, part(0)))
    assert not (host.spool / "mps").exists()


def test_two_daemons_are_never_on_one_gpu(host: Host) -> None:
    run(host.hook.before(FIRST, part(0, 1), spec()))
    with pytest.raises(ResourceExhausted, match="MPS serves GPU-0, GPU-1 together to job 1, which is not the same"):
        run(host.hook.before(SECOND, part(1), spec()))
    run(host.hook.after(SECOND, part(1)), host.hook.before(THIRD, part(0, 1), spec()))
    assert host.log() == ["start GPU-0,GPU-1"]


def lost(hook: Mps) -> list[tuple[str, ...]]:
    """What is told of GPU 0 and of a GPU with a part."""
    split = Gpu(uuid="GPU-9", index=9, mig=True, mig_devices=(MigDevice(uuid="MIG-9"),))
    return [gpu.mps_lost for gpu in hook(GpuReport(gpus=(Gpu(uuid="GPU-0", index=0), split))).gpus]


def test_a_daemon_that_ends_by_itself_is_told_of_its_jobs_alone(host: Host) -> None:
    piece = HeldGpu(uuid="MIG-9", index=9, claim="mig_shared", parent="GPU-9")
    on_part = HostAllocation(host="a", slots=1, gpus=(piece,))
    run(host.hook.before(FIRST, part(0), spec()), host.hook.before(SECOND, on_part, spec("mps=yes:mig=1")))
    assert lost(host.hook) == [(), ()]
    for held in (part(0), on_part):
        pid = host.pid(held)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while host.pid(held) is not None:
            pass
    assert lost(host.hook) == [("1.1",), ("2.1",)]
    run(host.hook.before(THIRD, part(0), spec()))
    assert host.pid(part(0)) is not None, "the next job has a new one"
    assert lost(host.hook) == [("1.1",), ("2.1",)]
    assert lost(host.agent()) == [(), ("2.1",)]
    run(host.hook.after(FIRST, part(0)), host.hook.after(SECOND, on_part))
    assert lost(host.hook) == [(), ()]


def test_a_daemon_that_does_not_quit_is_killed_with_its_server(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "QUIT_S", 0.1)
    (host.bin / "server").touch()
    (host.bin / "deaf").touch()
    run(host.hook.before(FIRST, part(0), spec()))
    pids = [host.pid(part(0)), int((host.bin / "server").read_text())]
    assert all(pid is not None and pipes_of(pid) for pid in pids)
    assert host.hook.owners([*filter(None, pids), os.getpid()]) == dict.fromkeys(filter(None, pids), "1.1")
    run(host.hook.after(FIRST, part(0)))
    assert not any(pipes_of(pid or 0) for pid in pids)


def test_who_has_got_the_number_of_a_daemon_that_ended_is_not_killed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the signal: the process is meant, not its number."""
    monkeypatch.setattr(daemon, "QUIT_S", 0.1)
    innocent = subprocess.Popen(["sleep", "600"])
    found = process_tree.read_process(innocent.pid)
    assert found is not None
    found.start -= 1
    monkeypatch.setattr(process_tree, "scan", lambda: {found.pid: found})
    monkeypatch.setattr(MpsDaemon, "has", lambda self, pid: pid == innocent.pid)
    (host.spool / "one").mkdir(parents=True)
    run(MpsDaemon(host.spool / "one").stop(host.program, run_program))
    assert innocent.poll() is None and not (host.spool / "one").exists()
    innocent.kill()
    innocent.wait()


def test_a_number_that_is_another_process_by_now_is_no_daemon(host: Host) -> None:
    run(host.hook.before(FIRST, part(0), spec()))
    pid = host.pid(part(0))
    (file,) = (host.spool / "mps").glob("*/p/nvidia-cuda-mps-control.pid")
    file.write_text(f"{os.getpid()}\n")
    assert pid is not None and host.pid(part(0)) is None and pipes_of(os.getpid()) == ""
    file.write_text(f"{pid}\n")


@pytest.mark.needs_root
def test_a_daemon_has_a_control_group_of_its_own(host: Host) -> None:
    with tempfile.TemporaryDirectory(prefix="mps") as scratch:
        cgroup_root = find_cgroup_root(scratch, Path(scratch))
    if not isinstance(cgroup_root, CgroupRoot):
        pytest.skip(cgroup_root)
    (host.bin / "server").touch()
    hook = host.hook = Mps(host.program, host.cluster, host.spool, cgroup_root, run=run_program)
    run(hook.before(FIRST, part(0), spec()))
    (name,) = hook.groups
    pid, server = host.pid(part(0)), int((host.bin / "server").read_text())
    assert {pid, server} <= set(cgroup_root.group(name).pids()), "and what the stand-in runs at this moment"
    os.kill(pid, signal.SIGKILL)
    while host.pid(part(0)) is not None:
        pass
    run(hook.before(SECOND, part(0), spec()))
    assert host.pid(part(0)) in cgroup_root.group(name).pids() and pipes_of(server), (
        "whom the old server serves goes on"
    )
    run(hook.after(FIRST, part(0)), hook.after(SECOND, part(0)))
    assert cgroup_root.group(name).pids() == [] and not any(
        Path(folder).exists() for folder in cgroup_root.folders(name)
    )
    cgroup_root.leave()


@pytest.mark.needs_root
def test_a_daemon_and_its_server_open_the_gpus_of_their_jobs_alone(host: Host) -> None:
    """Also where the daemon is another user's, who has no right to put anything into a control group."""
    with tempfile.TemporaryDirectory(prefix="mps") as scratch:
        cgroup_root = find_cgroup_root(scratch, Path(scratch))
    if not isinstance(cgroup_root, CgroupRoot):
        pytest.skip(cgroup_root)
    host.bin.parent.chmod(0o755)
    host.bin.chmod(0o777)
    (host.bin / "server").touch()
    (host.bin / "server").chmod(0o666)
    for minor in (3, 5):
        os.mknod(host.bin / f"gpu{minor}", stat.S_IFCHR | 0o600, os.makedev(CHARACTER_MAJOR, minor))
        (host.bin / f"gpu{minor}").chmod(0o666)
    asked = []

    async def account(user: str) -> UnixAccount | None:
        return UnixAccount(name=user, uid=54321, gid=54321)

    async def fence(name: str, held: HostAllocation) -> Fence | None:
        asked.append((name, held))
        return Fence(kind=cgroup_root.kind, folders=cgroup_root.folders(name), minors=(3,))

    hook = host.hook = Mps(host.program, host.cluster, host.spool, cgroup_root, account, run=run_program, fence=fence)
    run(hook.before(FIRST, part(3), spec()))
    (name,) = hook.groups
    assert asked == [(name, part(3))]
    pids = cgroup_root.group(name).pids()
    server = int((host.bin / "server").read_text())
    assert server in pids and {process_tree.owner_of(pid) for pid in pids} == {54321}

    async def opened_there() -> None:
        inside = Fence(kind=cgroup_root.kind, folders=cgroup_root.folders(name))
        for minor, told in ((3, ""), (5, "Operation not permitted")):
            words = ("/bin/sh", "-c", f"exec 3<>{host.bin}/gpu{minor}")
            said = (await run_program(Program(words=words, fence=inside))).last_line
            assert ("Operation not permitted" in said) == bool(told), said

    run(opened_there(), hook.after(FIRST, part(3)))
    assert not any(Path(folder).exists() for folder in cgroup_root.folders(name))
    cgroup_root.leave()


@pytest.mark.needs_root
def test_another_users_daemon_is_that_users_and_serves_nobody_else(host: Host) -> None:
    accounts = {name: UnixAccount(name=name, uid=uid, gid=uid) for name, uid in (("ann", 54321), ("bob", 54322))}

    async def account(user: str) -> UnixAccount | None:
        return accounts[user]

    def agent() -> Mps:
        host.hook = Mps(host.program, host.cluster, host.spool, None, account, run=run_program)
        return host.hook

    host.bin.parent.chmod(0o755)
    host.bin.chmod(0o777)
    hook = agent()
    run(hook.before(FIRST, part(3), spec()))
    pipes = Path(hook.variables(spec(), part(3))["CUDA_MPS_PIPE_DIRECTORY"] or "")
    assert (pipes.stat().st_uid, pipes.stat().st_mode & 0o777) == (54321, 0o700)
    assert pipes.parent.stat().st_uid == 0 and pipes.parent.stat().st_mode & 0o777 == 0o711
    pid = MpsDaemon(pipes.parent, accounts["ann"]).pid()
    assert pid is not None and process_tree.owner_of(pid) == 54321
    assert MpsDaemon(pipes.parent, accounts["bob"]).pid() is None
    with pytest.raises(ResourceExhausted, match="MPS serves GPU-3 to job 1 of user ann, and one user at a time"):
        run(hook.before(SECOND, part(3), msgspec.structs.replace(spec(), user="bob")))
    hook = agent()  # as after a restart
    run(hook.before(THIRD, part(3), spec()))
    assert host.log() == ["start GPU-3"] and hook.owners([pid]) == {pid: "1.1"}
    run(hook.after(FIRST, part(3)), hook.after(THIRD, part(3)))
    assert host.log() == ["start GPU-3", "quit GPU-3"] and not pipes.exists()
