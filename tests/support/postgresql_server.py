"""A PostgreSQL server of the tests' own: in a private folder, on a unix socket alone, as durable as a real one.

It runs as whoever runs the tests; PostgreSQL refuses root, so for root it runs as `postgres` or `nobody`. Nothing is
installed here: where Debian's package is missing the tests are skipped.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
from sqlalchemy import Engine

from gsched.model.store_url import parse_store_url
from gsched.store.tables.postgresql import writer_engine
from tests.support.folders import new_folder

DATABASE = "tests"
_DEBIAN = Path("/usr/lib/postgresql")
_PORT = 5432
_START_S, _STOP_S = 120, 60
_PATIENCE_S = 120.0
"""All of these catch a hang only: a machine may be busy with other tests."""
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "jit": "off",
    "log_min_messages": "fatal",
}


class NoServer(Exception):
    """There is none here, and why."""


def programs() -> Path:
    """The folder of initdb and the others. Raises NoServer."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(os.path.realpath(found)).parent
    newest = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not newest:
        raise NoServer("PostgreSQL is not installed (Debian's postgresql)")
    return newest[-1].parent


class PostgresqlServer:
    """Running from the beginning until `close`. Raises NoServer."""

    def __init__(self) -> None:
        self._bin = programs()
        self.folder = new_folder()
        self._data = self.folder / "data"
        self._user = _server_user()
        self._numbers = itertools.count(1)
        self._settings = dict(_SETTINGS)
        if self._user is not None:  # nobody passes but the server and root, also one that has given its rights up
            os.chown(self.folder, self._user.pw_uid, os.getegid())
            self.folder.chmod(0o750)
            self._settings |= {"unix_socket_permissions": "0770", "unix_socket_group": str(os.getegid())}
        words = ["-D", str(self._data), "-U", "admin", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        made = self._run("initdb", *words)
        if made.returncode != 0:
            raise NoServer(f"initdb fails: {made.stderr.strip().splitlines()[-1:]}")
        self.start()
        with self.admin("postgres") as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def start(self, **settings: str) -> None:
        """Start it, or start it again. Raises NoServer."""
        given = {**self._settings, "port": str(_PORT), **settings, "unix_socket_directories": str(self.folder)}
        self._port = given["port"]
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        log = self.folder / "log"
        words = ["start", "-w", "-t", str(_START_S), "-D", str(self._data), "-l", str(log), "-o", options]
        if self._run("pg_ctl", *words).returncode != 0:
            raise NoServer(f"the server does not start: {log.read_text(errors='replace')[-500:]}")

    def start_on_network(self, address: str, certificate: Path, key: Path) -> int:
        """Stop it, and start it again on a free port of this address too, with TLS where the files are there; returns
        the port. Who it is is asked of nobody.
        """
        self.stop()
        (self._data / "pg_hba.conf").write_text("local all all trust\nhost all all samehost trust\n")
        settings = {"listen_addresses": address, "ssl": "off"}
        if certificate.exists():
            for source, name in ((certificate, "tls.crt"), (key, "tls.key")):
                target = self._data / name
                target.write_bytes(source.read_bytes())
                target.chmod(0o600)
                if self._user is not None:
                    os.chown(target, self._user.pw_uid, self._user.pw_gid)
            settings |= {"ssl": "on", "ssl_cert_file": "tls.crt", "ssl_key_file": "tls.key"}
        with socket.create_server((address, 0)) as free:
            port = int(free.getsockname()[1])
        self.start(**settings, port=str(port))
        return port

    def stop(self, mode: str = "fast") -> None:
        """`fast` ends all sessions; `immediate` is what a crash is."""
        self._run("pg_ctl", "stop", "-w", "-t", str(_STOP_S), "-m", mode, "-D", str(self._data))

    @property
    def pid(self) -> int:
        """Of the process that all others of the server come from."""
        return int((self._data / "postmaster.pid").read_text().splitlines()[0])

    def kill(self) -> None:
        """kill -9; returns when the processes of its sessions have noticed as well."""
        pid = self.pid
        processes = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        os.kill(pid, signal.SIGKILL)
        # They are nobody's children here: nothing tells of their end.
        _until(lambda: not any(map(_runs, processes)), "processes of the server that was killed are still there")
        # Where nobody buries orphans the next server would take this one for one that runs.
        for left in (self._data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        """End it and remove all that it has written."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def admin(self, database: str = DATABASE) -> psycopg.Connection[Any]:
        """A connection that may do everything, and commits each statement."""
        return psycopg.connect(host=str(self.folder), port=self._port, user="admin", dbname=database, autocommit=True)

    def new_url(self, options: str = "") -> str:
        """The address of an empty schema, which is that of a user who has no other."""
        name = f"store{next(self._numbers)}"
        with self.admin() as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN")
            connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
        return f"postgresql://{name}@/{DATABASE}?host={self.folder}{options}"

    def sessions(self, url: str) -> list[str]:
        """What the store's sessions are for."""
        user = url.partition("//")[2].partition("@")[0]
        with self.admin() as connection:
            query = f"SELECT application_name FROM pg_stat_activity WHERE usename = '{user}'"
            return sorted(str(row[0]) for row in connection.execute(query).fetchall())

    def waiting(self, url: str) -> list[str]:
        """Of those the ones that wait for a lock."""
        user = url.partition("//")[2].partition("@")[0]
        with self.admin() as connection:
            chosen = f"FROM pg_stat_activity WHERE usename = '{user}' AND wait_event_type = 'Lock'"
            return [str(row[0]) for row in connection.execute(f"SELECT application_name {chosen}").fetchall()]

    def end_sessions(self, url: str, which: str = "%") -> None:
        """End those of the store, as an administrator does; `which` is a pattern of LIKE for what they are for."""
        user = url.partition("//")[2].partition("@")[0]
        with self.admin() as connection:
            patience_ms = 1000 * _STOP_S
            chosen = f"FROM pg_stat_activity WHERE usename = '{user}' AND application_name LIKE '{which}'"
            connection.execute(f"SELECT pg_terminate_backend(pid, {patience_ms}) {chosen}")

    @contextlib.contextmanager
    def stopped_sessions(self, url: str) -> Iterator[None]:
        """Meanwhile the processes of those of the store that there are now hang."""
        user = url.partition("//")[2].partition("@")[0]
        with self.admin() as connection:
            query = f"SELECT pid FROM pg_stat_activity WHERE usename = '{user}'"
            pids = [int(row[0]) for row in connection.execute(query).fetchall()]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def asking_password(self, user: str) -> Iterator[None]:
        """Meanwhile this user must prove who it is."""
        rules = self._data / "pg_hba.conf"
        before = rules.read_text()
        try:
            rules.write_text(f"local all {user} scram-sha-256\n{before}")
            self._reload()
            yield
        finally:
            rules.write_text(before)
            self._reload()

    def configure(self, **settings: str | None) -> None:
        """Change settings of the running server; None: as it was started."""
        with self.admin() as connection:
            for name, value in settings.items():
                what = f"RESET {name}" if value is None else f"SET {name} = '{value}'"
                connection.execute(f"ALTER SYSTEM {what}")
        self._reload()

    def _reload(self) -> None:
        with self.admin() as connection:
            before = connection.execute("SELECT pg_conf_load_time()").fetchone()
            connection.execute("SELECT pg_reload_conf()")
            loaded = "SELECT pg_conf_load_time()"
            _until(lambda: connection.execute(loaded).fetchone() != before, "the server does not load its settings")

    def _run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        become: list[str] = []
        if self._user is not None:
            ids = (f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", f"--groups={os.getegid()}")
            become = ["setpriv", *ids, "--"]  # by Python it would be a fork, which gRPC in this process does not bear
        return subprocess.run(
            [*become, str(self._bin / program), *words],
            capture_output=program == "initdb",
            stdout=None if program == "initdb" else subprocess.DEVNULL,
            stderr=None if program == "initdb" else subprocess.DEVNULL,
            text=True,
            check=False,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "GSCHED_TEST_FOLDER": f"{self.folder}/"},
        )


def _until(is_true: Callable[[], bool], complaint: str) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + _PATIENCE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _server_user() -> pwd.struct_passwd | None:
    """Whom it runs as where it cannot run as the tests do."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoServer("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def writing_engine(url: str) -> Engine:
    """Connections that write to the store at this address."""
    return writer_engine(parse_store_url(url))
