"""Jobs of several users: real daemons, an agent of root and one of somebody else, and what the users can reach."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from netlab import Host, Lab
from netlab_cluster import ENVDIR, FOLDERS, SharedCluster, shared_cluster
from netlab_machine import USERS

from tests.support.reports import printed_in

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

QUEUE = """
Begin Queue
QUEUE_NAME = around
PRE_EXEC = id -un > /tmp/pre.$LSB_JOBID; env >> /tmp/pre.$LSB_JOBID
POST_EXEC = id -un > /tmp/post.$LSB_JOBID
End Queue
"""


def home(lab: Lab, user: str) -> Path:
    return lab.folder / "home" / user


def done(cluster: SharedCluster, *words: str, user: str = "alice", state: str = "DONE") -> int:
    """Submit and wait for the end."""
    job_id = cluster.submit(*words, user=user)
    cluster.becomes(job_id, state)
    return job_id


@pytest.fixture(scope="module")
def one(module_lab: Lab) -> SharedCluster:
    """A cluster of one host, on which alice may have few files open."""
    host = module_lab.host("h1")
    limits = limits_of_alice(host)
    limits.parent.mkdir(parents=True, exist_ok=True)
    limits.write_text("alice soft nofile 333\nalice hard nofile 444\n")
    return shared_cluster(module_lab, [host])


def limits_of_alice(host: Host) -> Path:
    return host.path("/etc/security/limits.d/alice.conf")


def test_a_job_is_its_users(module_lab: Lab, one: SharedCluster) -> None:
    """Names, folders, files, limits of a PAM session; and what it cannot open it does not get."""
    lab, cluster, host = module_lab, one, one.master_host
    told = 'id -un; echo "$HOME $USER $LOGNAME $PWD"; ulimit -n; ulimit -Hn; cat "$LSB_DJOB_HOSTFILE"; umask'
    first = done(cluster, "-o", "out.%J", told)
    output = home(lab, "alice") / f"out.{first}"
    assert printed_in(output.read_text()).splitlines()[:5] == [
        "alice",
        "/home/alice alice alice /home/alice",
        "333",
        "444",
        "h1",
    ]
    assert "Sender: LSF System <root@h1>" in output.read_text() and output.stat().st_uid == USERS["alice"]
    (home(lab, "bob") / "job.sh").write_text("#!/bin/sh\nid -un > by-script\n")
    cluster.run("sh", "-c", "gsub -K -o script.out < job.sh", user="bob")
    assert (home(lab, "bob") / "by-script").read_text() == "bob\n"
    shown = cluster.run("gsub", "-I", "id -un; stat -Lc %U /dev/stdout", user="carol").stdout
    assert shown.split()[-2:] == ["carol", "carol"]
    kept = done(cluster, "-o", "/home/alice/planted", "-e", "/etc/planted", "echo kept", user="bob")
    assert not (home(lab, "alice") / "planted").exists() and not host.path("/etc/planted").exists()
    assert "kept on the execution host" in " ".join(cluster.run("ghist", "-l", str(kept), user="bob").stdout.split())
    left = host.path(f"{FOLDERS.spool_dir}/h1/outputs/{kept}.1.stdout")
    cluster.until(left.exists, "what nobody could be given is not kept")
    assert left.read_text() == "kept\n"
    done(cluster, "-cwd", "/var/lib/gsched", "id -un > /home/bob/ran", user="bob", state="EXIT")
    done(cluster, "-i", "/etc/shadow", "cat > /home/bob/ran", user="bob", state="EXIT")
    assert not (home(lab, "bob") / "ran").exists()


def test_why_a_job_failed_is_looked_for_with_its_users_rights(module_lab: Lab, one: SharedCluster) -> None:
    """In a folder that is its alone; not behind a link that the user has put there to make root look elsewhere."""
    lab, cluster, host = module_lab, one, one.master_host
    own = home(lab, "alice") / "own"
    line = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    secret = host.path("/etc/secret")
    secret.write_text(f"{line}\n" * 1000)
    secret.chmod(0o600)

    def failed(*words: str) -> str:
        job = done(cluster, *words, state="EXIT")
        return cluster.run("gjobs", "-noheader", "-o", "fail_class", str(job), user="alice").stdout.strip()

    cluster.run("sh", "-c", "mkdir -m 700 own", user="alice")
    assert failed("-o", "own/out", f"echo '{line}'; exit 1") == "gpu_busy"
    assert failed("-o", "own/link", "rm own/link; ln -s /etc/secret own/link; exit 1") == "exit_code"
    assert own.stat().st_mode & 0o777 == 0o700


FORGER = """
import ctypes, os, signal, sys, threading

libc, found = ctypes.CDLL(None), set()
LINE = "Max open files            999999               999999               files\\n" * 50

def forge(pid, how):
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return
    if how == "stop":
        os.kill(pid, signal.SIGSTOP)
    elif how == "kill":
        os.kill(pid, signal.SIGKILL)
    else:  # write behind what it has said, before its pipe ends
        own = libc.syscall(438, process, 1, 0)
        while own >= 0 and os.path.exists(f"/proc/{pid}/fd/1"):
            pass
        os.write(own, LINE.encode()) if own >= 0 else None

print("ready", flush=True)
while True:
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) not in found and os.stat(f"/proc/{name}").st_uid == os.getuid():
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{parent}/comm") as file:
                    maker = file.read().strip()
                with open(f"/proc/{parent}/cmdline") as file:
                    is_job = "forkserver" in file.read()
                if not is_job and os.stat(f"/proc/{parent}").st_uid == 0 and maker != "setpriv":
                    found.add(int(name))
                    threading.Thread(target=forge, args=(int(name), sys.argv[1])).start()
        except (OSError, ValueError):
            pass
"""
"""What root starts as this user beside jobs is stopped, killed, or has lines put behind what it prints."""


def test_nobody_forges_the_limits_of_a_session(module_lab: Lab, one: SharedCluster) -> None:
    """No process of the user has a part in it: there is none to tamper with."""
    lab, cluster, host = module_lab, one, one.master_host
    limits = limits_of_alice(host)
    (home(lab, "alice") / "forger.py").write_text(FORGER)
    told, number = [], 0
    for how in ("write", "stop", "kill"):
        forger = host.popen(["python3", "forger.py", how], user="alice", stdout=subprocess.PIPE)
        assert forger.stdout is not None and forger.stdout.readline() == b"ready\n"
        for _ in range(4):  # each time the session is asked for anew, for the file has changed
            number += 1
            limits.write_text(f"alice soft nofile {300 + number}\nalice hard nofile 444\n")
            done(cluster, f"(ulimit -n; ulimit -Hn) > limits.{number}")
            told.append((home(lab, "alice") / f"limits.{number}").read_text().split())
        host.kill(forger)
    assert told == [[str(300 + each + 1), "444"] for each in range(number)]


def test_users_do_not_reach_each_others_jobs(module_lab: Lab, one: SharedCluster) -> None:
    lab, cluster = module_lab, one
    sleeper = cluster.submit("-o", "long", "echo hidden; exec sleep 1000", user="alice")
    cluster.until(lambda: "hidden" in cluster.run("gpeek", str(sleeper), check=False).stdout, "it does not run")
    spool = f"{FOLDERS.spool_dir}/h1/attempts"
    attacks = (
        f"ls {FOLDERS.spool_dir} {spool}; cat {spool}/{sleeper}.1/order {spool}/{sleeper}.1/script /home/alice/long",
        f"for user in alice root gsched; do pkill -9 -u $user; done; gkill {sleeper}; gstop {sleeper}; gpeek {sleeper}",
        "kill -9 $PPID; echo still here",
    )
    done(cluster, "-o", "stolen", "; ".join(attacks), user="bob")
    stolen = printed_in((home(lab, "bob") / "stolen").read_text())
    assert "still here\n" in stolen and "hidden" not in stolen and "sleep" not in stolen
    assert cluster.field(sleeper, "stat") == "RUN"
    assert cluster.run("gpeek", str(sleeper), user="alice").stdout.endswith("hidden\n")
    cluster.run("gkill", str(sleeper), user="alice")
    cluster.becomes(sleeper, "EXIT")


def test_an_agent_that_comes_back_has_its_users_jobs(module_lab: Lab, one: SharedCluster) -> None:
    lab, cluster, host = module_lab, one, one.master_host
    os.mkfifo(home(lab, "alice") / "go", 0o600)
    os.chown(home(lab, "alice") / "go", USERS["alice"], USERS["alice"])
    job_id = cluster.submit("-o", "out", "id -un; read line < /home/alice/go; echo $line", user="alice")
    cluster.becomes(job_id, "RUN")
    cluster.kill(host, "agent")
    cluster.start_daemon(host, "agent")
    (home(lab, "alice") / "go").write_text("went\n")
    cluster.becomes(job_id, "DONE")
    assert printed_in((home(lab, "alice") / "out").read_text()) == "alice\nwent\n"
    assert "Sender:" in (home(lab, "alice") / "out").read_text()


def test_steps_of_the_site_may_be_roots(lab: Lab) -> None:
    host = lab.host("h1")
    cluster = shared_cluster(lab, [host], settings={"LSB_PRE_POST_EXEC_USER": "root"}, files={"lsb.queues": QUEUE})
    bad = {"LD_PRELOAD": "/home/alice/evil.so", "PYTHONPATH": "/home/alice", "BASH_ENV": "/home/alice/x"}
    listed = ",".join(["all", *(f"{name}={value}" for name, value in bad.items())])
    words = ("gsub", "-env", listed, "-q", "around", "-E", "id -un > own", "-o", "out", "env")
    told = cluster.run(*words, user="alice").stdout
    job_id = int(told.split("<")[1].split(">")[0])
    cluster.becomes(job_id, "DONE")
    pre, post = (host.path(f"/tmp/{name}.{job_id}").read_text() for name in ("pre", "post"))
    assert pre.splitlines()[0] == "root" and post == "root\n"
    assert not [name for name in bad if name in pre]
    assert f"LSB_JOBID={job_id}" in pre and "PATH=/bin:/usr/bin:/sbin:/usr/sbin" in pre.splitlines()
    assert (home(lab, "alice") / "own").read_text() == "alice\n"
    assert all(f"{name}={value}" in (home(lab, "alice") / "out").read_text() for name, value in bad.items())


def agent_of(cluster: SharedCluster, host: Host, user: str) -> None:
    """Start the host's agent as a user without rights."""
    for path in (f"{ENVDIR}/tls/{host.name}.key", FOLDERS.spool_dir, f"{FOLDERS.run_dir}/agent"):
        os.chown(host.path(path), USERS[user], USERS["gsched"])
    with host.path(f"{FOLDERS.log_dir}/agent.log").open("ab") as log:
        words = ["gsched", "agent", "--envdir", ENVDIR, "--host", host.name]
        cluster.daemons[host.name, "agent"] = host.popen(
            words, user=user, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def test_an_agent_that_is_not_roots_serves_its_user_alone(lab: Lab) -> None:
    first, second = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [first, second], start=False)
    cluster.start_daemon(first, "master")
    cluster.start_host(first)
    agent_of(cluster, second, "alice")
    cluster.until(lambda: set(cluster.states().values()) == {"ok"}, "the hosts do not become ok")
    own = cluster.submit("-m", "h2", "-o", "own", "id -un", user="alice")
    cluster.becomes(own, "DONE")
    foreign = cluster.submit("-m", "h2", "true", user="bob")
    elsewhere = cluster.submit("true", user="bob")
    cluster.becomes(elsewhere, "DONE")
    assert cluster.field(elsewhere, "exec_host") == "h1"
    reasons = " ".join(cluster.run("gjobs", "-p2", str(foreign), user="bob").stdout.split())
    assert "Agent runs only jobs of user alice: 1 host" in reasons
    assert "runs only jobs of user alice" in cluster.run("ghosts", "-l", "h2", user="bob").stdout


def test_a_user_whom_a_host_does_not_know(lab: Lab) -> None:
    """The attempt does not start, the reason names user and host, and the host is not tried again and again."""
    first, second = lab.host("h1"), lab.host("h2")
    for name in ("passwd", "shadow", "group"):
        path = second.path(f"/etc/{name}")
        path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("carol:")))
    cluster = shared_cluster(lab, [first, second])
    began = time.monotonic()
    job_id = cluster.submit("-m", "h2", "true", user="carol")
    cluster.until(lambda: "there is no user carol on host h2" in history(cluster, job_id), "no reason is told")
    tries = history(cluster, job_id).count("there is no user carol")
    assert 2 ** (tries - 1) - 1 <= time.monotonic() - began, "1, 2, 4 ... seconds lie between them"
    cluster.becomes(job_id, "PEND")  # for a moment at each try it runs
    free = cluster.submit("-m", "h1 h2", "-R", "order[-slots]", "true", user="carol")
    cluster.becomes(free, "DONE")
    assert cluster.field(free, "exec_host") == "h1"


def history(cluster: SharedCluster, job_id: int) -> str:
    return " ".join(cluster.run("ghist", "-l", str(job_id), user="carol").stdout.split())
