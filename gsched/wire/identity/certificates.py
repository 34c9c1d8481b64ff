"""A host's certificate and key as its daemons read them: `ca.crt`, `HOST.crt` and `HOST.key` in GSCHED_TLSDIR.

What is wrong with them is found here, by a handshake with itself in memory, and said in one line: in a connection
gRPC would only say that the other side is not there. Must never write a file, and never show a key.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import ssl
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gsched.base.errors import GschedError

CA_FILE = "ca.crt"
CA_KEY_FILE = "ca.key"
REVOKED_FILE = "revoked"
MAX_BYTES = 1 << 20
SOON_DAYS = 30
"""A certificate that ends so soon is told of when a daemon begins."""
_OTHERS = 0o137
"""Mode bits that a key must not have: group may read it, a group of service accounts, and that is all."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


class BadCertificate(GschedError):
    """A certificate or key is missing or unusable: the line names the file and what to do."""

    status = "FAILED_PRECONDITION"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one host proves itself with, in PEM."""

    host: str
    ca: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    ends_at: float
    """When the certificate ends, seconds since the epoch."""


def certificate_file(tls_dir: str, host: str) -> Path:
    """Where the host's certificate lies. Raises BadCertificate for what is no host name."""
    return Path(tls_dir) / f"{_checked(host)}.crt"


def key_file(tls_dir: str, host: str) -> Path:
    """Where the host's key lies. Raises BadCertificate for what is no host name."""
    return Path(tls_dir) / f"{_checked(host)}.key"


def read_credentials(tls_dir: str, host: str) -> Credentials:
    """The host's certificate and key; they fit each other, the CA, the name and the time, and are not revoked.

    Raises BadCertificate.
    """
    ca_file, certificate, own_key = Path(tls_dir) / CA_FILE, certificate_file(tls_dir, host), key_file(tls_dir, host)
    ca = _read(ca_file, host)
    _check_owner(ca_file.parent, os.stat(ca_file.parent))
    pem = _read(certificate, host)
    key = _read_key(own_key, host)
    ends_at = _proven(host, _Pem(ca_file, ca), _Pem(certificate, pem), _Pem(own_key, key))
    if Revoked(tls_dir).has(pem):
        raise BadCertificate(
            f"{certificate}: is revoked ({Path(tls_dir) / REVOKED_FILE} names it); "
            f"`gadmin host-cert --renew {host}` on the administrator's machine makes a new one"
        )
    return Credentials(host, ca, pem, key, ends_at)


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of a certificate in PEM, as hexadecimal digits; of a chain the first one's. Raises ValueError."""
    found = _PEM.search(certificate.decode("ascii", "replace"))
    if found is None:
        raise ValueError("no certificate in PEM")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found[0])).hexdigest()


class Revoked:
    """Certificates that count no longer, though their CA and their time say so: the file `revoked` in GSCHED_TLSDIR.

    Each line is the fingerprint of one, and whatever else stands behind it is for people. A file that is changed counts
    from the next question on; one that cannot be read lets nobody in.
    """

    def __init__(self, tls_dir: str) -> None:
        self._path = Path(tls_dir) / REVOKED_FILE
        self._seen: tuple[int, ...] = ()
        self._found: frozenset[str] = frozenset()

    def has(self, certificate: bytes) -> bool:
        """Whether this certificate, in PEM, is in the file. Raises BadCertificate for a file that cannot be read."""
        self._read_anew()
        return bool(self._found) and fingerprint(certificate) in self._found

    def has_any(self) -> bool:
        """Whether any certificate is in the file. Raises BadCertificate for a file that cannot be read."""
        self._read_anew()
        return bool(self._found)

    def _read_anew(self) -> None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._found = (), frozenset()
            return
        except OSError as problem:
            raise BadCertificate(f"{self._path}: cannot be read: {problem.strerror}") from None
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            lines = _read(self._path, "").decode("utf-8", "replace").splitlines()
            words = [line.split()[0].replace(":", "").lower() for line in lines if line.strip()]
            wrong = [word for word in words if not _FINGERPRINT.fullmatch(word)]
            if wrong:
                raise BadCertificate(f"{self._path}: '{wrong[0][:40]}' is not the SHA-256 fingerprint of a certificate")
            self._seen, self._found = seen, frozenset(words)


def note_end(credentials: Credentials, now: float) -> str:
    """What is to be said of a certificate that ends soon; empty where there is time. `now` in UTC seconds."""
    left_days = (credentials.ends_at - now) / 86400
    if left_days > SOON_DAYS:
        return ""
    day = time.strftime("%Y-%m-%d", time.gmtime(credentials.ends_at))
    host = credentials.host
    return f"the certificate of {host} ends on {day}: `gadmin host-cert --renew {host}` makes a new one"


def read_ca(tls_dir: str) -> bytes:
    """The CA's certificate in PEM, for who checks a master and proves itself otherwise. Raises BadCertificate."""
    return _read(Path(tls_dir) / CA_FILE, "")


def stamp(tls_dir: str, host: str) -> tuple[int, ...]:
    """Changes whenever one of the files is replaced; costs a look at each. `host` empty: the CA's alone."""
    return stamp_of(files_of(tls_dir, host))


def files_of(tls_dir: str, host: str) -> tuple[str, ...]:
    """Paths of all that `stamp` looks at, the list of revoked certificates last."""
    own = (str(certificate_file(tls_dir, host)), str(key_file(tls_dir, host))) if host else ()
    return (f"{tls_dir}/{CA_FILE}", *own, f"{tls_dir}/{REVOKED_FILE}")


def revoked_stamp(tls_dir: str) -> tuple[int, ...]:
    """Changes whenever the list of revoked certificates does."""
    return stamp_of((f"{tls_dir}/{REVOKED_FILE}",))


def stamp_of(files: Iterable[str]) -> tuple[int, ...]:
    """Three numbers for each file, which change when it is replaced, or may be read by others than before."""
    found: list[int] = []
    for file in files:
        try:
            status = os.stat(file)
            found += [status.st_ino, status.st_ctime_ns, status.st_size]
        except OSError:
            found += [0, 0, 0]
    return tuple(found)


def check_key_mode(path: Path, status: os.stat_result) -> None:
    """Raise BadCertificate for a key that others than its owner and a group of services can read."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise BadCertificate(f"{path}: not a regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise BadCertificate(f"{path}: a key must belong to root or to the user who reads it: chown it")
    if mode & _OTHERS:
        raise BadCertificate(f"{path}: a key with mode {mode:04o} is no secret: chmod 0600 it (0640 for a group)")


def _checked(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise BadCertificate(f"'{host}' is not the name of a host")
    return host


def _check_owner(path: Path, status: os.stat_result) -> None:
    """Raise BadCertificate for a file or folder that others can change: whom it names they could be."""
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()) or mode & 0o022:
        raise BadCertificate(
            f"{path}: must belong to root or to the user who reads it, and be writable by nobody else (mode {mode:04o})"
        )


def _read(path: Path, host: str) -> bytes:
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            return file.read(MAX_BYTES)
    except FileNotFoundError:
        how = f"`gadmin host-cert {host}`" if host and path.name != CA_FILE else "`gadmin init-ca`"
        raise BadCertificate(f"{path}: the file is missing; {how} on the administrator's machine makes it") from None
    except OSError as problem:
        raise BadCertificate(f"{path}: cannot be read: {problem.strerror}") from None


def _read_key(path: Path, host: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return _read(path, host)  # says why
    with open(descriptor, "rb") as file:
        check_key_mode(path, os.fstat(descriptor))
        return file.read(MAX_BYTES)


class _Pem(NamedTuple):
    """A file, and what was read of it."""

    path: Path
    content: bytes


def _proven(host: str, ca: _Pem, certificate: _Pem, key: _Pem) -> float:
    """When the certificate ends. Raises BadCertificate when nobody would accept it.

    What was read is proven, and no file again: it may be written anew meanwhile, and gRPC ends the whole process over
    a key that is empty.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        client.load_verify_locations(cadata=ca.content.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise BadCertificate(f"{ca.path}: holds no certificate in PEM") from None
    try:
        with _as_file(certificate.content) as certificate_path, _as_file(key.content) as key_path:
            server.load_cert_chain(certificate_path, key_path, password=lambda: "")
    except (ssl.SSLError, ValueError) as problem:
        reason = getattr(problem, "reason", "") or "unreadable"
        if reason == "KEY_VALUES_MISMATCH":
            raise BadCertificate(f"{key.path}: is not the key of {certificate.path}") from None
        raise BadCertificate(f"{certificate.path} or {key.path}: no certificate and key in PEM ({reason})") from None
    try:
        shown = _handshake(client, server, host)
    except ssl.SSLCertVerificationError as problem:
        raise BadCertificate(f"{certificate.path}: {problem.verify_message} (CA {ca.path}, host {host})") from None
    except ssl.SSLError as problem:
        raise BadCertificate(f"{certificate.path}: cannot be used: {problem.reason}") from None
    return float(ssl.cert_time_to_seconds(shown["notAfter"]))


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to these bytes, in memory, for what reads files alone."""
    with open(os.memfd_create("pem", os.MFD_CLOEXEC), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> dict[str, Any]:
    """Have the two speak to each other in memory; returns the server's certificate as the client decoded it."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        done = 0
        for side in (asking, answering):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                pass
        if done == 2:
            break
    return asking.getpeercert() or {}
