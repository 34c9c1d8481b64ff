"""Jobs with a page of their own on another host: reached by way of the agents, by their owner and whom he names."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from netlab import BIN, Host, Lab
from netlab_cluster import SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

SERVE = f'exec {shlex.quote(str(BIN))}/python -m http.server --bind 127.0.0.1 "$GSCHED_SERVICE_PORT"'
ASK = """
import gsched, sys
services, job = gsched.Cluster().client().services, int(sys.argv[1])
found = services.find(job)
connection = services.connect(job, found.attempt)
connection.send(b"GET /mine HTTP/1.0\\r\\n\\r\\n", lambda: None)
print(found.host, found.port, b"".join(connection).decode().partition("\\r\\n\\r\\n")[2])
"""
"""Finds the job's service, and prints what it answers."""


BROWSE = """
import http.client, re, socket, subprocess, sys
job = sys.argv[1]
command = ["gsched", "web", "--socket", "web.sock"]
web = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
def ask(name, path, cookie=""):
    talk = http.client.HTTPConnection("localhost")
    talk.sock = socket.socket(socket.AF_UNIX)
    talk.sock.connect("web.sock")
    talk.request("GET", path, headers={"host": name + ":8080", "cookie": cookie})
    answer = talk.getresponse()
    return answer.read().decode(), answer.headers["location"], (answer.headers["set-cookie"] or "").partition(";")[0]
for line in web.stdout:
    if found := re.search("/enter[?]token=[\\w-]+", line):
        break
_, _, pages = ask("localhost", found[0])
_, where, _ = ask("localhost", f"/jobs/{job}/service", pages)
name, _, path = where.removeprefix("http://").partition(":8080")
_, _, own = ask(name, path, "")
print(name, ask(name, "/mine", own)[0])
web.terminate()
"""
"""Runs `gsched web`, opens the job's service by it, and prints its name and what it answers."""


def ask(host: Host, user: str, job: int) -> subprocess.CompletedProcess[str]:
    return host.run([f"{BIN}/python", "-c", ASK, str(job)], user=user)


def port_of(cluster: SharedCluster, job: int) -> int:
    cluster.until(lambda: cluster.field(job, "service_port") not in ("", "-"), f"job {job} does not answer")
    return int(cluster.field(job, "service_port"))


@pytest.mark.nightly
def test_it_is_reached_from_another_host_by_its_owner_and_whom_he_names_alone(lab: Lab) -> None:
    cluster = shared_cluster(lab, [lab.host("h1"), lab.host("h2")])
    a, b = cluster.hosts
    b.run(["sh", "-c", "echo the page > mine"], user="alice", check=True)
    job = cluster.submit("--service", "auto", "-m", "h2", SERVE)
    port = port_of(cluster, job)
    done = ask(a, "alice", job)
    assert (done.returncode, done.stdout) == (0, f"h2 {port} the page\n\n"), done.stderr
    seen = a.run([f"{BIN}/python", "-c", BROWSE, str(job)], user="alice")
    assert (seen.returncode, seen.stdout) == (0, f"job-{job}.localhost the page\n\n"), seen.stderr
    for user in ("bob", "carol", "root"):
        denied = ask(a, user, job)
        assert denied.returncode and "PermissionDenied" in denied.stderr and not denied.stdout, user
    cluster.run("gmod", "--service-users", "bob", str(job))
    assert ask(a, "bob", job).stdout == f"h2 {port} the page\n\n"
    assert "PermissionDenied" in ask(a, "carol", job).stderr
    assert cluster.run("gmod", "--service-usersn", str(job), user="bob", check=False).returncode
    cluster.run("gmod", "--service-usersn", str(job))
    assert "PermissionDenied" in ask(a, "bob", job).stderr
    outside = a.run(["bash", "-c", f"exec 3<>/dev/tcp/{b.address}/{port}"])
    assert outside.returncode and "refused" in outside.stderr, "it is not open to the network"
    # A second job that says it is there is not believed, nor one whose port is somebody else's.
    thief = cluster.submit("--service", str(port), "-m", "h2", "sleep 1000", user="bob")
    cluster.becomes(thief, "RUN")
    stolen = ask(a, "bob", thief)
    assert stolen.returncode and f"port {port} of h2 is listened on by a process that is not the job's" in stolen.stderr
    for host, name in ((a, "master"), (b, "agent")):
        cluster.kill(host, name)
        cluster.start_daemon(host, name)
    cluster.until(lambda: ask(a, "alice", job).stdout == f"h2 {port} the page\n\n", "it is not reached again")
    assert cluster.field(job, "service_port") == str(port)
    cluster.run("gkill", "-s", "KILL", str(job))
    cluster.becomes(job, "EXIT")
    assert "has ended, and its service with it" in ask(a, "alice", job).stderr
