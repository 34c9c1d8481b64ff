"""Two hosts, several users, real daemons: everybody is who the kernel says, and nobody else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from netlab import BIN, Host, Lab
from netlab_cluster import ENVDIR, FOLDERS, PATIENCE_S, PORT, SERVICE_USER, SharedCluster, shared_cluster
from netlab_machine import USERS

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

FORGED = """
import os, sys, grpc
from pathlib import Path
from gsched.wire.messages.protocol import PROTOCOL
from gsched.wire.v1 import agent_pb2, agent_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc
certificate, user, host = sys.argv[1:]
tls = Path("/etc/gsched/tls")
pair = [(tls / f"{certificate}.{kind}").read_bytes() for kind in ("key", "crt")] if certificate else [None, None]
channel = grpc.secure_channel("h1:6881", grpc.ssl_channel_credentials((tls / "ca.crt").read_bytes(), *pair))
metadata = (("gsched-user", user),) if user else ()
try:
    if host:
        hello = agent_pb2.AgentMessage(hello=agent_pb2.Hello(host=host, protocol=PROTOCOL))
        batches = iter([agent_pb2.AgentBatch(messages=[hello])])
        answers = agent_pb2_grpc.AgentServiceStub(channel).Session(batches, timeout=60, metadata=metadata)
        print("refused", next(answers).messages[0].refusal.text)
    else:
        request = scheduler_pb2.HostControlRequest(action="close", hosts=["h1"])
        scheduler_pb2_grpc.SchedulerStub(channel).HostControl(request, timeout=60, metadata=metadata)
        print("done")
except grpc.RpcError as error:
    print(error.code().name, error.details())
sys.stdout.flush()
os._exit(0)  # gRPC's objects of a call that ends just then can wait for ever for a thread that the exit has ended
"""


def forged(host: Host, *, certificate: str, user: str = "", of: str = "", by: str = "root") -> str:
    """What the master of h1 says to a program of `by` on `host`, which shows a certificate and gives a user's name."""
    done = host.run([f"{BIN}/python", "-c", FORGED, certificate, user, of], user=by)
    return done.stdout + done.stderr


def is_logged(cluster: SharedCluster, pattern: str) -> None:
    """Wait for a line of the audit log; it may come a moment after the answer."""
    log = cluster.master_host.path(f"{FOLDERS.log_dir}/audit.log")
    cluster.until(lambda: re.search(pattern, log.read_text()), f"not logged: {pattern}")


@pytest.fixture(scope="module")
def two(module_lab: Lab) -> SharedCluster:
    """Hosts h1, with the master, and h2, the same for most of the tests."""
    hosts = [module_lab.host("h1"), module_lab.host("h2")]
    return shared_cluster(module_lab, hosts, settings={"GSCHED_COMMAND_WAIT": "60"})


def test_users_of_all_hosts_are_who_they_are(two: SharedCluster) -> None:
    _, b = two.hosts
    first = two.submit("-o", "/dev/null", "sleep 100", user="alice", host=b)
    assert two.field(first, "user", user="bob") == "alice"
    for user, host in (("bob", b), ("root", b), ("root", two.hosts[0])):
        done = two.run("gkill", str(first), user=user, host=host, check=False)
        assert done.returncode == 255, (user, done.stdout)
    refused = two.run("gsub", "id", user="root", host=b, check=False)
    assert "LSF_ROOT_USER=Y" in refused.stderr
    refused = two.run("gkill", str(first), user=SERVICE_USER, host=b, check=False)
    assert "user gsched is whom the master runs as: heard from h1 alone (GSCHED_ADMIN_HOSTS)" in refused.stderr
    assert two.run("gkill", str(first), user=SERVICE_USER).stdout.startswith(f"Job <{first}>")
    two.becomes(first, "EXIT")
    is_logged(two, rf"user=alice host=h2 way=door action=submit .*jobs={first}")
    is_logged(two, rf"user=bob host=h2 way=door action=kill on={first} outcome=refused")
    is_logged(two, rf"user={SERVICE_USER} host=h1 way=door action=kill on={first} outcome=ok")


def test_what_runs_outside_the_door_is_its_users_too(two: SharedCluster) -> None:
    """Interactive jobs, commands without the door, gadmin and Python programs: through the relay."""
    _, b = two.hosts
    done = two.run("gsub", "-I", "id -un; exit 7", user="alice", host=b, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (7, "alice"), done.stderr
    inside = two.run("env", "GSCHED_DOOR=off", "gsub", "-K", "true", user="bob", host=b)
    assert "submitted" in inside.stdout
    program = "import gsched; c = gsched.Cluster(); j = c.submit('true'); j.wait(); print(j.view().spec.user)"
    done = two.run(f"{BIN}/python", "-c", program, user="carol", host=b)
    assert done.stdout == "carol\n", done.stderr
    done = two.run("gadmin", "hclose", "h2", user="bob", host=b, check=False)
    assert done.returncode == 255
    assert "denied" in done.stderr.lower(), done.stderr
    two.run("gadmin", "hclose", "h2", user=SERVICE_USER)
    two.host_becomes(b, "closed_Adm")
    two.run("gadmin", "hopen", "h2", user=SERVICE_USER)


def test_who_waits_outside_the_door_outlives_door_and_master(two: SharedCluster) -> None:
    a, b = two.hosts
    words = ["env", "GSCHED_DOOR=off", "gsub", "-K", "-m", "h1", "until [ -e ended ]; do sleep 0.1; done; exit 4"]
    waiting = b.popen(words, user="alice", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    while "Starting on" not in waiting.stderr.readline():
        assert waiting.poll() is None
    two.kill(b, "door")
    two.kill(a, "master")
    two.start_daemon(a, "master")
    two.start_daemon(b, "door")
    two.run("touch", "ended")
    assert waiting.wait(PATIENCE_S) == 4
    two.until(lambda: set(two.states().values()) == {"ok"}, "the hosts do not come back")


def test_programs_of_a_site_are_run_by_the_caller_and_not_by_the_door(two: SharedCluster) -> None:
    esub = two.hosts[1].path(f"{FOLDERS.server_dir}/esub")
    esub.write_text("#!/bin/sh\nid -un >&2\n")
    esub.chmod(0o755)
    done = two.run("gsub", "true", user="alice", host=two.hosts[1])
    esub.unlink()
    assert done.stderr == "alice\n"


def test_the_door_does_not_follow_its_callers_elsewhere(two: SharedCluster) -> None:
    """A folder of the caller's that names this door and a false master: the door speaks to its own cluster alone."""
    b = two.hosts[1]
    socket = f"{FOLDERS.run_dir}/master/master.sock"
    for step in ("mkdir conf", f"cp {ENVDIR}/.door {ENVDIR}/lsf.conf conf", f"echo unix:{socket} > conf/.master"):
        two.run("sh", "-c", step, user="alice", host=b)
    done = two.run("sh", "-c", "GSCHED_ENVDIR=$HOME/conf gsub true", user="alice", host=b, check=False)
    assert (done.returncode, done.stdout) == (255, "")
    assert "serves the cluster of /etc/gsched" in done.stderr or "not trusted" in done.stderr, done.stderr


def test_without_a_door_a_user_is_told_so(two: SharedCluster) -> None:
    b = two.hosts[1]
    two.kill(b, "door", 15)
    done = two.run("env", "GSCHED_COMMAND_WAIT=2", "gjobs", user="alice", host=b, check=False)
    two.start_daemon(b, "door")
    assert done.returncode == 255
    assert "no door is open on this host" in done.stderr


def test_forged_names_and_certificates_of_others(two: SharedCluster) -> None:
    _, b = two.hosts
    assert b.run(["cat", f"{ENVDIR}/tls/h2.key"], user="alice").returncode != 0
    assert forged(b, certificate="", user=SERVICE_USER, by="alice").startswith("UNAVAILABLE")
    assert forged(b, certificate="").startswith("UNAVAILABLE")
    assert forged(b, certificate="h2").startswith("PERMISSION_DENIED host h2 names 0 users")
    assert forged(b, certificate="h2", user="root").startswith("PERMISSION_DENIED")
    assert forged(b, certificate="h2", of="h1").startswith("refused the certificate is that of host h2")
    assert forged(b, certificate="h2", user="alice", of="h2").startswith("PERMISSION_DENIED no user may speak as")
    # Root of a host is trusted with the names of its users, and not with that of the master's own.
    assert forged(b, certificate="h2", user=SERVICE_USER).startswith("PERMISSION_DENIED user gsched is whom the master")
    assert two.states() == {"h1": "ok", "h2": "ok"}
    assert "an agent connected from" in two.log(two.hosts[0], "master")


def test_no_job_runs_as_the_service_user(two: SharedCluster) -> None:
    """It could read the host's key, and so be any user of the cluster: not by the door, nor on the master's socket."""
    a, b = two.hosts
    stolen = a.path("/tmp/stolen")
    for words in (["gsub"], ["env", "GSCHED_DOOR=off", "gsub"]):
        done = two.run(*words, "-m", "h1", f"cp {ENVDIR}/tls/h1.key /tmp/stolen", user=SERVICE_USER, check=False)
        assert done.returncode == 255
        assert done.stderr == (
            "Jobs of gsched are not accepted: the master runs as that account, so it is a way to everything. "
            "Job not submitted.\n"
        )
    (two.lab.folder / "home/daemon").mkdir(exist_ok=True)
    done = two.run("gsub", "id", user="daemon", host=b, check=False)
    assert "Jobs of daemon are not accepted: a system account (uid 1, below UID_MIN" in done.stderr
    job_id = two.submit("-m", "h2", "-K", f"cat {ENVDIR}/tls/h2.key > key; id -un > who", user="alice")
    assert two.run("sh", "-c", "cat key who", user="alice").stdout == "alice\n", job_id
    assert not stolen.exists()


def test_nothing_listens_beyond_the_masters_port(two: SharedCluster) -> None:
    for host, wanted in zip(two.hosts, ({str(PORT)}, set()), strict=True):
        lines = host.run(["ss", "-Hlnt"], check=True).stdout.splitlines()
        assert {line.split()[3].rpartition(":")[2] for line in lines} == wanted


def test_a_master_without_certificates_does_not_begin(lab: Lab) -> None:
    a = lab.host("h1")
    cluster = shared_cluster(lab, [a], start=False)
    (a.path(f"{ENVDIR}/tls/h1.key")).chmod(0o644)
    process: subprocess.Popen[bytes] = cluster.start_daemon(a, "master")
    assert process.wait(PATIENCE_S) == 255
    assert (
        cluster.log(a, "master")
        .splitlines()[-1]
        .endswith("/etc/gsched/tls/h1.key: a key with mode 0644 is no secret: chmod 0600 it (0640 for a group)")
    )


def test_an_agent_of_root_does_not_begin_with_files_that_others_can_change(lab: Lab) -> None:
    a = lab.host("h1")
    cluster = shared_cluster(lab, [a], start=False)
    queues = a.path(f"{ENVDIR}/lsb.queues")
    os.chown(queues, USERS["alice"], USERS["alice"])
    assert cluster.start_daemon(a, "agent").wait(PATIENCE_S) == 255
    assert (
        cluster.log(a, "agent")
        .splitlines()[-1]
        .endswith(
            f"{ENVDIR}/lsb.queues: belongs to uid {USERS['alice']}; "
            "what root's agent runs and reads must be for root alone to change"
        )
    )


def test_a_host_that_was_removed_is_refused_from_then_on(two: SharedCluster) -> None:
    a, b = two.hosts
    two.remove(b)
    two.until(lambda: set(two.states()) == {"h1"}, "h2 does not go")
    said = two.run("gjobs", user="alice", host=b, check=False)
    assert "the certificate is that of h2, which is not one host of lsf.cluster" in said.stderr
    refused = "the master refuses this agent: the certificate is that of h2"
    two.until(lambda: refused in two.log(b, "agent"), "no word of it")
    assert two.run("gjobs", user="alice", host=a).returncode == 0


def test_a_host_without_a_door_proves_its_users_by_munge(lab: Lab) -> None:
    if shutil.which("munged", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("needs munged (Debian: munge)")
    a, b = lab.host("h1"), lab.host("h2")
    key = os.urandom(128)
    for host in (a, b):
        host.path("/etc/munge.key").write_bytes(key)
        host.path("/etc/munge.key").chmod(0o600)
        files = [f"--{name}-file=/run/munged.{name}" for name in ("pid", "log", "seed")]
        words = ["munged", "--force", "--foreground", "--key-file=/etc/munge.key", "--socket=/run/munged.sock"]
        host.popen([*words, *files], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    settings = {"GSCHED_MUNGE_PORT": "6883", "GSCHED_MUNGE_SOCKET": "/run/munged.sock", "GSCHED_COMMAND_WAIT": "60"}
    cluster = shared_cluster(lab, [a, b], settings=settings)
    cluster.kill(b, "door", 15)
    (b.path(f"{ENVDIR}/tls/h2.key")).unlink()  # a host of users alone need prove nothing
    job_id = cluster.submit("sleep 100", user="bob", host=b)
    assert cluster.field(job_id, "user") == "bob"
    assert cluster.run("gkill", str(job_id), user="alice", host=b, check=False).returncode == 255
    assert cluster.run("gkill", str(job_id), user="bob", host=b).stdout.startswith(f"Job <{job_id}>")
    done = cluster.run("gsub", "-I", "id -un", user="alice", host=b)
    assert done.stdout.splitlines()[-1] == "alice"
    is_logged(cluster, rf"user=bob host={re.escape(b.address)} way=munge action=submit .*jobs={job_id}")
