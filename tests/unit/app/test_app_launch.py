"""Commands as a person runs them: the real scripts, a real door in a process of its own, and no door at all."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import pwd
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gsched.app import launch

ROOT = Path(__file__).parents[3]
DOOR_TESTS = ROOT / "tests" / "unit" / "door"
PATIENCE_S = 60.0
LINKED = (
    *("noop", "show", "cat", "mode", "slurp", "stream", "code", "hold", "deaf", "refuse", "fault", "yes"),
    *("gsub", "gjobs", "gkill", "ghist"),
)

# Test commands are put into the registry of every process of this installation that has `site`, door or not.
CUSTOMIZE = f"""
import sys
sys.path.append({str(DOOR_TESTS)!r})
import door_commands
from gsched.cli import registry
registry.COMMANDS.update(door_commands.COMMANDS)
for name in list(registry.COMMANDS):
    if name not in door_commands.COMMANDS:
        del registry.COMMANDS[name]
"""

DOOR = """
import sys
from pathlib import Path
from gsched.door.server import serve
serve(sys.argv[1], configuration=Path(sys.argv[2]))
"""


class Installation:
    """gsched as pip would install it: scripts and interpreter in bin/, the package in site-packages."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "venv" / "bin"
        self.python = self.bin / "python"
        venv.create(folder / "venv", symlinks=True)
        packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        (packages / "gsched").symlink_to(ROOT / "gsched")
        # Not as sitecustomize.py: Debian's own comes before it.
        (packages / "commands_of_the_test.py").write_text(CUSTOMIZE)
        (packages / "commands_of_the_test.pth").write_text("import commands_of_the_test\n")
        script = (ROOT / "bin" / "launcher").read_text()
        for name in LINKED:
            (self.bin / name).write_text(script)
            (self.bin / name).chmod(0o755)
        self.configuration = folder / "conf"
        self.configuration.mkdir()
        self.nothing = folder / "empty"
        self.nothing.mkdir()

    def open_door(self, configuration: Path) -> subprocess.Popen[bytes]:
        """A door in a process of its own, ready; its socket is configuration/run/sock."""
        script = self.configuration.parent / "run_door.py"
        script.write_text(DOOR)
        door = subprocess.Popen(
            [self.python, script, configuration / "run" / "sock", configuration], env={"THE": "DOOR"}, cwd="/"
        )
        pointer = configuration / ".door"
        deadline = time.monotonic() + PATIENCE_S
        while not pointer.exists():
            assert door.poll() is None and time.monotonic() < deadline, "the door did not open"
            time.sleep(0.005)
        return door

    def env(self, door: bool = True, **more: str) -> dict[str, str]:
        folder = self.configuration if door else self.nothing
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "GSCHED_ENVDIR": str(folder), "HOME": "/nonexistent", **more}

    def run(
        self, *argv: str, door: bool = True, cwd: str | Path = "/", data: bytes = b"", **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return subprocess.run(
            [self.bin / argv[0], *argv[1:]],
            cwd=cwd,
            env=self.env(door, **env),
            input=data,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, *argv: str, door: bool = True, **options: object) -> subprocess.Popen[bytes]:
        """Start a command with pipes for its streams."""
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [self.bin / argv[0], *argv[1:]], env=self.env(door), **{**streams, **options}
        )


@pytest.fixture(scope="module")
def installed() -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="inst") as folder:
        yield Installation(Path(folder))


@pytest.fixture(scope="module")
def house(installed: Installation) -> Iterator[Installation]:
    """An installation with an open door."""
    door = installed.open_door(installed.configuration)
    yield installed
    door.terminate()
    assert door.wait(PATIENCE_S) == 0
    assert not (installed.configuration / ".door").exists()
    assert not (installed.configuration / "run" / "sock").exists()


BOTH = pytest.mark.parametrize("door", [True, False], ids=["door", "in-process"])


def finish(process: subprocess.Popen[bytes], data: bytes | None = None) -> tuple[bytes, bytes, int]:
    out, err = process.communicate(data, timeout=PATIENCE_S)
    return out, err, process.returncode


def seen(result: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    assert (result.stderr, result.returncode) == (b"", 0)
    answer = json.loads(result.stdout)
    assert isinstance(answer, dict)
    return answer


@BOTH
def test_the_command_sees_its_callers_surroundings(house: Installation, tmp_path: Path, door: bool) -> None:
    odd = {"BASH_FUNC_module%%": "() { echo hi; }", "A.B": "1", "LATIN": "\udce9", "EMPTY": "", "LANG": "C"}
    here = seen(house.run("show", "a b", "\udcff", "", door=door, cwd=tmp_path, **odd))
    assert here["argv"] == ["show", "a b", "\udcff", ""]
    assert here["cwd"] == str(tmp_path)
    assert here["uid"] == os.getuid()
    env = here["env"]
    assert isinstance(env, dict)
    # What bash keeps for itself may be there; nothing else is added, nothing is lost or changed.
    given = house.env(door, **odd)
    assert {name: env.get(name) for name in given} == given
    assert set(env) - set(given) <= {"PWD", "SHLVL", "_", "OLDPWD"}


def test_with_a_door_the_door_runs_it_and_without_the_process_itself(house: Installation) -> None:
    first, second = (seen(house.run("show"))["pid"] for _ in range(2))
    assert first == second
    assert seen(house.run("show", door=False))["pid"] != first
    assert seen(house.run("show", GSCHED_DOOR="off"))["pid"] != first


@BOTH
def test_umask_and_a_set_locale_are_the_callers(house: Installation, door: bool) -> None:
    env = {**house.env(door), "LC_CTYPE": "C.UTF-8"}
    done = subprocess.run(
        ["/bin/bash", "-c", "umask 031; show"], env=env, capture_output=True, timeout=PATIENCE_S, check=False
    )
    here = seen(done)
    assert here["umask"] == 0o031
    assert isinstance(here["env"], dict)
    assert here["env"]["LC_CTYPE"] == "C.UTF-8"


def test_two_calls_at_once_keep_apart(house: Installation, tmp_path: Path) -> None:
    hold = house.start("hold", cwd=tmp_path)
    assert hold.stdout is not None
    assert hold.stdout.readline() == b"holding\n"
    here = seen(house.run("show", cwd="/usr", WHO="second"))
    assert here["cwd"] == "/usr"
    assert isinstance(here["env"], dict)
    assert (here["env"]["WHO"], "THE" in here["env"]) == ("second", False)
    hold.send_signal(signal.SIGINT)
    assert finish(hold) == (b"", b"", 130)


@BOTH
def test_exit_codes_and_errors(house: Installation, door: bool) -> None:
    assert house.run("code", "7", door=door).returncode == 7
    refused = house.run("refuse", door=door)
    assert (refused.stdout, refused.stderr, refused.returncode) == (b"before\n", b"Job <7> is not found\n", 255)
    fault = house.run("fault", door=door)
    assert (fault.stdout, fault.returncode) == (b"", 255)
    assert fault.stderr == b"fault: internal error: KeyError: 'a\\nb'\n"


@BOTH
def test_files_are_read_with_the_callers_eyes(house: Installation, tmp_path: Path, door: bool) -> None:
    data = os.urandom(300_000)
    (tmp_path / "data").write_bytes(data)
    assert house.run("cat", "data", "./data", door=door, cwd=tmp_path).stdout == data * 2
    (tmp_path / "text").write_text("x")
    (tmp_path / "text").chmod(0o640)
    assert house.run("mode", "text", door=door, cwd=tmp_path).stdout == b"x 640"
    missing = house.run("cat", "nowhere", door=door, cwd=tmp_path)
    assert (missing.stdout, missing.stderr, missing.returncode) == (b"", b"nowhere: No such file or directory\n", 1)
    folder = house.run("cat", str(tmp_path), door=door)
    assert folder.stderr == f"{tmp_path}: Is a directory\n".encode()


@BOTH
@pytest.mark.parametrize("size", [0, 16 << 20])
def test_standard_input_arrives_whole(house: Installation, door: bool, size: int) -> None:
    data = bytes(size)
    done = house.run("slurp", door=door, data=data)
    assert (done.stderr, done.returncode) == (b"", 0)
    assert done.stdout.split() == [str(size).encode(), hashlib.sha256(data).hexdigest().encode()]


@BOTH
def test_an_input_over_the_limit_is_an_error(house: Installation, door: bool) -> None:
    done = house.run("slurp", door=door, data=bytes((16 << 20) + 1))
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"stdin: File too large\n", 1)


@BOTH
@pytest.mark.parametrize("source", ["<&-", "</"])
def test_a_standard_input_that_is_none_is_an_error_not_a_crash(house: Installation, door: bool, source: str) -> None:
    done = subprocess.run(
        ["/bin/bash", "-c", f"exec slurp {source}"],
        env=house.env(door),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stderr == b"stdin: Bad file descriptor\n"


@BOTH
def test_output_comes_while_the_command_runs(house: Installation, tmp_path: Path, door: bool) -> None:
    process = house.start("stream", str(tmp_path / "go"), door=door)
    assert process.stdout is not None
    assert process.stdout.readline() == b"one\n"
    assert process.stdout.readline() == b"three\n"
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert finish(process) == (b"four\n", b"two\n", 0)


@BOTH
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["int", "term", "hup"]
)
def test_signals_cancel_the_command(
    house: Installation, tmp_path: Path, door: bool, number: signal.Signals, code: int
) -> None:
    # Whoever runs the tests by nohup has SIGHUP ignored, and what is started inherits that.
    heard = {"preexec_fn": lambda: signal.signal(number, signal.SIG_DFL)}
    process = house.start("hold", str(tmp_path / "end"), door=door, **heard)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert finish(process) == (b"", b"", code)
    deadline = time.monotonic() + PATIENCE_S
    end = tmp_path / "end"
    while not (end.exists() and end.read_text() == "Cancelled"):
        assert time.monotonic() < deadline
        time.sleep(0.002)


@BOTH
def test_a_second_ctrl_c_ends_a_command_that_does_not_listen(house: Installation, door: bool) -> None:
    process = house.start("deaf", door=door)
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == b"cancelled\n"
    process.send_signal(signal.SIGINT)
    assert finish(process)[1:] == (b"", 130)


def test_ctrl_c_ends_a_command_that_reads_the_keyboard(house: Installation) -> None:
    process = house.start("slurp")
    assert process.stdin is not None
    process.stdin.write(b"some")
    process.stdin.flush()
    # The launcher has taken the bytes when the pipe is empty: then it waits in read.
    deadline = time.monotonic() + PATIENCE_S
    while fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130


@BOTH
def test_what_nohup_ignores_stays_ignored(house: Installation, door: bool) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = house.start("hold", door=door, preexec_fn=ignore)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (b"", b"", 130)


def test_a_reader_that_has_enough_ends_the_command_quietly(house: Installation) -> None:
    process = house.start("yes")
    assert process.stdout is not None
    assert process.stdout.read(4) == b"y\ny\n"
    process.stdout.close()
    assert process.wait(PATIENCE_S) == -signal.SIGPIPE
    assert process.stderr is not None
    assert process.stderr.read() == b""


@BOTH
def test_a_full_disk_is_one_line(house: Installation, door: bool) -> None:
    with Path("/dev/full").open("wb") as full:
        process = house.start("show", door=door, stdout=full)
        assert finish(process)[1:] == (b"show: cannot write to standard output: No space left on device\n", 255)


@BOTH
def test_a_terminal_is_noticed_and_measured(house: Installation, door: bool) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 117, 0, 0))
    process = house.start("show", door=door, stdout=theirs, stdin=subprocess.DEVNULL)
    assert process.wait(PATIENCE_S) == 0
    here = json.loads(os.read(ours, 65536))
    assert (here["terminals"], here["width"]) == ([False, True, False], 117)
    os.close(ours)
    os.close(theirs)


@BOTH
def test_a_removed_working_directory_is_no_obstacle(house: Installation, tmp_path: Path, door: bool) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone}; rmdir {gone}; show"
    done = subprocess.run(
        ["/bin/bash", "-c", script], env=house.env(door), capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert json.loads(done.stdout)["cwd"] == str(gone)


def test_a_script_is_found_through_a_link_and_by_name(house: Installation, tmp_path: Path) -> None:
    (tmp_path / "show").symlink_to(house.bin / "show")
    (tmp_path / "python").write_text("another interpreter altogether")
    for argv in (["./show", "x"], ["/bin/bash", "show", "x"], [str(tmp_path / "show"), "x"]):
        env = {**house.env(), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, timeout=PATIENCE_S, check=False)
        assert seen(done)["argv"] == ["show", "x"]


def test_a_script_without_the_package_says_so(house: Installation, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.base_prefix + "/bin/python3")
    script = tmp_path / "gsub"
    script.write_text((ROOT / "bin" / "launcher").read_text())
    script.chmod(0o755)
    done = subprocess.run([script], env=house.env(), capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.endswith(f"gsched is not installed for {tmp_path}/python\n".encode())
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_while_the_script_begins_leaves_no_traceback(folder: Path) -> None:
    """The package's very first line finds that Ctrl-C was pressed."""
    package = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "gsched" / "app"
    package.mkdir(parents=True)
    (package / "launch.py").write_text(
        f"import posix\nposix.kill(posix.getpid(), {signal.SIGINT})\ndef start(*_): pass\n"
    )
    for each in (package.parent, package):
        (each / "__init__.py").touch()
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    script = folder / "bin" / "gjobs"
    script.write_text((ROOT / "bin" / "launcher").read_text())
    script.chmod(0o755)
    done = subprocess.run([script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


BEGINS = """
import os, signal, sys
class Press:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from gsched.app.entry import {0}
sys.argv = ["{0}", "--help"]
{0}()
"""


@pytest.mark.parametrize("name", ["gsched", "gadmin", "lsadmin", "lsfstartup"])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_ctrl_c_while_a_command_for_administrators_begins_leaves_no_traceback(name: str, is_ignored: bool) -> None:
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if is_ignored else ""
    done = subprocess.run(
        [sys.executable, "-c", ignore + BEGINS.format(name)], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr == b""
    assert done.returncode == (0 if is_ignored else -signal.SIGINT)


def test_an_interpreter_that_is_closed_to_the_user_is_named(folder: Path) -> None:
    """As where gsched was installed with a Python below a home that is closed to others."""
    closed = folder / "home"
    (closed / "bin").mkdir(parents=True)
    (closed / "bin" / "python3.11").symlink_to(sys.executable)
    here = folder / "bin"
    here.mkdir()
    here.chmod(0o755)  # whatever the umask
    (here / "python").symlink_to(closed / "bin" / "python3.11")
    script = here / "gjobs"
    script.write_text((ROOT / "bin" / "launcher").read_text())
    script.chmod(0o755)
    folder.chmod(0o755)
    closed.chmod(0o000)
    somebody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    result = subprocess.run(
        [script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, cwd="/", **somebody
    )
    closed.chmod(0o700)
    assert (result.returncode, result.stdout) == (255, "")
    assert result.stderr == (
        f"gjobs: {closed}/bin/python3.11, the Python that gsched is installed with, cannot be executed by you: {closed}"
        " is missing or closed to you; the administrator can install gsched with a Python that every user can run\n"
    )


def test_a_door_that_dies_in_the_middle_is_told_and_reads_are_done_again(installed: Installation) -> None:
    lost = b"gsched: the door closed the connection; the request may or may not have been carried out\n"
    expected = {"gkill": (b"", lost, 255), "gjobs": (b"run here\n", b"", 0)}
    for name, result in expected.items():
        configuration = installed.configuration.parent / name
        configuration.mkdir()
        door = installed.open_door(configuration)
        env = {"GSCHED_ENVDIR": str(configuration)}
        done = installed.run(name, **env)
        assert (done.stdout, done.stderr, done.returncode) == result
        assert door.wait(PATIENCE_S) == 9
        # Its socket and its announcement are left behind: from now on they lead nowhere.
        assert installed.run(name, **env).stdout == b"run here\n"
        debug = installed.run(name, GSCHED_DEBUG="1", **env)
        assert debug.stderr == f"{name}: without the door: [Errno 111] Connection refused\n".encode()


def test_a_submission_goes_on_here_under_its_token_when_the_door_dies(installed: Installation) -> None:
    """What the door has shown is not shown again, what it has read is read again, the job sees no token."""
    configuration = installed.configuration.parent / "gsub"
    configuration.mkdir()
    door = installed.open_door(configuration)
    # A token in the environment is somebody else's: that of the submission of which this is the job, say.
    done = installed.run("gsub", "-", data=b"a script\n", GSCHED_ENVDIR=str(configuration), GSCHED_SUBMISSION="old")
    assert door.wait(PATIENCE_S) == 9
    assert (done.stderr, done.returncode) == (b"Please wait ...\n", 0)
    shown, *lines = done.stdout.decode().splitlines()
    in_door, here = (dict(pair.split("=") for pair in line.split()) for line in (shown, lines[-1]))
    assert in_door["token"] == here["token"] and len(here["token"]) == 32
    assert in_door["typed"] == here["typed"] == "9" and in_door["seen"] == here["seen"] == "no"
    assert (in_door["in"], here["in"]) == ("door", "caller") and lines[:-1] == ["submitted"]
    again = installed.run("gsub", "-", GSCHED_ENVDIR=str(configuration)).stdout.decode()
    assert again.count("token=") == 1 and here["token"] not in again


@BOTH
def test_what_is_laid_out_of_the_past_holds_nobody_up(house: Installation, door: bool) -> None:
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert int(house.run("ghist", door=door).stdout) == min(19, mine + launch.NICENESS)


def test_through_the_door_next_to_nothing_is_imported(house: Installation) -> None:
    packages = next((house.bin.parent / "lib").glob("python*")) / "site-packages"
    code = f"""
import sys
before = set(sys.modules)
sys.path.insert(0, {str(packages)!r})
from gsched.app import launch, launch_streams
code = launch.main(["noop"])
launch_streams.write(1, " ".join(sorted(set(sys.modules) - before)).encode())
sys.exit(code)
"""
    done = subprocess.run(
        [house.python, "-I", "-S", "-c", code], env=house.env(), capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert (done.stderr, done.returncode) == (b"", 0)
    assert done.stdout.decode().split() == [
        *("_socket", "gsched", "gsched.app", "gsched.app.launch", "gsched.app.launch_streams"),
        "gsched.command_table",
    ]


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


MISSED = """
import os, signal, socket, sys, threading, time
from gsched.app import launch

mine, doors = socket.socketpair()
relay = launch.DoorConnection(mine)
relay._is_started = True
signal.signal(signal.SIGINT, relay.on_signal)
main = threading.get_native_id()

def asleep():
    with open(f"/proc/self/task/{main}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"

def press():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    while relay._wait is None or not asleep():
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    doors.settimeout(60)
    try:
        heard = doors.recv(5)
    except TimeoutError:
        os._exit(1)
    assert heard == launch.CANCEL + bytes(4)
    doors.sendall(launch.EXIT + (3).to_bytes(4, "big") + b"130")

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
threading.Thread(target=press, daemon=True).start()
sys.exit(relay.run())
"""


def test_ctrl_c_just_before_a_read_is_not_missed() -> None:
    """Another thread takes the signal here, so that the read is not interrupted: as by one that comes before it."""
    done = subprocess.run([sys.executable, "-c", MISSED], capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert (done.returncode, done.stderr) == (130, "")
