"""Making the certificates of a shared cluster: a CA of its own, and one certificate for each host.

A certificate says one thing: this is host NAME of lsf.cluster. Must never overwrite a CA or a key unasked, never leave
a key readable for others, not even for a moment, and never send one anywhere: copying is the administrator's.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gsched.base.errors import BadRequest, Conflict, GschedError
from gsched.base.machine.atomic_write import replace_file
from gsched.wire.identity.certificates import (
    CA_FILE,
    CA_KEY_FILE,
    REVOKED_FILE,
    certificate_file,
    check_key_mode,
    fingerprint,
    key_file,
)

MOST_DAYS = 36500
EARLY = datetime.timedelta(hours=1)
"""A certificate begins so long ago: the clocks of hosts differ."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA: what signs the hosts' certificates."""

    certificate: Any
    key: Any


def make_authority(tls_dir: str, cluster: str, days: int) -> Authority:
    """Make a CA in the folder. Raises Conflict when there is one, BadRequest, GschedError."""
    folder = Path(tls_dir)
    for path in (folder / CA_KEY_FILE, folder / CA_FILE):
        if os.path.lexists(path):
            raise Conflict(f"{path} exists already: it is kept (host-cert makes certificates of more hosts)")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gsched CA of cluster {cluster}"[:64])])
    signing = x509.KeyUsage(*_usage(signs=True))
    builder = _builder(name, name, key, days).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    builder = builder.add_extension(signing, True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    certificate = builder.sign(key, hashes.SHA256())
    _make_folder(folder)
    _write(folder / CA_KEY_FILE, _pem_of_key(key), 0o600)
    _write(folder / CA_FILE, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return Authority(certificate, key)


def read_authority(tls_dir: str) -> Authority:
    """The CA of the folder. Raises GschedError when there is none here, or it is unusable."""
    key_path, path = Path(tls_dir) / CA_KEY_FILE, Path(tls_dir) / CA_FILE
    try:
        with key_path.open("rb") as file:
            check_key_mode(key_path, os.fstat(file.fileno()))
            key = serialization.load_pem_private_key(file.read(), None)
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError as problem:
        raise BadRequest(f"{problem.filename}: the file is missing: the CA's key stays where init-ca was run") from None
    except OSError as problem:
        raise GschedError(f"{problem.filename}: cannot be read: {problem.strerror}") from None
    except (ValueError, TypeError):
        raise GschedError(f"{key_path} or {path}: no key and certificate in PEM") from None
    return Authority(certificate, key)


def make_host(tls_dir: str, authority: Authority, host: str, days: int, *, renew: bool = False) -> list[Path]:
    """Make the host's key and certificate; returns the files. With `renew` they may replace older ones.

    Raises Conflict when there are some already, BadRequest.
    """
    key_path, path = key_file(tls_dir, host), certificate_file(tls_dir, host)
    if not renew:
        for found in (key_path, path):
            if os.path.lexists(found):
                raise Conflict(f"{found} exists already: it is kept (--renew replaces key and certificate)")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(subject, authority.certificate.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.KeyUsage(*_usage(signs=False)), True)
        .add_extension(both, False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False)
        .add_extension(above, False)
    )
    certificate = builder.sign(authority.key, hashes.SHA256())
    _write(key_path, _pem_of_key(key), 0o600)
    _write(path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
    return [path, key_path]


def revoke(tls_dir: str, host: str, day: str) -> Path:
    """Have the certificate of the host that lies in the folder count no longer; returns the file that says so.

    Raises BadCertificate, GschedError.
    """
    path, certificate = Path(tls_dir) / REVOKED_FILE, certificate_file(tls_dir, host)
    try:
        before = path.read_bytes() if path.exists() else b""
        line = f"{fingerprint(certificate.read_bytes())}  {host}  {day}\n"
    except OSError as problem:
        raise GschedError(f"{problem.filename}: cannot be read: {problem.strerror}") from None
    except ValueError:
        raise GschedError(f"{certificate}: no certificate in PEM") from None
    _write(path, before + line.encode(), 0o644)
    return path


def missing_hosts(tls_dir: str, hosts: Sequence[str]) -> list[str]:
    """The hosts that have no certificate in the folder."""
    return [host for host in hosts if not os.path.lexists(certificate_file(tls_dir, host))]


def _builder(subject: Any, issuer: Any, key: Any, days: int) -> Any:
    if not 1 <= days <= MOST_DAYS:
        raise BadRequest(f"a certificate counts for 1 to {MOST_DAYS} days, not {days}")
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(*, signs: bool) -> tuple[bool, ...]:
    """digital_signature, content_commitment, key_encipherment, data_encipherment, key_agreement, key_cert_sign,
    crl_sign, encipher_only, decipher_only.
    """
    return (not signs, False, False, False, False, signs, signs, False, False)


def _pem_of_key(key: Any) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem


def _make_folder(folder: Path) -> None:
    try:
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o755)  # agents and doors read it, whatever the umask of who makes it
    except OSError as problem:
        raise GschedError(f"{folder}: cannot be made: {problem.strerror}") from None


def _write(path: Path, data: bytes, mode: int) -> None:
    """Put the file there whole, in place of what was there; it is never open to more than `mode` says."""
    try:
        replace_file(str(path), data, durable=True)
        path.chmod(mode)
    except OSError as problem:
        raise GschedError(f"{path}: cannot be written: {problem.strerror}") from None
