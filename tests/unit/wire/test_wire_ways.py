"""Which way a process takes to its master, and what it is told where there is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from gsched.base.errors import Unavailable
from gsched.web.services.service_pool import MOST_STREAMS
from gsched.wire.calls.client import Client
from gsched.wire.calls.transports import MasterWay, way_to_master
from gsched.wire.server import SERVER_OPTIONS_FOR_ANYBODY


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
    assert way_to_master(str(tmp_path)) == MasterWay("unix:/run/x")
    (tmp_path / ".master").write_text("rm -rf /\n")
    with pytest.raises(Unavailable, match="does not hold the address of a master"):
        way_to_master(str(tmp_path))


def test_what_a_file_says_does_not_count_in_a_shared_cluster(folder: Path) -> None:
    (folder / ".master").write_text("unix:/run/x\n")
    with pytest.raises(Unavailable, match="no door is open on this host"):
        way_to_master(str(folder))


def test_the_masters_user_needs_no_door(folder: Path, own: Path) -> None:
    assert way_to_master(str(folder)) == MasterWay(f"unix:{own}")


def test_root_is_the_owner_only_for_administration(folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a socket away")
    os.chown(own, 4321, 4321)
    assert way_to_master(str(folder), as_root=True) == MasterWay(f"unix:{own}")
    with pytest.raises(Unavailable, match="no door is open"):
        way_to_master(str(folder))
    monkeypatch.setattr("gsched.wire.calls.transports.os.geteuid", lambda: 1234)
    with pytest.raises(Unavailable, match="no door is open"):
        way_to_master(str(folder), as_root=True)


def test_everybody_else_goes_through_the_door(folder: Path) -> None:
    relay = folder.parent / "run" / "door" / "relay.sock"
    relay.touch()
    assert way_to_master(str(folder)) == MasterWay(str(relay), "relay")


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
    tried = f"no door is open on this host ({folder.parent}/run/door/relay.sock is missing)"
    assert way_to_master(str(folder)) == MasterWay("h1:6883", "munge", str(folder), tried=tried)


class Munge:
    """munged of this host: answers, or says why not."""

    problem = ""

    def __init__(self, socket: str) -> None: ...

    def encode(self, payload: bytes) -> str:
        if self.problem:
            raise Unavailable(self.problem)
        return "MUNGE:x"


@pytest.fixture
def munge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Munge]]:
    """GSCHED_MUNGE_PORT is set; the door has left its socket."""
    monkeypatch.setattr("gsched.wire.identity.munge.Munge", Munge)
    monkeypatch.setattr("gsched.wire.calls.transports.read_ca", lambda folder: b"")
    monkeypatch.setattr(Munge, "problem", "")
    with (folder / "lsf.conf").open("a") as file:
        file.write("LSF_MASTER_LIST=h1\nGSCHED_MUNGE_PORT=6883\n")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(relay_of(folder)))
        yield Munge


def relay_of(folder: Path) -> Path:
    return folder.parent / "run" / "door" / "relay.sock"


def test_a_door_that_is_dead_does_not_keep_munge_from_being_tried(folder: Path, munge: type[Munge]) -> None:
    assert way_to_master(str(folder)) == MasterWay("h1:6883", "munge", str(folder))


def test_a_door_that_answers_comes_before_munge(folder: Path, munge: type[Munge]) -> None:
    relay_of(folder).unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(relay_of(folder)))
        listening.listen(0)
        for _ in range(4):  # also when it has more to do than it can take
            assert way_to_master(str(folder)) == MasterWay(str(relay_of(folder)), "relay")


def test_where_no_way_works_each_is_named(folder: Path, munge: type[Munge]) -> None:
    munge.problem = "munged does not answer on this host: Socket communication error"
    way = way_to_master(str(folder))
    assert way == MasterWay(str(relay_of(folder)), "relay", tried=munge.problem)  # the door may come back
    client = Client(way.address, wait_s=0.0, channel=way.channel())
    with pytest.raises(Unavailable, match=rf"gsched-door\) .* has not answered .*; {munge.problem}$"):
        client.cluster()
    relay_of(folder).unlink()
    way = way_to_master(str(folder))
    client = Client(way.address, wait_s=0.0, channel=way.channel())
    with pytest.raises(Unavailable, match=rf"{munge.problem}; no door is open on this host \(/.* is missing\)"):
        client.cluster()


def test_a_channel_of_ones_own_shares_no_connection() -> None:
    peers = grpc.method_handlers_generic_handler(
        "peers", {"Peer": grpc.unary_unary_rpc_method_handler(lambda _, context: context.peer().encode())}
    )
    server = grpc.server(ThreadPoolExecutor(1), handlers=(peers,))
    way = MasterWay(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    try:
        shared, own = ([way.channel(is_own=is_own) for _ in range(2)] for is_own in (False, True))
        found = [
            [channel.unary_unary("/peers/Peer")(b"", wait_for_ready=True, timeout=60) for channel in channels]
            for channels in (shared, own)
        ]
    finally:
        server.stop(None)
    assert len(set(found[1])) == 2 and not {*found[0]} & {*found[1]}


def test_services_have_less_calls_than_the_master_takes_on_a_connection() -> None:
    assert dict(SERVER_OPTIONS_FOR_ANYBODY)["grpc.max_concurrent_streams"] - 5 > MOST_STREAMS
