"""Interactive jobs on a real cluster: a terminal that is the job's, and a job that goes with its command."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

from tests.support.terminal import HAS_TERMINAL

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


class Screen:
    """A terminal with gsub in it, or another command."""

    def __init__(self, cluster: Cluster, *words: str, command: str = "gsub", term: str = "dumb") -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(30, 100)
        self.text = b""
        self.process = subprocess.Popen(
            [*HAS_TERMINAL, command, *words],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**cluster.env, "TERM": term},
            cwd=cluster.folder,
        )

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.theirs)[:4]

    def type(self, text: bytes) -> None:
        os.write(self.ours, text)

    def until(self, wanted: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(wanted, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self.ours], [], [], 0.2)[0]:
                self.text += os.read(self.ours, 65536)

    def job(self) -> int:
        self.until(rb"Job <(\d+)> is submitted")
        found = re.search(rb"Job <(\d+)>", self.text)
        assert found is not None
        return int(found[1])

    def hang_up(self) -> None:
        """Close the window: the kernel tells the processes of the terminal."""
        os.close(self.ours)
        os.close(self.theirs)
        self.ours = self.theirs = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        if self.ours >= 0:
            self.hang_up()


@pytest.fixture
def screen(cluster: Cluster) -> Iterator[Callable[..., Screen]]:
    screens: list[Screen] = []

    def start(*words: str, **more: str) -> Screen:
        screens.append(Screen(cluster, *words, **more))
        return screens[-1]

    yield start
    for each in screens:
        each.close()


@pytest.mark.smoke
def test_a_shell_with_a_gpu(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    shell = screen("-Is", "-gpu", "num=1:mode=exclusive_process", "env PS1='ready> ' bash --norc -i")
    before = shell.modes()
    shell.until(rb"<<Starting on [^>]+>>\r\n(.|\n)*ready> ")
    assert shell.modes() != before
    shell.type(b"stty size; echo gpu=$CUDA_VISIBLE_DEVICES $LSB_INTERACTIVE; tty\r")
    shell.until(rb"30 100\r\ngpu=\d+ Y\r\n/dev/pts/\d+\r\n")
    shell.resize(50, 132)
    os.kill(shell.process.pid, signal.SIGWINCH)
    # What is typed is echoed: the quotes make it another text than what is waited for.
    shell.type(b"until [ \"$(stty size)\" = '50 132' ]; do sleep 0.1; done; echo wid''er\r")
    shell.until(rb"wider")
    shell.type(b"sh -c 'echo sleep\"\"ing; exec sleep 1000'\r")
    shell.until(rb"sleeping")
    shell.type(b"\x03")  # ends what runs in the shell, not the shell
    shell.type(b"echo still $((40 + 2))\r")
    shell.until(rb"still 42")
    shell.type(b"exit 7\r")
    assert shell.process.wait(PATIENCE_S) == 7
    assert shell.modes() == before
    cluster.becomes(shell.job(), "EXIT")


@pytest.mark.nightly
def test_what_is_typed_ahead_is_not_lost(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    reading = screen("-Ip", "-H", "read line; echo got $line")
    reading.until(rb"<<Waiting for dispatch \.\.\.>>")
    reading.type(b"early\r")
    reading.until(b"early\r\n")  # echoed by the terminal itself
    cluster.run("gresume", str(reading.job()))
    reading.until(rb"got early\r\n")
    assert reading.process.wait(PATIENCE_S) == 0


def test_streams_exit_code_and_input_without_a_terminal(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-I", "cat; echo wrong >&2; exit 5", stdin="typed\n" * 50_000, check=False)
    assert done.returncode == 5
    assert done.stdout.partition("\n")[2] == "typed\n" * 50_000
    assert re.fullmatch(r"<<Waiting for dispatch \.\.\.>>\n<<Starting on \S+>>\nwrong\n", done.stderr)


def test_a_script_on_standard_input_has_nothing_to_read(cluster: Cluster) -> None:
    done = cluster.run("gsub", stdin="#BSUB -I\ncat\necho end\n")
    assert done.stdout.endswith("\nend\n")


def test_ctrl_c_ends_the_job(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    sleeping = screen("-I", "echo up; sleep 1000")
    sleeping.until(rb"up\r\n")
    sleeping.type(b"\x03")
    assert sleeping.process.wait(PATIENCE_S) == 130
    view = cluster.becomes(sleeping.job(), "EXIT")
    assert view.result is not None and view.result.term_reason == "TERM_OWNER"


def test_a_job_that_waits_goes_with_its_command(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    waiting = screen("-Is", "-H", "bash")
    job = waiting.job()
    waiting.until(rb"<<Waiting for dispatch \.\.\.>>")
    waiting.type(b"\x03")
    assert waiting.process.wait(PATIENCE_S) == 130
    cluster.becomes(job, "EXIT")


def test_a_command_that_is_killed_takes_its_job_along(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    shell = screen("-Is", "echo up; sleep 1000")
    shell.until(rb"up\r\n")
    shell.process.kill()
    view = cluster.becomes(shell.job(), "EXIT")
    assert "gone" in view.kill_reason


@pytest.mark.nightly
def test_a_run_limit_is_told_before_and_after(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    """A shell of somebody who was thinking went without a word."""
    shell = screen("-Is", "-W", "60", "env PS1='ready> ' bash --norc -i")
    shell.until(rb"ready> ")
    shell.type(b"exit 0\r")
    assert shell.process.wait(PATIENCE_S) == 0
    assert b"<<The job's" not in shell.text and b"<<Job is terminated" not in shell.text
    short = screen("-Is", "-W", "1", "trap 'exit 9' USR2; echo u''p; while :; do sleep 0.1; done")
    short.until(rb"up\r\n")
    short.until(rb"\r\n<<The job's run time ends in [1-6] seconds?: it is ended then>>\r\n")
    assert short.process.wait(PATIENCE_S) == 9
    short.until(rb"<<Job is terminated: TERM_RUNLIMIT: job killed after reaching LSF run time limit>>\r\n")


@pytest.mark.parametrize("ignored", ["", "INT TERM", "HUP INT TERM"])
def test_closing_the_terminal_hangs_up_and_frees_the_gpu(
    cluster: Cluster, screen: Callable[..., Screen], ignored: str
) -> None:
    """A shell takes no notice of SIGINT and SIGTERM, so the GPU was held for twice JOB_TERMINATE_INTERVAL."""
    with cluster.files_as_they_are():
        params = cluster.conf / "lsb.params"
        text = params.read_text().replace("End Parameters", "JOB_TERMINATE_INTERVAL = 3600\nEnd Parameters")
        cluster.configure(lsb_params="=" + text)
        trap = f"trap '' {ignored}; " if ignored else ""
        said = cluster.folder / f"hup.{len(ignored)}"
        if "HUP" not in ignored:
            trap += f"trap 'echo hup > {said}; exit 3' HUP; "
        shell = screen("-Is", "-gpu", "num=1:mode=exclusive_process", trap + "echo u''p; while :; do sleep 0.1; done")
        shell.until(rb"up\r\n")
        job = shell.job()
        shell.hang_up()
        view = cluster.becomes(job, "EXIT")
        assert view.kill_reason == "its terminal was closed"
        assert said.exists() == ("HUP" not in ignored)
        shell.process.wait(PATIENCE_S)
        assert cluster.wait(cluster.submit("-gpu", "num=2:mode=exclusive_process", "true"))[0].state == "DONE"


def test_the_terminal_survives_master_and_agent(cluster: Cluster, screen: Callable[..., Screen]) -> None:
    shell = screen("-Ip", "while read line; do echo got $line; done")
    shell.until(rb"Starting on")
    shell.type(b"one\r")
    shell.until(rb"got one\r\n")
    for name in ("master", f"agent-{cluster.host}"):
        cluster.kill(name)
        shell.type(f"after {name}\r".encode())
        cluster.up()
        shell.until(f"got after {name}\r\n".encode())
    assert shell.text.count(b"got after master\r\n") == 1
    shell.type(b"\x04")
    assert shell.process.wait(PATIENCE_S) == 0


def test_much_output_arrives_whole_and_gpeek_does_not_take_it_away(cluster: Cluster) -> None:
    with subprocess.Popen(
        ["gsub", "-I", "seq 300000; until [ -e peeked ]; do sleep 0.05; done"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=cluster.env,
        cwd=cluster.folder,
        text=True,
    ) as process:
        assert process.stdout is not None
        job = re.findall(r"\d+", process.stdout.readline())[0]
        peek = cluster.run("gpeek", job, check=False)
        assert peek.returncode == 255 and ("interactive" in peek.stderr or "Not yet started" in peek.stderr)
        (cluster.folder / "peeked").touch()
        rest = process.stdout.read()
    assert rest == "".join(f"{number}\n" for number in range(1, 300_001))
    assert process.returncode == 0


def test_what_cannot_be_interactive_is_refused(cluster: Cluster) -> None:
    for words, reason in (
        (("-I", "-K", "true"), "-I and -K exclude each other"),
        (("-I", "-r", "true"), "Interactive job cannot be rerunnable"),
        (("-Is", "-i", "/dev/null", "true"), "Input file not allowed with pseudo-terminal"),
        (("-I", "-J", "a[1-2]", "true"), "a job array cannot be interactive"),
    ):
        done = cluster.run("gsub", *words, check=False)
        assert done.returncode == 255 and reason in done.stderr and done.stderr.endswith("Job not submitted.\n")


def test_a_watched_listing_gives_the_terminal_back_while_it_is_stopped(
    cluster: Cluster, screen: Callable[..., Screen]
) -> None:
    shown = screen("--watch", command="ghosts", term="xterm")
    shown.until(rb"\^C ends this")
    os.kill(shown.process.pid, signal.SIGTSTP)
    shown.until(rb"\x1b\[\?1049l")
    stat = Path(f"/proc/{shown.process.pid}/stat")
    cluster.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it goes on")
    os.kill(shown.process.pid, signal.SIGCONT)
    shown.until(rb"(?s)\x1b\[\?1049l.*\x1b\[\?1049h.*\^C ends this")
    shown.type(b"\x03")
    assert shown.process.wait(PATIENCE_S) == 130


@pytest.mark.parametrize("options", [("-a",), ("-A",), ("-psum",)])
def test_a_watched_listing_leaves_the_terminal_as_it_was(
    cluster: Cluster, screen: Callable[..., Screen], options: tuple[str, ...]
) -> None:
    cluster.submit("-H", "-J", "seen[1-40]", "true")
    shown = screen(*options, "--watch", command="gjobs", term="xterm")
    shown.until(rb"\^C ends this")
    assert shown.text.startswith(b"\x1b[?1049h") and b"\x1b[3J" not in shown.text
    assert shown.text.count(b"\r\n") < 30  # it fits on the screen
    shown.type(b"\x03")
    shown.until(rb"\x1b\[\?1049l")
    assert shown.process.wait(PATIENCE_S) == 130
    cluster.run("gkill", "0")


def test_one_off_tasks_have_this_commands_streams_and_exit_code(cluster: Cluster) -> None:
    done = cluster.run(
        "glsrun", "-v", "sh", "-c", "read word; echo got $word; echo no >&2; exit 7", stdin="a\n", check=False
    )
    assert (done.returncode, done.stdout) == (7, "got a\n")
    where, error = done.stderr.splitlines()
    assert re.fullmatch(r"<<Execute on remote host \S+>>", where) and error == "no"
    host = cluster.run("glsplace").stdout.strip()
    together = cluster.run("glsgrun", "-v", "-p", "-m", host, "echo", "here")
    assert (together.stdout, together.stderr) == ("here\n", f"<<Execute echo on remote host {host}>>\n")
    assert cluster.run("glsgrun", "-n", "0", "sh", "-c", "exit 3", check=False).returncode == 3


def test_a_login_shell_on_another_host(screen: Callable[..., Screen]) -> None:
    shell = screen("-v", command="glslogin")
    shell.until(rb"<<Remote login to \S+>>")
    shell.type(b"echo job=$((40 + 2)); exit 5\n")
    shell.until(rb"job=42")
    assert shell.process.wait(PATIENCE_S) == 5
