"""How the launcher finds a door, and doors that must not be trusted or waited for."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gsched.app import launch

# Doors that must not be trusted or waited for


@pytest.fixture
def pointed(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A listening socket of the test that launchers in this process take for the door's."""
    with tempfile.TemporaryDirectory(prefix="door") as folder:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"{folder}/sock")
        listening.listen()
        Path(folder, ".door").write_text(f"{folder}/sock\n")
        monkeypatch.setitem(launch.posix.environ, b"GSCHED_ENVDIR", folder.encode())
        monkeypatch.setattr(launch, "HELLO_TIMEOUT_S", 0.1)
        with listening:
            yield listening


def test_a_door_that_does_not_answer_is_not_waited_for(pointed: socket.socket) -> None:
    relay = launch.DoorConnection(launch.connect())
    with pytest.raises(TimeoutError):
        relay.start(b"request")


def test_a_door_of_another_version_is_left_alone(pointed: socket.socket) -> None:
    relay = launch.DoorConnection(launch.connect())
    connection, _ = pointed.accept()
    with connection:
        connection.sendall(b"H" + (13).to_bytes(4, "big") + b"gsched-door 9")
        with pytest.raises(launch.NoDoor, match="another version"):
            relay.start(b"secret")
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)


def test_ctrl_c_between_two_reads_of_the_keyboard_is_not_lost(
    pointed: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = launch.DoorConnection(launch.connect())
    reads = iter([b"some", b"a read that nobody would end"])

    def read(_descriptor: int, _size: int) -> bytes:
        return next(reads)

    def send(_data: bytes) -> None:
        relay.on_signal(signal.SIGINT, None)

    monkeypatch.setattr(launch, "posix", SimpleNamespace(read=read))
    monkeypatch.setattr(relay, "connection", SimpleNamespace(sendall=send, send=lambda *_: None))
    relay._is_started = True
    with pytest.raises(launch.Stop, match="130"):
        relay._send_input(0)
    assert next(reads)


@pytest.fixture
def foreign(pointed: socket.socket, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """The same, run by some other user."""

    class Foreign(launch._socket.socket):  # type: ignore[name-defined,misc]
        def getsockopt(self, *_: object) -> bytes:
            return struct.pack("3i", 1, os.getuid() + 4321, 0)

    names = {name: getattr(launch._socket, name) for name in ("AF_UNIX", "SOCK_STREAM", "SOL_SOCKET", "SO_PEERCRED")}
    monkeypatch.setattr(launch, "_socket", SimpleNamespace(socket=Foreign, **names))
    return pointed


def _named_by(uid: int, mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file that names the door belong to that user."""
    status = SimpleNamespace(st_uid=uid, st_mode=0o100000 | mode)
    monkeypatch.setattr(launch, "posix", SimpleNamespace(**{**vars(launch.posix), "fstat": lambda _: status}))


@pytest.mark.parametrize(("uid", "mode"), [(4321, 0o644), (0, 0o664), (0, 0o646)])
def test_a_door_of_another_user_is_told_nothing(
    foreign: socket.socket, monkeypatch: pytest.MonkeyPatch, uid: int, mode: int
) -> None:
    _named_by(uid, mode, monkeypatch)
    with pytest.raises(launch.NoDoor, match="belongs to uid"):
        launch.connect()
    connection, _ = foreign.accept()
    with connection:
        assert connection.recv(1) == b""


def test_a_door_of_another_user_that_root_has_named_is_trusted(
    foreign: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    _named_by(0, 0o644, monkeypatch)
    connection = launch.connect()
    assert connection.getpeername()
    connection.close()


def test_a_request_too_large_for_the_door_is_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(launch.posix.environ, b"HUGE", bytes(launch.MAX_REQUEST))
    with pytest.raises(launch.NoDoor, match="too large"):
        launch.describe([b"gsub"])


@pytest.mark.parametrize("content", [b"", b"\n", b"/" + b"x" * 200])
def test_an_unusable_announcement_is_no_door(pointed: socket.socket, content: bytes) -> None:
    folder = launch.posix.environ[b"GSCHED_ENVDIR"].decode()
    Path(folder, ".door").write_bytes(content)
    with pytest.raises(launch.NoDoor):
        launch.connect()


def test_the_configuration_folder_is_found_as_the_commands_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = launch.posix.environ
    for name in (b"GSCHED_ENVDIR", b"LSF_ENVDIR"):
        monkeypatch.delitem(environ, name, raising=False)
    monkeypatch.setitem(launch.posix.environ, b"HOME", bytes(tmp_path))
    opened: list[bytes] = []

    def remember(path: bytes, flags: int) -> int:
        opened.append(path)
        raise FileNotFoundError

    monkeypatch.setattr(launch.posix, "open", remember)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            launch.socket_path()
        (tmp_path / ".gsched" / "conf").mkdir(parents=True, exist_ok=True)
    for name in (b"LSF_ENVDIR", b"GSCHED_ENVDIR"):
        monkeypatch.setitem(environ, name, b"/" + name)
        with pytest.raises(FileNotFoundError):
            launch.socket_path()
    expected = ["/etc/gsched", f"{tmp_path}/.gsched/conf", "/LSF_ENVDIR", "/GSCHED_ENVDIR"]
    assert opened == [folder.encode() + b"/.door" for folder in expected]


def test_without_home_the_user_database_says_where_the_configuration_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (b"GSCHED_ENVDIR", b"LSF_ENVDIR", b"HOME"):
        monkeypatch.delitem(launch.posix.environ, name, raising=False)
    asked: list[bytes] = []

    def missing(path: bytes, flags: int) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(launch.posix, "stat", asked.append)
    monkeypatch.setattr(launch.posix, "open", missing)
    with pytest.raises(FileNotFoundError):
        launch.socket_path()
    assert asked == [os.fsencode(f"{pwd.getpwuid(os.getuid()).pw_dir}/.gsched/conf")]
