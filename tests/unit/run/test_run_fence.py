"""The fence: real groups where the machine has them, and what is written into folders that only look like some."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
from pathlib import Path

import pytest
from run_host import Host, appears

from gsched.base.coded_text import coded, sentence
from gsched.model.queues.job_controls import JobControls
from gsched.run import forkserver
from gsched.run.attempts.control_actions import SuspendReasons
from gsched.run.fence import cgroup_files, v2
from gsched.run.fence import cgroup_root as cgroup_roots
from gsched.run.fence.cgroup_root import CgroupRoot, find_cgroup_root
from gsched.run.fence.group import V1
from gsched.run.fence.v1 import V1Group
from gsched.run.fence.v2 import program
from gsched.run.order import Fence, JobStep
from gsched.run.processes import process_tree

pytestmark = pytest.mark.slow

CHARACTER, BLOCK = 2, 1


# -- the program, in an interpreter of its own ------------------------------------------------------------------------


def allows(code: bytes, kind: int, major: int, minor: int) -> bool:
    """What the kernel would do with these instructions."""
    registers = [0] * 11
    context = {0: kind | 6 << 16, 4: major, 8: minor}
    place = 0
    for _ in range(len(code)):
        operation, where, jump, value = struct.unpack_from("=BBhi", code, place * 8)
        target = where & 15
        place += 1
        if operation == 0x61:
            registers[target] = context[jump]
        elif operation == 0x54:
            registers[target] &= value
        elif operation == 0xB7:
            registers[target] = value
        elif operation == 0x95:
            return bool(registers[0])
        elif operation == 0x05 or (operation == 0x15) == (registers[target] == value):
            assert operation in (0x05, 0x15, 0x55)
            place += jump
    raise AssertionError("it does not end")


@pytest.mark.parametrize("minors", [(), (0,), (7, 3), tuple(range(16))])
@pytest.mark.parametrize("denied", [(), ((226, 128),), ((226, 128), (226, 0), (240, 1), (195, 3))])
def test_the_program_leaves_a_job_its_gpus_and_nothing_else(minors, denied):
    code = program(minors, denied)
    for minor in range(300):
        assert allows(code, CHARACTER, 195, minor) == (minor in minors or minor in (254, 255))
        assert allows(code, BLOCK, 195, minor)
        assert allows(code, CHARACTER, 1, minor)
        assert allows(code, CHARACTER, 226, minor) == ((226, minor) not in denied)
    assert allows(code, CHARACTER, 240, 0)
    assert allows(code, CHARACTER, 240, 1) == ((240, 1) not in denied)


# -- folders that look like groups ------------------------------------------------------------------------------------


def group_folder(path: Path, *files: str) -> Path:
    path.mkdir(parents=True)
    for name in ("cgroup.procs", *files):
        (path / name).write_text("")
    return path


def test_version_1_denies_one_by_one(tmp_path):
    devices, freezer = group_folder(tmp_path / "d", "devices.deny"), group_folder(tmp_path / "f", "freezer.state")
    written = []
    real = os.write

    def note(fd: int, data: bytes) -> int:
        written.append(data.decode())
        return real(fd, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", note)
        V1Group(str(devices), str(freezer)).fence([2], [(195, 2), (195, 700), (226, 128)])
    expected = {f"c 195:{minor} rwm" for minor in [*range(64), 700] if minor != 2} | {"c 226:128 rwm"}
    assert set(written) == expected
    assert len(written) == len(expected)


def test_nobody_outside_of_a_pid_namespace_is_taken_for_pid_0(tmp_path):
    folder = group_folder(tmp_path / "g")
    inner = group_folder(folder / "inner")
    (folder / "cgroup.procs").write_text("0\n12\n")
    (inner / "cgroup.procs").write_text("13\n0\n")
    assert sorted(cgroup_files.pids(str(folder))) == [12, 13]
    assert cgroup_files.pids(str(tmp_path / "gone")) == []


def test_own_place_is_left_only_outside_of_a_fence():
    own = cgroup_roots._own_paths("9:name=systemd:/\n5:devices,freezer:/gsched/ab/1.1\n0::/user.slice/x\n")
    assert own["freezer"] == "/gsched/ab/1.1"
    assert own[""] == "/user.slice/x"
    assert cgroup_roots._inside(own["devices"], "/") == "/gsched/ab/1.1"
    assert cgroup_roots._inside(own[""], "/") == ""
    assert cgroup_roots._inside("/gsched/ab/1.1", "/gsched/ab") == "/1.1"


def test_groups_that_a_user_may_have_made_prove_nothing(monkeypatch):
    """systemd gives each login a part of the hierarchy: its user can make groups there, of any name, and enter them."""
    inside = "/gsched/ab/1.1/gsched/cd/2.1/x"
    told = {
        "/proc/1/cgroup": f"5:devices:{inside}\n3:memory:/gsched/ab/7.1\n0::/gsched/ab/1.1\n",
        "/proc/2/cgroup": "1:name=systemd:/gsched/ab/1.1\n0::/user.slice/user@1000.service/gsched/ab/1.1\n",
        "/proc/3/cgroup": "0::/box/gsched/ab/1.1\n",
        "/proc/self/mountinfo": "1 1 0:1 / /c rw - cgroup2 cgroup2 rw\n2 1 0:2 / /d rw - cgroup cgroup rw,devices\n",
    }
    monkeypatch.setattr(cgroup_files, "read", lambda path: told.get(path, ""))
    monkeypatch.setattr(cgroup_files, "_known_tops", {})
    assert cgroup_files.places_of(1) == ["/gsched/ab/1.1", "/gsched/cd/2.1"]
    assert cgroup_files.places_of(2) == cgroup_files.places_of(3) == []
    told["/proc/self/mountinfo"] = "1 1 0:1 /box /c rw - cgroup2 cgroup2 rw\n"
    monkeypatch.setattr(cgroup_files, "_known_tops", {})
    assert cgroup_files.places_of(3) == ["/gsched/ab/1.1"], (
        "in a container, whose part of the hierarchy is the agent's top"
    )
    told["/proc/self/mountinfo"] = "1 1 0:1 / /c rw - cgroup2 cgroup2 rw\n2 1 0:1 /box /c rw - cgroup2 cgroup2 rw\n"
    monkeypatch.setattr(cgroup_files, "_known_tops", {})
    assert cgroup_files.places_of(3) == ["/gsched/ab/1.1"], "a mount covers the one below it"
    assert cgroup_files.places_of(1) == []


def test_without_root_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_cgroup_root("x", tmp_path) == coded("fence.no_root")


# -- real groups ------------------------------------------------------------------------------------------------------


OPENER = """
import errno, os, sys
for minor in range(8):
    try:
        os.close(os.open(f"{sys.argv[1]}/nvidia{minor}", os.O_RDWR))
        print(minor, "opened")
    except OSError as error:
        print(minor, errno.errorcode[error.errno])
"""


def fence_of(cgroup_root: CgroupRoot, name: str = "1.1", *minors: int) -> Fence:
    return Fence(kind=cgroup_root.kind, folders=cgroup_root.folders(name), minors=minors)


@pytest.mark.needs_root
def test_where_a_process_is(cgroup_root):
    """In one of our groups, or in one of the same name further below."""
    ours = cgroup_root.group("1.1")
    others = CgroupRoot(
        cgroup_root.kind, tuple(base.replace("/gsched/", "/gsched-test/gsched/") for base in cgroup_root.bases)
    )
    imitation = others.group("1.1")
    child = subprocess.Popen(["sleep", "600"])
    try:
        for base in others.bases:
            os.makedirs(base, exist_ok=True)
        for group in (imitation, ours):
            group.make()
            group.add(child.pid)
            expected = list(dict.fromkeys(ours.places)) if group is ours else []
            assert cgroup_files.places_of(child.pid) == expected
    finally:
        child.kill()
        child.wait()
        for group in (imitation, ours):
            group.remove()
        for base in others.bases:
            for folder in (base, *Path(base).parents[:2]):
                os.rmdir(folder)


@pytest.mark.needs_root
@pytest.mark.parametrize("around", ["", "env -i PATH=$PATH", "setsid --wait", "nohup", "sh -c '$0 \"$@\" & wait'"])
def test_no_way_leads_to_a_gpu_of_others(on_host, cgroup_root, nodes, around):
    """pains 3: the variable may be dropped, the session left: the fence stays."""
    (nodes / "opener.py").write_text(OPENER)

    async def scenario(host: Host) -> None:
        command = f"{around} python3 {nodes}/opener.py {nodes}"
        result = await host.run(command, fence=fence_of(cgroup_root, "1.1", 5, 2))
        assert result.succeeded, result
        seen = dict(line.split() for line in host.output().splitlines())
        assert {minor for minor, end in seen.items() if end == "EPERM"} == set("013467"), seen
        assert "EPERM" not in (seen["5"], seen["2"])
        assert not any(os.path.exists(folder) for folder in cgroup_root.folders("1.1"))

    on_host(scenario)


@pytest.mark.needs_root
def test_steps_around_a_job_are_in_its_fence(on_host, cgroup_root, nodes):
    (nodes / "opener.py").write_text(OPENER)

    async def scenario(host: Host) -> None:
        look = f"python3 {nodes}/opener.py {nodes} >{nodes}/"
        steps = [JobStep(command=look + name, what="it") for name in ("first", "last")]
        result = await host.run("true", fence=fence_of(cgroup_root, "1.1", 6), first=(steps[0],), last=(steps[1],))
        assert result.succeeded, result
        for name in ("first", "last"):
            seen = dict(line.split() for line in (nodes / name).read_text().splitlines())
            assert {minor for minor, end in seen.items() if end == "EPERM"} == set("0123457"), seen
        assert not any(os.path.exists(folder) for folder in cgroup_root.folders("1.1"))

    on_host(scenario)


@pytest.mark.needs_root
def test_steps_in_the_place_of_a_killed_supervisor_begin_in_the_fence(on_host, cgroup_root, nodes):
    (nodes / "opener.py").write_text(OPENER)

    async def scenario(host: Host) -> None:
        mark = cgroup_root.group("1.1").places[0]
        text = f"python3 {nodes}/opener.py {nodes} >{nodes}/seen; cat /proc/self/cgroup >{nodes}/groups"
        job = "touch up; while [ ! -e go ]; do sleep 0.02; done"
        await host.executor.start(
            host.order(job, fence=fence_of(cgroup_root, "1.1", 6), last=(JobStep(command=text, what="it"),))
        )
        await appears(lambda: (host.root / "up").exists())
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        await appears(lambda: process_tree.read_process(host.supervisor_pid()) is None)
        (host.root / "go").touch()
        assert (await host.end_of(1)).post_code == 0
        seen = dict(line.split() for line in (nodes / "seen").read_text().splitlines())
        assert {minor for minor, end in seen.items() if end == "EPERM"} == set("0123457"), seen
        assert mark in (nodes / "groups").read_text()
        assert not any(os.path.exists(folder) for folder in cgroup_root.folders("1.1"))

    on_host(scenario)


@pytest.mark.needs_root
def test_commands_of_the_site_that_suspend_resume_and_end_a_job_are_in_its_fence(on_host, cgroup_root, nodes):
    """They have the job's environment, and could be made to run what its user wants."""
    (nodes / "opener.py").write_text(OPENER)

    async def scenario(host: Host) -> None:
        look = f"python3 {nodes}/opener.py {nodes} >{nodes}/"
        end = f"{look}terminate.part; mv {nodes}/terminate.part {nodes}/terminate; kill -KILL $LSB_JOBPIDS"
        controls = JobControls(
            suspend=f"kill -STOP $LSB_JOBPIDS; {look}suspend.part; mv {nodes}/suspend.part {nodes}/suspend",
            resume=f"{look}resume.part; kill -CONT $LSB_JOBPIDS; mv {nodes}/resume.part {nodes}/resume",
            terminate=end,
        )
        fence = fence_of(cgroup_root, "1.1", 6)
        await host.executor.start(host.order("sleep 1000", fence=fence, controls=controls))
        await host.start_of(1)
        await host.executor.suspend(1, 1, SuspendReasons())
        await appears((nodes / "suspend").exists)
        assert not cgroup_root.group("1.1").is_frozen()
        await host.executor.resume(1, 1, acts=True)
        await appears((nodes / "resume").exists)
        await host.executor.terminate(1, 1, 600)
        assert (await host.end_of(1)).signal == signal.SIGKILL
        for name in ("suspend", "resume", "terminate"):
            seen = dict(line.split() for line in (nodes / name).read_text().splitlines())
            assert {minor for minor, end in seen.items() if end == "EPERM"} == set("0123457"), seen
        assert not any(os.path.exists(folder) for folder in cgroup_root.folders("1.1"))

    on_host(scenario)


@pytest.mark.needs_root
def test_a_command_that_ends_a_job_finds_one_that_is_not_frozen(on_host, cgroup_root, tmp_path):
    async def scenario(host: Host) -> None:
        controls = JobControls(terminate="kill -TERM $LSB_JOBPIDS")
        command = f"trap 'exit 4' TERM; touch {tmp_path}/up; while :; do sleep 0.01; done"
        await host.executor.start(host.order(command, fence=fence_of(cgroup_root), controls=controls))
        await appears((tmp_path / "up").exists)
        await host.executor.suspend(1, 1, SuspendReasons())
        await appears(cgroup_root.group("1.1").is_frozen)  # a busy kernel takes its time
        await host.executor.terminate(1, 1, 600)
        assert (await host.end_of(1)).exit_code == 4

    on_host(scenario)


@pytest.mark.needs_root
def test_a_group_that_cannot_be_made_starts_nothing(on_host, cgroup_root, tmp_path):
    """The job would run without its fence: it goes back instead, and says why."""

    async def scenario(host: Host) -> None:
        cgroup_root.group("1.1").make()
        fence = Fence(
            kind=cgroup_root.kind,
            folders=tuple(f"{base}/1.1/cgroup.procs/1.1" for base in cgroup_root.bases),
            minors=(0,),
        )
        result = await host.run(f"touch {tmp_path}/ran", fence=fence)
        assert not result.started
        assert "fenced off from GPUs that are not its own" in sentence(result.problem)
        assert "Not a directory" in sentence(result.problem)
        assert not (tmp_path / "ran").exists()

    on_host(scenario)


@pytest.mark.needs_root
def test_the_end_of_a_job_is_the_end_of_what_forgot_its_mark(on_host, cgroup_root, tmp_path):
    """pains 1: the supervisor is killed, the environment dropped, the parent gone: only the group knows it."""

    async def scenario(host: Host) -> None:
        escape = f"(env -i /bin/sh -c 'echo $$ >{tmp_path}/pid; exec /bin/sleep 1000' &)"
        await host.executor.start(host.order(f'setsid sh -c "{escape}"; sleep 1000', fence=fence_of(cgroup_root)))
        await host.start_of(1)
        await appears(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        escaped = process_tree.read_process(int((tmp_path / "pid").read_text()))
        assert escaped is not None
        os.kill(host.supervisor_pid(), signal.SIGKILL)
        os.kill(host.started[1, 1].pid, signal.SIGKILL)
        await host.end_of(1)
        assert not process_tree.is_alive(escaped.pid, escaped.start)
        assert not any(os.path.exists(folder) for folder in cgroup_root.folders("1.1"))

    on_host(scenario)


@pytest.mark.needs_root
def test_suspended_jobs_stand_still_and_can_be_ended(on_host, cgroup_root, tmp_path):
    async def scenario(host: Host) -> None:
        count = tmp_path / "count"
        command = f"trap 'exit 3' INT; while :; do echo >>{count}; sleep 0.01; done"
        await host.executor.start(host.order(command, fence=fence_of(cgroup_root)))
        await host.start_of(1)
        await appears(lambda: count.exists() and count.stat().st_size > 3)
        await host.executor.suspend(1, 1)
        await appears(cgroup_root.group("1.1").is_frozen)  # a busy kernel takes its time
        before = count.stat().st_size
        await host.executor.resume(1, 1)
        await appears(lambda: count.stat().st_size > before)
        await host.executor.suspend(1, 1)
        await host.executor.terminate(1, 1, 10.0)
        result = await host.end_of(1)
        assert result.exit_code == 3

    on_host(scenario)


@pytest.mark.needs_root
def test_a_frozen_job_can_be_killed_at_once(on_host, cgroup_root):
    async def scenario(host: Host) -> None:
        await host.executor.start(host.order("sleep 1000 & sleep 1000", fence=fence_of(cgroup_root)))
        await host.start_of(1)
        await host.executor.suspend(1, 1)
        await host.executor.signal(1, 1, signal.SIGKILL)
        assert (await host.end_of(1)).signal == signal.SIGKILL

    on_host(scenario)


@pytest.mark.needs_root
def test_an_executor_that_comes_later_thaws_and_ends_it(on_host, cgroup_root, tmp_path):
    """The agent is killed while a job is suspended: its successor finds the group by the order."""

    async def scenario(host: Host) -> None:
        await host.executor.start(host.order("sleep 1000", fence=fence_of(cgroup_root)))
        await host.start_of(1)
        await host.executor.suspend(1, 1)
        host.executor.close()
        later = Host(tmp_path)
        assert await later.executor.adopt() == [(1, 1)]
        await later.start_of(1)
        await later.executor.resume(1, 1)
        assert not cgroup_root.group("1.1").is_frozen()
        await later.executor.terminate(1, 1, 0.1)
        await later.end_of(1)
        assert not any(os.path.exists(folder) for folder in cgroup_root.folders("1.1"))
        later.executor.close()

    on_host(scenario)


@pytest.mark.needs_root
def test_what_was_left_behind_goes_when_it_is_empty(cgroup_root):
    for name in ("1.1", "2.1", "3.1"):
        cgroup_root.group(name).make()
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        cgroup_root.group("2.1").add(pid)
        assert cgroup_root.clear(["3.1"]) == ["2.1"]
        left = [name for name in ("1.1", "2.1", "3.1") if os.path.exists(cgroup_root.folders(name)[0])]
        assert left == ["2.1", "3.1"]
        with pytest.raises(OSError, match=str(pid)):
            cgroup_root.group("2.1").make()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_folder_above_may_go_meanwhile(tmp_path, monkeypatch):
    """An agent that ends takes the empty folder away that another one is about to use."""
    (tmp_path / "gsched" / "tag").mkdir(parents=True)
    real, failures = os.makedirs, iter([True, True, False])

    def makedirs(path: str, mode: int) -> None:
        if next(failures):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        real(path, mode)

    monkeypatch.setattr(os, "makedirs", makedirs)
    cgroup_files.make(str(tmp_path / "gsched" / "tag" / "1.1"))
    assert (tmp_path / "gsched" / "tag" / "1.1").is_dir()


@pytest.mark.needs_root
def test_rules_of_an_earlier_job_are_not_inherited(cgroup_root, nodes):
    """A group that a crash left behind gets no second set of rules beside the first."""
    first = cgroup_root.group("1.1")
    first.make()
    first.fence((1,), ())
    second = cgroup_root.group("1.1")
    second.make()
    second.fence((2,), ())
    pid = os.fork()
    if pid == 0:
        second.add(os.getpid())
        try:
            os.open(nodes / "nvidia2", os.O_RDWR)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != errno.EPERM


@pytest.mark.needs_root
def test_a_root_is_found_where_there_may_be_one(tmp_path, cgroup_root):
    found = find_cgroup_root(f"test-{os.getpid()}", tmp_path)
    assert isinstance(found, CgroupRoot), found
    assert found.folders("7.1")[0].endswith("/7.1")
    assert not list(tmp_path.iterdir()), "the trial's device node is left"
    found.leave()
    assert not any(os.path.exists(base) for base in found.bases)


@pytest.mark.needs_root
def test_a_fork_is_inside_at_once_or_not_done_at_all(cgroup_root, monkeypatch):
    """A job is moved into its group where the kernel cannot start it there."""
    group = cgroup_root.group("1.1")
    group.make()
    pid = group.fork()
    if pid == 0:
        os._exit(7 if os.getpid() in group.pids() else 1)
    if pid is None:
        assert cgroup_root.kind == V1 or tuple(map(int, os.uname().release.split(".")[:2])) < (5, 7)
    else:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    monkeypatch.setattr(v2, "_CLONE3", 1 << 20)  # as on a kernel that does not know it
    assert group.fork() is None
    assert os.fork() or os._exit(0)  # the interpreter forks on as before
    os.wait()


@pytest.mark.needs_root
def test_a_job_that_is_moved_into_its_group_is_fenced_as_well(on_host, cgroup_root, nodes, monkeypatch):
    (nodes / "opener.py").write_text(OPENER)
    monkeypatch.setattr(
        forkserver,
        "PRELUDE",
        forkserver.PRELUDE.replace(
            "import main;", "import main; from gsched.run.fence import v2; v2._CLONE3 = 1 << 20;"
        ),
    )

    async def scenario(host: Host) -> None:
        result = await host.run(f"python3 {nodes}/opener.py {nodes}", fence=fence_of(cgroup_root, "1.1", 5))
        assert result.succeeded, result
        seen = dict(line.split() for line in host.output().splitlines())
        assert {minor for minor, end in seen.items() if end == "EPERM"} == set("0123467"), seen

    on_host(scenario)
