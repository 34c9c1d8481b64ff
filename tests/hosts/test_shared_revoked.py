"""The key of the master's host was stolen, and is replaced, while the cluster runs."""

from __future__ import annotations

import os
import subprocess

import pytest
from netlab import Host, Lab
from netlab_cluster import ENVDIR, PATIENCE_S, SERVICE_USER, SharedCluster, shared_cluster
from netlab_machine import USERS

from gsched.wire.identity.certificates import fingerprint

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

REVOKED = "the certificate that h1 shows as the master's host is revoked"


def copy_to(cluster: SharedCluster, host: Host) -> None:
    """By the command of docs/fleet.md."""
    packing = cluster.master_host.popen(["gadmin", "host-files", host.name], stdout=subprocess.PIPE)
    unpacking = host.popen(["tar", "-x", "-C", "/etc"], stdin=packing.stdout)
    assert (packing.wait(PATIENCE_S), unpacking.wait(PATIENCE_S)) == (0, 0)


def renewed(cluster: SharedCluster, host: Host) -> None:
    """On the master's host, which is the administrator's machine here."""
    cluster.master_host.run(["gadmin", "host-cert", "--renew", "--revoke", host.name], check=True)


def test_a_stolen_key_of_the_masters_host_is_good_for_nothing(lab: Lab) -> None:
    a, b = lab.host("h1"), lab.host("h2")
    cluster = shared_cluster(lab, [a, b], settings={"GSCHED_COMMAND_WAIT": "60"})
    running = cluster.submit("-m", "h2", "sleep 1000", user="alice", host=b)
    cluster.becomes(running, "RUN")
    # Who shows the master's certificate is the thief now, to h2 at least: it has the list already.
    stolen = fingerprint(a.path(f"{ENVDIR}/tls/h1.crt").read_bytes())
    b.path(f"{ENVDIR}/tls/revoked").write_text(f"{stolen}  h1  2026-01-01\n")
    cluster.until(lambda: f"no session with the master: {REVOKED}" in cluster.log(b, "agent"), "the agent goes on")
    for door in ("on", "off"):
        done = cluster.run("env", f"GSCHED_DOOR={door}", "gjobs", user="alice", host=b, check=False)
        assert (done.returncode, done.stdout) == (255, "") and REVOKED in done.stderr, done.stderr
    # The master gets a new key and certificate; its group is that of the service again.
    renewed(cluster, a)
    key = a.path(f"{ENVDIR}/tls/h1.key")
    key.chmod(0o640)
    os.chown(key, 0, USERS[SERVICE_USER])
    copy_to(cluster, b)
    cluster.host_becomes(b, "ok")
    assert cluster.field(running, "stat", user="alice") == "RUN"
    done = cluster.run("gkill", str(running), user="alice", host=b)
    assert done.stdout.startswith(f"Job <{running}>")
    cluster.becomes(running, "EXIT")
    # A daemon whose own certificate is revoked says so and does not begin.
    cluster.kill(b, "agent")
    renewed(cluster, b)
    b.path(f"{ENVDIR}/tls/revoked").write_bytes(a.path(f"{ENVDIR}/tls/revoked").read_bytes())
    assert cluster.start_daemon(b, "agent").wait(PATIENCE_S) == 255
    del cluster.daemons["h2", "agent"]
    assert f"{ENVDIR}/tls/h2.crt: is revoked" in cluster.log(b, "agent").splitlines()[-1]
    copy_to(cluster, b)
    cluster.start_daemon(b, "agent")
    cluster.host_becomes(b, "ok")
