"""Which way a process takes to its master, and what it is told where there is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.base.errors import Unavailable
from gsched.wire.ways import Way, way_to_master


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "run" / "master").mkdir(parents=True)
    (tmp_path / "run" / "door").mkdir()
    (tmp_path / "conf" / "lsf.conf").write_text(f"LSB_MBD_PORT=6881\nGSCHED_RUNDIR={tmp_path}/run\n")
    return tmp_path / "conf"


@pytest.fixture
def own(folder: Path) -> Iterator[Path]:
    """The master's own socket."""
    path = folder.parent / "run" / "master" / "master.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        yield path


def test_a_private_cluster_says_where_its_master_is(tmp_path: Path) -> None:
    (tmp_path / ".master").write_text("unix:/run/x\n")
    assert way_to_master(str(tmp_path)) == Way("unix:/run/x")
    (tmp_path / ".master").write_text("rm -rf /\n")
    with pytest.raises(Unavailable, match="does not hold the address of a master"):
        way_to_master(str(tmp_path))


def test_what_a_file_says_does_not_count_in_a_shared_cluster(folder: Path) -> None:
    (folder / ".master").write_text("unix:/run/x\n")
    with pytest.raises(Unavailable, match="no door is open on this host"):
        way_to_master(str(folder))


def test_the_masters_user_needs_no_door(folder: Path, own: Path) -> None:
    assert way_to_master(str(folder)) == Way(f"unix:{own}")


def test_root_is_the_owner_only_for_administration(folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a socket away")
    os.chown(own, 4321, 4321)
    assert way_to_master(str(folder), as_root=True) == Way(f"unix:{own}")
    with pytest.raises(Unavailable, match="no door is open"):
        way_to_master(str(folder))
    monkeypatch.setattr("gsched.wire.ways.os.geteuid", lambda: 1234)
    with pytest.raises(Unavailable, match="no door is open"):
        way_to_master(str(folder), as_root=True)


def test_everybody_else_goes_through_the_door(folder: Path) -> None:
    relay = folder.parent / "run" / "door" / "relay.sock"
    relay.touch()
    assert way_to_master(str(folder)) == Way(str(relay), "relay")


@pytest.mark.parametrize(("mode", "trusted"), [(0o644, True), (0o664, False), (0o646, False)])
def test_a_door_of_any_user_is_trusted_where_root_has_named_it(folder: Path, mode: int, trusted: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("the file is to be root's")
    (folder.parent / "run" / "door" / "relay.sock").touch()
    (folder / ".door").touch()
    (folder / ".door").chmod(mode)
    assert way_to_master(str(folder)).trusts_any is trusted
    os.chown(folder / ".door", 4321, 0)
    assert not way_to_master(str(folder)).trusts_any


def test_munge_where_there_is_no_door(folder: Path) -> None:
    with (folder / "lsf.conf").open("a") as file:
        file.write("LSF_MASTER_LIST=h1\nGSCHED_MUNGE_PORT=6883\n")
    assert way_to_master(str(folder)) == Way("h1:6883", "munge", str(folder))
