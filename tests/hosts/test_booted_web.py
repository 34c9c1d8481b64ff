"""gsched-web.service as systemd runs it: hardened, by TLS, with passwords that PAM checks, and when its processes end.

The host is set up by the commands of docs/web.md.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from booted import Fleet, Host, until
from booted_system import OFFLINE, System
from web_visitor import CLIENT, DOMAIN, PORT, WebVisitor, opened, password_of

from tests.support.certificates import own_certificate
from tests.support.fleet_guide import commands_below

pytestmark = [pytest.mark.nightly, pytest.mark.needs_root, pytest.mark.system]

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "web.md").read_text("utf-8")
AS_ROOT = "Then, as root of that host:"
SETTINGS = f"""\
GSCHED_WEB_PORT={PORT}
GSCHED_WEB_CERT=/etc/ssl/h1.crt
GSCHED_WEB_KEY=/etc/ssl/private/h1.key
GSCHED_WEB_NAMES="h1 *.{DOMAIN}"
"""
SERVICE = Path(__file__).parents[1] / "support" / "small_service.py"
SOON_S = 180.0
"""Catches a hang only."""

NewVisitor = Callable[[], WebVisitor]


@pytest.fixture(scope="module")
def host(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The only host of its cluster, with the pages."""
    with Fleet(tmp_path_factory.mktemp("web") / "fleet", system) as made:
        h1 = made.boot("h1")
        gadmin = "/opt/gsched/bin/gadmin"
        h1.run(f"{gadmin} install-units --hosts h1 --sim-gpus 2:exclusive_process && {gadmin} init-ca", check=True)
        h1.run("systemctl enable --now gsched-master gsched-door gsched-agent", check=True)
        certificate, key = own_certificate(["h1"])
        h1.run("mkdir -p -m 710 /etc/ssl/private", check=True)
        h1.write("/etc/ssl/h1.crt", certificate.decode())
        h1.write("/etc/ssl/private/h1.key", key.decode(), mode=0o600)
        h1.run(f"cat >> /etc/gsched/lsf.conf <<'EOF'\n{SETTINGS}EOF", check=True)
        for user in ("alice", "bob", "root"):
            h1.run(f"echo '{user}:{password_of(user)}' | chpasswd", check=True)
        h1.write(f"/opt/{CLIENT.name}", CLIENT.read_text())
        h1.write(f"/opt/{SERVICE.name}", SERVICE.read_text())
        for command in commands_below(AS_ROOT, GUIDE):
            h1.run(command, check=True, env=OFFLINE)
        yield h1
        print(h1.run("journalctl -u gsched-web --no-pager | tail -n 60").stdout)


@pytest.fixture
def visitor(host: Host) -> Iterator[NewVisitor]:
    """A browser on the host, which believes its certificate."""
    processes: list[subprocess.Popen[str]] = []

    def new() -> WebVisitor:
        process = host.popen(["/opt/gsched/bin/python", "-I", f"/opt/{CLIENT.name}", "/etc/ssl/h1.crt"])
        processes.append(process)
        return WebVisitor(process, "h1")

    yield new
    for process in processes:
        process.communicate()


def main_pid(host: Host) -> int:
    return int(host.run("systemctl show -P MainPID gsched-web", check=True).stdout)


def processes(host: Host) -> dict[int, str]:
    """Those of the unit, with whose they are."""
    group = host.run("systemctl show -P ControlGroup gsched-web", check=True).stdout.strip()
    shown = host.run("ps -e -o pid=,user:32=,cgroup=", check=True).stdout.splitlines()
    rows = [line.split(None, 2) for line in shown]
    return {int(pid): user for pid, user, groups in rows if group in groups}


def process_of(host: Host, user: str) -> int:
    (found,) = [pid for pid, each in processes(host).items() if each == user]
    return found


def is_back(host: Host, before: int) -> None:
    """Another process is what systemd watches, and it listens."""
    state = "systemctl show -P ActiveState gsched-web"
    until(
        lambda: main_pid(host) not in (0, before) and host.run(state).stdout == "active\n",
        "gsched-web is not back",
        SOON_S,
    )


def submit(host: Host, *words: str) -> int:
    done = host.run(f"gsub {' '.join(words)}", user="alice", check=True)
    found = re.search(r"Job <(\d+)>", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])


def test_it_serves_by_tls_and_says_where(host: Host, visitor: NewVisitor) -> None:
    assert host.run("systemctl --failed --no-legend").stdout == ""
    assert f'Status: "open on port {PORT}"' in host.run("systemctl status gsched-web").stdout
    answer = visitor().ask("GET", "/")
    assert answer.status == 401 and 'action="/login"' in answer.text


def test_ordinary_users_log_in_with_their_passwords(host: Host, visitor: NewVisitor) -> None:
    """By PAM's service `login` as Debian has it. Who gets in, and who does not, stands in the journal."""
    alice, stranger = visitor(), visitor()
    for user, password in (("bob", "wrong"), ("root", password_of("root")), ("nosuch", "x")):
        answer = stranger.log_in(user, password)
        assert (answer.status, answer.header("set-cookie")) == (403, ""), user
    assert "<strong>alice</strong>" in alice.entered("alice").page("/")
    host.run("chage -E 0 bob", check=True)
    assert stranger.log_in("bob").status == 403, "the account has expired"
    host.run("chage -E -1 bob", check=True)
    stranger.entered("bob")
    lines = host.run("journalctl -u gsched-web -o cat").stdout
    for user, outcome in (("bob", "refused"), ("root", "refused"), ("alice", "ok"), ("bob", "ok")):
        assert re.search(rf'login user="{user}" from=\S+ outcome={outcome}$', lines, re.M), (user, outcome, lines)
    assert password_of("alice") not in lines


def test_its_processes_can_do_no_more_than_they_need(host: Host, visitor: NewVisitor) -> None:
    visitor().entered("alice").page("/")
    found = {user: process_of(host, user) for user in ("root", "gsched-web", "alice")}
    for user, pid in found.items():
        status = dict(line.split(":\t", 1) for line in host.run(f"cat /proc/{pid}/status").stdout.splitlines())
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), user
        assert (int(status["CapEff"], 16) == 0) == (user != "root"), (user, status["CapEff"])
        assert int(status["CapBnd"], 16) & (1 << 21) == 0, "CAP_SYS_ADMIN"
        written = host.run(f"nsenter -t {pid} -m touch /usr/bin/x /boot/x /etc/x /sys/fs/cgroup/x")
        assert written.stderr.count("Read-only file system") == 4, written.stderr
        assert host.run(f"nsenter -t {pid} -m touch /etc/gsched/x && rm /etc/gsched/x").returncode == 0


def test_pages_do_what_they_do_elsewhere(host: Host, visitor: NewVisitor) -> None:
    """A job from the page, its output and curves; a service with websockets; a job is killed."""
    alice = visitor().entered("alice")
    token = re.search(r'name="token" value="(\w+)"', alice.page("/new"))
    assert token is not None
    script = "id -un; for i in 1 2 3; do echo step $i, loss = 0.$i; done; exec sleep 3000"
    sent = alice.send("/new", command=script, gpus="1", token=token[1], output="page.%J", cwd="/home/alice")
    assert sent.status == 303, sent.text
    job = int(re.findall(r"/jobs/(\d+)", sent.header("location"))[0])
    until(lambda: "loss = 0.3" in alice.page(f"/jobs/{job}/output"), "its output is not shown", SOON_S)

    def has_curve() -> bool:
        gpus = json.loads(alice.page(f"/jobs/{job}/curves"))["gpus"]
        return len(gpus) == 1 and len(gpus[0]["times"]) >= 2

    until(has_curve, "its GPU has no curves", SOON_S)
    assert alice.send("/deeds", action="kill", job=str(job), back="job").status == 303
    stat = f"gjobs -a -noheader -o stat {job}"
    until(lambda: host.run(stat, user="alice").stdout == "EXIT\n", "it is not killed", SOON_S)
    until(lambda: "alice\n" in host.run(f"cat /home/alice/page.{job}").stdout, "it has left no file", SOON_S)
    service = submit(host, "--service auto -gpu num=0", f"'exec /opt/gsched/bin/python -B /opt/{SERVICE.name}'")
    long = f"gjobs -l {service}"
    until(lambda: "It answers" in host.run(long, user="alice").stdout, "it does not answer", SOON_S)
    visit = opened(alice, service)
    assert json.loads(visit.ask("GET", "/x").text)["method"] == "GET"
    said = visit.say("hello")
    assert (said.status, said.text) == (101, "hello")
    host.run(f"gkill {service}", user="alice", check=True)


@pytest.mark.parametrize("whose", ["root", "gsched-web"])
def test_it_is_started_again_whichever_process_is_killed(host: Host, visitor: NewVisitor, whose: str) -> None:
    """Nothing of the old one is left; sessions are gone, and the page says to log in."""
    alice = visitor().entered("alice")
    job = submit(host, "-o /dev/null 'exec sleep 3000'")
    before, old = main_pid(host), set(processes(host))
    assert len(old) >= 3
    host.run(f"kill -9 {process_of(host, whose)}", check=True)
    is_back(host, before)
    assert not old & set(processes(host)), "processes of the old one go on"
    answer = alice.ask("GET", "/jobs")
    assert answer.status == 401 and 'action="/login"' in answer.text
    alice.entered("alice")
    assert str(job) in alice.page("/jobs")
    host.run(f"gkill {job}", user="alice", check=True)


def test_the_process_of_a_user_is_killed_and_only_that_user_waits(host: Host, visitor: NewVisitor) -> None:
    alice, bob = visitor().entered("alice"), visitor().entered("bob")
    assert alice.page("/jobs") and bob.page("/jobs")
    before, his = main_pid(host), process_of(host, "bob")
    host.run(f"kill -9 {process_of(host, 'alice')}", check=True)
    until(lambda: alice.ask("GET", "/jobs").status == 200, "alice has no pages", SOON_S)
    assert bob.ask("GET", "/jobs").status == 200
    assert (main_pid(host), process_of(host, "bob")) == (before, his)


@pytest.mark.parametrize("whose", ["root", "gsched-web"])
def test_it_is_started_again_when_it_hangs(host: Host, visitor: NewVisitor, whose: str) -> None:
    folder = "/run/systemd/system/gsched-web.service.d"
    host.run(f"mkdir -p {folder} && printf '[Service]\\nWatchdogSec=10\\n' > {folder}/soon.conf", check=True)
    host.run("systemctl daemon-reload && systemctl restart gsched-web", check=True)
    before = main_pid(host)
    host.run(f"kill -STOP {process_of(host, whose)}", check=True)
    is_back(host, before)
    assert "watchdog" in host.run("journalctl -u gsched-web -o cat | tail -n 40").stdout.lower()
    visitor().entered("alice")
    host.run(f"rm -r {folder} && systemctl daemon-reload && systemctl restart gsched-web", check=True)


def test_a_restart_ends_sessions_and_a_reload_is_refused(host: Host, visitor: NewVisitor) -> None:
    """As docs/web.md says it."""
    alice, before = visitor().entered("alice"), main_pid(host)
    refused = host.run("systemctl reload gsched-web")
    assert refused.returncode != 0 and "not applicable" in refused.stderr
    assert alice.ask("GET", "/jobs").status == 200 and main_pid(host) == before
    host.run("systemctl restart gsched-web", check=True)
    answer = alice.ask("GET", "/jobs?states=any")
    assert answer.status == 401 and 'name="onward" value="/jobs?states=any"' in answer.text
    alice.entered("alice")


def test_other_daemons_may_be_restarted_while_it_runs(host: Host, visitor: NewVisitor) -> None:
    alice = visitor().entered("alice")
    for daemon in ("master", "door", "agent"):
        host.run(f"systemctl restart gsched-{daemon}", check=True)
        until(lambda: alice.ask("GET", "/jobs").status == 200, f"no pages after {daemon}", SOON_S)
