"""A PostgreSQL server on a host of a lab, reached by the others over their network, with TLS.

It proves itself by a certificate of a CA of its own. It runs as `bob`, for it refuses root; whoever reaches it is
let in, as the lab has no strangers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
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
SETTINGS = {
    "listen_addresses": "*",
    "port": str(PORT),
    "unix_socket_directories": FOLDER,
    "ssl": "on",
    "ssl_cert_file": f"{FOLDER}/server.crt",
    "ssl_key_file": f"{FOLDER}/server.key",
    "shared_buffers": "16MB",
    "max_connections": "60",
}


class LabDatabase:
    """Made and started by `start`; it ends with the lab. Raises NoServer where PostgreSQL is not installed."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._bin = programs()
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        """Its address, for GSCHED_STORE."""
        return f"postgresql://{ROLE}@{self.host.name}:{PORT}/{ROLE}?sslrootcert={CA}"

    def make(self, cluster: SharedCluster) -> None:
        """An empty database of the role; the cluster's hosts get the CA's certificate."""
        folder = self.host.path(FOLDER)
        folder.mkdir()
        shutil.chown(folder, USERS[USER], USERS[USER])
        words = ["-D", f"{FOLDER}/data", "-U", "admin", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        self.host.run([str(self._bin / "initdb"), *words], user=USER, check=True)
        tls = self.host.path(f"{FOLDER}/ca")
        tls.mkdir()
        make_host(str(tls), make_authority(str(tls), "database", 30), self.host.name, 30)
        for kind in ("crt", "key"):
            path = folder / f"server.{kind}"
            path.write_bytes((tls / f"{self.host.name}.{kind}").read_bytes())
            path.chmod(0o600)
            os.chown(path, USERS[USER], USERS[USER])
        for host in cluster.hosts:
            host.path(CA).write_bytes((tls / "ca.crt").read_bytes())
            host.path(CA).chmod(0o644)
        with (folder / "data/pg_hba.conf").open("a") as rules:
            rules.write("hostssl all all all trust\n")
        self.start()
        self.admin(f"CREATE ROLE {ROLE} LOGIN", "postgres")
        self.admin(f"CREATE DATABASE {ROLE} OWNER {ROLE}", "postgres")

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
        words = [str(self._bin / "pg_isready"), "-q", "-h", FOLDER, "-p", str(PORT), "-t", str(int(PATIENCE_S))]
        while self.host.run(words, user=USER, check=False).returncode:
            assert self._process.poll() is None, self.host.path(f"{FOLDER}/log").read_text(errors="replace")[-800:]

    def kill(self) -> None:
        """kill -9 of the server, with all of its sessions."""
        assert self._process is not None
        self.host.kill(self._process, signal.SIGKILL)

    def admin(self, statement: str, database: str = ROLE) -> str:
        """Carry a statement out as the server's administrator; what psql prints."""
        words = ["-h", FOLDER, "-p", str(PORT), "-U", "admin", "-d", database, "-qAtc", statement]
        return self.host.run([str(self._bin / "psql"), *words], user=USER, check=True).stdout.strip()
