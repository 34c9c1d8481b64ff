"""`gsched web` on a host of a lab: accounts with passwords, a certificate, and browsers on any host."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from netlab import Host
from netlab_cluster import SharedCluster

from tests.support.certificates import own_certificate

PORT = 8443
FRONT_UID = 951
CERTIFICATE, KEY = "/etc/gsched-web.crt", "/etc/gsched-web.key"
SERVICE = "gsched-test"
SETTINGS = {
    "GSCHED_WEB_PORT": str(PORT),
    "GSCHED_WEB_CERT": CERTIFICATE,
    "GSCHED_WEB_KEY": KEY,
    "GSCHED_WEB_PAM": SERVICE,
}
_PAM = "auth required pam_unix.so nodelay\naccount required pam_unix.so\n"


def password_of(user: str) -> str:
    return f"secret of {user}"


def prepare_host(host: Host, names: Sequence[str]) -> None:
    """The account of the front, passwords, PAM's service, and a certificate for the host that all hosts know."""
    etc = host.folder / "etc"
    with (etc / "passwd").open("a") as file:
        file.write(f"gsched-web:x:{FRONT_UID}:{FRONT_UID}::/:/usr/sbin/nologin\n")
    with (etc / "group").open("a") as file:
        file.write(f"gsched-web:x:{FRONT_UID}:\n")
    users = ("alice", "bob", "carol", "root", "gsched")
    host.run(["chpasswd", "-c", "SHA256"], stdin="".join(f"{user}:{password_of(user)}\n" for user in users), check=True)
    (etc / "pam.d").mkdir(exist_ok=True)
    (etc / "pam.d" / SERVICE).write_text(_PAM)
    certify_web(host, names)


def certify_web(host: Host, names: Sequence[str]) -> None:
    """Another certificate for the pages, and its key."""
    etc = host.folder / "etc"
    certificate, key = own_certificate(names)
    (etc / Path(CERTIFICATE).name).write_bytes(certificate)
    (etc / Path(KEY).name).write_bytes(key)
    (etc / Path(KEY).name).chmod(0o600)


class WebAnswer(NamedTuple):
    """What came back; header names in lower case."""

    status: int
    headers: list[tuple[str, str]]
    text: str

    def header(self, name: str) -> str:
        return next((value for each, value in self.headers if each == name), "")


class LabBrowser:
    """A browser on a host, and what it speaks to."""

    def __init__(self, cluster: SharedCluster, host: Host, server: Host, *, socket: str = "") -> None:
        self.host = host
        self.origin = f"https://{server.name}:{PORT}"
        self.cookie = ""
        self._where = {"host": server.name, "port": PORT, "socket": socket}
        (host.folder / "etc/gsched-web-ca.crt").write_bytes((server.folder / CERTIFICATE.lstrip("/")).read_bytes())
        script = Path(__file__).with_name("web_client.py")
        self._process = host.popen(
            [sys.executable, "-I", str(script), "/etc/gsched-web-ca.crt"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._cluster = cluster

    def end(self) -> None:
        """Log out and close it."""
        self.ask("POST", "/leave")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def ask(
        self,
        method: str,
        path: str,
        body: str = "",
        headers: Sequence[tuple[str, str]] = (),
        *,
        without: Sequence[str] = (),
    ) -> WebAnswer:
        """A request; `headers` come behind a browser's, of which those in `without` are left out."""
        usual = {
            "host": self.origin.removeprefix("https://"),
            "accept": "text/html",
            "cookie": f"__Host-gsched={self.cookie}" if self.cookie else "",
            "origin": self.origin if method == "POST" else "",
            "content-type": "application/x-www-form-urlencoded" if method == "POST" else "",
        }
        said = [(name, value) for name, value in usual.items() if value and name not in without]
        return self._told({"method": method, "path": path, "headers": [*said, *headers], "body": body})

    def say(self, address: str, text: str, origin: str, headers: Sequence[tuple[str, str]] = ()) -> WebAnswer:
        """What is answered to a text on a websocket of that address; the status of a refusal, or 101."""
        asked = {"method": "SOCKET", "path": address, "headers": headers, "body": text, "origin": origin}
        return self._told(asked)

    def _told(self, asked: dict[str, object]) -> WebAnswer:
        asked |= self._where
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        return WebAnswer(told["status"], [(name.lower(), value) for name, value in told["headers"]], told["text"])

    def page(self, path: str, **options: object) -> str:
        answer = self.ask("GET", path, **options)  # type: ignore[arg-type]
        assert answer.status == 200, f"{path}: {answer.status}\n{answer.text}"
        return answer.text

    def log_in(self, user: str, password: str | None = None, **options: object) -> WebAnswer:
        words = {"user": user, "password": password_of(user) if password is None else password, "onward": "/jobs"}
        answer = self.ask("POST", "/login", urllib.parse.urlencode(words), **options)  # type: ignore[arg-type]
        if found := re.match(r"__Host-gsched=([\w-]+);", answer.header("set-cookie")):
            self.cookie = found[1]
        return answer

    def entered(self, user: str) -> LabBrowser:
        answer = self.log_in(user)
        assert (answer.status, answer.header("location")) == (303, "/jobs"), answer
        return self

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([\w-]+)"', self.page("/"))
        assert found is not None
        return found[1]

    def send(self, path: str, **fields: str) -> WebAnswer:
        """A form, with its token."""
        return self.ask("POST", path, urllib.parse.urlencode({"csrf": self.csrf, **fields}))


def start_web(cluster: SharedCluster, host: Host) -> None:
    """Start the service and wait until it listens."""
    before = cluster.log(host, "web").count("open ")
    cluster.start_daemon(host, "web")
    cluster.until(lambda: cluster.log(host, "web").count("open ") > before, "gsched web does not listen")


def processes_of(host: Host, uid: int) -> list[str]:
    """Command lines of that user's processes on the host."""
    return [line for _, line in _processes(host, uid)]


def _processes(host: Host, uid: int) -> Iterator[tuple[str, str]]:
    """Number and command line of each; one that ends meanwhile may be left out."""
    for path in host.path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid == uid:
                yield path.name, (path / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def page_process_of(host: Host, uid: int) -> str:
    """The number of the process that makes that user's pages, as the host counts."""
    (found,) = [pid for pid, line in _processes(host, uid) if "gsched.web.front.user_process" in line]
    return found
