"""A real door on a real socket: what callers get, and that none of them can harm another."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import door_commands
import pytest

from gsched.base.errors import Conflict, GschedError, PermissionDenied
from gsched.cli import registry
from gsched.cli.session.call import INPUT_LIMIT
from gsched.door import address, protocol, server
from gsched.door.protocol import Decoder, Request, frame
from gsched.door.server import Door
from gsched.wire.identity.socket_peer import Peer

PATIENCE_S = 60.0


class Client:
    """A launcher that does exactly what a test says."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self._decoder = Decoder()
        self._frames: list[tuple[bytes, bytes]] = []

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        self.socket.sendall(frame(kind, payload))

    def ask(self, *argv: str, cwd: str = "/", env: dict[str, str] | None = None, tty: bool = False) -> Client:
        """Greeting, request, go."""
        assert self.next() == (protocol.HELLO, protocol.GREETING)
        blob = Request(list(argv), cwd, env or {}, 0o027, (False, tty, False), 0).encode()
        self.send(protocol.REQUEST, blob)
        self.send(protocol.GO)
        return self

    def next(self) -> tuple[bytes, bytes]:
        """The next frame; (b"", b"") when the door has closed the connection."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return b"", b""
            self._frames += self._decoder.feed(data)
        return self._frames.pop(0)

    def result(self) -> tuple[bytes, bytes, int | None]:
        """Standard output, standard error, exit code (None: the connection ended without one)."""
        streams = {protocol.OUT: b"", protocol.ERR: b""}
        while True:
            kind, payload = self.next()
            if kind in (b"", protocol.EXIT):
                return streams[protocol.OUT], streams[protocol.ERR], int(payload) if kind else None
            streams[kind] += payload

    def is_served(self) -> bool:
        """Whether the call ended with an exit code (rather than being refused)."""
        return self.next()[0] == protocol.EXIT

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def open_door(path: str, **options: object) -> Iterator[Door]:
    listener = address.listen(path, others=bool(options.get("others")))
    door = Door(listener.socket, **options)  # type: ignore[arg-type]
    thread = threading.Thread(target=door.serve)
    thread.start()
    try:
        yield door
    finally:
        door_commands.release.set()
        door.stop()
        thread.join(PATIENCE_S)
        listener.close()
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, target in door_commands.COMMANDS.items():
        monkeypatch.setitem(registry.COMMANDS, name, target)
    door_commands.release.clear()
    door_commands.ended.clear()
    while door_commands.held.acquire(blocking=False):
        pass


@pytest.fixture
def path() -> Iterator[str]:
    # Not tmp_path: a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="door") as folder:
        yield f"{folder}/run/sock"


@pytest.fixture
def client(path: str) -> Iterator[Callable[[], Client]]:
    clients: list[Client] = []

    def connect() -> Client:
        clients.append(Client(path))
        return clients[-1]

    with open_door(path):
        yield connect
        for one in clients:
            one.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.002)


Connect = Callable[[], Client]


def test_a_program_that_runs_for_ever_on_its_callers_word_is_not_run_here(path: str) -> None:
    """The launcher never asks for it; but who else connects may read nothing by it with the door's rights."""
    with open_door(path):
        assert Client(path).ask("elim.gpu", "--once").next() == (protocol.REFUSED, b"elim.gpu is run by its caller")


def test_a_call_carries_what_the_caller_said_and_what_the_kernel_says(client: Connect) -> None:
    env = {"A": "1=2", "LATIN": "\udce9", "COLUMNS": "132"}
    out, err, code = client().ask("show", "x y", "\udcff", cwd="/tmp", env=env).result()
    seen = json.loads(out)
    assert (err, code) == (b"", 0)
    assert seen["argv"] == ["show", "x y", "\udcff"]
    assert (seen["cwd"], seen["env"], seen["umask"], seen["width"]) == ("/tmp", env, 0o027, 132)
    assert (seen["uid"], seen["gid"], seen["pid"]) == (os.getuid(), os.getgid(), os.getpid())
    assert seen["terminals"] == [False, False, False]


def test_two_calls_at_once_keep_their_own_surroundings(client: Connect) -> None:
    first = client().ask("hold")
    assert first.next() == (protocol.OUT, b"holding\n")
    second = client().ask("show", cwd="/usr", env={"WHO": "second"})
    third = client().ask("show", cwd="/var", env={"WHO": "third"})
    seen = [json.loads(one.result()[0]) for one in (second, third)]
    assert [(one["cwd"], one["env"]["WHO"]) for one in seen] == [("/usr", "second"), ("/var", "third")]
    first.send(protocol.CANCEL)
    assert first.result() == (b"", b"", 130)


def test_the_order_of_output_and_error_is_kept(client: Connect) -> None:
    one = client().ask("stream")
    frames = [one.next() for _ in range(4)]
    assert frames == [
        (protocol.OUT, b"one\n"),
        (protocol.ERR, b"two\n"),
        (protocol.OUT, b"three\nfour\n"),
        (protocol.EXIT, b"0"),
    ]


def test_output_to_a_terminal_comes_line_by_line(client: Connect) -> None:
    one = client().ask("stream", tty=True)
    assert [one.next()[1] for _ in range(4)] == [b"one\n", b"two\n", b"three\n", b"four\n"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["code", "3"], (b"", b"", 3)),
        (["refuse"], (b"before\n", b"Job <7> is not found\n", 255)),
        (["fault"], (b"", b"fault: internal error: KeyError: 'a\\nb'\n", 255)),
        (["unheard_of"], (b"", b"unheard_of: no such command of gsched\n", 255)),
    ],
)
def test_exit_codes_and_errors_are_one_line(
    client: Connect, argv: list[str], expected: tuple[bytes, bytes, int]
) -> None:
    assert client().ask(*argv).result() == expected


def test_a_traceback_is_shown_only_when_asked_for(client: Connect) -> None:
    _, err, code = client().ask("fault", env={"GSCHED_DEBUG": "1"}).result()
    assert code == 255
    assert b"Traceback" in err and b"door_commands.py" in err


def test_files_are_asked_of_the_caller_and_never_opened_by_the_door(client: Connect, tmp_path: Path) -> None:
    secret = tmp_path / "there"
    secret.write_text("the door's own view")
    one = client().ask("cat", str(secret))
    assert one.next() == (protocol.READ_FILE, bytes(secret))
    for piece in (b"what ", b"the caller ", b"sends"):
        one.send(protocol.DATA, piece)
    one.send(protocol.END)
    assert one.result() == (b"what the caller sends", b"", 0)


@pytest.mark.parametrize(
    ("told", "mode"), [(b"600", "600"), (b"7777", "7777"), (b"", "None"), (b"89", "None"), (b"77777", "None")]
)
def test_a_caller_may_tell_the_mode_of_a_file(client: Connect, told: bytes, mode: str) -> None:
    one = client().ask("mode", "data.txt")
    one.next()
    one.send(protocol.DATA, b"x")
    one.send(protocol.END, told)
    assert one.result() == (f"x {mode}".encode(), b"", 0)


def test_a_file_that_the_caller_cannot_read_is_named(client: Connect) -> None:
    one = client().ask("cat", "data.txt")
    one.next()
    one.send(protocol.FAILED, b"13")
    assert one.result() == (b"", b"data.txt: Permission denied\n", 1)


def test_an_input_over_the_limit_costs_only_that_caller(client: Connect) -> None:
    other = client().ask("hold")
    other.next()
    one = client().ask("slurp")
    assert one.next() == (protocol.READ_STDIN, b"")
    piece = frame(protocol.DATA, bytes(protocol.MAX_FRAME))
    with pytest.raises(OSError):
        for _ in range(INPUT_LIMIT // protocol.MAX_FRAME + 40):
            one.socket.sendall(piece)
    door_commands.release.set()
    assert other.result() == (b"", b"", 0)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\x00" * 40,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        frame(protocol.CANCEL),
        frame(protocol.DATA, b"x"),
        frame(protocol.GO),
        frame(protocol.REQUEST, b"nonsense") + frame(protocol.GO),
        protocol.REQUEST + (protocol.MAX_FRAME + 1).to_bytes(4, "big"),
        frame(protocol.REQUEST, bytes(protocol.MAX_FRAME)) * 5,
    ],
)
def test_rubbish_is_refused_and_the_next_caller_is_served(client: Connect, rubbish: bytes) -> None:
    one = client()
    assert one.next()[0] == protocol.HELLO
    with contextlib.suppress(OSError):  # the door may hang up in the middle of it
        one.socket.sendall(rubbish)
    kind, text = one.next()
    assert kind in (protocol.REFUSED, b"")
    assert b"\n" not in text
    assert one.next() == (b"", b"")
    assert client().ask("code", "4").result()[2] == 4


def test_rubbish_after_the_request_cancels_the_call(client: Connect) -> None:
    one = client().ask("hold")
    one.next()
    one.send(protocol.DATA, b"unasked")
    assert one.result()[2] is None
    until(lambda: door_commands.ended == ["Cancelled"])


def test_a_silent_caller_is_given_up_and_a_slow_one_is_not_waited_for(path: str) -> None:
    with open_door(path, request_timeout_s=1.0):
        silent = Client(path)
        assert silent.next()[0] == protocol.HELLO
        silent.socket.sendall(b"R\x00")
        assert Client(path).ask("code", "5").result()[2] == 5
        assert silent.next() == (protocol.REFUSED, b"the request took too long to arrive")


def test_a_caller_that_goes_away_cancels_its_command(client: Connect) -> None:
    one = client().ask("hold")
    one.next()
    one.close()
    until(lambda: door_commands.ended == ["Cancelled"])


def test_a_caller_that_goes_away_while_it_is_asked_ends_its_command(client: Connect) -> None:
    one = client().ask("slurp")
    one.next()
    one.close()
    assert client().ask("code", "6").result()[2] == 6


def test_a_caller_that_does_not_read_blocks_nobody_and_ends_when_it_goes(client: Connect) -> None:
    one = client().ask("yes")
    assert one.next()[0] == protocol.OUT
    assert client().ask("code", "7").result()[2] == 7
    one.close()
    until(lambda: door_commands.ended == ["yes"])


def test_cancelling_twice_is_cancelling_once(client: Connect) -> None:
    one = client().ask("hold")
    one.next()
    one.socket.sendall(frame(protocol.CANCEL) * 2)
    assert one.result() == (b"", b"", 130)
    assert door_commands.ended == ["Cancelled"]


def test_a_full_door_says_so_before_anything_is_carried_out(path: str) -> None:
    with open_door(path, workers=2):
        held = [Client(path).ask("hold") for _ in range(2)]
        for one in held:
            assert one.next()[0] == protocol.OUT
        assert Client(path).ask("show").next() == (protocol.REFUSED, b"the door is busy")
        held[0].send(protocol.CANCEL)
        assert held[0].result()[2] == 130
        until(lambda: Client(path).ask("code", "8").is_served())


def test_another_user_is_refused_unless_the_door_is_open_to_others(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "peer_of", lambda connection: Peer(1, os.getuid() + 1, 7))
    with open_door(path):
        one = Client(path)
        assert one.next() == (protocol.REFUSED, f"this door serves uid {os.getuid()} only".encode())
        assert one.next() == (b"", b"")
    with open_door(path, others=True, workers=8):
        seen = json.loads(Client(path).ask("show").result()[0])
        assert (seen["uid"], seen["gid"]) == (os.getuid() + 1, 7)
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o666


def test_one_user_cannot_take_every_place_of_a_shared_door(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = [os.getuid() + 1]
    monkeypatch.setattr(server, "peer_of", lambda connection: Peer(1, uid[0], 7))
    with open_door(path, others=True, workers=8):
        greedy = [Client(path).ask("hold") for _ in range(2)]
        assert all(one.next()[0] == protocol.OUT for one in greedy)
        assert Client(path).next() == (protocol.REFUSED, b"the door is busy with 2 calls of yours")
        uid[0] += 1
        assert Client(path).ask("code", "9").result()[2] == 9


def test_stopping_lets_calls_finish_and_takes_no_new_ones(path: str) -> None:
    with open_door(path, grace_s=PATIENCE_S) as door:
        one = Client(path).ask("hold")
        one.next()
        door.stop()

        def is_closed() -> bool:
            try:
                Client(path).close()
            except ConnectionRefusedError:
                return True
            return False

        until(is_closed)
        door_commands.release.set()
        assert one.result() == (b"", b"", 0)
    assert not Path(path).exists()


def test_a_door_that_closes_hangs_up_without_cancelling(path: str) -> None:
    with open_door(path, grace_s=0.05) as door:
        one = Client(path).ask("hold")
        one.next()
        door.stop()
        assert one.result() == (b"", b"", None)
        assert door_commands.ended == []
    until(lambda: door_commands.ended == ["released"])


def test_the_socket_is_closed_to_others_and_a_stale_one_is_replaced(path: str) -> None:
    Path(path).parent.mkdir(mode=0o700)
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(path)
    dead.close()
    with open_door(path):
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
        with pytest.raises(Conflict, match="another door listens"):
            address.listen(path)
        assert Client(path).ask("code", "1").result()[2] == 1


def test_a_socket_somebody_listens_on_is_left_alone_even_without_a_lock(path: str) -> None:
    Path(path).parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as living:
        living.bind(path)
        living.listen()
        with pytest.raises(Conflict):
            address.listen(path)
        assert Path(path).exists()


def test_a_file_in_the_sockets_place_is_not_removed(path: str) -> None:
    Path(path).parent.mkdir(mode=0o700)
    Path(path).write_text("precious")
    with pytest.raises(Conflict, match="not a socket"):
        address.listen(path)
    assert Path(path).read_text() == "precious"


@pytest.mark.parametrize(("mode", "others"), [(0o750, False), (0o701, False), (0o775, True), (0o757, True)])
def test_a_folder_that_others_can_get_into_is_refused(path: str, mode: int, others: bool) -> None:
    folder = Path(path).parent
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(PermissionDenied, match=str(folder)):
        address.listen(path, others=others)


def test_a_folder_of_another_user_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionDenied, match="belong"):
        address.listen(path)


def test_a_path_too_long_for_a_socket_is_named() -> None:
    with pytest.raises(GschedError, match="107 bytes"):
        address.listen("/tmp/" + "x" * 103)


def test_the_announcement_is_taken_back_only_by_its_own_door(tmp_path: Path) -> None:
    address.announce(tmp_path, "/run/a")
    assert (tmp_path / ".door").read_text() == "/run/a\n"
    address.announce(tmp_path, "/run/b")
    address.withdraw(tmp_path, "/run/a")
    assert (tmp_path / ".door").read_text() == "/run/b\n"
    address.withdraw(tmp_path, "/run/b")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(GschedError, match="No such file"):
        address.announce(tmp_path / "absent", "/run/a")
