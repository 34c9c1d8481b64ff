"""A PostgreSQL server on a host of a lab, reached by the others over their network, with TLS; if wanted, another one on
another host follows it and can be promoted.

It proves itself by a certificate of a CA of its own. It runs as `bob`, for it refuses root; whoever reaches it is
let in, as the lab has no strangers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from netlab import Host
from netlab_cluster import PATIENCE_S, SharedCluster
from netlab_machine import USERS

from gsched.app.installation.authority import make_authority, make_host
from tests.support.postgresql_server import programs

USER = "bob"
FOLDER = "/var/lib/postgresql-lab"
CA = "/etc/db-ca.crt"
ROLE = "gsched"
PORT = 5432
_FILLER = f"{FOLDER}/filler"
SETTINGS = {
    "listen_addresses": "*",
    "port": str(PORT),
    "unix_socket_directories": FOLDER,
    "ssl": "on",
    "ssl_cert_file": f"{FOLDER}/server.crt",
    "ssl_key_file": f"{FOLDER}/server.key",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "min_wal_size": "32MB",
    "max_wal_size": "64MB",
}


class LabDatabase:
    """Made and started by `start`; it ends with the lab. Raises NoServer where PostgreSQL is not installed."""

    def __init__(self, host: Host, disk_mib: int = 0) -> None:
        """`disk_mib`: it has a disk of its own of that size, in memory; 0: that of its host."""
        self.host = host
        self._disk_mib = disk_mib
        self._bin = programs()
        self._authority: Any = None
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        """Its address, for GSCHED_STORE."""
        return self.url_with()

    def url_with(self, *others: Host) -> str:
        """The address of whichever of these servers can be written to."""
        hosts = ",".join(f"{host.name}:{PORT}" for host in (self.host, *others))
        one = "&target_session_attrs=read-write" if others else ""
        return f"postgresql://{ROLE}@{hosts}/{ROLE}?sslrootcert={CA}{one}"

    def make(self, cluster: SharedCluster) -> None:
        """An empty database of the role; the cluster's hosts get the CA's certificate."""
        folder = self._make_folder()
        words = ["-D", f"{FOLDER}/data", "-U", "admin", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self.host.run([str(self._bin / "initdb"), *words], user=USER, check=True)
        tls = self.host.path(f"{FOLDER}/ca")
        tls.mkdir()
        self._authority = make_authority(str(tls), "database", 30)
        self._certify(self)
        for host in cluster.hosts:
            host.path(CA).write_bytes((tls / "ca.crt").read_bytes())
            host.path(CA).chmod(0o644)
        with (folder / "data/pg_hba.conf").open("a") as rules:
            rules.write("hostssl all all all trust\nhostssl replication all all trust\n")
        self.start()
        self.admin(f"CREATE ROLE {ROLE} LOGIN", "postgres")
        self.admin(f"CREATE DATABASE {ROLE} OWNER {ROLE}", "postgres")

    def follow(self, primary: LabDatabase) -> None:
        """Be a standby of it, made from a copy, and wait until it has all. What this one had before is given up."""
        if self._process is None:
            self._make_folder()
            primary._certify(self)
        else:
            self.host.run(["rm", "-rf", f"{FOLDER}/data"], check=True)
        where = f"host={primary.host.name} port={PORT} user=admin sslmode=require"
        words = ["-D", f"{FOLDER}/data", "-d", where, "-R", "-X", "stream", "-c", "fast", "--no-sync"]
        self.host.run([str(self._bin / "pg_basebackup"), *words], user=USER, check=True)
        self.start()
        while primary.admin("SELECT state FROM pg_stat_replication") != "streaming":
            pass  # each look asks the server

    def wait_for_standby(self) -> None:
        """From now on each commit waits for the standby."""
        self.admin("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.admin("SELECT pg_reload_conf()")
        while self.admin("SELECT sync_state FROM pg_stat_replication") != "sync":
            pass  # each look asks the server

    def promote(self) -> None:
        """The standby is a server of its own from now on."""
        assert self.admin("SELECT pg_promote()", "postgres") == "t"

    def _make_folder(self) -> Path:
        folder = self.host.path(FOLDER)
        folder.mkdir()
        if self._disk_mib:
            size = f"size={self._disk_mib}m"
            self.host.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", FOLDER], check=True)
        shutil.chown(folder, USERS[USER], USERS[USER])
        return folder

    def _certify(self, other: LabDatabase) -> None:
        """Give a server a certificate of this one's CA."""
        tls = self.host.path(f"{FOLDER}/ca")
        make_host(str(tls), self._authority, other.host.name, 30)
        for kind in ("crt", "key"):
            path = other.host.path(f"{FOLDER}/server.{kind}")
            path.write_bytes((tls / f"{other.host.name}.{kind}").read_bytes())
            path.chmod(0o600)
            os.chown(path, USERS[USER], USERS[USER])

    def start(self) -> None:
        """Start it, or start it again, and wait until it answers."""
        options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        with self.host.path(f"{FOLDER}/log").open("ab") as log:
            self._process = self.host.popen(
                [str(self._bin / "postgres"), "-D", f"{FOLDER}/data", *options],
                user=USER,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        while self.host.run(self._asking()).returncode:
            assert self._process.poll() is None, self.host.path(f"{FOLDER}/log").read_text(errors="replace")[-800:]

    def _asking(self) -> list[str]:
        """Whether it answers."""
        return [str(self._bin / "pg_isready"), "-q", "-h", FOLDER, "-p", str(PORT), "-t", str(int(PATIENCE_S))]

    def kill(self) -> None:
        """kill -9 of the server, with all of its sessions."""
        assert self._process is not None
        self.host.kill(self._process, signal.SIGKILL)

    def fill_disk(self) -> None:
        """Leave no byte on its disk."""
        assert self._disk_mib
        filled = self.host.run(["dd", "if=/dev/zero", f"of={_FILLER}", "bs=64k"])
        assert filled.returncode != 0 and "No space left" in filled.stderr, filled.stderr

    def free_disk(self) -> None:
        """Make room again; a server that has ended for want of it is started again."""
        self.host.run(["rm", "-f", _FILLER], check=True)
        while self.host.run(self._asking()).returncode:
            if self._process is None or self._process.poll() is not None:
                self.start()

    def admin(self, statement: str, database: str = ROLE) -> str:
        """Carry a statement out as the server's administrator; what psql prints."""
        words = ["-h", FOLDER, "-p", str(PORT), "-U", "admin", "-d", database, "-qAtc", statement]
        return self.host.run([str(self._bin / "psql"), *words], user=USER, check=True).stdout.strip()
