"""Both launchers before doors that talk nonsense, are silent, belong to somebody else or cannot be found."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from app_installation import NATIVE, PATIENCE_S, SANITIZED, Installation, build_launcher, seen, write_launcher
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsched.door import protocol
from gsched.door.protocol import frame
from tests.support.property_examples import examples

pytestmark = pytest.mark.slow

GREETING = frame(protocol.HELLO, protocol.GREETING)
LOST = b"gsched: the door closed the connection; the request may or may not have been carried out\n"
Answer = Callable[[socket.socket], None]


class FalseDoor:
    """A listening socket that a configuration folder names as the door's; each caller gets `greeting` at once."""

    def __init__(self, folder: Path) -> None:
        self.configuration = folder
        self.greeting = GREETING
        self.blob = b""
        """What it says to a request."""
        self.requests: list[bytes] = []
        """What each caller has sent before that."""
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(folder / "sock"))
        self._listening.listen()
        (folder / ".door").write_text(f"{folder}/sock\n")
        (folder / ".door").chmod(0o644)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(self.greeting)
            got = b""
            while not got.endswith(frame(protocol.GO, b"")):
                data = connection.recv(1 << 20)
                if not data:
                    break
                got += data
            self.requests.append(got)
            connection.sendall(self.blob)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass


@pytest.fixture
def false_door(folder: Path) -> Iterator[FalseDoor]:
    door = FalseDoor(folder)
    yield door
    door.close()


def call(
    house: Installation, door: FalseDoor, *words: str, debug: str = "", data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return house.run(*words, data=data, GSCHED_ENVDIR=str(door.configuration), GSCHED_DEBUG=debug)


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (frame(protocol.HELLO, b"gsched-door 9"), "it is of another version"),
        (frame(protocol.HELLO, b"gsched-door 1\0"), "it is of another version"),
        (frame(protocol.OUT, b"run it!"), "it is of another version"),
        (frame(protocol.REFUSED, b"the door is busy"), "the door is busy"),
        (protocol.HELLO + b"\xff\xff\xff\xff", "it closed the connection"),
    ],
)
def test_a_door_that_greets_in_another_way_is_told_nothing(
    installed: Installation, false_door: FalseDoor, greeting: bytes, why: str
) -> None:
    false_door.greeting = greeting
    done = call(installed, false_door, "gkill", debug="1")
    assert (done.stdout, done.returncode) == (b"run here\n", 0)
    assert done.stderr == f"gkill: without the door: {why}\n".encode()
    assert not any(false_door.requests)


def test_a_silent_door_is_left_after_a_while(installed: Installation, false_door: FalseDoor) -> None:
    false_door.greeting = GREETING[:-1]
    done = call(installed, false_door, "gkill", debug="1")
    assert (done.stdout, done.stderr) == (b"run here\n", b"gkill: without the door: timed out\n")
    assert not any(false_door.requests)


@pytest.mark.parametrize(
    "nonsense",
    [
        protocol.OUT + b"\x00\x10\x00\x01" + bytes(64),
        protocol.OUT + b"\xff\xff\xff\xff" + bytes(64),
        frame(protocol.EXIT, b""),
        frame(protocol.EXIT, b"-"),
        frame(protocol.EXIT, b"seven"),
        frame(protocol.EXIT, b"1" * 5000),
        protocol.EXIT + b"\0\0",
    ],
)
def test_a_door_that_talks_nonsense_has_broken_off(
    installed: Installation, false_door: FalseDoor, nonsense: bytes
) -> None:
    false_door.blob = frame(protocol.OUT, b"said\n") + nonsense
    done = call(installed, false_door, "gkill")
    assert (done.stdout, done.stderr, done.returncode) == (b"said\n", LOST, 255)


@pytest.mark.parametrize(("given", "code"), [(b"0", 0), (b"255", 255), (b"256", 0), (b"-1", 255)])
def test_an_exit_code_is_one_byte(installed: Installation, false_door: FalseDoor, given: bytes, code: int) -> None:
    false_door.blob = frame(b"?", b"of a later version") + frame(protocol.EXIT, given)
    done = call(installed, false_door, "gkill")
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", code)


def test_a_path_with_nul_is_no_file(installed: Installation, false_door: FalseDoor) -> None:
    false_door.blob = frame(protocol.READ_FILE, b"/etc/passwd\0") + frame(protocol.EXIT, b"0")
    done = call(installed, false_door, "gkill")
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)


def test_a_refusal_at_any_time_has_the_command_run_here(installed: Installation, false_door: FalseDoor) -> None:
    false_door.blob = frame(protocol.REFUSED, b"not me")
    done = call(installed, false_door, "gkill", debug="1")
    assert (done.stdout, done.stderr) == (b"run here\n", b"gkill: without the door: not me\n")
    assert len(false_door.requests) == 1, "the door is not asked twice"


@pytest.mark.parametrize("content", [b"", b"\n", b"/" + b"x" * 200, b"\0sock", b"/so\0ck"])
def test_an_unusable_announcement_is_no_door(installed: Installation, folder: Path, content: bytes) -> None:
    (folder / ".door").write_bytes(content)
    done = installed.run("gkill", GSCHED_ENVDIR=str(folder), GSCHED_DEBUG="1")
    assert done.stdout == b"run here\n"
    assert done.stderr == b"gkill: without the door: its socket's path is unusable\n"


def test_an_announcement_that_is_a_fifo_is_no_door(installed: Installation, folder: Path) -> None:
    (folder / ".door").unlink(missing_ok=True)
    os.mkfifo(folder / ".door")
    done = installed.run("gkill", GSCHED_ENVDIR=str(folder), GSCHED_DEBUG="1")
    assert done.stdout == b"run here\n"
    assert done.stderr == b"gkill: without the door: its socket's path is unusable\n"


def test_the_configuration_folder_is_found_as_the_commands_find_it(house: Installation, tmp_path: Path) -> None:
    door = seen(house.run("show"))["pid"]
    (tmp_path / ".gsched").mkdir()
    (tmp_path / ".gsched" / "conf").symlink_to(house.configuration)
    here, nothing = str(house.configuration), str(house.nothing)
    for variables, is_door in (
        ({"GSCHED_ENVDIR": here, "LSF_ENVDIR": nothing}, True),
        ({"GSCHED_ENVDIR": nothing, "LSF_ENVDIR": here}, False),
        ({"GSCHED_ENVDIR": "", "LSF_ENVDIR": here}, True),
        ({"GSCHED_ENVDIR": "", "LSF_ENVDIR": "", "HOME": str(tmp_path)}, True),
        ({"GSCHED_ENVDIR": nothing, "HOME": str(tmp_path)}, False),
    ):
        assert (seen(house.run("show", **variables))["pid"] == door) is is_door, variables


def test_the_first_of_two_variables_counts_and_what_is_none_is_dropped(house: Installation) -> None:
    """As no shell, but any program can start one."""
    script = """
import ctypes, sys
words = [name.encode() for name in sys.argv[3:]]
folder = sys.argv[2].encode()
entries = [b"TWICE=first", b"no variable", b"TWICE=second", b"PATH=/usr/bin:/bin", b"GSCHED_ENVDIR=%s" % folder]
array = lambda items: (ctypes.c_char_p * (len(items) + 1))(*items, None)
ctypes.CDLL(None).execve(sys.argv[1].encode(), array(words), array(entries))
"""
    words = [sys.executable, "-c", script, house.bin / "show", house.configuration, "called otherwise", "x"]
    here = seen(subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False))
    assert here["argv"] == ["show", "x"], "the file's name says which command it is"
    assert isinstance(here["env"], dict)
    if house.kind == NATIVE:
        names = {"TWICE": "first", "GSCHED_ENVDIR": str(house.configuration), "PATH": "/usr/bin:/bin"}
        assert here["env"] == names


def test_arguments_too_large_for_the_door_are_no_obstacle(installed: Installation, false_door: FalseDoor) -> None:
    def with_room() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    words = ["x" * 120_000] * 40
    env = installed.env() | {"GSCHED_ENVDIR": str(false_door.configuration), "GSCHED_DEBUG": "1"}
    try:
        done = subprocess.run(
            [installed.bin / "gkill", "-", *words],
            env=env,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            preexec_fn=with_room,
        )
    except (subprocess.SubprocessError, OSError) as problem:
        pytest.skip(f"no such large arguments here: {problem}")
    assert done.stderr == b"gkill: without the door: arguments and environment are too large for it\n"
    assert not any(false_door.requests)


LISTEN = """
import os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
listening.listen()
print("ready", flush=True)
while True:
    connection, _ = listening.accept()
    connection.sendall(bytes.fromhex(sys.argv[2]))
    connection.recv(100)
"""


@pytest.mark.needs_root
@pytest.mark.parametrize(("mode", "is_trusted"), [(0o644, True), (0o664, False), (0o646, False)])
def test_a_door_of_another_user_is_told_nothing_unless_root_has_named_it(
    installed: Installation, folder: Path, mode: int, is_trusted: bool
) -> None:
    folder.chmod(0o777)
    words = ["/usr/bin/python3", "-c", LISTEN, str(folder / "sock"), frame(protocol.REFUSED, b"it is trusted").hex()]
    if not Path(words[0]).exists():
        pytest.skip("no Python that another user can run")
    with subprocess.Popen(words, user=65534, group=65534, extra_groups=[], stdout=subprocess.PIPE) as door:
        assert door.stdout is not None and door.stdout.readline() == b"ready\n"
        (folder / ".door").write_text(f"{folder}/sock\n")
        (folder / ".door").chmod(mode)
        done = installed.run("gkill", GSCHED_ENVDIR=str(folder), GSCHED_DEBUG="1")
        door.kill()
    why = "it is trusted" if is_trusted else "it belongs to uid 65534"
    assert (done.stdout, done.stderr) == (b"run here\n", f"gkill: without the door: {why}\n".encode())


@pytest.fixture(scope="module")
def sanitized(installed: Installation) -> Installation:
    """The native launcher ends at once on any fault of memory in this one."""
    if installed.kind != NATIVE:
        return installed
    try:
        write_launcher(installed.bin / "gkill", NATIVE, SANITIZED)
    except build_launcher().CannotCompile as problem:
        pytest.skip(f"no sanitizers here: {problem}")
    for name in ("gsub", "gjobs"):
        shutil.copy(installed.bin / "gkill", installed.bin / name)
    return installed


KINDS = [protocol.OUT, protocol.ERR, protocol.READ_FILE, protocol.READ_STDIN, protocol.EXIT, protocol.REFUSED, b"?"]
payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"/etc/passwd", b"/", b"/nowhere", b"a\0b", b"0", b"-3", b"x" * 5000, bytes(protocol.MAX_FRAME)]),
)
frames = st.builds(frame, st.sampled_from(KINDS), payloads)
pieces = st.one_of(frames, frames, frames, st.binary(max_size=12))


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["gsub", "gjobs", "gkill"]), st.lists(pieces, max_size=6).map(b"".join), st.booleans())
def test_no_door_can_crash_a_command(
    sanitized: Installation, false_door: FalseDoor, name: str, blob: bytes, is_greeted: bool
) -> None:
    false_door.greeting, false_door.blob = (GREETING, blob) if is_greeted else (blob, b"")
    done = call(sanitized, false_door, name, data=b"typed\n")
    assert done.returncode in range(256), done.stderr
    assert not any(word in done.stderr for word in (b"Traceback", b"Sanitizer", b"runtime error")), done.stderr
