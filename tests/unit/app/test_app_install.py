"""gadmin install-units: what it writes for which host, what it leaves alone, and what systemd says of the units."""

from __future__ import annotations

import itertools
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from gsched.app.commands.groups import gadmin
from gsched.app.installation import install, units
from gsched.app.installation.install import InstallPlace, NewCluster
from gsched.app.installation.units import Backups, MonthlyArchives, Timed
from gsched.base.errors import BadRequest, ConfigError, Conflict, GschedError, PermissionDenied

PYTHON, PACKAGE = "/bin/sh", "/usr/lib/__init__.py"
"""An interpreter and a package that everybody can reach."""
NEW = NewCluster("test", ("h1", "h2", "h3"), sim_gpus="2:exclusive_process", administrators=("root",))
UNITS = "etc/systemd/system"


def put(
    root: Path,
    *daemons: str,
    host: str = "h1",
    new: NewCluster | None = NEW,
    force: bool = False,
    backups: Backups | None = None,
    archives: MonthlyArchives | None = None,
) -> str:
    said: list[str] = []
    place = InstallPlace(str(root), "/etc/gsched", host)
    timed = Timed(backups, archives)
    install.install(place, daemons, new, force=force, say=said.append, python=PYTHON, package=PACKAGE, timed=timed)
    return "\n".join(said)


def there(root: Path) -> set[str]:
    return {path.name.removeprefix("gsched-").removesuffix(".service") for path in (root / UNITS).iterdir()}


def test_logs_are_rotated_where_the_configuration_has_them(tmp_path: Path) -> None:
    put(tmp_path)
    written = (tmp_path / "etc/logrotate.d/gsched").read_text()
    assert install.is_unchanged(written)
    example = Path(__file__).parents[3] / "conf" / "logrotate.gsched"
    assert written.partition("\n")[2] == example.read_text(), "the example is what is written for these folders"
    assert "/var/log/gsched/*.log {" in written and "/run/gsched/*/*.lock" in written
    install.uninstall(InstallPlace(str(tmp_path), "/etc/gsched", "h1"), force=False, say=print, python=PYTHON)
    assert not (tmp_path / "etc/logrotate.d/gsched").exists()


def test_a_cluster_from_nothing(tmp_path: Path) -> None:
    said = put(tmp_path)
    assert there(tmp_path) == {"master", "door", "agent"}
    config = install.read_config(InstallPlace(str(tmp_path), "/etc/gsched", "h1"))
    assert (config.cluster, config.master_host, list(config.hosts)) == ("test", "h1", ["h1", "h2", "h3"])
    assert config.is_shared and config.locations.run_dir == "/run/gsched"
    assert {path.name for path in (tmp_path / "etc/gsched/gpus").glob("*.json")} == {"h1.json", "h2.json", "h3.json"}
    assert (tmp_path / "etc/gsched/.door").read_text() == "/run/gsched/door/door.sock\n"
    steps = re.findall(r"next \d: (.*)", said)
    words = [step.partition(":  ")[2] or step for step in steps]
    assert [" ".join(step.split()[:2]) for step in words] == [
        *("gadmin init-ca", "gadmin host-files", "ssh h2", "systemctl enable")
    ]


@pytest.mark.parametrize(
    ("host", "daemons"), [("h1", {"master", "door", "agent"}), ("h2", {"door", "agent"}), ("desk", {"door"})]
)
def test_a_host_gets_what_the_configuration_gives_it(tmp_path: Path, host: str, daemons: set[str]) -> None:
    put(tmp_path, "door", new=NewCluster("test", ("h1", "h2", "desk")))
    (tmp_path / UNITS / "gsched-door.service").unlink()
    cluster = tmp_path / "etc/gsched/lsf.cluster.test"
    cluster.write_text(re.sub(r"(desk\s+!\s+!\s+)1", r"\g<1>0", cluster.read_text()))
    put(tmp_path, host=host, new=None)
    assert there(tmp_path) == daemons
    folders = (tmp_path / "etc/tmpfiles.d/gsched.conf").read_text().splitlines()
    # The GPUs are the system's from then on, and no private cluster has come first once the host has booted.
    claims = {"d /run/gsched-gpu 0700 root root -", "f! /run/gsched-gpu/since-boot 0600 root root -"}
    assert claims & set(folders) == (claims if "agent" in daemons else set())


def test_a_host_that_the_cluster_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"this host is h9, which is not in lsf\.cluster\.test"):
        put(tmp_path, host="h9")


def test_no_configuration_is_made_unasked(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="there is no configuration in /etc/gsched"):
        put(tmp_path, new=None)
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_with_errors_is_no_cluster(tmp_path: Path) -> None:
    put(tmp_path, "door")
    with open(tmp_path / "etc/gsched/lsf.conf", "a") as file:
        file.write("LSB_NO_SUCH=1\n")
    with pytest.raises(ConfigError, match=r"^/etc/gsched/lsf\.conf:\d+: "):
        put(tmp_path, new=None)


def test_an_upgrade_replaces_its_own_files_and_nobody_elses(tmp_path: Path) -> None:
    put(tmp_path)
    agent, door = (tmp_path / UNITS / f"gsched-{name}.service" for name in ("agent", "door"))
    old = agent.read_text()
    agent.write_text(old.replace("WatchdogSec=60", "WatchdogSec=9"))
    door_before = door.read_text()
    door.write_text(install.marked("[Unit]\n"))
    with pytest.raises(Conflict, match=r"gsched-agent\.service: changed or made by somebody else, and kept"):
        put(tmp_path)
    assert "WatchdogSec=9" in agent.read_text()
    assert door.read_text() != door_before, "nothing is done where one file is in the way"
    put(tmp_path, force=True)
    assert (agent.read_text(), door.read_text()) == (old, door_before)


def test_uninstall_leaves_configuration_and_changed_units(tmp_path: Path) -> None:
    put(tmp_path)
    master = tmp_path / UNITS / "gsched-master.service"
    whole = master.read_text()
    master.write_text(whole + "# mine\n")
    place = InstallPlace(str(tmp_path), "/etc/gsched", "h1")
    with pytest.raises(Conflict, match="changed"):
        install.uninstall(place, force=False, say=lambda _: None)
    assert there(tmp_path) == {"master", "door", "agent"}
    master.write_text(whole)
    install.uninstall(place, force=False, say=lambda _: None, python=PYTHON)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left and all(name.startswith("etc/gsched/") for name in left)
    with pytest.raises(BadRequest, match="no units"):
        install.uninstall(place, force=False, say=lambda _: None)


def test_only_root_installs_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = CliRunner().invoke(gadmin, ["install-units"])
    assert isinstance(done.exception, PermissionDenied)
    assert "only root installs services" in done.exception.text


@pytest.mark.parametrize("python", ["/root/venv/bin/python", "/home/ann/venv/bin/python"])
def test_an_installation_that_the_services_could_not_read(tmp_path: Path, python: str) -> None:
    with pytest.raises(BadRequest, match="install it elsewhere"):
        install.install(
            InstallPlace(str(tmp_path), "/etc/gsched", "h1"),
            (),
            NEW,
            force=False,
            say=print,
            python=python,
            package=PACKAGE,
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("daemon", ["master", "door", "agent"])
def test_what_units_promise(tmp_path: Path, daemon: str) -> None:
    """They are ready when they say so, fed, and started again; jobs outlive the agent, and only the agent is root."""
    put(tmp_path)
    lines = set((tmp_path / UNITS / f"gsched-{daemon}.service").read_text().splitlines())
    promised = {"Type=notify", "NotifyAccess=main", f"WatchdogSec={units.WATCHDOG_S}", "Restart=always"}
    assert {*promised, "StartLimitIntervalSec=0", "WantedBy=multi-user.target"} <= lines
    of_agent = {"KillMode=process", "Delegate=yes", "LimitCORE=0:infinity"}
    of_others = {"User=gsched", "NoNewPrivileges=yes", "LimitCORE=0"}
    assert "UMask=0077" in lines
    wanted, others = (of_agent, of_others) if daemon == "agent" else (of_others, of_agent)
    assert wanted <= lines and not others & lines
    assert ("MemoryMax=50%" in lines) == (daemon == "door")


def test_pages_have_a_unit_where_they_are_configured(tmp_path: Path) -> None:
    put(tmp_path)
    with (tmp_path / "etc/gsched/lsf.conf").open("a") as file:
        file.write("GSCHED_WEB_PORT=8443\nGSCHED_WEB_CERT=/etc/web.crt\nGSCHED_WEB_KEY=/etc/web.key\n")
    assert "gsched-web" in put(tmp_path, new=None)
    assert there(tmp_path) == {"master", "door", "agent", "web"}
    lines = set((tmp_path / UNITS / "gsched-web.service").read_text().splitlines())
    assert {"Type=notify", "NoNewPrivileges=yes", "LimitCORE=0", "Restart=always"} <= lines
    assert {"OOMPolicy=continue", "TasksMax=16384", "MemoryMax=50%"} <= lines
    assert not any(line.startswith(("User=", "KillMode=")) for line in lines)
    assert 'u gsched-web - "gsched web" / /usr/sbin/nologin' in (tmp_path / "etc/sysusers.d/gsched.conf").read_text()
    assert "d /run/gsched/web 0755 root root -" in (tmp_path / "etc/tmpfiles.d/gsched.conf").read_text()
    put(tmp_path, host="h2", new=None, force=True)
    assert "gsched-web" not in (tmp_path / "etc/sysusers.d/gsched.conf").read_text()
    install.uninstall(InstallPlace(str(tmp_path), "/etc/gsched", "h1"), force=False, say=print, python=PYTHON)
    assert there(tmp_path) == set()


def test_copies_are_made_every_day_where_it_is_wanted(tmp_path: Path) -> None:
    told = put(tmp_path, backups=Backups("/backup/gsched", 7, "/etc/gsched/backup.passphrase"))
    assert told.splitlines()[-1].endswith("gsched-backup.timer")
    service, timer = (tmp_path / UNITS / f"gsched-backup.{kind}" for kind in ("service", "timer"))
    lines = service.read_text().splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.endswith(
        " backup --envdir /etc/gsched --into /backup/gsched --keep 7 --passphrase-file /etc/gsched/backup.passphrase"
    )
    assert {"Type=oneshot", "User=gsched", "ReadWritePaths=/backup/gsched", "ProtectSystem=strict"} <= set(lines)
    assert {"OnCalendar=daily", "Persistent=yes", "WantedBy=timers.target"} <= set(timer.read_text().splitlines())
    before = service.read_text()
    put(tmp_path, new=None)
    assert service.read_text() == before, "an upgrade leaves them as they are"
    install.uninstall(InstallPlace(str(tmp_path), "/etc/gsched", "h1"), force=False, say=print, python=PYTHON)
    assert there(tmp_path) == set()


def test_copies_are_the_masters_and_stand_in_a_unit(tmp_path: Path) -> None:
    put(tmp_path)
    with pytest.raises(BadRequest, match="copies of the store are made on the master's host, h1"):
        put(tmp_path, host="h2", new=None, force=True, backups=Backups("/backup", 7))
    for folder in ("/back up", "backup", "/b%n"):
        with pytest.raises(BadRequest, match="what stands in a unit is an absolute path"):
            put(tmp_path, new=None, backups=Backups(folder, 7))
    done = CliRunner().invoke(gadmin, ["install-units", "--root", str(tmp_path), "--keep", "3"])
    assert isinstance(done.exception, BadRequest) and "are for --backups" in done.exception.text


@pytest.mark.parametrize("keep", [False, True])
def test_months_are_archived_where_it_is_wanted(tmp_path: Path, keep: bool) -> None:
    told = put(tmp_path, archives=MonthlyArchives("/archive/gsched", keep), backups=Backups("/backup", 7))
    assert told.splitlines()[-1].endswith("gsched-backup.timer gsched-archive.timer")
    service, timer = (tmp_path / UNITS / f"gsched-archive.{kind}" for kind in ("service", "timer"))
    lines = service.read_text().splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.endswith(f" history archive --envdir /etc/gsched {'--keep ' if keep else ''}.-1/ /archive/gsched")
    assert {"Type=oneshot", "User=gsched", "ReadWritePaths=/archive/gsched", "ProtectSystem=strict"} <= set(lines)
    assert "RequiresMountsFor=/archive/gsched" in lines[: lines.index("[Service]")]
    assert [line for line in lines if line.startswith("UMask=")][-1] == "UMask=0027", "the group may read"
    assert {"OnCalendar=*-*-02", "Persistent=yes", "WantedBy=timers.target"} <= set(timer.read_text().splitlines())
    before = service.read_text()
    put(tmp_path, new=None)
    assert service.read_text() == before, "an upgrade leaves them as they are"
    install.uninstall(InstallPlace(str(tmp_path), "/etc/gsched", "h1"), force=False, say=print, python=PYTHON)
    assert there(tmp_path) == set()


def test_no_link_in_the_place_of_a_new_folder_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, folder, mkdir = tmp_path / "other", tmp_path / "new" / "archive", os.mkdir
    other.mkdir(0o711)

    def swap(path: str, *words: int) -> None:
        mkdir(path, *words)
        if path == str(folder):
            os.rmdir(path)
            os.symlink(other, path)

    before = other.stat()
    monkeypatch.setattr(os, "mkdir", swap)
    monkeypatch.setattr(install.pwd, "getpwnam", lambda _: pwd.getpwuid(os.getuid()))
    with pytest.raises(GschedError, match=f"{folder}: "):
        install._make_folder(InstallPlace("", "/etc/gsched", "h1"), str(folder), 0o750, print)
    assert (other.stat().st_mode, other.stat().st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


@pytest.mark.parametrize("end", ["", "/"])
def test_a_new_folder_has_its_mode_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    folder = tmp_path / "new" / "archive"
    monkeypatch.setattr(install.pwd, "getpwnam", lambda _: pwd.getpwuid(os.getuid()))
    install._make_folder(InstallPlace("", "/etc/gsched", "h1"), f"{folder}{end}", 0o750, print)
    assert folder.stat().st_mode & 0o7777 == 0o750


def test_months_are_archived_by_the_master(tmp_path: Path) -> None:
    put(tmp_path)
    with pytest.raises(BadRequest, match="months are archived on the master's host, h1"):
        put(tmp_path, host="h2", new=None, force=True, archives=MonthlyArchives("/archive"))
    with pytest.raises(BadRequest, match="what stands in a unit is an absolute path"):
        put(tmp_path, new=None, archives=MonthlyArchives("/my archive"))
    done = CliRunner().invoke(gadmin, ["install-units", "--root", str(tmp_path), "--archives-keep"])
    assert isinstance(done.exception, BadRequest) and "is for --archives" in done.exception.text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_what_systemd_says_of_the_timer(tmp_path: Path) -> None:
    put(tmp_path, backups=Backups("/backup", 7), archives=MonthlyArchives("/archive"))
    for name, kind in itertools.product(("backup", "archive"), ("service", "timer")):
        unit = tmp_path / UNITS / f"gsched-{name}.{kind}"
        checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
        assert not [line for line in checked.stderr.splitlines() if unit.name in line], checked.stderr


def test_the_masters_reader_may_step_back(tmp_path: Path) -> None:
    """nice() is setpriority() for the kernel, which is of @resources: a later line gives it back."""
    put(tmp_path)
    lines = (tmp_path / UNITS / "gsched-master.service").read_text().splitlines()
    filters = [line for line in lines if line.startswith("SystemCallFilter=")]
    assert any(line.startswith("SystemCallFilter=~") and "@resources" in line for line in filters)
    assert filters[-1] == "SystemCallFilter=setpriority"


def test_backoff_where_systemd_knows_it(tmp_path: Path) -> None:
    put(tmp_path, "door")
    config = install.read_config(InstallPlace(str(tmp_path), "/etc/gsched", "h1"))
    texts = {
        version: units.unit_of("agent", units.Installation(PYTHON, config, "h1", version))[1] for version in (252, 254)
    }
    assert "RestartMaxDelaySec" not in texts[252]
    assert "RestartSteps=6\nRestartMaxDelaySec=30\n" in texts[254]
    with pytest.raises(BadRequest, match="cannot stand in a unit"):
        units.Installation("/opt/my venv/bin/python", config, "h1", 0)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize(("daemon", "worst"), [("master", 2.0), ("door", 2.0), ("agent", 9.4), ("web", 5.0)])
def test_what_systemd_says(tmp_path: Path, daemon: str, worst: float) -> None:
    """The agent's score is that of its jobs: what is forbidden to it is forbidden to them."""
    put(tmp_path, daemon)
    unit = tmp_path / UNITS / f"gsched-{daemon}.service"
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    problems = [line for line in checked.stderr.splitlines() if unit.name in line]
    assert not problems, checked.stderr
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True, timeout=60
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", rated.stdout)
    assert found is not None, rated.stdout + rated.stderr
    assert float(found[1]) <= worst
