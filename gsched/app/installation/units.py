"""The texts that make an installation a set of systemd services: units, the user `gsched`, the folders.

Source of the words: systemd.service(5), systemd.exec(5), systemd.kill(5), sysusers.d(5), tmpfiles.d(5). Pure: texts
from values. Paths and systemd's version come from the caller; nothing here touches the machine.

Master and door need a network, their folders and nothing else, and are shut off from the rest. The agent is not: what
is forbidden to it is forbidden to all its jobs, for they are its children. Those of the web are users' processes, which
make pages and submit jobs: they need users' files, and no device.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.base.machine import gpu_lock
from gsched.base.machine.service import TOLD_TO_STOP
from gsched.model.config import ClusterConfig, Locations
from gsched.model.web_front import WEB_USER

USER = "gsched"
BACKUP_UNIT, BACKUP_TIMER = "gsched-backup.service", "gsched-backup.timer"
ARCHIVE_UNIT, ARCHIVE_TIMER = "gsched-archive.service", "gsched-archive.timer"
MASTER_UNIT, DOOR_UNIT, AGENT_UNIT, WEB_UNIT = (f"gsched-{name}.service" for name in ("master", "door", "agent", "web"))
WATCHDOG_S = 60
COPIES_KEPT = 14
"""Of the store, where nothing else is said."""
_BACKOFF_VERSION = 254
_SAFE = re.compile(r"[^\s\"'\\%$;#]+")

_UNIT = """\
[Unit]
Description={description}
After={after}
Wants=network-online.target
# However often it ends, it is started again: {what}.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
Environment=GSCHED_ENVDIR={conf}
ExecStart={python} -I -X utf8 -m gsched.app.entry {word} --envdir {conf}
{who}WatchdogSec={watchdog}
Restart=always
RestartSec=1
{backoff}RestartPreventExitStatus={told}
SuccessExitStatus={told}
TimeoutStopSec=30
{body}
[Install]
WantedBy=multi-user.target
"""

_BACKOFF = """\
RestartSteps=6
RestartMaxDelaySec=30
"""

_WHO = f"User={USER}\nGroup={USER}\n"

_HARDENED = """\
LimitNOFILE=65536
LimitCORE=0
UMask=0077
AmbientCapabilities=
NoNewPrivileges=yes
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateDevices=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
"""

# Not PrivateUsers: it would hide from SO_PEERCRED who asks.
_SHUT_OFF = f"""\
{_HARDENED}CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProcSubset={{proc}}
PrivateTmp=yes
RemoveIPC=yes
MemoryDenyWriteExecute=yes
SystemCallFilter=~@privileged @resources
# What reads large histories steps back behind the rest of it; up nobody gets without a capability.
SystemCallFilter=setpriority
{{writes}}"""

_OF_DOOR = """\
# What one user asks for does not fill the host: the door is started anew, launchers run commands meanwhile.
MemoryMax=50%
"""

_OF_AGENT = """\
# Jobs outlive their agent: its end, also that of an upgrade, is the end of one process.
KillMode=process
Delegate=yes
TasksMax=infinity
LimitMEMLOCK=infinity
# What is in its memory, and in that of its supervisors, is nobody's to read in a core file; a job may have one made.
LimitCORE=0:infinity
UMask=0077
# What the agent may not do, no job may: jobs are its children. So nothing is taken away but what no job needs.
CapabilityBoundingSet=~CAP_BLOCK_SUSPEND CAP_LINUX_IMMUTABLE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_SYS_BOOT CAP_SYS_PACCT
CapabilityBoundingSet=~CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_SYSLOG CAP_WAKE_ALARM
"""

_OF_WEB = f"""\
# Root's own process reads no word of the network: that is for one of the user {WEB_USER}, and for one of each user.
{_HARDENED}# Users' processes fill neither the host nor, when one of them has to end for it, everybody's pages.
OOMPolicy=continue
TasksMax=16384
MemoryMax=50%
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_AUDIT_WRITE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
ProtectSystem=full
# Administrators who may write the configuration can do so on a page.
{{writes}}"""

_BACKUP = """\
[Unit]
Description=gsched backup of cluster {cluster}
After=remote-fs.target gsched-master.service

[Service]
Type=oneshot
Environment=GSCHED_ENVDIR={conf}
ExecStart={python} -I -X utf8 -c "from gsched.app.entry import gadmin; gadmin()" backup --envdir {conf} {words}
{who}Nice=10
IOSchedulingClass=idle
TimeoutStartSec=6h
{body}"""

_BACKUP_TIMER = """\
[Unit]
Description=gsched backup of cluster {cluster}, once a day

[Timer]
OnCalendar=daily
# Not all clusters of a site at midnight; a day that the machine was down is made up for.
RandomizedDelaySec=1h
Persistent=yes

[Install]
WantedBy=timers.target
"""

_ARCHIVE = """\
[Unit]
Description=gsched archive of months that are over, of cluster {cluster}
# Nothing may be written below a mount point that has nothing mounted.
RequiresMountsFor={folder}
After=remote-fs.target gsched-master.service

[Service]
Type=oneshot
Environment=GSCHED_ENVDIR={conf}
ExecStart={python} -I -X utf8 -c "from gsched.app.entry import gadmin; gadmin()" history archive --envdir {conf} {words}
{who}Nice=10
IOSchedulingClass=idle
TimeoutStartSec=24h
{body}# The group of the folder may read what is not secret.
UMask=0027
"""

_ARCHIVE_TIMER = """\
[Unit]
Description=gsched archive of months that are over, of cluster {cluster}, once a month

[Timer]
# Months end in UTC; on the second the last one is over everywhere.
OnCalendar=*-*-02
# Not all clusters of a site at midnight; a month that the machine was down is made up for.
RandomizedDelaySec=6h
Persistent=yes

[Install]
WantedBy=timers.target
"""

_SYSUSERS = f"""\
# The master and the door run as this user; it owns the event store, and has no login.
u {USER} - "gsched" {{state}} /usr/sbin/nologin
"""

_WEB_SYSUSERS = f"""\
# What speaks with browsers runs as this user; it owns nothing, and has no login.
u {WEB_USER} - "gsched web" / /usr/sbin/nologin
"""

_ROTATION = """\
# logrotate(8) for gsched: the audit log, and the logs of daemons whose output goes to files. The audit log goes on in a
# new file by itself; daemons open theirs anew on SIGUSR1, each told by the lock that it holds while it runs.
{logs}/*.log {{
    weekly
    rotate 8
    missingok
    notifempty
    compress
    delaycompress
    sharedscripts
    postrotate
        for lock in {run}/*.lock {run}/*/*.lock; do
            [ ! -e "$lock" ] || pkill -USR1 -L -F "$lock" || true
        done
    endscript
}}
"""


@dataclass(frozen=True, slots=True)
class Backups:
    """Copies of the store that are made once a day."""

    folder: str
    """Absolute path; the user gsched writes there."""
    keep: int
    """So many are kept, the newest."""
    passphrase_file: str = ""
    """With it configuration and keys are part of each."""


@dataclass(frozen=True, slots=True)
class MonthlyArchives:
    """Months that are over, which are archived once a month."""

    folder: str
    """Absolute path; the user gsched writes there."""
    keep: bool = False
    """Nothing is removed from the store."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What is done from time to time; None: units that are there stay as they are."""

    backups: Backups | None = None
    archives: MonthlyArchives | None = None


@dataclass(frozen=True, slots=True)
class Installation:
    """What units are made for: the interpreter gsched is installed for, and the cluster's configuration."""

    python: str
    config: ClusterConfig
    host: str
    """Its name in lsf.cluster."""
    systemd: int
    """systemd's version; what an older one does not know is left out."""

    def __post_init__(self) -> None:
        places = self.config.locations
        folders = (
            places.conf_dir,
            places.state_dir,
            places.log_dir,
            places.server_dir,
            places.run_dir,
            places.spool_dir,
        )
        for path in (self.python, *folders):
            if not _SAFE.fullmatch(path):
                raise BadRequest(f"{path}: a path with blanks, quotes or one of \\ % $ ; # cannot stand in a unit")


def unit_of(daemon: str, made_for: Installation) -> tuple[str, str]:
    """Name and text of the unit of `master`, `door`, `agent` or `web`."""
    return {"master": _master, "door": _door, "agent": _agent, "web": _web}[daemon](made_for)


def _master(made_for: Installation) -> tuple[str, str]:
    places = made_for.config.locations
    writes = [places.state_dir, places.log_dir, made_for.config.folder_of("master")]
    body = f"TimeoutStartSec=15min\n{_SHUT_OFF.format(writes=_writes(writes), proc='pid')}"
    return MASTER_UNIT, _text(
        made_for,
        "master",
        description=f"gsched master of cluster {made_for.config.cluster}",
        after="network-online.target nss-user-lookup.target remote-fs.target time-sync.target",
        what="jobs wait for it, and it waits between tries",
        who=_WHO,
        body=body,
    )


def backup_units(made_for: Installation, backups: Backups) -> dict[str, str]:
    """Name and text of the service that makes a copy, and of the timer that starts it. Raises BadRequest."""
    words = f"--into {backups.folder} --keep {backups.keep}"
    if backups.passphrase_file:
        words += f" --passphrase-file {backups.passphrase_file}"
    _check_paths(backups.folder, backups.passphrase_file)
    config = made_for.config
    writes = _writes([config.locations.state_dir, backups.folder])
    service = _BACKUP.format(
        cluster=config.cluster,
        conf=config.locations.conf_dir,
        python=made_for.python,
        words=words,
        who=_WHO,
        body=_SHUT_OFF.format(writes=writes, proc="pid"),
    )
    return {BACKUP_UNIT: service, BACKUP_TIMER: _BACKUP_TIMER.format(cluster=config.cluster)}


def archive_units(made_for: Installation, archives: MonthlyArchives) -> dict[str, str]:
    """Name and text of the service that archives months, and of the timer that starts it. Raises BadRequest."""
    _check_paths(archives.folder)
    config = made_for.config
    service = _ARCHIVE.format(
        cluster=config.cluster,
        conf=config.locations.conf_dir,
        python=made_for.python,
        # The month that was over last stays in the store.
        folder=archives.folder,
        words=f"{'--keep ' if archives.keep else ''}.-1/ {archives.folder}",
        who=_WHO,
        body=_SHUT_OFF.format(writes=_writes([config.locations.state_dir, archives.folder]), proc="pid"),
    )
    return {ARCHIVE_UNIT: service, ARCHIVE_TIMER: _ARCHIVE_TIMER.format(cluster=config.cluster)}


def _check_paths(*paths: str) -> None:
    for path in filter(None, paths):
        if not _SAFE.fullmatch(path) or not path.startswith("/"):
            raise BadRequest(f"{path}: what stands in a unit is an absolute path without blanks, quotes or \\ % $ ; #")


def _door(made_for: Installation) -> tuple[str, str]:
    writes = [made_for.config.folder_of("door")]
    return DOOR_UNIT, _text(
        made_for,
        f"door --host {made_for.host}",
        description=f"gsched door of cluster {made_for.config.cluster}: runs the commands of this host's users",
        after="network-online.target nss-user-lookup.target",
        what="commands are slow or refused without it",
        who=_WHO,
        body=f"{_OF_DOOR}{_SHUT_OFF.format(writes=_writes(writes), proc='pid')}",
    )


def _agent(made_for: Installation) -> tuple[str, str]:
    return AGENT_UNIT, _text(
        made_for,
        f"agent --host {made_for.host}",
        description=f"gsched agent of cluster {made_for.config.cluster}: starts this host's jobs",
        after="network-online.target nss-user-lookup.target remote-fs.target nvidia-persistenced.service",
        what="this host's jobs go on and want it back",
        who="",
        body=_OF_AGENT,
    )


def _web(made_for: Installation) -> tuple[str, str]:
    return WEB_UNIT, _text(
        made_for,
        "web",
        description=f"gsched web of cluster {made_for.config.cluster}: pages for browsers",
        after="network-online.target nss-user-lookup.target remote-fs.target gsched-door.service",
        what="nobody sees pages without it",
        who="",
        body=_OF_WEB.format(writes=_writes([made_for.config.locations.conf_dir])),
    )


def _writes(folders: list[str]) -> str:
    return "".join(f"ReadWritePaths={folder}\n" for folder in dict.fromkeys(folders))


def _text(made_for: Installation, word: str, **values: str) -> str:
    return _UNIT.format(
        word=word,
        python=made_for.python,
        conf=made_for.config.locations.conf_dir,
        watchdog=WATCHDOG_S,
        told=TOLD_TO_STOP,
        backoff=_BACKOFF if made_for.systemd >= _BACKOFF_VERSION else "",
        **values,
    )


def user_text(made_for: Installation) -> str:
    """sysusers.d: the user that master and door run as, and that of the web where it runs."""
    text = _SYSUSERS.format(state=made_for.config.locations.state_dir)
    return text + _WEB_SYSUSERS if made_for.host in made_for.config.web_hosts else text


def folders_text(made_for: Installation) -> str:
    """tmpfiles.d: every folder with its owner, also those that are gone after a boot."""
    config = made_for.config
    places = config.locations
    rows = [
        (places.state_dir, "0700", USER),
        (places.log_dir, "0755", USER),
        (places.spool_dir, "0711", "root"),
        (places.server_dir, "0755", "root"),
        (places.run_dir, "0755", "root"),
        (config.folder_of("master"), "0700", USER),
        (config.folder_of("door"), "0755", USER),
        (config.folder_of("agent"), "0755", "root"),
    ]
    if made_for.host in config.web_hosts:
        rows.append((config.folder_of("web"), "0755", "root"))
    has_jobs = config.hosts[made_for.host].server
    if has_jobs:
        rows.append((gpu_lock.ROOTS_FOLDER, "0700", "root"))
    # A folder comes after the one that it lies in.
    lines = [f"d {path} {mode} {user} {user} -" for path, mode, user in sorted(rows)]
    if has_jobs:  # only as the machine boots: later on a private cluster may hold a GPU
        lines.append(f"f! {gpu_lock.ROOTS_FOLDER}/{gpu_lock.SINCE_BOOT} 0600 root root -")
    return "# The folders of gsched: their owners and modes; none is ever emptied by age.\n" + "\n".join(lines) + "\n"


def rotation_text(places: Locations) -> str:
    """logrotate.d: a file for the logs of this host."""
    return _ROTATION.format(logs=places.log_dir, run=places.run_dir)


def profile_text(made_for: Installation) -> str:
    """profile.d: the commands are found without their path, and a session of ssh finds the variables of its job."""
    folder = os.path.dirname(made_for.python)
    path = f'case ":$PATH:" in\n  *":{folder}:"*) ;;\n  *) PATH=$PATH:{folder} ;;\nesac\n'
    return f"# The commands of gsched.\n{path}{session_text(folder, made_for.config.locations.conf_dir)}"


def session_text(folder: str, conf_dir: str) -> str:
    """Lines for the shell of a session that `gsched-pam`, in this folder, has put into the control group of a job."""
    return f"""\
# A session of ssh that has joined a job.
if [ -n "${{SSH_CONNECTION-}}" ] && grep -qs /gsched/ /proc/self/cgroup; then
  eval "$({shlex.quote(folder)}/gsched-pam --envdir {shlex.quote(conf_dir)} --session)"
fi
"""
