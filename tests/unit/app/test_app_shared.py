"""What `gsched` and `gadmin` say of a shared cluster's configuration, and of certificates for a private one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gsched.app.clusters import private_down, private_status, private_up
from gsched.app.clusters.private_home import Home
from gsched.app.commands.groups import gadmin
from gsched.base.errors import BadRequest, Conflict
from gsched.config.template import NewConfiguration, private_texts
from gsched.model.config import Locations
from gsched.wire.identity.certificates import Revoked, read_credentials


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The configuration of a shared cluster of h1 and h2."""
    names = ("conf_dir", "state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")
    folders = Locations(**{name: str(tmp_path / name) for name in names})
    folder = Path(folders.conf_dir)
    folder.mkdir()
    for name, text in private_texts(
        NewConfiguration(cluster="c1", hosts=["h1", "h2"], slots=1, folders=folders, gpu_provider="none")
    ).items():
        (folder / name).write_text(text)
    with (folder / "lsf.conf").open("a") as file:
        file.write("LSB_MBD_PORT=6881\n")
    return folder


def said(*words: str) -> str:
    done = CliRunner().invoke(gadmin, words)
    if done.exception is not None:
        raise done.exception
    return done.output


def test_certificates_of_all_hosts_are_made_at_once(conf: Path) -> None:
    told = said("init-ca", "--envdir", str(conf), "--days", "20")
    tls = conf / "tls"
    for host in ("h1", "h2"):
        assert read_credentials(str(tls), host).host == host
        assert f"  {host}: {tls}/{{ca.crt,{host}.crt,{host}.key}}" in told
    assert "stays on this machine" in told
    assert f"with the file .door: {conf}" in told
    assert (conf / ".door").read_text() == f"{conf.parent}/run_dir/door/door.sock\n"
    before = {path: path.read_bytes() for path in tls.iterdir()}
    with pytest.raises(Conflict, match="it is kept"):
        said("init-ca", "--envdir", str(conf))
    with pytest.raises(Conflict, match="it is kept"):
        said("host-cert", "--envdir", str(conf), "h1")
    assert {path: path.read_bytes() for path in tls.iterdir()} == before
    said("host-cert", "--envdir", str(conf), "--renew", "h1")
    assert (tls / "h1.key").read_bytes() != before[tls / "h1.key"]


def test_a_certificate_is_revoked_when_it_is_replaced(conf: Path) -> None:
    said("init-ca", "--envdir", str(conf))
    tls = conf / "tls"
    old = (tls / "h1.crt").read_bytes()
    with pytest.raises(BadRequest, match="--revoke is for what --renew replaces"):
        said("host-cert", "--envdir", str(conf), "--revoke", "h1")
    told = said("host-cert", "--envdir", str(conf), "--renew", "--revoke", "h1")
    assert f"The certificate of h1 is revoked on each host where {tls}/revoked lies: copy it to all of them." in told
    assert "{ca.crt,h1.crt,h1.key,revoked}" in told
    assert f"\n  h2: {tls}/revoked\n" in told, "each other host is named"
    said("host-cert", "--envdir", str(conf), "--renew", "--revoke", "h2")
    revoked = Revoked(str(tls))
    assert revoked.has(old)
    assert not revoked.has((tls / "h1.crt").read_bytes())
    assert len((tls / "revoked").read_text().splitlines()) == 2


def test_a_host_that_is_not_in_the_cluster_gets_none(conf: Path) -> None:
    said("init-ca", "--envdir", str(conf))
    with pytest.raises(BadRequest, match="h9: not in the Host section"):
        said("host-cert", "--envdir", str(conf), "h1", "h9", "--renew")


def test_a_private_cluster_needs_none(conf: Path) -> None:
    text = (conf / "lsf.conf").read_text()
    (conf / "lsf.conf").write_text(text.replace("LSB_MBD_PORT=6881\n", ""))
    with pytest.raises(BadRequest, match="a private cluster needs no certificates"):
        said("init-ca", "--envdir", str(conf))
    assert not (conf / "tls").exists()


def test_a_shared_cluster_is_not_brought_up_like_a_private_one(conf: Path) -> None:
    home = Home(conf.parent, conf)
    for act in (
        lambda: private_up.up(home, sim_gpus=None, hosts=(), gpu_resources=True, say=print),
        lambda: private_down.down(home, kill=False, say=print),
        lambda: private_status.status(home, print),
    ):
        with pytest.raises(BadRequest, match="is a shared one"):
            act()
    assert not (conf.parent / "run_dir").exists()
