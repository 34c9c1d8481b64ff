"""What root's agent runs as the users of a shared cluster beside their jobs: MPS control daemons, and mail."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from netlab import Host, Lab
from netlab_cluster import FOLDERS, SharedCluster, shared_cluster
from netlab_machine import USERS

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

FAKES = Path(__file__).resolve().parents[1] / "fakemps"
SITE = "/var/opt/site"
MAILER = f"""#!/bin/sh
# Hands a mail over: a file of whoever runs this, whole when it has its name.
new=$(mktemp {SITE}/mails/.new.XXXXXX) && cat > "$new" && mv "$new" {SITE}/mails/"$(id -un).$$"
"""
MAILS = 6
"""Of each user."""


def install(host: Host) -> None:
    """The programs of the site, and where they leave what they did."""
    folder = host.folder / SITE.lstrip("/")
    shutil.copytree(FAKES, folder)
    (folder / "log").touch()
    (folder / "log").chmod(0o666)
    (folder / "mails").mkdir()
    (folder / "mails").chmod(0o1777)
    (folder / "mailer").write_text(MAILER)
    (folder / "mailer").chmod(0o755)


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """h1 has the master, h2 and h3 two GPUs each."""
    hosts = [module_lab.host("h1"), module_lab.host("h2"), module_lab.host("h3")]
    for host in hosts:
        install(host)
    return shared_cluster(
        module_lab,
        hosts,
        sim_gpus="2:default",
        slots=8,
        settings={"GSCHED_MPS_CONTROL": f"{SITE}/nvidia-cuda-mps-control", "LSB_MAILPROG": f"{SITE}/mailer"},
    )


def agents(cluster: SharedCluster) -> list[int]:
    return [cluster.daemons[host.name, "agent"].pid for host in cluster.hosts]


def pid_in(host: Host, folder: str) -> int:
    """The process of the daemon whose pipes these are, by its number on the host."""
    return int(host.path(f"{folder}/nvidia-cuda-mps-control.pid").read_text())


def test_each_user_has_an_mps_daemon_of_its_own(shared: SharedCluster) -> None:
    """On two hosts that share nothing but a network and the homes."""
    before = agents(shared)
    jobs: dict[tuple[str, str], int] = {}
    for host in ("h2", "h3"):
        for user in ("alice", "bob"):
            told = 'echo "$CUDA_MPS_PIPE_DIRECTORY" > mps.%s.new; mv mps.%s.new mps.%s; exec sleep 1000'
            words = ("-m", host, "-gpu", "num=1:mps=yes", "-o", "out.%J", told.replace("%s", host))
            jobs[host, user] = shared.submit(*words, user=user)
    for (name, user), job_id in jobs.items():
        shared.becomes(job_id, "RUN")
        host = next(each for each in shared.hosts if each.name == name)
        said = shared.lab.folder / "home" / user / f"mps.{name}"
        shared.until(said.exists, f"the job of {user} on {name} says nothing")
        pipes = said.read_text().strip()
        process = host.path(f"/proc/{pid_in(host, pipes)}")
        assert process.stat().st_uid == USERS[user]
        assert host.path(pipes).stat().st_uid == USERS[user]
        if "GPU fence: control groups" in shared.log(host, "agent"):
            assert "/mps-" in (process / "cgroup").read_text(), "it is in a group of its own"
    for (_, user), job_id in jobs.items():
        shared.run("gkill", str(job_id), user=user)
        shared.becomes(job_id, "EXIT")
    for name in ("h2", "h3"):
        host = next(each for each in shared.hosts if each.name == name)
        lines = (host.folder / SITE.lstrip("/") / "log").read_text().splitlines()
        assert sorted(line.split()[0] for line in lines) == ["quit", "quit", "start", "start"], lines
        shared.until(
            lambda host=host: not list(host.path(f"{FOLDERS.spool_dir}/{host.name}").glob("mps/*")), "folders are left"
        )
    assert agents(shared) == before, "no agent has been started anew"


def test_no_mail_of_a_user_is_lost(shared: SharedCluster) -> None:
    before = agents(shared)
    jobs = {
        shared.submit("-N", "-J", f"mail{number}", "-m", name, "echo said", user=user): user
        for number in range(MAILS // 2)
        for name in ("h2", "h3")
        for user in ("alice", "bob")
    }
    for job_id in jobs:
        shared.becomes(job_id, "DONE")
    found = [path for host in shared.hosts for path in (host.folder / SITE.lstrip("/") / "mails").glob("[!.]*")]
    whose = [path.name.partition(".")[0] for path in found]
    assert {user: whose.count(user) for user in ("alice", "bob")} == {"alice": MAILS, "bob": MAILS}
    assert all(os.stat(path).st_uid == USERS[user] for path, user in zip(found, whose, strict=True))
    for job_id, user in jobs.items():
        texts = [path.read_text() for path in found if f"Subject: Job {job_id}:" in path.read_text()]
        assert len(texts) == 1 and f"To: {user}" in texts[0] and "said" in texts[0]
        assert "no mail" not in shared.run("ghist", "-l", str(job_id), user=user).stdout
    assert agents(shared) == before, "no agent has been started anew"


PAGER = """#!/bin/sh
exec > "$HOME/paged.new"
id -un; id -Gn; umask; pwd; cat /proc/self/cgroup | tr '\\n' ' '; echo; cat
setsid sleep 1000 > /dev/null 2>&1 &
echo $! > "$HOME/left.pid"
mv "$HOME/paged.new" "$HOME/paged"
"""


def write_home(shared: SharedCluster, user: str, name: str, text: str, mode: int) -> Path:
    """A file in a user's home, and nobody else's."""
    path = shared.lab.folder / "home" / user / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    for each in (path, path.parent):
        os.chown(each, USERS[user], USERS[user])
    return path


def test_notices_are_sent_by_their_users(shared: SharedCluster) -> None:
    """By the user's own file, with the user's rights, in a group without GPUs; nothing of another user's files."""
    write_home(shared, "alice", "page", PAGER, 0o700)
    write_home(shared, "alice", ".gsched/notify", "command ~/page events=end\n", 0o600)
    job = shared.submit("-m", "h2", "-o", "out.%J", "true", user="alice")
    paged = shared.lab.folder / "home" / "alice" / "paged"
    shared.until(paged.exists, "nobody was told")
    user, groups, umask, folder, group, told = paged.read_text().split("\n", 5)
    assert (user, umask, folder) == ("alice", "0077", "/home/alice") and "root" not in groups.split()
    assert json.loads(told)["job"]["id"] == str(job)
    assert paged.stat().st_uid == USERS["alice"]
    host = next(each for each in shared.hosts if each.name == "h2")
    if "GPU fence: control groups" in shared.log(host, "agent"):
        assert "/notices-" in group, "it is in a group of its own"
        left = int((shared.lab.folder / "home" / "alice" / "left.pid").read_text())
        shared.until(lambda: not host.path(f"/proc/{left}").exists(), "what it has left running runs on")
    theirs = shared.submit("-m", "h2", "-o", "out.%J", "--notify", "/home/alice/page", "true", user="bob")
    shared.until(
        lambda: "was not sent by command" in shared.run("ghist", "-UF", "-l", str(theirs), user="bob").stdout,
        "it is not said that it was not sent",
    )
    said = shared.run("ghist", "-UF", "-l", str(theirs), user="alice").stdout
    assert "The notice of the end was not sent by command: the program cannot be run: Permission denied" in said
    spool = f"{FOLDERS.spool_dir}/h2/notices"
    assert shared.run("ls", spool, user="bob", check=False).returncode != 0
