"""Which master a command speaks to, and as whom: in its own process, and in a door that serves others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gsched.base.errors import PermissionDenied, Unavailable
from gsched.cli.options.size_units import configured_unit
from gsched.cli.session import master_links
from gsched.cli.session.call import Call, HandedBack
from gsched.cli.session.master_links import folder_of, link_of, serve_others
from gsched.cli.session.session import setting
from gsched.cli.submit.caller_side import CallerSide
from gsched.cli.submit.esub import esubs_of
from gsched.dialect.esub import Changes
from gsched.model.config import ClusterConfig, Locations, Network

STRANGER = os.geteuid() + 4321


class Elsewhere(Call):
    """A call whose caller is somewhere else."""

    def take_over(self) -> None:
        raise HandedBack


def call(folder: Path | str, uid: int = STRANGER) -> Call:
    return Elsewhere(["gsub"], cwd="/", env={"GSCHED_ENVDIR": str(folder), "HOME": "/nowhere"}, uid=uid, gid=uid)


class Vouched:
    """A door's word, without a network."""

    def __init__(self, conf: Path) -> None:
        places = Locations(
            conf_dir=str(conf), state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p"
        )
        network = Network(port=6881)
        self.config = ClusterConfig(cluster="c", master_host="h1", locations=places, network=network)
        self.asked: list[int] = []

    def channel_of(self, uid: int) -> grpc.Channel:
        self.asked.append(uid)
        return grpc.insecure_channel("unix:/nowhere")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "lsf.conf").write_text(
        f"LSB_MBD_PORT=6881\nLSF_UNIT_FOR_LIMITS=GB\nLSF_SERVERDIR={tmp_path}\nGSCHED_RUNDIR={tmp_path}/run\n"
    )
    return tmp_path / "conf"


@pytest.fixture
def door(conf: Path) -> Iterator[Vouched]:
    vouched: Any = Vouched(conf)
    serve_others(vouched)
    yield vouched
    serve_others(None)


def test_a_process_speaks_for_its_own_user_alone(conf: Path) -> None:
    with pytest.raises(PermissionDenied, match=f"cannot speak to the master for uid {STRANGER}"):
        link_of(call(conf))


def test_a_door_speaks_for_whom_the_kernel_names(conf: Path, door: Vouched) -> None:
    assert link_of(call(conf)).address == "h1:6881"
    link_of(call(conf, os.geteuid()))
    assert door.asked == [STRANGER, os.geteuid()]


def test_a_door_knows_one_cluster(conf: Path, door: Vouched, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(conf)
    assert folder_of(call(tmp_path / "link")) == str(conf)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=TB\n")
    (tmp_path / "other" / ".master").write_text(f"unix:{tmp_path}/run/master/master.sock\n")
    other = call(tmp_path / "other")
    with pytest.raises(PermissionDenied, match="this host's door serves the cluster of"):
        link_of(other)
    assert not door.asked
    # Nor does it read what a caller points at.
    assert setting(other, "LSF_UNIT_FOR_LIMITS") == ""
    assert configured_unit(other) == "MB"
    assert configured_unit(call(conf)) == "GB"


def test_a_door_runs_nothing_for_its_callers(conf: Path, door: Vouched, tmp_path: Path) -> None:
    assert esubs_of(call(conf))((), dict) == Changes({}, {})
    (tmp_path / "esub").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "esub").chmod(0o755)
    with pytest.raises(HandedBack):
        esubs_of(call(conf))((), dict)


def test_what_a_caller_may_run_only_the_caller_knows(conf: Path, door: Vouched) -> None:
    with pytest.raises(HandedBack):
        CallerSide(call(conf)).is_program("./script")


def test_without_a_door_a_shared_cluster_cannot_be_reached(conf: Path) -> None:
    with pytest.raises(Unavailable, match="no door is open on this host"):
        link_of(call(conf, os.geteuid()))
    assert master_links._assertion is None
