"""Users who share hosts, real daemons: what each may do to whose jobs, what they cannot see, and the log of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import netlab_machine as machine
import pytest
from netlab import BIN, Lab
from netlab_cluster import ENVDIR, FOLDERS, PATIENCE_S, SERVICE_USER, SharedCluster, shared_cluster

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

USERS = """
Begin UserGroup
GROUP_NAME   GROUP_MEMBER   GROUP_ADMIN
lab          (alice)        (carol)
End UserGroup
"""
QUEUES = """
Begin Queue
QUEUE_NAME = theirs
PRIORITY = 20
ADMINISTRATORS = bob
End Queue
"""
DENIED = "User permission denied"
TEXTS = "import gsched, sys; print(gsched.Cluster().client().texts(int(sys.argv[1])).environment.decode())"
ASK = """
import gsched, os, time
client = gsched.Cluster().client()
begun, asked = time.monotonic(), 0
while not os.path.exists("enough"):
    client.cluster()
    asked += 1
    if asked == 220:
        print("held up", flush=True)
print(asked, time.monotonic() - begun)
"""
"""Asks again and again until there is the file `enough`; says how often, and how many seconds that took."""


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """Hosts h1, with the master, and h2. carol administers alice's group, bob the queue theirs."""
    return shared_cluster(
        module_lab,
        [module_lab.host("h1"), module_lab.host("h2")],
        settings={"GSCHED_COMMAND_WAIT": "60", "GSCHED_MAX_REQUESTS_PER_S": "20"},
        files={"lsb.users": USERS, "lsb.queues": QUEUES},
    )


@pytest.fixture
def running(shared: SharedCluster) -> Iterator[int]:
    """A job of alice on h2 that knows a secret."""
    job = shared.submit("-m", "h2", "echo the word is $HUSH; exec sleep 300", user="alice", env={"HUSH": "sesame"})
    shared.becomes(job, "RUN")
    yield job
    shared.run("gkill", str(job), user="alice", check=False)
    shared.becomes(job, "EXIT")


def test_what_is_private_of_a_job_is_for_its_owner_and_those_who_control_it(
    shared: SharedCluster, running: int
) -> None:
    for user in ("alice", "carol", SERVICE_USER):
        shared.until(
            lambda user=user: "the word is sesame" in shared.run("gpeek", str(running), user=user).stdout, "no output"
        )
    denied = shared.run("gpeek", str(running), user="bob", check=False)
    assert denied.returncode == 255 and DENIED in denied.stderr and "sesame" not in denied.stdout
    for user, may in (("alice", True), (SERVICE_USER, True), ("carol", False), ("bob", False)):
        told = shared.run(f"{BIN}/python", "-c", TEXTS, str(running), user=user, check=False)
        assert ("HUSH=sesame" in told.stdout) is may and (DENIED in told.stderr) is not may, told.stderr
    assert "echo the word is" in shared.run("gjobs", "-l", str(running), user="bob").stdout
    shared.run("sh", "-c", f"echo attached > secret && gpost -i 9 -a secret {running}", user="alice")
    for user, may in (("alice", True), ("carol", True), ("bob", False)):
        reads = f'cd "$(mktemp -d)" && gread -i 9 -a got {running} && cat got'
        told = shared.run("sh", "-c", reads, user=user, check=False)
        assert ("attached" in told.stdout) is may and (DENIED in told.stderr) is not may, told.stderr


def test_nothing_of_it_lies_open_on_any_host(shared: SharedCluster, running: int) -> None:
    """The spool, the store, sockets, keys, logs, the processes themselves."""
    shared.until(lambda: "sesame" in shared.run("gpeek", str(running)).stdout, "no output")
    for host in shared.hosts:
        folders = (FOLDERS.spool_dir, FOLDERS.state_dir, FOLDERS.run_dir, FOLDERS.log_dir, ENVDIR, "/tmp")
        found = host.run(["grep", "-rlas", "sesame", *folders], user="bob")
        assert found.returncode in (0, 1, 2) and machine.own_files(found.stdout.splitlines()) == [], found.stdout
        found = host.run(
            ["sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/mem 2>/dev/null | grep -ac sesame"], user="bob"
        )
        assert found.stdout == "0\n"
        for path in (f"{FOLDERS.state_dir}/gsched.db", f"{ENVDIR}/tls/{host.name}.key", f"{FOLDERS.log_dir}/audit.log"):
            assert host.run(["cat", path], user="bob").returncode != 0
    b = shared.hosts[1]
    (folder,) = b.path(f"{FOLDERS.spool_dir}/h2/attempts").glob(f"{running}.*")
    name = f"{FOLDERS.spool_dir}/h2/attempts/{folder.name}"
    for word in (
        ["ls", f"{FOLDERS.spool_dir}/h2/attempts"],
        ["ls", name],
        ["touch", f"{name}/x"],
        ["mv", name, f"{name}x"],
    ):
        assert b.run(word, user="bob").returncode != 0
        if word[0] != "ls":
            assert b.run(word, user="alice").returncode != 0
    assert b.run(["pkill", "-9", "-u", "alice"], user="bob").returncode != 0
    assert shared.field(running, "stat") == "RUN"


def test_each_role_has_its_jobs_and_queues(shared: SharedCluster, running: int) -> None:
    waiting = shared.submit("-H", "true", user="alice")
    theirs = shared.submit("-q", "theirs", "-H", "true", user="alice")

    def may(*words: str | int, user: str) -> bool:
        done = shared.run(*map(str, words), user=user, check=False)
        if done.returncode:
            said = done.stdout + done.stderr
            assert "denied" in said.lower(), said
        return done.returncode == 0

    assert may("gstop", running, user="carol") and may("gresume", running, user="carol")
    assert may("gmod", "-W", "60", waiting, user="carol")
    for option, value in (
        ("-o", "/home/alice/.bashrc"),
        ("-Z", "id > /tmp/x"),
        ("-E", "id"),
        ("-f", "/etc/passwd > x"),
    ):
        assert not may("gmod", option, value, waiting, user="carol")
        assert not may("gmod", option, value, theirs, user="bob")
    for word in ("gkill", "gstop", "gresume", "gtop", "gbot", "grequeue"):
        assert not may(word, waiting, user="bob")
    assert not may("gpost", "-d", "boo", waiting, user="bob")
    assert not may("gswitch", "theirs", waiting, user="bob")
    assert may("gmod", "-W", "60", theirs, user="bob") and may("gkill", theirs, user="bob")
    assert may("gadmin", "qclose", "theirs", user="bob") and may("gadmin", "qopen", "theirs", user="bob")
    for words in (("qclose", "normal"), ("hclose", "h2"), ("reconfig",)):
        assert not may("gadmin", *words, user="bob") and not may("gadmin", *words, user="carol")
    assert not may("gadmin", "qclose", "theirs", user="carol")
    assert not may("grsvadd", "-n", "1", "-u", "bob", "-b", "23:00", "-e", "23:30", user="bob")
    assert not may("grun", "-m", "h1", waiting, user="carol")
    assert may("gkill", waiting, user="carol")


def test_each_deed_stands_in_the_audit_log(shared: SharedCluster, running: int) -> None:
    log = shared.master_host.path(f"{FOLDERS.log_dir}/audit.log")
    shared.run("gkill", str(running), user="bob", host=shared.hosts[1], check=False)
    shared.run("gpeek", str(running), user="bob", check=False)
    wanted = (
        rf"user=alice host=h1 way=door action=submit count=1 .*outcome=ok jobs={running}",
        rf'user=bob host=h2 way=door action=kill on={running} outcome=refused why="{DENIED}: for its owner \(alice\), ',
        rf'user=bob host=h1 way=door action="read output" on={running} outcome=refused',
    )
    shared.until(lambda: all(re.search(each, log.read_text()) for each in wanted), log.read_text())
    assert log.stat().st_mode & 0o777 == 0o640
    assert "sesame" not in log.read_text()


def test_who_asks_too_often_waits_and_others_do_not(shared: SharedCluster) -> None:
    busy = shared.hosts[1].popen([f"{BIN}/python", "-c", ASK], user="bob", stdout=-1, text=True)
    assert busy.stdout is not None and busy.stdout.readline() == "held up\n"
    for _ in range(5):
        shared.run("gjobs", user="alice")
    shared.run("touch", "enough", user="bob")
    output, _ = busy.communicate(timeout=PATIENCE_S)
    asked, took_s = output.split()
    assert busy.returncode == 0 and int(asked) <= 200 + 20 * float(took_s) + 1  # 200 at once, the others 20 a second
