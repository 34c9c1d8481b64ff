"""`gadmin install-units`, `uninstall-units`: an installation of gsched as systemd services of this host.

Writes units, the user, the folders and, where there is none, a configuration. It must never replace a file that
somebody has changed or made, unless it is told to, and never start, stop or enable anything: that is systemctl's.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gsched
from gsched.app.clusters.draining import Say
from gsched.app.installation import help_files, units
from gsched.app.installation.units import Installation
from gsched.base.errors import BadRequest, Conflict, GschedError, PermissionDenied
from gsched.base.machine.gpu_lock import ROOTS_FOLDER
from gsched.config.configuration import load
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import ClusterConfig, Locations
from gsched.probe.gpu import inventory_path
from gsched.probe.simulated.inventory import parse_sim_spec, write_inventory
from gsched.wire.address import DOOR_FILE

DAEMONS = ("master", "door", "agent", "web")
DEFAULT_PORT = 6881
SIMULATED_SLOTS = 16
DOOR_SOCKET = "door.sock"
_UNITS = "etc/systemd/system"
NOTHING_TIMED = units.Timed()
_TIMED = (units.BACKUP_TIMER, units.BACKUP_UNIT, units.ARCHIVE_TIMER, units.ARCHIVE_UNIT)
_MARK = "# Written by gadmin install-units, which replaces it as long as nobody has changed it; checksum "
_MARKED = re.compile(rf"{re.escape(_MARK)}([0-9a-f]{{16}})\n")
_CLOSED = ("/home", "/root", "/run/user")
"""What ProtectHome= hides from the master and the door."""


@dataclass(frozen=True, slots=True)
class NewCluster:
    """What a configuration is made of where there is none. The first host is the master's."""

    name: str
    hosts: tuple[str, ...]
    sim_gpus: str = ""
    administrators: tuple[str, ...] = ()
    port: int = DEFAULT_PORT


@dataclass(frozen=True, slots=True)
class InstallPlace:
    """Where is installed: `root` (empty: this machine's /), the configuration folder as daemons see it, the host."""

    root: str
    conf: str
    host: str

    def below(self, path: str) -> Path:
        """The file of this path."""
        return Path(self.root or "/") / path.lstrip("/")


def install(
    place: InstallPlace,
    daemons: Sequence[str],
    new: NewCluster | None,
    *,
    force: bool,
    say: Say,
    python: str = sys.executable,
    package: str = gsched.__file__,
    timed: units.Timed = NOTHING_TIMED,
) -> None:
    """Write everything for these daemons (none: those that the configuration gives this host), say what to do next.
    `timed`: on the master's host, what has units and timers.

    Raises PermissionDenied without root, BadRequest, ConfigError, Conflict where a changed file is in the way (nothing
    is written then unless `force`), OSError.
    """
    _check_root(place)
    _check_reachable(os.path.abspath(python), os.path.abspath(package))
    mask = os.umask(0o022)  # services and users read it all, whatever the umask of who installs
    try:
        _install(place, daemons, new, force=force, say=say, python=python, timed=timed)
    finally:
        os.umask(mask)


def _install(
    place: InstallPlace,
    daemons: Sequence[str],
    new: NewCluster | None,
    *,
    force: bool,
    say: Say,
    python: str,
    timed: units.Timed,
) -> None:
    if not os.path.lexists(place.below(f"{place.conf}/lsf.conf")):
        _write_configuration(place, new, say)
    elif new is not None:
        say(f"the configuration in {place.conf} is kept: --hosts, --cluster and --sim-gpus count when there is none")
    config = read_config(place)
    wanted = tuple(daemons) or _daemons_of(config, place.host)
    made_for = Installation(os.path.abspath(python), config, place.host, _systemd_version(place))
    texts = {f"{_UNITS}/{name}": text for name, text in (units.unit_of(daemon, made_for) for daemon in wanted)}
    texts |= {f"{_UNITS}/{name}": text for name, text in _timed_units(made_for, wanted, timed).items()}
    texts["etc/sysusers.d/gsched.conf"] = units.user_text(made_for)
    texts["etc/tmpfiles.d/gsched.conf"] = units.folders_text(made_for)
    texts["etc/profile.d/gsched.sh"] = units.profile_text(made_for)
    texts["etc/logrotate.d/gsched"] = units.rotation_text(config.locations)
    texts |= help_files.completions()
    _refuse_changed(place, texts, force)
    for name, text in texts.items():
        _write(place.below(name), marked(text), 0o644)
    for name, text in help_files.pages(os.path.abspath(python)).items():
        _write(place.below(name), text, 0o644)
    if "door" in wanted:
        _write(place.below(f"{place.conf}/{DOOR_FILE}"), f"{config.folder_of('door')}/{DOOR_SOCKET}\n", 0o644)
    say(f"{', '.join(wanted)} of cluster {config.cluster}: units are in {place.below(_UNITS)}")
    say(f"manual pages are in {place.below(help_files.manual_folder(os.path.abspath(python)))}, completion in /etc")
    if not place.root:
        _make_known(say)
        share_key(config, place.host, say)
    timers = []
    if timed.backups is not None:
        timers.append(units.BACKUP_TIMER)
        _make_folder(place, timed.backups.folder, 0o700, say)
    if timed.archives is not None:
        timers.append(units.ARCHIVE_TIMER)
        _make_folder(place, timed.archives.folder, 0o750, say)
    _say_next(config, place, wanted, say, timers)


def _timed_units(made_for: Installation, wanted: Sequence[str], timed: units.Timed) -> dict[str, str]:
    """Name and text of each. Raises BadRequest."""
    master, texts = made_for.config.master_host, dict[str, str]()
    if timed.backups is not None:
        if "master" not in wanted:
            raise BadRequest(f"copies of the store are made on the master's host, {master}")
        texts |= units.backup_units(made_for, timed.backups)
    if timed.archives is not None:
        if "master" not in wanted:
            raise BadRequest(f"months are archived on the master's host, {master}")
        texts |= units.archive_units(made_for, timed.archives)
    return texts


def uninstall(place: InstallPlace, *, force: bool, say: Say, python: str = sys.executable) -> None:
    """Remove what `install` has written, but for configuration, state and the user. Raises as `install` does."""
    _check_root(place)
    names = [f"{_UNITS}/{name}" for name in (units.MASTER_UNIT, units.DOOR_UNIT, units.AGENT_UNIT, units.WEB_UNIT)]
    names += [f"{_UNITS}/{name}" for name in _TIMED]
    names += ["etc/sysusers.d/gsched.conf", "etc/tmpfiles.d/gsched.conf", "etc/profile.d/gsched.sh"]
    names += ["etc/logrotate.d/gsched"]
    names += help_files.COMPLETIONS
    there = [name for name in names if os.path.lexists(place.below(name))]
    if not there:
        raise BadRequest("no units of gsched are installed")
    _refuse_changed(place, there, force)
    services = [Path(name).name for name in there if name.startswith(_UNITS)]
    if not place.root and _is_booted():
        # An agent's end leaves its jobs running (KillMode=process).
        _call(["systemctl", "disable", "--now", *services], say)
    for name in there:
        place.below(name).unlink()
    if not place.root and _is_booted():
        _call(["systemctl", "daemon-reload"], say)
    for name in help_files.pages(os.path.abspath(python)):
        place.below(name).unlink(missing_ok=True)
    say(f"removed: {' '.join(str(place.below(name)) for name in there)}, and the manual pages")
    say(f"kept: {place.conf}, the event store, the spool of the agent, the user {units.USER}")
    if not place.root and os.path.isdir(ROOTS_FOLDER):
        say(f"no private cluster gets a GPU of this host before {ROOTS_FOLDER} is removed, or the host boots")


def read_config(place: InstallPlace) -> ClusterConfig:
    """The configuration of the place. Raises ConfigError."""
    return load(str(place.below(place.conf)), place.host, meant_for=place.conf).required()


def marked(text: str) -> str:
    """The text below a line that tells whether it has been changed since."""
    return f"{_MARK}{_checksum(text)}\n{text}"


def is_unchanged(content: str) -> bool:
    """Whether `marked` made this, and nobody has touched it."""
    found = _MARKED.match(content)
    return found is not None and _checksum(content[found.end() :]) == found[1]


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _check_root(place: InstallPlace) -> None:
    if not place.root and os.geteuid() != 0:
        raise PermissionDenied("only root installs services; --root DIR writes them below another folder")


def _write_configuration(place: InstallPlace, new: NewCluster | None, say: Say) -> None:
    if new is None:
        raise BadRequest(
            f"there is no configuration in {place.conf}: copy the one of the master's host, "
            "or --hosts MASTER,HOST,... makes a new one"
        )
    folders = Locations(
        conf_dir=place.conf,
        state_dir="/var/lib/gsched",
        log_dir="/var/log/gsched",
        server_dir="/usr/libexec/gsched",
        run_dir="/run/gsched",
        spool_dir="/var/spool/gsched",
    )
    provider = f"sim:{place.conf}/gpus" if new.sim_gpus else "nvml"
    inventories = {host: parse_sim_spec(new.sim_gpus, host) for host in new.hosts} if new.sim_gpus else {}
    write_private(
        place.conf,
        NewConfiguration(
            cluster=new.name,
            hosts=new.hosts,
            slots=SIMULATED_SLOTS if new.sim_gpus else None,
            folders=folders,
            gpu_provider=provider,
            administrators=(units.USER, *new.administrators),
            port=new.port,
        ),
        below=place.root,
    )
    for host, inventory in inventories.items():
        path = inventory_path(provider, host)
        assert path is not None
        place.below(str(path)).parent.mkdir(exist_ok=True)
        write_inventory(place.below(str(path)), inventory)
    say(f"a configuration for {' '.join(new.hosts)} is in {place.below(place.conf)}")


def _daemons_of(config: ClusterConfig, host: str) -> tuple[str, ...]:
    """Those that run on this host by lsf.cluster."""
    if host not in config.hosts:
        raise BadRequest(
            f"this host is {host}, which is not in lsf.cluster.{config.cluster}; --host names it otherwise"
        )
    is_there = {
        "master": host in config.master_hosts,
        "door": True,
        "agent": config.hosts[host].server,
        "web": host in config.web_hosts,
    }
    return tuple(daemon for daemon in DAEMONS if is_there[daemon])


def _check_reachable(*paths: str) -> None:
    """The user gsched must be able to run the interpreter and read the package."""
    for path in paths:
        for folder in reversed(Path(path).parents):
            if str(folder) in _CLOSED or not stat.S_IMODE(os.stat(folder).st_mode) & stat.S_IXOTH:
                raise BadRequest(
                    f"gsched is installed below {folder}, which the user {units.USER} cannot enter: "
                    "install it elsewhere, as in /opt/gsched"
                )


def _refuse_changed(place: InstallPlace, names: Iterable[str], force: bool) -> None:
    changed = [str(path) for path in map(place.below, names) if os.path.lexists(path) and not _is_ours(path)]
    if changed and not force:
        raise Conflict(
            f"{' '.join(changed)}: changed or made by somebody else, and kept; nothing was done. "
            "--force replaces it; systemctl edit keeps changes in a file of their own"
        )


def _is_ours(path: Path) -> bool:
    try:
        return is_unchanged(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _write(path: Path, text: str, mode: int) -> None:
    """Put the file there whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, "utf-8")
        new.chmod(mode)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


# -- this machine -----------------------------------------------------------------------------------------------------


def _systemd_version(place: InstallPlace) -> int:
    """0 where it is not known: for another machine."""
    if place.root or shutil.which("systemctl") is None:
        return 0
    found = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=False).stdout.split()
    return int(found[1]) if len(found) > 1 and found[1].isdigit() else 0


def _is_booted() -> bool:
    """Whether systemd runs this machine, as sd_booted(3) says."""
    return os.path.isdir("/run/systemd/system")


def _make_known(say: Say) -> None:
    """The user, then the folders that belong to it, then the units."""
    _call(["systemd-sysusers", "/etc/sysusers.d/gsched.conf"], say)
    _call(["systemd-tmpfiles", "--create", "/etc/tmpfiles.d/gsched.conf"], say)
    if _is_booted():
        _call(["systemctl", "daemon-reload"], say)


def _call(words: list[str], say: Say) -> None:
    """Run one of systemd's tools. Raises GschedError when it fails; one that is missing is said."""
    if shutil.which(words[0]) is None:
        say(f"there is no {words[0]} here: run it where systemd is")
        return
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GschedError(f"{' '.join(words)}: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")


def share_key(config: ClusterConfig, host: str, say: Say) -> None:
    """Have the user of master and door read this host's key, if it is root's alone as it was made."""
    path = Path(config.network.tls_dir) / f"{host}.key"
    try:
        group = grp.getgrnam(units.USER).gr_gid
        status = path.stat()
    except (FileNotFoundError, KeyError):
        return
    is_made_so = status.st_uid == 0 and stat.S_IMODE(status.st_mode) in (0o600, 0o640)
    if is_made_so and (status.st_gid, stat.S_IMODE(status.st_mode)) != (group, 0o640):
        os.chown(path, 0, group)
        path.chmod(0o640)
        say(f"{path}: the group {units.USER} may read it")


def _make_folder(place: InstallPlace, folder: str, mode: int, say: Say) -> None:
    """One that is there stays as it is: it may be a share of others; and none is made for another machine."""
    if place.root or os.path.isdir(folder):
        return
    folder = os.path.normpath(folder)  # else its own name is taken for that of its parent, if a slash ends it
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as problem:
        raise GschedError(f"{problem.filename or folder}: {problem.strerror}") from None
    try:
        user = pwd.getpwnam(units.USER)
        os.fchown(handle, user.pw_uid, user.pw_gid)
    except KeyError:
        say(f"{folder} is to belong to the user {units.USER}, who is not there yet")
    finally:
        os.fchmod(handle, mode)
        os.close(handle)


def _say_next(
    config: ClusterConfig, place: InstallPlace, wanted: Sequence[str], say: Say, timers: Sequence[str]
) -> None:
    tls = place.below(config.network.tls_dir)
    steps = []
    if config.is_shared and not (tls / "ca.crt").exists():
        steps.append("gadmin init-ca makes the certificates of all hosts")
    elif config.is_shared and not (tls / f"{place.host}.key").exists():
        steps.append(f"copy {place.host}.crt and {place.host}.key from where gadmin init-ca was run to {tls}")
    others = [host for host in config.hosts if host != place.host]
    if "master" in wanted and others:
        parent = os.path.dirname(place.conf)
        steps.append(f"for each other host:  gadmin host-files {others[0]} | ssh {others[0]} tar -x -C {parent}")
        steps.append(f"for each other host:  ssh {others[0]} {os.path.dirname(sys.executable)}/gadmin install-units")
    services = " ".join([*(f"gsched-{daemon}" for daemon in wanted), *timers])
    steps.append(f"systemctl enable --now {services}")
    for number, step in enumerate(steps, 1):
        say(f"next {number}: {step}")
