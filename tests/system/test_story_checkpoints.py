"""Jobs that save their state, through real daemons: they ask for another run and get it, under the same number."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from live_cluster import Cluster


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "1:default", "--hosts", "one,two")


def lines(cluster: Cluster, name: str) -> list[str]:
    return (cluster.folder / name).read_text().splitlines()


def test_exit_code_99_runs_a_job_again_with_its_attempt_counted_and_its_output_appended(cluster: Cluster) -> None:
    script = "echo attempt $GSCHED_ATTEMPT $LSB_RESTART; [ $GSCHED_ATTEMPT = 3 ] || exit 99"
    job = cluster.submit("--max-restarts", "5", "-gpu", "num=1", "-o", "all.out", "-e", "err.%J.%t", script)
    (view,) = cluster.wait(job)
    assert view.state == "DONE"
    told = [line.split(" on ")[0] for line in lines(cluster, "all.out") if line.startswith(("attempt", "---- "))]
    assert told == [
        *("attempt 1", f"---- attempt 2 of job {job}", "attempt 2 Y", f"---- attempt 3 of job {job}", "attempt 3 Y")
    ]
    assert all((cluster.folder / f"err.{job}.{attempt}").exists() for attempt in (1, 2, 3))
    shown = cluster.run("gjobs", "-l", str(job)).stdout
    assert "Maximum Restarts <5>" in shown and "Restarted 2 of at most 5 times" in shown
    history = cluster.run("ghist", "-UF", str(job)).stdout
    assert "Pending: it has saved its state (exit code 99): restart 2 of at most 5;" in history


def test_a_job_asks_from_inside_and_a_killed_agent_and_master_forget_nothing_of_it(cluster: Cluster) -> None:
    wait = "touch asked; while [ ! -e ask.go ]; do sleep 0.1; done"
    script = f"echo $GSCHED_ATTEMPT >> ask.starts; [ -e asked ] && exit 0; gsched requeue-me || exit 3; {wait}; exit 7"
    job = cluster.submit("-o", "ask.out", script)
    cluster.until(lambda: (cluster.folder / "asked").exists(), "it does not ask")
    for daemon in ("agent-one", "agent-two", "master"):
        cluster.kill(daemon)
    (cluster.folder / "ask.go").touch()
    cluster.up()
    (view,) = cluster.wait(job)
    assert view.state == "DONE" and lines(cluster, "ask.starts") == ["1", "2"]
    assert cluster.run("gjobs", "-noheader", "-o", "restarts", str(job)).stdout.split() == ["1"]


def test_requeue_me_says_where_it_works(cluster: Cluster) -> None:
    outside = cluster.run("gsched", "requeue-me", check=False)
    assert outside.returncode == 255
    assert outside.stderr == "gsched: requeue-me works only inside a job (GSCHED_AGENT_SOCKET is not set)\n"
    job = cluster.submit("-o", "part.out", "-n", "2", "-R", "span[ptile=1]", "glaunch -z two gsched requeue-me; true")
    (view,) = cluster.wait(job)
    said = "requeue-me: it works on the first host of the job, one: this is two"
    hosts = [part.host for part in view.allocation.hosts] if view.allocation else []
    assert hosts == ["one", "two"] and said in (cluster.folder / "part.out").read_text()
    assert view.state == "DONE"


@pytest.mark.parametrize("wrong", ["-1", "x", "10000", ""])
def test_a_wrong_number_of_restarts_is_refused(cluster: Cluster, wrong: str) -> None:
    refused = cluster.run("gsub", "--max-restarts", wrong, "true", check=False)
    assert refused.returncode == 255 and "--max-restarts" in refused.stderr
