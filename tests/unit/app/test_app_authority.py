"""The CA and the hosts' certificates: what is made is good, nothing is overwritten, and what is not good is named."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from gsched.app.installation.authority import Authority, make_authority, make_host, missing_hosts, read_authority
from gsched.base.errors import BadRequest, Conflict
from gsched.wire.identity import certificates as host_certificates
from gsched.wire.identity.certificates import BadCertificate, note_end, read_credentials, stamp
from tests.support.certificates import write_certificate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tls"


@pytest.fixture
def signer(folder: Path) -> Authority:
    return make_authority(str(folder), "c1", 100)


def test_what_is_made_is_good(folder: Path, signer: Authority) -> None:
    make_host(str(folder), signer, "h1", 10)
    found = read_credentials(str(folder), "h1")
    assert found.host == "h1"
    assert abs(found.ends_at - time.time() - 10 * 86400) < 60
    assert b"PRIVATE" not in repr(found).encode()
    assert found.ca == (folder / "ca.crt").read_bytes()


def test_a_ca_that_was_read_makes_certificates_too(folder: Path, signer: Authority) -> None:
    make_host(str(folder), read_authority(str(folder)), "h1", 10)
    assert read_credentials(str(folder), "h1")


def test_keys_are_for_their_owner_alone(folder: Path, signer: Authority) -> None:
    os.umask(before := os.umask(0))
    os.umask(0)
    try:
        make_host(str(folder), signer, "h1", 10)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "h1.crt": 0o644, "h1.key": 0o600}


@pytest.mark.parametrize("name", ["ca.key", "ca.crt"])
def test_a_ca_is_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("precious")
    with pytest.raises(Conflict, match=name):
        make_authority(str(tmp_path), "c1", 100)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_a_key_is_overwritten_only_when_that_is_asked(folder: Path, signer: Authority) -> None:
    make_host(str(folder), signer, "h1", 10)
    before, seen = read_credentials(str(folder), "h1"), stamp(str(folder), "h1")
    with pytest.raises(Conflict, match=r"h1\.key exists already"):
        make_host(str(folder), signer, "h1", 10)
    assert read_credentials(str(folder), "h1") == before
    make_host(str(folder), signer, "h1", 20, renew=True)
    assert read_credentials(str(folder), "h1").ends_at > before.ends_at
    assert stamp(str(folder), "h1") != seen


def test_it_is_known_which_hosts_lack_one(folder: Path, signer: Authority) -> None:
    make_host(str(folder), signer, "h1", 10)
    assert missing_hosts(str(folder), ["h1", "h2"]) == ["h2"]


@pytest.mark.parametrize("days", [0, -1, 36501])
def test_a_certificate_has_some_time(folder: Path, signer: Authority, days: int) -> None:
    with pytest.raises(BadRequest, match="days"):
        make_host(str(folder), signer, "h1", days)


@pytest.mark.parametrize("name", ["../h1", "", ".", "a/b", "h1\n"])
def test_a_host_name_is_no_path(folder: Path, signer: Authority, name: str) -> None:
    with pytest.raises(BadCertificate, match="not the name of a host"):
        make_host(str(folder), signer, name, 10)


def test_a_certificate_that_ends_soon_is_told_of(folder: Path, signer: Authority) -> None:
    make_host(str(folder), signer, "h1", 31)
    found = read_credentials(str(folder), "h1")
    assert note_end(found, time.time()) == ""
    day = time.strftime("%Y-%m-%d", time.gmtime(found.ends_at))
    said = f"the certificate of h1 ends on {day}: `gadmin host-cert --renew h1` makes a new one"
    assert note_end(found, time.time() + 2 * 86400) == said


def bad(folder: Path) -> str:
    with pytest.raises(BadCertificate) as found:
        read_credentials(str(folder), "h1")
    assert str(folder) in found.value.text
    assert "\n" not in found.value.text
    return found.value.text


def test_a_key_that_is_written_anew_meanwhile_is_no_key(
    folder: Path, signer: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tar leaves it for a moment: empty when it is read, whole again when it would be looked at. gRPC ends the
    whole process over an empty key.
    """
    make_host(str(folder), signer, "h1", 10)
    key = (folder / "h1.key").read_bytes()
    read_key = host_certificates._read_key

    def read_early(path: Path, host: str) -> bytes:
        path.write_bytes(b"")
        try:
            return read_key(path, host)
        finally:
            path.write_bytes(key)

    monkeypatch.setattr(host_certificates, "_read_key", read_early)
    assert "h1.key: no certificate and key in PEM" in bad(folder)


def test_what_is_missing_is_named(folder: Path, signer: Authority) -> None:
    assert "h1.crt: the file is missing; `gadmin host-cert h1`" in bad(folder)
    make_host(str(folder), signer, "h1", 10)
    (folder / "h1.key").unlink()
    assert "h1.key: the file is missing" in bad(folder)
    (folder / "ca.crt").unlink()
    assert "ca.crt: the file is missing; `gadmin init-ca`" in bad(folder)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o700])
def test_a_key_that_others_can_read_is_refused(folder: Path, signer: Authority, mode: int) -> None:
    make_host(str(folder), signer, "h1", 10)
    (folder / "h1.key").chmod(mode)
    assert f"mode {mode:04o}" in bad(folder)
    (folder / "h1.key").chmod(0o640)
    assert read_credentials(str(folder), "h1")


@pytest.mark.parametrize("name", ["", "ca.crt", "h1.crt"])
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_what_others_can_change_proves_nothing(folder: Path, signer: Authority, name: str, mode: int) -> None:
    make_host(str(folder), signer, "h1", 10)
    (folder / name).chmod(mode)
    assert f"writable by nobody else (mode {mode:04o})" in bad(folder)


def test_a_key_of_somebody_else_is_refused(folder: Path, signer: Authority) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    make_host(str(folder), signer, "h1", 10)
    os.chown(folder / "h1.key", 4321, 0)
    assert "must belong to root" in bad(folder)


def test_a_key_of_another_certificate_is_refused(folder: Path, signer: Authority) -> None:
    make_host(str(folder), signer, "h1", 10)
    make_host(str(folder), signer, "h2", 10)
    (folder / "h2.key").replace(folder / "h1.key")
    assert "is not the key of" in bad(folder)


@pytest.mark.parametrize(
    ("days", "reason"), [((-2.0, -1.0), "certificate has expired"), ((1.0, 2.0), "certificate is not yet valid")]
)
def test_a_certificate_of_another_time_is_refused(
    folder: Path, signer: Authority, days: tuple[float, float], reason: str
) -> None:
    write_certificate(folder, signer, "h1", days=days)
    assert reason in bad(folder)


def test_a_certificate_of_another_host_is_refused(folder: Path, signer: Authority) -> None:
    write_certificate(folder, signer, "h1", names=("h2",))
    assert "'h1'" in bad(folder)


def test_a_certificate_of_another_ca_is_refused(folder: Path, signer: Authority, tmp_path: Path) -> None:
    stranger = make_authority(str(tmp_path / "other"), "c1", 100)
    write_certificate(folder, stranger, "h1")
    assert "h1.crt: " in bad(folder)


@pytest.mark.parametrize("name", ["ca.crt", "h1.crt", "h1.key"])
def test_what_is_no_certificate_is_named(folder: Path, signer: Authority, name: str) -> None:
    make_host(str(folder), signer, "h1", 10)
    (folder / name).write_text("hello\n")
    assert name in bad(folder)
