"""gsched-pam: sessions of a real sshd on hosts of a lab join the jobs of their users, or do not come in."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from netlab import BIN, Host, Lab
from netlab_cluster import ENVDIR, SERVICE_USER, SharedCluster, shared_cluster
from netlab_machine import REPOSITORY, USERS

from gsched.app.installation.units import session_text

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

TOOLS = REPOSITORY / ".tools"
LIBRARIES = next((str(path.parent) for path in TOOLS.glob("usr/lib/*/libwrap.so.0")), "")
SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{TOOLS}/usr/sbin")
SFTP = shutil.which("sftp-server", path=f"/usr/lib/openssh:/usr/libexec/openssh:{TOOLS}/usr/lib/openssh")
MINOR = 63
"""Of a GPU that no job has."""
CONFIG = """
Port 22
HostKey /etc/ssh/test_key
PidFile none
UsePAM yes
PasswordAuthentication no
AcceptEnv GSCHED_JOB
Subsystem sftp {sftp}
"""
PAM = """
account  required  pam_unix.so
account  required  pam_exec.so quiet stdout {bin}/gsched-pam
session  required  pam_exec.so quiet stdout {bin}/gsched-pam
"""


class SshHost:
    """A host of the lab with sshd. `run` logs in to it from itself."""

    def __init__(self, host: Host, daemon: subprocess.Popen[Any]) -> None:
        self.host = host
        self.daemon = daemon

    def words(self, *command: str, program: str = "ssh", options: tuple[str, ...] = ()) -> list[str]:
        quiet = ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oBatchMode=yes"]
        return [program, *quiet, *options, *command]

    def run(self, command: str, user: str, *, start: Host | None = None, **options: Any) -> Any:
        """A command in a session of the user."""
        words = self.words(self.host.name, command, options=options.pop("options", ()))
        return (start or self.host).run(words, user=user, **options)

    def login(self, command: str, user: str, **options: Any) -> str:
        """The same in a login shell, which must go well; what it prints."""
        return str(self.run(f"sh -lc {command!r}", user, check=True, **options).stdout)


@pytest.fixture
def open_ssh(lab: Lab) -> Iterator[Callable[[Host], SshHost]]:
    """Start sshd on a host, and give its users keys."""
    missing = [name for name, path in (("ssh", shutil.which("ssh")), ("sshd", SSHD), ("sftp-server", SFTP)) if not path]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (Debian: openssh-client, openssh-server, openssh-sftp-server)")

    def start(host: Host) -> SshHost:
        etc = host.path("/etc")
        if "sshd:" not in (etc / "passwd").read_text():
            with (etc / "passwd").open("a") as file:
                file.write("sshd:x:2990:65534::/run/sshd:/usr/sbin/nologin\n")
        host.run(["mkdir", "-p", "-m", "755", "/run/sshd", "/etc/ssh"], check=True)
        host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/ssh/test_key"], check=True)
        (etc / "ssh/test_config").write_text(CONFIG.format(sftp=SFTP))
        (etc / "pam.d/sshd").write_text(PAM.format(bin=BIN))
        (etc / "profile.d").mkdir(exist_ok=True)
        (etc / "profile.d/gsched.sh").write_text(session_text(str(BIN), ENVDIR))
        for user in USERS:
            make = "[ -e .ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519"
            host.run(
                ["sh", "-c", f"mkdir -p -m 700 .ssh && {{ {make}; }} && cp .ssh/id_ed25519.pub .ssh/authorized_keys"],
                user=user,
                check=True,
            )
        with host.path("/var/log/sshd.log").open("ab") as log:
            words = [str(SSHD), "-D", "-e", "-f", "/etc/ssh/test_config"]
            env = {"LD_LIBRARY_PATH": LIBRARIES} if LIBRARIES else {}
            daemon = host.popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        return SshHost(host, daemon)

    yield start
    for host in lab.hosts.values():
        if host.path("/var/log/sshd.log").exists():
            print(f"-- sshd of {host}", host.path("/var/log/sshd.log").read_text(errors="replace")[-4000:], sep="\n")


def group_of(text: str) -> str:
    """The last step of the group of ours that /proc/self/cgroup tells of; empty for none."""
    return next((line.rpartition("/")[2] for line in text.splitlines() if "/gsched/" in line), "")


def ready(cluster: SharedCluster, ssh: SshHost) -> None:
    cluster.until(
        lambda: ssh.daemon.poll() is None and ssh.run("true", SERVICE_USER).returncode == 0, "nobody can log in by ssh"
    )


def begins(cluster: SharedCluster, ssh: SshHost, job_id: int) -> None:
    """Wait until the job has begun on its host, so that sessions of alice join it: RUN is told a little earlier."""
    cluster.until(
        lambda: group_of(ssh.run("cat /proc/self/cgroup", "alice").stdout) == f"{job_id}.1",
        f"nobody joins job {job_id}",
    )


def make_device(host: Host) -> None:
    """A node of a GPU that no job has, which everybody may open but for the fence."""
    host.run(["mknod", "/var/lib/gpu", "c", "195", str(MINOR)], check=True)
    host.run(["chmod", "666", "/var/lib/gpu"], check=True)


def opening(ssh: SshHost, user: str) -> str:
    """What becomes of opening that GPU in a session."""
    return str(ssh.run("head -c0 /var/lib/gpu", user).stderr)


@pytest.mark.nightly
def test_a_session_joins_the_job_of_its_user_and_ends_with_it(lab: Lab, open_ssh: Callable[[Host], SshHost]) -> None:
    first, host = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [first, host], sim_gpus="2:exclusive_process")
    ssh = open_ssh(host)
    ready(cluster, ssh)
    make_device(host)

    refused = ssh.run("echo in", "alice", start=first)
    assert refused.returncode != 0 and refused.stdout == ""
    assert refused.stderr.count("gsched: alice has no job running on h2; ssh to it is possible while one does") == 1

    older = cluster.submit("-m", "h2", "-gpu", "num=1", "sleep 1000")
    cluster.becomes(older, "RUN")
    begins(cluster, ssh, older)  # else the newer one may begin before it
    newer = cluster.submit("-m", "h2", "-gpu", "num=1", "-C", "7", "sleep 1000")
    cluster.becomes(newer, "RUN")
    begins(cluster, ssh, newer)
    assert group_of(ssh.run("cat /proc/self/cgroup", "alice", start=first, check=True).stdout) == f"{newer}.1"
    assert ssh.run("bash -c 'ulimit -c'", "alice").stdout.strip() == "7168"  # KiB, of -C 7
    assert "Operation not permitted" in opening(ssh, "alice")
    told = ssh.login("echo $LSB_JOBID $GSCHED_JOB_ID $CUDA_VISIBLE_DEVICES $GSCHED_GPU_UUIDS", "alice").split()
    assert told[:3] == [str(newer), str(newer), "0"] and len(told) == 4

    chosen = ("-oSendEnv=GSCHED_JOB",)
    of_older = ssh.login(
        "echo $LSB_JOBID; cat /proc/self/cgroup", "alice", options=chosen, env={"GSCHED_JOB": f"{older}"}
    )
    assert of_older.splitlines()[0] == str(older) and group_of(of_older) == f"{older}.1"
    unknown = ssh.run("sh -lc 'echo $LSB_JOBID'", "alice", options=chosen, env={"GSCHED_JOB": "4711"})
    assert unknown.stdout.split() == [str(newer)] and "GSCHED_JOB=4711: no job of yours" in unknown.stderr

    many = "for each in $(seq 510); do sleep 1000 & done >/dev/null 2>&1; sh -lc 'echo $LSB_JOBID'; kill $(jobs -p)"
    large = ssh.run(f"bash -c {shlex.quote(many)}", "alice", options=chosen, env={"GSCHED_JOB": f"{older}"})
    assert large.stdout.split() == [str(newer)]
    assert f"gsched: GSCHED_JOB={older}: this session has more than 500 processes" in large.stderr

    assert "has no job running on h2" in ssh.run("true", "bob").stderr
    assert group_of(ssh.run("cat /proc/self/cgroup", SERVICE_USER, check=True).stdout) == ""

    host.run(["sh", "-c", "echo hello > note"], user="alice", check=True)
    copy = ssh.words("note", "h2:/var/tmp/copied", program="scp")
    host.run(copy, user="alice", check=True)
    assert host.path("/var/tmp/copied").read_text() == "hello\n"
    batch = ssh.words("h2", program="sftp", options=("-b", "-"))
    host.run(batch, user="alice", stdin="get /var/tmp/copied fetched\n", check=True)
    assert (lab.folder / "home/alice/fetched").read_text() == "hello\n"

    session = host.popen(
        ssh.words("h2", "echo in; sleep 1000 & echo $!; wait"), user="alice", stdout=subprocess.PIPE, text=True
    )
    assert session.stdout is not None
    assert session.stdout.readline() == "in\n"
    pid = session.stdout.readline().strip()
    cluster.run("gkill", str(newer))
    assert session.wait(120) != 0
    cluster.until(lambda: not host.path(f"/proc/{pid}").exists(), "what the session has started goes on")
    cluster.becomes(newer, "EXIT")
    assert "left" not in cluster.run("ghist", "-l", str(newer)).stdout
    assert group_of(ssh.run("cat /proc/self/cgroup", "alice", check=True).stdout) == f"{older}.1"

    short = cluster.submit("-m", "h2", "while [ ! -e go ]; do sleep 0.1; done")
    cluster.becomes(short, "RUN")
    begins(cluster, ssh, short)
    session = host.popen(ssh.words("h2", "echo in; sleep 1000"), user="alice", stdout=subprocess.PIPE, text=True)
    assert session.stdout is not None and session.stdout.readline() == "in\n"
    host.run(["touch", "go"], user="alice", check=True)
    cluster.becomes(short, "DONE")
    assert session.wait(120) != 0
    assert "left" not in cluster.run("ghist", "-l", str(short)).stdout

    cluster.kill(host, "agent")
    down = ssh.run("true", "alice")
    assert down.returncode != 0 and "gsched: the agent of this host does not answer" in down.stderr
    ssh.run("true", SERVICE_USER, check=True)


@pytest.mark.nightly
def test_without_a_job_a_session_sees_no_gpu_or_is_as_it_would_be(
    lab: Lab, open_ssh: Callable[[Host], SshHost]
) -> None:
    """GSCHED_SSH=no_gpu and open."""
    host = lab.host("h1")
    cluster = shared_cluster(lab, [host], sim_gpus="2:exclusive_process", settings={"GSCHED_SSH": "no_gpu"})
    ssh = open_ssh(host)
    ready(cluster, ssh)
    make_device(host)
    assert "Operation not permitted" in opening(ssh, "bob")
    assert ssh.login("echo [$CUDA_VISIBLE_DEVICES]", "bob", env={"CUDA_VISIBLE_DEVICES": "1"}) == "[]\n"
    socket = host.path("/run/gsched/agent/login.sock")
    assert stat.S_IMODE(os.stat(socket).st_mode) == 0o600

    cluster.kill(host, "agent")
    conf = host.path(f"{ENVDIR}/lsf.conf")
    conf.write_text(conf.read_text().replace("GSCHED_SSH=no_gpu", "GSCHED_SSH=open"))
    assert ssh.run("echo in", "bob", check=True).stdout == "in\n"  # no agent, and everybody may come in
    cluster.start_daemon(host, "agent")
    cluster.until(socket.exists, "the agent does not listen")
    assert group_of(ssh.run("cat /proc/self/cgroup", "bob", check=True).stdout) == ""
    assert "Operation not permitted" not in opening(ssh, "bob")


def test_the_lines_for_pam_are_those_of_the_documents() -> None:
    text = (Path(__file__).parents[2] / "docs/shared-cluster.md").read_text()
    for line in PAM.format(bin="/opt/gsched/bin").strip().splitlines()[1:]:
        assert line in text
