"""gadmin host-files: what a host gets, and above all what it does not get."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gsched.app.installation.host_files import pack_host
from gsched.base.errors import BadRequest, PermissionDenied
from gsched.config.configuration import load
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import ClusterConfig, Locations


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    conf = tmp_path / "etc" / "gsched"
    names = ("state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")
    folders = Locations(conf_dir=str(conf), **{name: f"/x/{name}" for name in names})
    hosts = ("h1", "h2", "h3")
    write_private(
        str(conf),
        NewConfiguration(cluster="c", hosts=hosts, slots=None, folders=folders, gpu_provider="none", port=6881),
    )
    (conf / "tls").mkdir()
    for name in ("ca", "h1", "h2"):
        (conf / "tls" / f"{name}.crt").write_text(f"certificate of {name}")
        (conf / "tls" / f"{name}.key").write_text(f"key of {name}")
        (conf / "tls" / f"{name}.key").chmod(0o640)
    os.mkfifo(conf / "fifo")
    return load(str(conf)).required()


def members(config: ClusterConfig, host: str) -> dict[str, tarfile.TarInfo]:
    packed = io.BytesIO()
    pack_host(config, host, packed)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        return {info.name: info for info in archive.getmembers()}


def test_a_host_gets_the_configuration_and_its_own_key(config: ClusterConfig) -> None:
    found = members(config, "h2")
    assert {name for name in found if "/tls/" in name} == {
        f"gsched/tls/{name}" for name in ("ca.crt", "h2.crt", "h2.key")
    }
    assert {"gsched/lsf.conf", "gsched/lsf.cluster.c", "gsched/lsb.queues"} <= set(found)
    assert found["gsched/lsbatch/c/configdir"].issym()
    assert "gsched/fifo" not in found
    key = found["gsched/tls/h2.key"]
    assert (key.mode, key.gname) == (0o640, "gsched"), "root and the services, also when it is copied again"
    assert {(info.uid, info.gid) for info in found.values()} == {(0, 0)}


@pytest.mark.parametrize("name", ["ca.key.bak", "ca.key~", "h1.pem", "old/ca.key", "old/h1.key.2025", "#h3.key#"])
def test_no_copy_of_a_key_goes_along(config: ClusterConfig, name: str) -> None:
    """Whatever it is called: of the folder of the certificates a host gets what is its own and nothing else."""
    copy = Path(config.network.tls_dir, name)
    copy.parent.mkdir(exist_ok=True)
    copy.write_text("key")
    assert not [found for found in members(config, "h2") if found.startswith(f"gsched/tls/{name.partition('/')[0]}")]


def test_certificates_that_count_no_more_go_along(config: ClusterConfig) -> None:
    Path(config.network.tls_dir, "revoked").write_text("00\n")
    assert "gsched/tls/revoked" in members(config, "h2")


def test_the_door_is_named_by_root_on_the_other_host_too(config: ClusterConfig) -> None:
    door = Path(config.locations.conf_dir, ".door")
    door.write_text("/run/gsched/door/door.sock\n")
    door.chmod(0o600)
    found = members(config, "h2")["gsched/.door"]
    assert (found.uid, found.mode) == (0, 0o644), "else commands there do not trust the door"


def test_what_is_unpacked_loads(config: ClusterConfig, tmp_path: Path) -> None:
    packed = io.BytesIO()
    pack_host(config, "h2", packed)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        archive.extractall(tmp_path / "other", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    other = load(str(tmp_path / "other" / "gsched"), meant_for=config.locations.conf_dir).required()
    assert other == config


@pytest.fixture
def seen(config: ClusterConfig) -> Iterator[ClusterConfig]:
    """The same where any user can come."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        conf = Path(name, "gsched")
        shutil.copytree(config.locations.conf_dir, conf, symlinks=True, ignore=shutil.ignore_patterns("fifo"))
        for path in (conf, *conf.rglob("*")):  # whatever the umask
            if not path.is_symlink():
                path.chmod(0o755)
        places = replace(config.locations, conf_dir=str(conf))
        yield replace(config, locations=places, network=replace(config.network, tls_dir=str(conf / "tls")))


@pytest.mark.parametrize("place", ["tls/h2.key", "tls", "lsb.queues", "deep"])
def test_who_may_not_read_it_all_packs_nothing(seen: ClusterConfig, place: str) -> None:
    path = Path(seen.locations.conf_dir, place)
    if place == "deep":
        path.mkdir()
    path.chmod(0)
    target = io.BytesIO()
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionDenied) as found:
            pack_host(seen, "h2", target)
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(0o700)
    assert target.getvalue() == b""
    assert str(found.value).startswith(str(path)) and "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("host", "problem"), [("h9", "h9 is not in the Host section"), ("h3", "gadmin host-cert h3 makes it")]
)
def test_who_gets_nothing(config: ClusterConfig, host: str, problem: str) -> None:
    target = io.BytesIO()
    with pytest.raises(BadRequest, match=problem):
        pack_host(config, host, target)
    assert target.getvalue() == b""
