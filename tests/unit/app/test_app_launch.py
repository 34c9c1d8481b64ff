"""Commands as a person runs them: the real scripts, a real door in a process of its own, and no door at all."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from app_installation import BOTH, KINDS, PATIENCE_S, PYTHON, Installation, finish, seen, write_launcher

from gsched.app import launch

pytestmark = pytest.mark.slow


@BOTH
def test_the_command_sees_its_callers_surroundings(house: Installation, tmp_path: Path, door: bool) -> None:
    odd = {"BASH_FUNC_module%%": "() { echo hi; }", "A.B": "1", "LATIN": "\udce9", "EMPTY": "", "LANG": "C"}
    # As a launcher might call something of its own.
    odd |= dict.fromkeys(("code", "file", "here", "me", "python"), "mine")
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
    by_bash = [["/bin/bash", "show", "x"]] if house.kind == PYTHON else []
    for argv in (["./show", "x"], *by_bash, [str(tmp_path / "show"), "x"], ["/usr/bin/env", "show", "x"]):
        env = {**house.env(), "PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, timeout=PATIENCE_S, check=False)
        assert seen(done)["argv"] == ["show", "x"]


def test_a_script_without_the_package_says_so(house: Installation, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(sys.base_prefix + "/bin/python3")
    script = tmp_path / "gsub"
    write_launcher(script, house.kind)
    done = subprocess.run([script], env=house.env(door=False), capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.endswith(f"gsched is not installed for {tmp_path}/python\n".encode())
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_interpreter_that_is_closed_to_the_user_is_named(folder: Path, kind: str) -> None:
    """As where gsched was installed with a Python below a home that is closed to others."""
    closed = folder / "home"
    (closed / "bin").mkdir(parents=True)
    (closed / "bin" / "python3.11").symlink_to(sys.executable)
    here = folder / "bin"
    here.mkdir()
    here.chmod(0o755)  # whatever the umask
    (here / "python").symlink_to(closed / "bin" / "python3.11")
    script = here / "gjobs"
    write_launcher(script, kind)
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
