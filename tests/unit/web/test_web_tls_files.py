"""The certificate of a shared cluster's pages: a new one is taken when it is there, whole, with its key."""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path

import pytest

from gsched.web.access.tls_files import MOST_BYTES, TlsFiles, new_context, use_pair
from gsched.wire.identity.certificates import BadCertificate
from tests.support.certificates import own_certificate


class OnDisk:
    """Both files; `write` replaces them, as tools do that renew certificates."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "web site.crt", folder / "web site.key"
        self.files = TlsFiles(str(self.certificate), str(self.key))

    def write(self, certificate: bytes = b"", key: bytes = b"") -> None:
        for path, data in ((self.certificate, certificate), (self.key, key)):
            if data:
                other = path.with_suffix(".new")
                other.write_bytes(data)
                other.chmod(0o600)
                os.replace(other, path)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDisk:
    monkeypatch.setattr("gsched.web.access.tls_files.check_key_mode", _for_its_owner)  # that is root's own rule
    made = OnDisk(tmp_path)
    made.write(*own_certificate(["h1"]))
    return made


def _for_its_owner(path: Path, status: os.stat_result) -> None:
    if status.st_mode & 0o077:
        raise BadCertificate(f"{path}: others can read it")


def shown(context: ssl.SSLContext) -> bytes:
    """The certificate that a browser gets."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    to_client, from_client, to_server, from_server = (ssl.MemoryBIO() for _ in range(4))
    client = trusting.wrap_bio(to_client, from_client)
    server = context.wrap_bio(to_server, from_server, server_side=True)
    for _ in range(4):
        for side, said, heard in ((client, from_client, to_server), (server, from_server, to_client)):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            heard.write(said.read())
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def der(certificate: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.decode())


def test_a_new_pair_is_taken_once_and_shown_from_then_on(disk: OnDisk) -> None:
    context = new_context()
    disk.files.load(context)
    assert disk.files.changed() is None
    certificate, key = own_certificate(["h1"])
    disk.write(certificate, key)
    pair = disk.files.changed()
    assert pair == (certificate.decode(), key.decode()) and disk.files.changed() is None
    assert shown(context) != der(certificate)
    use_pair(context, *pair)
    assert shown(context) == der(certificate)


def test_half_a_pair_is_left_alone_until_the_other_half_is_there(disk: OnDisk) -> None:
    context = new_context()
    disk.files.load(context)
    before = shown(context)
    certificate, key = own_certificate(["h1"])
    disk.write(certificate)
    with pytest.raises(BadCertificate, match="are no certificate and its key in PEM"):
        disk.files.changed()
    assert disk.files.changed() is None, "it is said once"
    assert shown(context) == before
    disk.write(key=key)
    assert disk.files.changed() == (certificate.decode(), key.decode())


@pytest.mark.parametrize("what", ["gone", "open", "large"])
def test_what_cannot_be_taken_is_said(disk: OnDisk, what: str) -> None:
    disk.files.load(new_context())
    certificate, key = own_certificate(["h1"])
    disk.write(certificate, key)
    if what == "gone":
        disk.key.unlink()
    elif what == "open":
        disk.key.chmod(0o644)
    else:
        disk.write(certificate + b"#" * MOST_BYTES)
    with pytest.raises(BadCertificate, match="web site") as refused:
        disk.files.changed()
    assert "\n" not in refused.value.text
