"""`gsched web` on a host of a lab: accounts with passwords, a certificate, and browsers on any host."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from netlab import Host
from netlab_cluster import SharedCluster
from web_visitor import CLIENT, PORT, WebVisitor, password_of

from tests.support.certificates import own_certificate

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


class LabBrowser(WebVisitor):
    """A browser on a host, and what it speaks to."""

    def __init__(self, cluster: SharedCluster, host: Host, server: Host, *, socket: str = "") -> None:
        self.host = host
        (host.folder / "etc/gsched-web-ca.crt").write_bytes((server.folder / CERTIFICATE.lstrip("/")).read_bytes())
        words = [sys.executable, "-I", str(CLIENT), "/etc/gsched-web-ca.crt"]
        process = host.popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        super().__init__(process, server.name, socket=socket)


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
