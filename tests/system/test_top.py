"""`gsched top` before real daemons: in a pseudo-terminal, in tmux, and where there is no terminal."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import termios
from collections.abc import Callable, Iterator

import pytest
from live_cluster import Cluster

from tests.support.terminal import HAS_TERMINAL, Terminal

pytestmark = pytest.mark.system
OTHER_SCREEN, OWN_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


def top_in(cluster: Cluster, words: tuple[str, ...], env: dict[str, str], end: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*HAS_TERMINAL, "gsched", "top", *words],
        stdin=end,
        stdout=end,
        stderr=end,
        env={**cluster.env, "TERM": "xterm-256color", **env},
        cwd=cluster.folder,
    )


@pytest.fixture
def terminal(cluster: Cluster) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def start(*words: str, **env: str) -> Terminal:
        made.append(Terminal(lambda end: top_in(cluster, words, env, end)))
        return made[-1]

    yield start
    for each in made:
        each.close()


def test_a_job_is_seen_and_killed_by_keys(cluster: Cluster, terminal: Callable[..., Terminal]) -> None:
    job_id = cluster.submit("-J", "watched", "-gpu", "num=1", "echo '[red]x[/red]'; exec sleep 1000")
    cluster.starts(job_id)
    top = terminal(NO_COLOR="1")
    top.until(b"1 free, 1 mine")
    top.until(b"watched")
    assert OTHER_SCREEN in top.text
    top.type(b"\r")
    top.until(rb"\[red\]x\[/red\]")
    top.type(b"k")
    top.until(rb"Kill job \d+")
    top.type(b"y")
    cluster.becomes(job_id, "EXIT")
    top.type(b"q")
    assert top.ends() == 0
    top.until(re.escape(OWN_SCREEN))
    assert termios.tcgetattr(top.theirs) == top.before
    styles = re.findall(rb"\x1b\[[0-9;]*m", top.text)
    colour = re.compile(rb"[\[;](?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")
    assert styles and not [each for each in styles if colour.search(each)]


def test_colours_and_an_error_before_the_screen(cluster: Cluster, terminal: Callable[..., Terminal]) -> None:
    top = terminal()
    top.until(b"GPUs: ")
    top.until(rb"\x1b\[(?:[0-9;]*;)?32m")
    top.type(b"\x03")
    assert top.ends() == 0
    refused = terminal("--replay", "nowhere")
    refused.until(b"--replay nowhere: No such file or directory\r\n")
    assert refused.ends() != 0 and OTHER_SCREEN not in refused.text


@pytest.mark.parametrize("door", ["", "off"])
def test_where_there_is_no_terminal(cluster: Cluster, door: str) -> None:
    job_id = cluster.submit("-J", "plain", "-gpu", "num=1", "sleep 1000")
    cluster.starts(job_id)
    path = cluster.folder / f"looks{door}"
    done = cluster.run("gsched", "top", "--record", str(path), GSCHED_DOOR=door)
    assert re.search(rf"^{cluster.host} +ok .* mine +{job_id}$", done.stdout, re.MULTILINE)
    assert re.search(rf"^{job_id} .* RUN .* plain$", done.stdout, re.MULTILINE) and "\x1b" not in done.stdout
    assert [json.loads(line)["jobs"][-1]["job_id"] for line in path.read_text().splitlines()] == [job_id]
    cluster.end_jobs()
    assert cluster.run("gsched", "top", "--replay", str(path)).stdout == done.stdout


def test_it_outlives_a_master(cluster: Cluster, terminal: Callable[..., Terminal]) -> None:
    top = terminal()
    top.until(b"GPUs: ")
    cluster.kill("master")
    top.until(b"the master has not answered")
    cluster.up()
    job_id = cluster.submit("-J", "afterwards", "sleep 1000")
    top.until(b"afterwards")
    cluster.run("gkill", str(job_id))
    top.type(b"q")
    assert top.ends() == 0


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux (Debian's tmux)")
def test_in_tmux(cluster: Cluster) -> None:
    job_id = cluster.submit("-J", "seen_in_tmux", "sleep 1000")
    server = ["tmux", "-S", str(cluster.folder / "tmux.sock"), "-f", "/dev/null"]
    env = {**cluster.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    env.pop("TMUX", None)

    def tmux(*words: str) -> str:
        return subprocess.run([*server, *words], env=env, check=True, capture_output=True, text=True).stdout

    def seen(text: str) -> Callable[[], bool]:
        return lambda: text in tmux("capture-pane", "-p")

    tmux("new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=ready> ", "bash", "--norc")
    try:
        cluster.until(seen("ready>"), "there is no shell")
        tmux("send-keys", "gsched top", "Enter")
        cluster.until(seen("seen_in_tmux"), "the job is not on the screen")
        lines = tmux("capture-pane", "-p").splitlines()
        assert lines[1].startswith("GPUs: ") and "q end" in lines[23]
        tmux("resize-window", "-x", "120", "-y", "40")
        cluster.until(lambda: "q end" in tmux("capture-pane", "-p").split("\n")[39], "it does not grow")
        tmux("send-keys", "C-z")
        cluster.until(seen("Stopped"), "it does not stop")
        tmux("send-keys", "clear; fg", "Enter")
        cluster.until(seen("seen_in_tmux"), "nothing is drawn when it goes on")
        cluster.until(seen("q end"), "not all is drawn when it goes on")
        tmux("send-keys", "q")
        cluster.until(seen("ready>"), "it does not end")
    finally:
        tmux("kill-server")
        cluster.run("gkill", str(job_id), check=False)
