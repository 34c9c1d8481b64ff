"""/metrics of a real master: by socket and by port, with the token, as Prometheus and promtool read it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from live_cluster import PATIENCE_S, Cluster
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gsched.app.clusters import daemons
from tests.support.dashboard import queries
from tests.support.shared_master import free_port

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-for-the-test-alone"
EVIL = 'a "b\\ c\nd'
"""A project whose name has what labels must escape."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self._path))


def get(connection: http.client.HTTPConnection, **headers: str) -> tuple[int, str]:
    connection.request("GET", "/metrics", headers=headers)
    reply = connection.getresponse()
    found = reply.status, reply.read().decode()
    connection.close()
    return found


def series(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def labels_of(text: str, name: str) -> list[dict[str, str]]:
    return [dict(labels) for found, labels in series(text) if found == name]


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


def serve(cluster: Cluster, *lines: str) -> None:
    """Have the master begin anew with these lines, and no others of metrics."""
    path = cluster.conf / "lsf.conf"
    path.write_text(without_metrics(path) + "".join(f"{line}\n" for line in lines))
    cluster.kill("master")
    cluster.up()


def without_metrics(path: Path) -> str:
    return "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith("GSCHED_METRICS"))


def test_gadmin_prints_what_a_running_job_has(cluster: Cluster) -> None:
    job = cluster.submit("-P", EVIL, "-gpu", "num=1:mode=exclusive_process", "sleep", "600")
    cluster.starts(job)
    page = ""

    def is_shown() -> bool:
        nonlocal page
        page = cluster.run("gadmin", "metrics").stdout
        return bool(labels_of(page, "gsched_gpu_job_info"))

    cluster.until(is_shown, "the job is not shown")
    (held,) = labels_of(page, "gsched_gpu_job_info")
    assert (held["job_id"], held["project"], held["host"]) == (str(job), EVIL, cluster.host)
    values = series(page)
    here = {"host": held["host"], "gpu": held["gpu"]}
    assert ("gsched_gpu_memory_total_bytes", frozenset(here.items())) in values, "to be joined with the job"
    assert values["gsched_agents_connected", frozenset()] == 1
    assert values["gsched_jobs", frozenset({("queue", "normal"), ("state", "RUN")})] == 1
    assert values["gsched_gpus", frozenset({("host", cluster.host), ("state", "held")})] == 1
    assert values["gsched_commit_duration_seconds_count", frozenset()] > 0
    assert values["gsched_cycle_duration_seconds_count", frozenset()] > 0
    assert values["gsched_start_latency_seconds_count", frozenset({("queue", "normal")})] == 1
    calls = {labels["method"] for labels in labels_of(page, "gsched_rpcs_total")}
    assert "Scheduler.Submit" in {name.removesuffix("InParts") for name in calls}
    cluster.run("gkill", str(job))
    cluster.wait(job)
    cluster.until(
        lambda: not labels_of(cluster.run("gadmin", "metrics").stdout, "gsched_job_info"), "the job's series stays"
    )


SCRAPES = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: gsched
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
    authorization: {{credentials_file: {token}}}
"""


@contextlib.contextmanager
def prometheus(program: str, folder: Path, port: int, token: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """A real Prometheus that reads the master's port; gives what answers a query with its series."""
    config, own = folder / "prometheus.yml", free_port()
    config.write_text(SCRAPES.format(port=port, token=token))
    words = [program, f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*words, f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)

    def ask(query: str) -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", own, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            try:
                connection.request("GET", f"/api/v1/query?{urlencode({'query': query})}")
                reply = connection.getresponse()
                text = reply.read().decode()
            except ConnectionRefusedError:
                assert process.poll() is None, (folder / "prometheus.log").read_text()
                return []
        if reply.status == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it is starting
            return []
        assert reply.status == http.HTTPStatus.OK, f"{query}: {text}"
        found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return found

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def tool(name: str) -> str:
    """A command of Debian's package prometheus: the machine's, or the one that `make test-all` has unpacked."""
    found = shutil.which(name) or shutil.which(name, path=str(ROOT / ".tools/usr/bin"))
    return found or pytest.skip(f"there is no {name} (Debian package prometheus; make test-all unpacks it)")


MAY_BE_EMPTY = {"Why jobs wait A", "Hosts that are not ok A", "Jobs that end A"}
"""In a cluster without such jobs and hosts."""


def test_a_real_prometheus_answers_the_queries_of_the_dashboard(cluster: Cluster, tmp_path: Path) -> None:
    program = tool("prometheus")
    port, token = free_port(), cluster.folder / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    serve(cluster, f"GSCHED_METRICS=127.0.0.1:{port}", f"GSCHED_METRICS_TOKEN_FILE={token}")
    readings = ("used_mib=100", "utilization_percent=50", "temperature_c=40", "power_w=90")
    cluster.run("gsched", "sim-gpu", "--dir", str(cluster.folder), "0-1", *readings)
    job = cluster.submit("-P", EVIL, "-gpu", "num=1:mode=exclusive_process", "sleep", "600")
    cluster.starts(job)
    with prometheus(program, tmp_path, port, token) as ask:
        for title, query in queries().items():
            if title in MAY_BE_EMPTY:
                ask(query)
            else:
                cluster.until(lambda query=query: ask(query), f"nothing answers {title}: {query}")
        (info,) = ask("gsched_gpu_job_info")
        assert info["metric"]["job_id"] == str(job), "Prometheus' own label is called job"
        assert (info["metric"]["job"], info["metric"]["project"]) == ("gsched", EVIL)
    cluster.run("gkill", str(job))
    cluster.wait(job)


def test_socket_and_port_serve_it_and_the_port_wants_the_token(cluster: Cluster) -> None:
    path = cluster.folder / "m.sock"
    serve(cluster, f"GSCHED_METRICS={path}")
    status, page = get(UnixConnection(path))
    assert status == 200
    assert labels_of(page, "gsched_build_info") != ("gsched_build_info", "c")
    assert labels_of(page, "gsched_slots")

    port, token = free_port(), cluster.folder / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    serve(cluster, f"GSCHED_METRICS=127.0.0.1:{port}", f"GSCHED_METRICS_TOKEN_FILE={token}")

    def ask(**headers: str) -> tuple[int, str]:
        return get(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S), **headers)

    assert ask()[0] == 401
    assert ask(Authorization="Bearer another-token-of-somebody")[0] == 401
    status, page = ask(Authorization=f"Bearer {TOKEN}")
    assert status == 200 and page.endswith("# EOF\n")
    assert TOKEN not in cluster.logs()


def test_what_is_wrong_is_one_line_with_its_place(cluster: Cluster) -> None:
    conf = cluster.conf / "lsf.conf"
    before = without_metrics(conf)
    try:
        conf.write_text(before + f"GSCHED_METRICS={cluster.folder}/m.sock\nGSCHED_METRICS_TOKEN_FILE=/t\n")
        done = cluster.run("gadmin", "ckconfig", check=False)
        assert done.returncode != 0
        assert f"{conf}:{before.count(chr(10)) + 2}: GSCHED_METRICS_TOKEN_FILE" in done.stdout + done.stderr
        conf.write_text(before)
        cluster.kill("master")
        missing = cluster.folder / "missing"
        conf.write_text(before + f"GSCHED_METRICS=localhost:{free_port()}\nGSCHED_METRICS_TOKEN_FILE={missing}\n")
        done = cluster.run("gsched", "up", "--dir", str(cluster.folder), check=False)
        assert done.returncode != 0
        place = f"{conf}:{before.count(chr(10)) + 2}"
        assert f"{place}: GSCHED_METRICS_TOKEN_FILE: {missing}: cannot be read" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    finally:
        conf.write_text(before)
        cluster.up()
    assert daemons.running_pid(cluster.run_dir, "master")


def test_promtool_finds_nothing_wrong(cluster: Cluster) -> None:
    promtool = tool("promtool")
    page = cluster.run("gadmin", "metrics", "--text").stdout
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dcgm_exporter_is_told_of_jobs_until_they_end(cluster: Cluster) -> None:
    folder, conf = cluster.folder / "mapping", cluster.conf / "lsf.conf"
    conf.write_text(conf.read_text() + f"GSCHED_DCGM_JOB_MAPPING_DIR={folder}\n")
    agent = f"agent-{cluster.host}"
    cluster.kill(agent)
    cluster.up()
    job = cluster.submit("-gpu", "num=1:mode=exclusive_process", "sleep", "600")
    view = cluster.starts(job)
    assert view.allocation is not None
    name = str(view.allocation.hosts[0].gpus[0].index)

    def files() -> dict[str, str]:
        return {path.name: path.read_text() for path in folder.iterdir()} if folder.exists() else {}

    assert files() == {name: f"{job}\n"}
    # It ends while no agent is there.
    cluster.kill(agent)
    assert view.pid is not None
    os.kill(view.pid, signal.SIGKILL)
    assert files() == {name: f"{job}\n"}
    cluster.up()
    cluster.wait(job)
    cluster.until(lambda: files() == {}, "the file of a job that has ended is still there")
