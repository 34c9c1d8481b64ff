"""`gsched web` before real daemons, by plain HTTP: come in by the printed address, look, kill, outlive a master."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

pytestmark = pytest.mark.system


class WebProcess:
    """`gsched web` on a unix socket (`port`: on any port instead), and a browser's part of the talk."""

    HOST = "localhost:8080"

    def __init__(self, cluster: Cluster, *words: str, port: bool = False) -> None:
        self.path = str(cluster.folder / "web.sock")
        command = ["gsched", "web", "--print-url", *(() if port else ("--socket", self.path)), *words]
        self.process = subprocess.Popen(
            command, env=cluster.env, cwd=cluster.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        self.lines = self.process.stdout
        self.cookie = ""
        self.place = ""

    def address(self) -> str:
        """The next one that it prints, behind its place."""
        for line in self.lines:
            if found := re.search(r"(http://[\w.:]+)(/enter\?token=[\w-]+)", line):
                self.place = found[1]
                return found[2]
        raise AssertionError(f"it has ended with {self.process.wait(PATIENCE_S)} and has printed no address")

    def connection(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(self.path)
        return connection

    def ask(self, method: str, path: str, fields: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Status, text, and where it leads."""
        headers = {"host": self.HOST, "cookie": self.cookie, "origin": f"http://{self.HOST}"}
        headers["content-type"] = "application/x-www-form-urlencoded"
        connection = self.connection()
        connection.request(method, path, urllib.parse.urlencode(fields) if fields else None, headers)
        answer = connection.getresponse()
        if cookie := answer.headers["set-cookie"]:
            self.cookie = cookie.partition(";")[0]
        text = answer.read().decode()
        connection.close()
        return answer.status, text, answer.headers["location"] or ""

    def page(self, path: str) -> str:
        status, text, _ = self.ask("GET", path)
        assert status == 200, f"{path}: {status}\n{text}"
        return text

    def send(self, path: str, **fields: str) -> str:
        """A form, with its token; returns where it leads."""
        csrf = re.search(r'name="csrf" value="([\w-]+)"', self.page("/"))
        assert csrf is not None
        status, text, where = self.ask("POST", path, {"csrf": csrf[1], **fields})
        assert status == 303, text
        return where

    def end(self) -> int:
        """As ^C does it."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE_S)
        self.lines.close()
        return code


@contextlib.contextmanager
def running_web(cluster: Cluster, *, port: bool = False) -> Iterator[WebProcess]:
    """`gsched web`, which is ended unless the test has."""
    found = WebProcess(cluster, port=port)
    yield found
    if found.process.poll() is None:
        found.end()


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "4:exclusive_process")


@pytest.fixture
def web(cluster: Cluster) -> Iterator[WebProcess]:
    with running_web(cluster) as found:
        yield found


@pytest.mark.smoke
def test_come_in_look_and_kill(cluster: Cluster, web: WebProcess) -> None:
    address = web.address()
    assert web.ask("GET", "/")[0] == 401
    assert web.ask("GET", address)[0] == 200 and web.cookie
    assert web.ask("GET", address)[0] == 401, "an address works once"
    job = cluster.submit("-J", "<b>train</b>", "-R", "rusage[ngpus_excl_p=2]", "echo begun; sleep 3000")
    cluster.starts(job)
    cluster.until(lambda: f'href="/jobs/{job}"' in web.page("/"), "the tiles do not say whose the GPUs are")

    def tiles() -> list[str]:
        return sorted(re.findall(r'class="tile (\w+)"', web.page("/")))

    cluster.until(lambda: tiles() == ["free", "free", "mine", "mine"], "the tiles do not say that the GPUs are mine")
    cluster.until(lambda: "&lt;b&gt;train&lt;/b&gt;" in web.page("/jobs"), "the job is not listed")
    text = web.page(f"/jobs/{job}")
    assert "RUN" in text and "rusage[ngpus_excl_p=2]" in text and f"{cluster.host}:0" in text and "<b>train" not in text
    cluster.until(lambda: json.loads(web.page(f"/jobs/{job}/output"))["text"] == "begun\n", "it has not printed")
    cluster.until(lambda: json.loads(web.page(f"/jobs/{job}/curves"))["gpus"], "nobody looks at its GPUs")
    names = [gpu["name"] for gpu in json.loads(web.page(f"/jobs/{job}/curves"))["gpus"]]
    assert names == [f"{cluster.host}:0", f"{cluster.host}:1"]
    assert web.send("/deeds", action="kill", job=str(job), back="job") == f"/jobs/{job}?said=kill"
    cluster.wait(job)
    assert "TERM_OWNER" in web.page(f"/jobs/{job}")
    assert web.end() == 0 and not os.path.exists(web.path)


def test_a_page_that_is_open_outlives_a_master(cluster: Cluster, web: WebProcess) -> None:
    web.ask("GET", web.address())
    job = cluster.submit("sleep", "3000")
    cluster.starts(job)
    connection = web.connection()
    connection.request("GET", f"/live?watch={job}", headers={"host": web.HOST, "cookie": web.cookie})
    stream = connection.getresponse()
    cluster.kill("master")
    cluster.until(lambda: "The master has not answered since" in web.page("/"), "nobody says that the master is away")
    assert web.ask("GET", f"/jobs/{job}")[0] == 503
    cluster.up()
    cluster.until(lambda: "The master has not answered since" not in web.page("/"), "it is not said to be back")
    cluster.run("gkill", str(job))
    cluster.wait(job)
    ended = time.monotonic()
    cluster.until(lambda: re.search(r'class="state \w+">EXIT', web.page(f"/jobs/{job}")), "its end is not seen")
    seen = stream.readline() + stream.readline() + stream.readline()
    assert b"event: changed" in seen and time.monotonic() > ended
    connection.close()


def test_a_finished_jobs_file_is_shown(cluster: Cluster, web: WebProcess, tmp_path: Path) -> None:
    web.ask("GET", web.address())
    job = cluster.submit("-o", str(tmp_path / "out.%J"), "echo in a file")
    cluster.wait(job)
    cluster.until(lambda: "in a file" in json.loads(web.page(f"/jobs/{job}/output"))["text"], "its file is not shown")
    assert "in a file" in web.page(f"/jobs/{job}/output/stdout")
    assert "Done successfully" in web.page(f"/jobs/{job}")


def test_read_only_pages_cannot_kill(cluster: Cluster) -> None:
    web = WebProcess(cluster, "--read-only")
    web.ask("GET", web.address())
    assert web.ask("POST", "/deeds", {"action": "kill", "job": "1"})[0] == 404
    assert 'method="post"' not in web.page("/jobs")
    web.end()


def test_what_cannot_be_listened_on_is_one_line(cluster: Cluster, web: WebProcess) -> None:
    web.address()
    taken = cluster.run("gsched", "web", "--socket", web.path, check=False)
    assert (taken.returncode, taken.stderr) == (255, f"gsched: --socket {web.path}: somebody listens there\n")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        taken = cluster.run("gsched", "web", "--port", str(port), check=False)
    assert (taken.returncode, taken.stderr) == (255, f"gsched: 127.0.0.1:{port}: Address already in use\n")
