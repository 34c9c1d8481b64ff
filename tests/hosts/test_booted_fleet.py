"""Three hosts that systemd has booted, from nothing to a running cluster, and what becomes of jobs when things end.

The hosts are installed by the very commands of docs/fleet.md. The tests use one fleet in turn and leave it as it was.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from booted import Fleet, Host, until
from booted_system import System, variant

from gsched.wire.messages.protocol import PROTOCOL
from tests.support.fleet_guide import AS_USER, ON_EVERY_HOST, ON_FIRST, blocks_of, commands_below

pytestmark = [pytest.mark.nightly, pytest.mark.needs_root, pytest.mark.system]

SOON_S = 180.0
"""Catches a hang only."""


@pytest.fixture(scope="module")
def fleet(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet") / "fleet", system) as made:
        for name in ("h1", "h2", "h3"):
            made.boot(name)
        for command in commands_below(ON_FIRST):
            made.hosts["h1"].run(command, check=True)
        until(lambda: states(made) == ["ok"] * 3, "the hosts do not come", SOON_S)
        yield made


def states(fleet: Fleet) -> list[str]:
    """STATUS of each host."""
    shown = fleet.hosts["h1"].run("ghosts", user="alice").stdout.splitlines()[1:]
    return [line.split()[1] for line in shown]


def submit(host: Host, options: str, script: str, user: str = "alice") -> int:
    done = host.run(f"gsub {options} -o /dev/null '{script}'", user=user, check=True)
    found = re.search(r"Job <(\d+)>", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])


def state(host: Host, job: int, user: str = "alice") -> str:
    return host.run(f"gjobs -a -noheader -o stat {job}", user=user).stdout.strip()


def begins(host: Host, path: str) -> None:
    until(lambda: host.run(f"test -s {path}").returncode == 0, f"{host.name}: no {path}", SOON_S)


def ends(host: Host, job: int, word: str = "DONE") -> None:
    until(lambda: state(host, job) == word, f"job {job}: {state(host, job)}, not {word}", SOON_S)


def main_pid(host: Host, daemon: str) -> int:
    return int(host.run(f"systemctl show -P MainPID gsched-{daemon}", check=True).stdout)


def slow_job(host: Host, name: str, options: str = "") -> int:
    """A job on the host that runs until FILE.end is there; it writes a line for each start of it."""
    script = (
        f"echo start $$ >> /tmp/{name}; until test -e /tmp/{name}.end; do sleep 0.1; done; echo end $$ >> /tmp/{name}"
    )
    job = submit(host, f"-m {host.name} -gpu num=1 {options}", script)
    begins(host, f"/tmp/{name}")
    return job


def finish(host: Host, name: str, job: int, word: str = "DONE") -> None:
    """Let it go, and see that it was one process from start to end."""
    host.run(f"touch /tmp/{name}.end", user="alice", check=True)
    ends(host, job, word)
    lines = [line.split() for line in host.run(f"cat /tmp/{name}").stdout.splitlines()]
    assert [word for word, _ in lines] == ["start", "end"], lines
    assert lines[0][1] == lines[1][1]


def test_the_guide(fleet: Fleet) -> None:
    """Ten commands, and the last one is a GPU job of an ordinary user."""
    blocks = [commands_below(begin) for begin in (ON_EVERY_HOST, ON_FIRST, AS_USER)]
    assert sum(map(len, blocks)) == 10
    shown = [fleet.hosts["h2"].run(command, user="alice", check=True).stdout for command in blocks[2]]
    assert re.findall(r"^(h\d) +ok ", shown[0], re.M) == ["h1", "h2", "h3"]
    assert "GPU 0 of h3" in shown[1]


def test_units_are_up_and_say_how_they_stand(fleet: Fleet) -> None:
    for host in fleet.hosts.values():
        assert host.run("systemctl --failed --no-legend").stdout == ""
    h1, h2 = fleet.hosts["h1"], fleet.hosts["h2"]
    until(
        lambda: "cluster gsched: 3 of 3 agents connected" in h1.run("systemctl status gsched-master").stdout,
        "the master does not say how it stands",
        SOON_S,
    )
    assert "host h2: in session with the master" in h2.run("systemctl status gsched-agent").stdout
    assert h2.run("systemctl is-enabled gsched-master").stdout.strip() != "enabled"
    logged = h1.run("journalctl -u gsched-master -p info -o cat").stdout
    assert "master of cluster gsched listens on" in logged and "<6>" not in logged


def test_a_user_cannot_reach_what_is_not_his(fleet: Fleet) -> None:
    for path in ("/var/lib/gsched/gsched.db", "/etc/gsched/tls/h1.key", "/run/gsched/master/master.sock"):
        assert fleet.hosts["h1"].run(f"test -e {path}").returncode == 0, path
        done = fleet.hosts["h1"].run(f"cat {path}", user="alice")
        assert "Permission denied" in done.stderr, path


@pytest.mark.parametrize("daemon", ["master", "door", "agent"])
def test_a_daemon_that_is_killed_is_back_and_no_job_has_noticed(fleet: Fleet, daemon: str) -> None:
    host = fleet.hosts["h1"]
    job = slow_job(host, f"killed-{daemon}")
    before = main_pid(host, daemon)
    host.run(f"kill -9 {before}", check=True)
    until(lambda: main_pid(host, daemon) not in (0, before), f"the {daemon} is not back", SOON_S)
    until(lambda: states(fleet) == ["ok"] * 3, "the hosts are not back", SOON_S)
    finish(host, f"killed-{daemon}", job)


@pytest.mark.parametrize("action", ["restart", "stop"])
def test_jobs_outlive_their_agent(fleet: Fleet, action: str) -> None:
    """KillMode=process: also where systemd ends it in peace."""
    host = fleet.hosts["h2"]
    job = slow_job(host, f"agent-{action}")
    host.run(f"systemctl {action} gsched-agent", check=True)
    if action == "stop":
        host.run("touch /tmp/agent-stop.end", user="alice", check=True)
        begins(host, "/tmp/agent-stop")
        host.run("systemctl start gsched-agent", check=True)
    finish(host, f"agent-{action}", job)


@pytest.mark.parametrize("daemon", ["master", "agent", "door"])
def test_a_daemon_that_hangs_is_started_again(fleet: Fleet, daemon: str) -> None:
    host = fleet.hosts["h1"]
    folder = f"/run/systemd/system/gsched-{daemon}.service.d"
    host.run(f"mkdir -p {folder} && printf '[Service]\\nWatchdogSec=10\\n' > {folder}/soon.conf", check=True)
    host.run(f"systemctl daemon-reload && systemctl restart gsched-{daemon}", check=True)
    before = main_pid(host, daemon)
    time.sleep(12)  # longer than the watchdog waits: it is fed
    assert main_pid(host, daemon) == before
    host.run(f"kill -STOP {before}", check=True)
    until(lambda: main_pid(host, daemon) not in (0, before), f"the {daemon} still hangs", SOON_S)
    assert "watchdog" in host.run(f"journalctl -u gsched-{daemon} -o cat | tail -n 40").stdout.lower()
    host.run(f"rm -r {folder} && systemctl daemon-reload && systemctl restart gsched-{daemon}", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the hosts are not back", SOON_S)


def test_a_host_is_rebooted(fleet: Fleet) -> None:
    """It comes back by itself; a job that may be rerun starts anew, the other one has ended with its host."""
    h1, h2 = fleet.hosts["h1"], fleet.hosts["h2"]
    lost, again = slow_job(h2, "lost"), slow_job(h2, "again", "-r")
    h2.reboot()
    until(lambda: states(fleet) == ["ok"] * 3, "the host is not back", SOON_S)
    ends(h1, lost, "EXIT")
    assert "the host was shut down while the job ran" in " ".join(
        h1.run(f"ghist -l {lost}", user="alice").stdout.split()
    )
    begins(h2, "/tmp/again")
    finish(h2, "again", again)


def test_the_power_of_the_masters_host_fails(fleet: Fleet) -> None:
    h1, h3 = fleet.hosts["h1"], fleet.hosts["h3"]
    job = slow_job(h3, "powerless")
    h1.power_off()
    h3.run("touch /tmp/powerless.end", user="alice", check=True)
    until(lambda: "end" in h3.run("cat /tmp/powerless").stdout, "the job does not go on", SOON_S)
    h1.boot()
    until(lambda: states(fleet) == ["ok"] * 3, "the hosts are not back", SOON_S)
    finish(h3, "powerless", job)
    assert job in {int(line) for line in h1.run("gjobs -a -noheader -o jobid", user="alice").stdout.split()}


def test_daemons_of_other_hosts(fleet: Fleet) -> None:
    """Stopped and restarted through their sessions, started by ssh; stopped ones stay stopped."""
    h1, h2 = fleet.hosts["h1"], fleet.hosts["h2"]
    for host in (h1, h2):
        done = host.run("gadmin hrestart h3", user="alice")
        assert done.returncode == 255 and "denied" in done.stderr.lower(), done.stderr
        assert host.run("gadmin versions", user="alice").returncode == 0
    job = slow_job(h2, "ordered")
    before = main_pid(h2, "agent")
    shown = h1.run("gadmin hrestart h2 h3", check=True).stderr
    assert shown == "".join(f"Restart slave batch daemon on <{name}> ...... done\n" for name in ("h2", "h3"))
    assert main_pid(h2, "agent") not in (0, before)
    h1.run("gadmin hshutdown h2", check=True)
    until(lambda: main_pid(h2, "agent") == 0, "the agent does not end")
    time.sleep(1.5)  # longer than systemd waits before it starts one anew
    assert h2.run("systemctl is-active gsched-agent").stdout == "inactive\n", "it is no failure, and nobody starts it"
    done = h1.run("gadmin hrestart h2")
    assert done.returncode == 255 and done.stderr.startswith("h2: its agent is not connected")
    assert re.search(r"^h2 +agent +away ", h1.run("gadmin versions").stdout, re.M)
    h1.run("gadmin hstartup h2", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the host is not back", SOON_S)
    before = main_pid(h1, "master")
    h1.run("gadmin mbdrestart -f", check=True)
    until(lambda: main_pid(h1, "master") not in (0, before), "the master is not back", SOON_S)
    until(lambda: states(fleet) == ["ok"] * 3, "the hosts are not back", SOON_S)
    h1.run("/opt/gsched/bin/gsched names lsf /usr/local/lsf", check=True)
    shown = h1.run("/usr/local/lsf/lsf_daemons status", check=True).stdout
    assert shown.count("Active: active (running)") == 3
    h1.run("/usr/local/lsf/lsfshutdown -f", check=True)
    until(lambda: main_pid(h1, "master") == 0, "the master does not end", SOON_S)
    for host in fleet.hosts.values():
        until(lambda host=host: main_pid(host, "agent") == 0, f"the agent of {host.name} does not end")
        assert main_pid(host, "door") == 0, f"the door of {host.name} goes on"
    h1.run("/usr/local/lsf/lsfstartup -f", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the hosts are not back", SOON_S)
    finish(h2, "ordered", job)


def test_an_upgrade_in_place_while_jobs_run(fleet: Fleet, system: System) -> None:
    variant(system.own_wheel, "0.1.99")
    jobs = {host: slow_job(host, "upgrade") for host in fleet.hosts.values()}
    for host in fleet.hosts.values():
        host.run("/opt/gsched/bin/pip install -q --no-index --no-deps --find-links /wheels gsched==0.1.99", check=True)
        host.run("/opt/gsched/bin/gadmin install-units", check=True)
    for host in fleet.hosts.values():
        host.run("systemctl try-restart 'gsched-*'", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the hosts are not back", SOON_S)
    for host, job in jobs.items():
        finish(host, "upgrade", job)
    shown = fleet.hosts["h1"].run("gadmin versions", check=True).stdout
    assert len(re.findall(r" connected +0\.1\.99 ", shown)) == 4, shown


def test_an_agent_of_another_protocol(fleet: Fleet, system: System) -> None:
    """It is refused in one line that both sides show; its job goes on, and is told of when the versions agree."""
    h1, h3 = fleet.hosts["h1"], fleet.hosts["h3"]
    protocol = ("gsched/wire/messages/protocol.py", f"PROTOCOL = {PROTOCOL}\n", "PROTOCOL = 99\n")
    variant(system.own_wheel, "0.2.0", [protocol])
    job = slow_job(h3, "stranger")
    install = "/opt/gsched/bin/pip install -q --no-index --no-deps --force-reinstall --find-links /wheels"
    version = h1.run("/opt/gsched/bin/gadmin --version", check=True).stdout.split()[-1]
    h3.run(f"{install} gsched==0.2.0 && systemctl restart gsched-agent", check=True)
    line = f"the agent of h3 speaks protocol 99 (gsched 0.2.0), the master protocol {PROTOCOL} (gsched {version})"
    until(lambda: line in h1.run("gadmin versions").stdout, "gadmin versions does not say so", SOON_S)
    shown = h1.run("gadmin versions")
    assert shown.returncode == 1
    assert re.search(r"^h3 +agent +refused +0\.2\.0 +99 ", shown.stdout, re.M)
    assert line in h1.run("journalctl -u gsched-master -o cat -p warning").stdout
    assert line in h3.run("journalctl -u gsched-agent -o cat -p err").stdout
    assert line in h3.run("systemctl status gsched-agent").stdout
    assert states(fleet)[2] in ("unreach", "unavail")
    folded = h1.run("ghosts -l h3", user="alice").stdout
    assert "".join(line.split()) in "".join(folded.split())
    h3.run(f"{install} gsched=={version} && systemctl restart gsched-agent", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the host is not back", SOON_S)
    finish(h3, "stranger", job)


def test_a_changed_configuration_is_copied_again(fleet: Fleet) -> None:
    """By the guide's own command; the services can still read their key."""
    h1, h2 = fleet.hosts["h1"], fleet.hosts["h2"]
    h1.run("sed -i 's/^PRIORITY.*= 20/PRIORITY = 21/' /etc/gsched/lsb.queues && gadmin reconfig", check=True)
    (copy,) = [command for command in commands_below(ON_FIRST) if "host-files" in command]
    h1.run(copy, check=True)
    assert h2.run("grep -c 'PRIORITY = 21' /etc/gsched/lsb.queues").stdout == "1\n"
    assert h2.run("stat -c '%U %G %a' /etc/gsched/tls/h2.key").stdout == "root gsched 640\n"
    assert h2.run("ls /etc/gsched/tls").stdout.split() == ["ca.crt", "h2.crt", "h2.key"]
    h2.run("systemctl restart gsched-door gsched-agent", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the host is not back", SOON_S)
    assert re.search(r"^night +21 ", h2.run("gqueues", user="bob", check=True).stdout, re.M)


def test_a_copy_is_made_every_day(fleet: Fleet) -> None:
    """By the commands of docs/reliability.md; the timer starts it, and the oldest copies go."""
    h1 = fleet.hosts["h1"]
    secret = "/etc/gsched/backup.passphrase"
    h1.run(f"echo open sesame, at last > {secret} && chown gsched {secret} && chmod 600 {secret}", check=True)
    (block,) = blocks_of("reliability.md", "A copy every day")
    h1.run(f"set -e\n{block.script.replace('--keep 14', '--keep 2')}", check=True)
    assert "gsched-backup.service" in h1.run("systemctl list-timers --all --no-legend gsched-backup.timer").stdout
    assert h1.run("systemctl show -P TimersCalendar gsched-backup.timer").stdout.strip(), "it is due by the calendar"
    folder = "/run/systemd/system/gsched-backup.timer.d"
    soon = "[Timer]\\nOnCalendar=*:*:0/5\\nRandomizedDelaySec=0\\nAccuracySec=1"
    h1.run(f"mkdir -p {folder} && printf '{soon}\\n' > {folder}/soon.conf && systemctl daemon-reload", check=True)
    h1.run("systemctl restart gsched-backup.timer", check=True)
    seen: set[str] = set()

    def copies() -> list[str]:
        found = h1.run("ls /backup/gsched").stdout.split()
        seen.update(found)
        return found

    until(lambda: copies() and len(seen) >= 4, "the timer makes no copies", 5 * SOON_S)
    h1.run(f"rm -r {folder} && systemctl daemon-reload && systemctl stop gsched-backup.timer", check=True)
    until(lambda: h1.run("systemctl is-active gsched-backup.service").stdout == "inactive\n", "it goes on", SOON_S)
    assert copies() == sorted(seen)[-2:]
    newest = f"/backup/gsched/{copies()[-1]}"
    h1.run(f"install -m 600 {secret} /root/backup.passphrase", check=True)  # root takes none that others could write
    restore = f"gadmin restore --configuration --into /root/back --passphrase-file /root/backup.passphrase {newest}"
    h1.run(f"/opt/gsched/bin/{restore}", check=True)
    h1.run("cmp /root/back/etc/gsched/lsf.conf /etc/gsched/lsf.conf", check=True)
    h1.run("systemctl disable gsched-backup.timer", check=True)


def test_units_are_uninstalled_and_the_job_goes_on(fleet: Fleet) -> None:
    h3 = fleet.hosts["h3"]
    job = slow_job(h3, "uninstalled")
    shown = h3.run("/opt/gsched/bin/gadmin uninstall-units", check=True).stdout
    assert shown.startswith(
        "removed: /etc/systemd/system/gsched-door.service /etc/systemd/system/gsched-agent.service "
    )
    assert h3.run("systemctl is-active gsched-agent").returncode != 0
    assert h3.run("ls /etc/systemd/system/*gsched* /etc/systemd/system/*/gsched*").stdout == ""
    h3.run("/opt/gsched/bin/gadmin install-units && systemctl enable --now gsched-door gsched-agent", check=True)
    until(lambda: states(fleet) == ["ok"] * 3, "the host is not back", SOON_S)
    finish(h3, "uninstalled", job)
