"""Jobs of another user under an agent of root: whose files they are, and what stays out of the user's reach."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest
from run_host import CLUSTER, Host, appears
from test_run_account import USER
from test_run_jobreport import FACTS

from gsched.base.coded_text import sentence
from gsched.model.queues.job_controls import JobControls
from gsched.run.account import UnixAccount, look_up
from gsched.run.attempts.control_actions import SuspendReasons
from gsched.run.order import JobStep
from gsched.run.processes import process_tree
from gsched.run.processes.procfs import is_of_proc

pytestmark = pytest.mark.needs_root


class SharedHost(Host):
    """A host in a folder that all may enter, whose jobs are another user's."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.account = look_up(USER)
        self.home = root / "home"
        self.home.mkdir(mode=0o700)
        os.chown(self.home, self.account.uid, self.account.gid)

    def order(self, command="", job_id=1, attempt=1, **fields):
        fields.setdefault("account", self.account)
        fields.setdefault("cwd", str(self.home))
        return super().order(command, job_id, attempt, **fields)


@pytest.fixture
def on_host():
    def run(scenario):
        async def main():
            host = SharedHost(root)
            try:
                await asyncio.wait_for(scenario(host), 60)
            finally:
                names = [path.name for path in (host.spool / "attempts").iterdir()]
                host.executor.close()
                table = process_tree.scan()
                for name in names:
                    for process in process_tree.marked(f"{CLUSTER}/{name}", table):
                        process_tree.send(process, 9)

        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            root = Path(name)
            root.chmod(0o755)
            asyncio.run(main())

    return run


def test_a_job_is_the_users_in_everything(on_host):
    async def scenario(host):
        wider = UnixAccount.of({**host.account.fields(), "groups": (host.account.gid, 4242)})
        await host.run(
            "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm|CapInh|CapAmb):' /proc/self/status; umask; touch made; pwd;"
            'test "$(cut -d" " -f6 /proc/self/stat)" = $$ && echo a session of its own',
            account=wider,
            umask=0o027,
        )
        lines = [line.split() for line in host.output().splitlines()]
        uid, gid = str(host.account.uid), str(host.account.gid)
        assert lines[0] == ["Uid:", uid, uid, uid, uid]
        assert lines[1] == ["Gid:", gid, gid, gid, gid]
        assert lines[2][1:] == sorted([gid, "4242"], key=int)
        assert {each[1] for each in lines[3:7]} == {"0" * 16}
        assert lines[7:] == [["0027"], [str(host.home)], ["a", "session", "of", "its", "own"]]
        made = (host.home / "made").stat()
        assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (host.account.uid, host.account.gid, 0o640)

    on_host(scenario)


def test_its_files_and_folders_are_opened_and_made_as_the_user(on_host):
    async def scenario(host):
        (host.home / "in").write_text("typed")
        (host.home / "in").chmod(0o644)
        result = await host.run(
            "cat; echo err >&2",
            folders=(str(host.home / "a" / "b"),),
            cwd=str(host.home / "a" / "b"),
            input_file=str(host.home / "in"),
            output_file="out",
            error_file="err",
        )
        assert result.exit_code == 0
        for path in ("a", "a/b", "a/b/out", "a/b/err"):
            assert (host.home / path).stat().st_uid == host.account.uid, path
        assert (host.home / "a/b/out").read_text() == "typed"
        assert host.output(stream="stderr") == "err\n"

    on_host(scenario)


def test_what_the_user_may_not_open_is_not_opened(on_host):
    async def scenario(host):
        secret = host.root / "secret"
        secret.write_text("root's")
        secret.chmod(0o600)
        vault = host.root / "vault"
        vault.mkdir(mode=0o700)
        result = await host.run("cat", 1, input_file=str(secret))
        assert result.exit_code == 2 and "Permission denied" in sentence(result.problem)
        result = await host.run("pwd", 2, cwd=str(vault))
        assert result.term_reason == "TERM_CWD_NOTEXIST"
        result = await host.run("echo kept", 3, output_file=str(secret), folders=(str(vault / "new"),))
        told = sentence(result.problem)
        assert "the output is kept on the execution host" in told and f"folder {vault}/new" in told
        assert host.output(3) == "kept\n"
        assert (host.folder(3) / "stdout").stat().st_uid == host.account.uid
        assert secret.read_text() == "root's" and not (vault / "new").exists()
        result = await host.run("echo new", 4, output_file=str(vault / "file"))
        assert host.output(4) == "new\n" and not (vault / "file").exists()

    on_host(scenario)


def test_what_proc_shows_of_the_supervisor_is_not_for_the_job(on_host):
    """A process may open some of its own /proc whoever it acts as: the memory map of root's supervisor, for one."""

    async def scenario(host):
        (host.home / "link").symlink_to("/proc/self/maps")
        result = await host.run("cat", 1, input_file=str(host.home / "link"))
        assert result.exit_code == 2 and "/proc" in sentence(result.problem)
        result = await host.run("echo kept", 2, output_file="/proc/self/timerslack_ns")
        assert "the output is kept on the execution host" in sentence(result.problem)
        assert host.output(2) == "kept\n"

    on_host(scenario)


def test_another_proc_is_known_as_well(on_host):
    """Containers and chroots have one of their own, with another device number."""

    async def scenario(host):
        second = host.root / "proc"
        second.mkdir()
        done = subprocess.run(["mount", "-t", "proc", "proc", str(second)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no second proc can be mounted here: {done.stderr.strip()}")
        try:
            with open(second / "self/maps", "rb") as maps, open("/proc/self/maps", "rb") as usual:
                assert is_of_proc(maps.fileno()) and is_of_proc(usual.fileno())
            with open(__file__, "rb") as source:
                assert not is_of_proc(source.fileno())
            result = await host.run("cat", 1, input_file=str(second / "self/maps"))
            assert result.exit_code == 2 and "/proc" in sentence(result.problem)
            result = await host.run("echo kept", 2, output_file=str(second / "self/timerslack_ns"))
            assert "the output is kept on the execution host" in sentence(result.problem)
            assert host.output(2) == "kept\n"
        finally:
            subprocess.run(["umount", "-l", str(second)], check=True)

    on_host(scenario)


def test_the_spool_shows_a_user_its_own_script_and_nothing_else(on_host):
    async def scenario(host):
        shown = (
            'for file in order claim started script hostfile; do cat "$D/$file" >/dev/null 2>&1 && echo $file; done\n'
        )
        listed = 'ls "$D" 2>&1 | grep -c denied; touch "$D/x" 2>&1 | grep -c denied; echo more >> "$0"; ls "$D/.."\n'
        where = {"PATH": os.environ["PATH"], "D": str(host.folder(2))}
        await host.run(script=shown + listed, job_id=2, hostfile="here\n", environment=where)
        assert host.output(2).splitlines() == ["script", "hostfile", "1", "1"]
        assert stat.S_IMODE((host.folder(2) / "script").stat().st_mode) == 0o500
        assert stat.S_IMODE(host.folder(2).stat().st_mode) == 0o711
        other = look_up("root")
        nobody = UnixAccount.of({**other.fields(), "name": "other", "uid": 54321, "gid": 54321, "groups": (54321,)})
        await host.run(shown, 3, environment=where, account=nobody, cwd="/")
        assert host.output(3) == ""

    on_host(scenario)


def test_a_job_cannot_signal_its_supervisor_nor_the_fork_server(on_host):
    async def scenario(host):
        told = "kill -9 $PPID && echo killed; kill -9 $(ps -o ppid= -p $PPID) && echo killed; echo left"
        result = await host.run(told)
        assert result.exit_code == 0
        assert host.output().splitlines()[-1] == "left" and "\nkilled" not in f"\n{host.output()}"

    on_host(scenario)


def test_standard_streams_can_be_opened_by_name(on_host):
    async def scenario(host):
        await host.run("echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin", input="typed")
        assert host.output() == "out\ntyped" or "typed" in host.output()
        assert host.output(stream="stderr") == "err\n"

    on_host(scenario)


def test_a_terminal_is_the_users(on_host):
    async def scenario(host):
        from gsched.agent.output.terminal_questions import ask

        for job_id, kind in ((1, "pty"), (2, "pipe")):
            command = "stat -Lc %u /proc/self/fd/1; echo by name > /dev/stdout"
            await host.executor.start(host.order(command, job_id, interactive=kind))
            await host.start_of(job_id)
            printed = b""
            while answer := await ask(host.folder(job_id), stdout=len(printed), stderr=0, most=1000, wait_ms=500):
                printed += answer[1]
                if answer[0].get("over"):
                    break
            assert printed.split() == [str(host.account.uid).encode(), b"by", b"name"], kind
            assert (await host.end_of(job_id)).exit_code == 0

    on_host(scenario)


def test_a_link_that_takes_the_place_of_the_output_leads_nobody(on_host):
    async def scenario(host):
        secret = host.root / "secret"
        secret.write_text("root's\n")
        out = host.home / "out"
        await host.executor.start(
            host.order("echo mine; mv out kept; ln -s ../secret out; sleep 60", output_file="out")
        )
        async with asyncio.timeout(60):
            while not out.is_symlink():
                await asyncio.sleep(0.01)
        assert host.output() == ""
        secret.chmod(0o666)  # not even where the user could
        assert host.output() == ""
        await host.executor.terminate(1, 1, 0.1)
        result = await host.end_of(1)
        with pytest.raises(OSError, match="another file"):
            host.executor.report(1, 1, FACTS, result)
        out.unlink()
        (host.home / "kept").rename(out)
        assert host.output() == "mine\n"
        host.executor.report(1, 1, FACTS, result)
        assert "TERM_" in out.read_text() or "Sender:" in out.read_text()
        assert secret.read_text() == "root's\n"

    on_host(scenario)


def test_limits_of_a_session_are_given_before_the_jobs_own(on_host):
    async def scenario(host):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        granted = ((resource.RLIMIT_NOFILE, 333, 444), (resource.RLIMIT_CORE, 0, resource.RLIM_INFINITY))
        first = JobStep(command=f"ulimit -n > {host.home}/first", what="the job's pre-exec command")
        command = "ulimit -n; ulimit -Hn; ulimit -c; ulimit -Hc"
        await host.run(command, granted=granted, limits={"CORELIMIT": 8}, first=(first,))
        assert host.output().split()[:2] == ["333", "444"]
        assert host.output().split()[3] in ("16", "8")  # the shell's blocks
        assert (host.home / "first").read_text() == "333\n"
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard

    on_host(scenario)


def test_steps_are_the_users_too_and_a_failing_one_is_told(on_host):
    async def scenario(host):
        def step(name, is_site=False):
            return JobStep(command=f"id -u > {host.home}/{name}", what="x", is_site=is_site)

        await host.run("true", 1, first=(step("a"), step("b", True)), last=(step("c"), step("d", True)))
        for name in "abcd":
            assert (host.home / name).read_text() == f"{host.account.uid}\n"
            assert (host.home / name).stat().st_uid == host.account.uid
        failing = JobStep(command="exit 7", what="the job's pre-exec command")
        result = await host.run("touch ran", 2, first=(failing,))
        assert result.pre_failed and "(7)" in sentence(result.problem) and not (host.home / "ran").exists()

    on_host(scenario)


def test_steps_that_the_site_runs_as_root_see_nothing_of_the_users_environment(on_host):
    async def scenario(host):
        (host.root / "log").mkdir(mode=0o700)
        command = "{{ id -u; env; }} > {}/log/{}"
        site = [JobStep(command=command.format(host.root, name), what="x", is_site=True) for name in ("pre", "post")]
        own = JobStep(command=f"id -u > {host.home}/own", what="the job's pre-exec command")
        evil = {
            "LD_PRELOAD": f"{host.home}/evil.so",
            "PYTHONPATH": str(host.home),
            "BASH_ENV": f"{host.home}/evil",
            "IFS": "/",
            "PATH": f"{host.home}/bin:/usr/bin:/bin",
            "LSF_ENVDIR": str(host.home),
            "BASH_FUNC_id%%": "() { echo evil; }",
            "HOME": str(host.home),
        }
        (host.home / "bin").mkdir()
        (host.home / "bin" / "id").write_text(f"#!/bin/sh\ntouch {host.home}/ran\n")
        (host.home / "bin" / "id").chmod(0o755)
        await host.run(
            "exit 3",
            environment=evil,
            first=(own, site[0]),
            last=(site[1],),
            site_account=look_up("root"),
            site_environment={"LSB_JOBID": "1", "HOME": "/root"},
        )
        for name in ("pre", "post"):
            uid, *lines = (host.root / "log" / name).read_text().splitlines()
            assert uid == "0"
            names = {line.partition("=")[0] for line in lines}
            assert not names & ({*evil} - {"PATH", "HOME"}), names
            assert "PATH=/bin:/usr/bin:/sbin:/usr/sbin" in lines and "HOME=/root" in lines and "LSB_JOBID=1" in lines
            assert ("LSB_JOBEXIT_STAT=768" in lines) == (name == "post")
        assert (host.home / "own").stat().st_uid == host.account.uid

    on_host(scenario)


def test_it_is_stopped_resumed_adopted_and_ended_like_any_other(on_host):
    async def scenario(host):
        await host.executor.start(host.order("exec sleep 60"))
        started = await host.start_of(1)
        await host.executor.suspend(1, 1)
        await appears(lambda: process_tree.read_process(started.pid).is_stopped)
        await host.executor.resume(1, 1)
        await appears(lambda: not process_tree.read_process(started.pid).is_stopped)
        assert host.executor.usage(1, 1).pids == (started.pid,)
        host.executor.close()
        again = Host(host.root)
        assert await again.executor.adopt() == [(1, 1)]
        assert stat.S_IMODE((again.spool / "attempts").stat().st_mode) == 0o711
        assert again.executor.order(1, 1).account == host.account
        await again.executor.terminate(1, 1, 0.1)
        assert (await again.end_of(1)).signal == 2
        again.executor.close()

    on_host(scenario)


def test_steps_after_a_killed_supervisor_are_the_users(on_host):
    async def scenario(host):
        (host.root / "vault").mkdir(mode=0o700)
        last = JobStep(command="id -u > after; ulimit -n >> after", what="the job's post-exec command")
        granted = ((resource.RLIMIT_NOFILE, 222, 222),)
        await host.executor.start(host.order("exec sleep 60", last=(last,), granted=granted))
        await host.start_of(1)
        os.kill(host.supervisor_pid(), 9)
        async with asyncio.timeout(60):
            while host.executor._held["1.1"].unsupervised is None:
                await asyncio.sleep(0.01)
        await host.executor.terminate(1, 1, 0.1)
        assert "exit status is not known" in sentence((await host.end_of(1)).problem)
        assert (host.home / "after").read_text() == f"{host.account.uid}\n222\n"
        assert (host.home / "after").stat().st_uid == host.account.uid

    on_host(scenario)


def test_an_order_is_read_as_it_was_written(on_host):
    async def scenario(host):
        order = host.order("true", granted=((7, 1, 2),), site_account=look_up("root"))
        assert host.executor._spool.write_order(order)
        assert host.executor._spool.order("1.1") == order
        (host.folder() / "order").write_text('{"job_id": 1, "attempt": 1, "command": "x", "account": {"name": "x"}}')
        assert host.executor._spool.order("1.1") is None
        assert msgspec.structs.asdict(order)["account"] == host.account

    on_host(scenario)


def test_a_mark_counts_for_processes_of_the_jobs_user_alone(on_host):
    async def scenario(host):
        await host.executor.start(host.order("exec sleep 60"))
        started = await host.start_of(1)
        mark = {process_tree.MARK_VARIABLE: f"{CLUSTER}/1.1", "PATH": os.environ["PATH"]}
        stranger = subprocess.Popen(["sleep", "60"], env=mark, user=54321, group=54321, extra_groups=[])
        friend = subprocess.Popen(["sleep", "60"], env=mark, user=host.account.uid, group=host.account.gid)
        try:
            owners = host.executor.owners([started.pid, stranger.pid, friend.pid])
            assert owners == {started.pid: "1.1", friend.pid: "1.1"}
            os.kill(host.supervisor_pid(), 9)
            await appears(lambda: host.executor._held["1.1"].unsupervised is not None)
            await host.executor.terminate(1, 1, 0.1)
            await host.end_of(1)
            assert friend.wait(60) != 0 and stranger.poll() is None
        finally:
            for process in (stranger, friend):
                process.kill()
                process.wait()

    on_host(scenario)


def test_a_terminals_socket_is_the_agents_whatever_the_users_umask(on_host):
    async def scenario(host):
        await host.executor.start(host.order("read line", interactive="pty", umask=0))
        await host.start_of(1)
        socket = host.folder() / "terminal"
        assert (socket.stat().st_uid, stat.S_IMODE(socket.stat().st_mode)) == (0, 0o700)
        await host.executor.terminate(1, 1, 0.1)
        await host.end_of(1)

    on_host(scenario)


def test_what_the_site_does_to_suspend_a_job_is_done_as_its_user(on_host):
    async def scenario(host):
        told = "id -u; id -G; umask; cat /proc/self/status | grep CapEff"
        suspend = f"({told}) > $HERE/told.part; mv $HERE/told.part $HERE/told"
        environment = host.order().environment | {"HERE": str(host.home)}
        order = host.order("sleep 1000", controls=JobControls(suspend=suspend), environment=environment, umask=0o027)
        await host.executor.start(order)
        await host.start_of(1)
        await host.executor.suspend(1, 1, SuspendReasons())
        await appears((host.home / "told").exists)
        uid, groups, umask, rights = (host.home / "told").read_text().splitlines()
        assert (uid, umask, rights.split()[1]) == (str(host.account.uid), "0027", "0" * 16)
        assert "0" not in groups.split()

    on_host(scenario)
