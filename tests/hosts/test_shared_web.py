"""`gsched web` of a shared cluster: two users with passwords, each with pages of a process of their own."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator

import pytest
from netlab import Host, Lab
from netlab_cluster import FOLDERS, SharedCluster, shared_cluster
from netlab_machine import USERS
from netlab_web import FRONT_UID, SETTINGS, LabBrowser, page_process_of, prepare_host, processes_of, start_web

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

NewBrowser = Callable[..., LabBrowser]


@pytest.fixture(scope="module")
def shared(module_lab: Lab) -> SharedCluster:
    """h1 has the master and the pages, h2 two GPUs; browsers are on h2."""
    hosts = [module_lab.host("h1"), module_lab.host("h2")]
    prepare_host(hosts[0], ["h1"])
    cluster = shared_cluster(module_lab, hosts, sim_gpus="2:default", settings=SETTINGS)
    start_web(cluster, hosts[0])
    return cluster


@pytest.fixture
def browser(shared: SharedCluster) -> Iterator[NewBrowser]:
    made: list[LabBrowser] = []

    def new(host: Host | None = None) -> LabBrowser:
        made.append(LabBrowser(shared, host or shared.hosts[1], shared.hosts[0]))
        return made[-1]

    yield new
    for each in made:
        each.end()


def audit(shared: SharedCluster) -> str:
    return (shared.hosts[0].folder / FOLDERS.log_dir.lstrip("/") / "audit.log").read_text()


def test_each_user_has_pages_of_their_own(shared: SharedCluster, browser: NewBrowser) -> None:
    alice, bob = browser().entered("alice"), browser().entered("bob")
    job = shared.submit("-J", "secretive", "-m", "h2", "-gpu", "num=1", "echo what alice prints; sleep 3000")
    shared.becomes(job, "RUN")
    for each, user in ((alice, "alice"), (bob, "bob")):
        text = each.page("/")
        assert f"<strong>{user}</strong>" in text and "h1" in text and "h2" in text
    shared.until(lambda: f'href="/jobs/{job}"' in alice.page("/"), "the tile does not say whose the GPU is")
    shared.until(lambda: "tile others" in bob.page("/"), "bob does not see that it is somebody's")
    assert "tile mine" in alice.page("/") and "tile mine" not in bob.page("/")
    assert "secretive" in alice.page("/jobs") and "secretive" not in bob.page("/jobs")
    shared.until(lambda: "what alice prints" in alice.page(f"/jobs/{job}/output"), "its output is not shown")
    for path, status in ((f"/jobs/{job}/output", 200), (f"/jobs/{job}/output/stdout", 403)):
        answer = bob.ask("GET", path)
        assert answer.status == status and "what alice prints" not in answer.text.replace("echo what alice prints", "")
        assert status == 403 or '"denied":true' in answer.text, "his page asks on"
    assert "LOGNAME=alice" in alice.page(f"/jobs/{job}") and "LOGNAME=alice" not in bob.page(f"/jobs/{job}")
    refused = bob.send("/deeds", action="kill", job=str(job))
    assert refused.status == 409 and "User permission denied" in refused.text
    assert alice.send("/deeds", action="kill", job=str(job), back="job").status == 303
    shared.becomes(job, "EXIT")
    lines: list[str] = []

    def both_logged() -> bool:
        lines[:] = [line for line in audit(shared).splitlines() if f"action=kill on={job}" in line]
        return len(lines) >= 2

    shared.until(both_logged, "the audit log does not say who did it")  # it writes lines together
    assert [re.findall(r"user=(\w+) host=(\w+) way=(\w+) program=web", line)[0] for line in lines] == [
        ("bob", "h1", "door"),
        ("alice", "h1", "door"),
    ]
    h1 = shared.hosts[0]
    for user in ("alice", "bob"):
        assert [line for line in processes_of(h1, USERS[user]) if "gsched.web.front.user_process" in line]
        environment = f"/proc/{page_process_of(h1, USERS[user])}/environ"
        assert "Permission denied" in h1.run(["cat", environment], user=user).stderr
    assert processes_of(h1, FRONT_UID), "the front is nobody in particular"
    folder = h1.path(f"{FOLDERS.run_dir}/web/users").stat()
    assert (folder.st_uid, folder.st_gid, folder.st_mode & 0o777) == (0, FRONT_UID, 0o710)
    for each in h1.path(f"{FOLDERS.run_dir}/web/users").iterdir():
        assert (each.stat().st_uid, each.stat().st_mode & 0o777) == (FRONT_UID, 0o600)


def test_a_job_from_the_page_is_the_users(shared: SharedCluster, browser: NewBrowser) -> None:
    alice = browser().entered("alice")
    token = re.search(r'name="token" value="(\w+)"', alice.page("/new"))
    assert token is not None
    sent = alice.send("/new", command="id -un; umask", token=token[1], output="from-page.%J", cwd="/home/alice")
    assert sent.status == 303, sent.text
    job = int(re.findall(r"/jobs/(\d+)", sent.header("location"))[0])
    shared.becomes(job, "DONE")
    assert shared.field(job, "user") == "alice"
    file = shared.lab.folder / f"home/alice/from-page.{job}"
    assert file.stat().st_uid == USERS["alice"] and "alice\n0022\n" in file.read_text()
    file.chmod(0o600)
    shared.until(lambda: "0022" in alice.page(f"/jobs/{job}/output"), "the file that it has left is not shown")
    bob = browser().entered("bob")
    for path in (f"/jobs/{job}/output", f"/jobs/{job}/output/stdout"):
        answer = bob.ask("GET", path)
        assert answer.status in (403, 409) or '"text":""' in answer.text, answer
        assert "0022" not in answer.text


def test_nobody_is_let_in_without_the_password(shared: SharedCluster, browser: NewBrowser) -> None:
    stranger = browser()
    for path in ("/", "/jobs", "/new", "/live?watch=jobs", "/queues", "/jobs/1/output"):
        answer = stranger.ask("GET", path)
        assert answer.status == 401 and "h2" not in answer.text and 'action="/login"' in answer.text
    for user, password in (("carol", "wrong"), ("root", None), ("gsched", None), ("nosuch", "x"), ("al\0ice", "x")):
        answer = stranger.log_in(user, password)
        assert (answer.status, answer.header("set-cookie")) == (403, ""), user
        assert "The user or the password is wrong" in answer.text
    for cookie in ("x", stranger.csrf if stranger.cookie else "y", "a" * 4000):
        stranger.cookie = cookie
        assert stranger.ask("GET", "/jobs").status == 401
    stranger.cookie = ""
    for header in ("remote-user", "Remote_User", "REMOTE-USER"):
        answer = stranger.ask("GET", "/", headers=[(header, "alice")])
        assert answer.status == 403 and "counts from the proxy alone" in answer.text
    answer = stranger.ask("GET", "/", headers=[("gsched-csrf", "x")])
    assert answer.status == 401


def test_guessing_is_slowed_down_and_locks_nobody_out(shared: SharedCluster, browser: NewBrowser) -> None:
    guesser = browser(shared.hosts[1])
    statuses = [guesser.log_in("carol", f"guess {number}").status for number in range(8)]
    assert statuses[0] == 403 and statuses[-1] == 429
    assert "try again in" in guesser.log_in("carol", "guess").text
    browser(shared.hosts[0]).entered("carol")
    assert 'login user=\\"carol\\"' in shared.log(shared.hosts[0], "web") or "carol" in shared.log(
        shared.hosts[0], "web"
    )
    assert "guess" not in shared.log(shared.hosts[0], "web"), "no password is logged"


def test_sessions_are_apart_and_end(shared: SharedCluster, browser: NewBrowser) -> None:
    alice, bob, again = browser().entered("alice"), browser().entered("bob"), browser().entered("alice")
    assert len({alice.cookie, bob.cookie, again.cookie}) == 3
    token = alice.csrf
    for other in (bob, again):
        body = f"csrf={token}&action=kill&job=1"
        assert other.ask("POST", "/deeds", body).status == 403
    for origin in ("https://evil.example", "null", "http://h1:8443", "https://h1"):
        answer = alice.ask(
            "POST", "/deeds", f"csrf={token}&action=kill&job=1", [("origin", origin)], without=["origin"]
        )
        assert answer.status == 403
        assert browser().log_in("bob", headers=[("origin", origin)], without=["origin"]).status == 403
    assert alice.ask("GET", "/", headers=[("host", "evil.example")], without=["host"]).status == 421
    assert alice.ask("POST", "/leave").status == 303
    assert alice.ask("GET", "/jobs").status == 401
    assert again.ask("GET", "/jobs").status == 200
    assert again.ask("POST", "/leave").status == 303
    h1 = shared.hosts[0]
    shared.until(lambda: not processes_of(h1, USERS["alice"]), "the process outlives the last session")
    assert bob.ask("GET", "/jobs").status == 200


def test_an_account_that_has_expired_is_put_out(shared: SharedCluster, browser: NewBrowser) -> None:
    h1 = shared.hosts[0]
    carol, bob = browser(h1).entered("carol"), browser(h1).entered("bob")
    assert carol.ask("GET", "/jobs").status == 200
    h1.run(["kill", page_process_of(h1, USERS["carol"])], check=True)
    shared.until(lambda: not processes_of(h1, USERS["carol"]), "her process does not end")
    h1.run(["chage", "-E", "0", "carol"], check=True)
    try:
        assert carol.ask("GET", "/jobs").status == 403, "she needs a new process"
        assert carol.ask("GET", "/jobs").status == 401, "her session is over"
        assert carol.log_in("carol").status == 403
        assert not processes_of(h1, USERS["carol"])
        assert bob.ask("GET", "/jobs").status == 200
    finally:
        h1.run(["chage", "-E", "-1", "carol"], check=True)
    assert "has not let in" in shared.log(h1, "web")
    carol.entered("carol")


@pytest.mark.parametrize(
    "path", ["/../etc/passwd", "/%2e%2e/etc/passwd", "//evil.example/", "/assets/..%2f..%2fserving.py"]
)
def test_tricks_with_paths_find_nothing(shared: SharedCluster, browser: NewBrowser, path: str) -> None:
    alice = browser().entered("alice")
    answer = alice.ask("GET", path)
    assert answer.status == 404 and "root:" not in answer.text


def test_pages_begin_when_the_master_is_back(shared: SharedCluster, browser: NewBrowser) -> None:
    h1 = shared.hosts[0]
    bob = browser().entered("bob")
    shared.kill(h1, "master")
    try:
        away = bob.ask("GET", "/")
        assert away.status == 503 and "That did not work" in away.text
    finally:
        shared.start_daemon(h1, "master")
    shared.until(lambda: bob.ask("GET", "/").status == 200, "the pages do not begin")
    shared.until(lambda: set(shared.states().values()) == {"ok"}, "the hosts do not become ok")


def test_the_administration_is_for_administrators(shared: SharedCluster, browser: NewBrowser) -> None:
    file = shared.hosts[0].path("/etc/gsched/lsf.cluster.lab")
    file.write_text(file.read_text().replace("ADMINISTRATORS = gsched", "ADMINISTRATORS = gsched carol"))
    shared.run("gadmin", "reconfig", user="gsched")
    carol, bob = browser(shared.hosts[0]).entered("carol"), browser().entered("bob")
    for path in ("", "/files", "/files/lsf.conf", "/log"):
        assert bob.ask("GET", f"/administration{path}").status == 403
        assert carol.ask("GET", f"/administration{path}").status == 200
    assert bob.ask("POST", "/administration/hosts", f"csrf={bob.csrf}&action=close&host=h2").status == 403
    assert carol.send("/administration/hosts", action="close", host="h2", comment="a fan").status == 303
    assert "closed" in shared.states()["h2"]
    assert carol.send("/administration/hosts", action="open", host="h2").status == 303
    shared.until(lambda: "host close" in carol.page("/administration/log?text=fan"), "what she did is not logged")
    assert "carol" in carol.page("/administration/log?text=fan")
    text = carol.page("/administration/files/lsf.conf")
    assert "You may not write this file: it belongs to root" in text
    tried = carol.send("/administration/files/lsf.conf", action="try", text="LSB_MBD_PORT=x", mark="x")
    assert tried.status == 400 and "There are errors in this text" in tried.text
    before = shared.hosts[0].path("/etc/gsched/lsb.params").read_text()
    mark = re.search(r'name="mark" value="(\w+)"', carol.page("/administration/files/lsb.params"))
    assert mark is not None
    written = carol.send("/administration/files/lsb.params", action="apply", text=before + "# more\n", mark=mark[1])
    assert written.status == 403 and "cannot be written" in written.text
    assert shared.hosts[0].path("/etc/gsched/lsb.params").read_text() == before


@pytest.fixture
def behind_proxy(shared: SharedCluster) -> Iterator[Host]:
    """The service, started again for proxies: h2, and members of alice's group on h1 itself."""
    h1 = shared.hosts[0]
    file = h1.path("/etc/gsched/lsf.conf")
    before = file.read_text()
    lines = [line for line in before.splitlines() if not line.startswith("GSCHED_WEB_PAM")]
    file.write_text("\n".join([*lines, 'GSCHED_WEB_PROXIES="10.77.0.2 group:alice"', ""]))
    shared.kill(h1, "web", signal.SIGTERM)
    start_web(shared, h1)
    yield h1
    shared.kill(h1, "web", signal.SIGTERM)
    file.write_text(before)
    start_web(shared, h1)


def test_a_proxy_names_users(shared: SharedCluster, browser: NewBrowser, behind_proxy: Host) -> None:
    proxy, elsewhere = browser(), browser(behind_proxy)
    text = proxy.page("/", headers=[("Remote-User", "alice")])
    assert "<strong>alice</strong>" in text and "/leave" not in text
    assert "<strong>bob</strong>" in proxy.page("/", headers=[("remote-user", "bob")])
    token = re.search(r'name="csrf" value="([\w-]+)"', proxy.page("/new", headers=[("Remote-User", "alice")]))
    assert token is not None
    body = f"csrf={token[1]}&action=kill&job=999999"
    assert proxy.ask("POST", "/deeds", body, [("Remote-User", "bob")]).status == 403, "the form is alice's"
    assert proxy.ask("POST", "/deeds", body, [("Remote-User", "alice")]).status in (404, 409)
    for headers in (
        [],
        [("Remote-User", "alice"), ("Remote-User", "bob")],
        [("Remote-User", "alice"), ("Remote_User", "bob")],
        [("Remote-User", "")],
        [("Remote-User", "root")],
        [("Remote-User", "gsched")],
        [("Remote-User", "gsched-web")],
        [("Remote-User", "nosuch")],
        [("Remote-User", "../alice")],
    ):
        answer = proxy.ask("GET", "/jobs", headers=headers)
        assert answer.status in (400, 403) and "alice" not in answer.text, headers
    for headers in ([], [("Remote-User", "alice")], [("Remote-User", "alice"), ("X-Forwarded-For", "10.77.0.2")]):
        assert elsewhere.ask("GET", "/", headers=headers).status == 403
    assert proxy.log_in("alice").status == 400, "no password is asked for"
    socket = f"{FOLDERS.run_dir}/web/proxy.sock"
    status = behind_proxy.path(socket).stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, USERS["alice"], 0o660)
    local = LabBrowser(shared, behind_proxy, behind_proxy, socket=socket)
    assert "<strong>bob</strong>" in local.page("/", headers=[("Remote-User", "bob")])
    local.end()
