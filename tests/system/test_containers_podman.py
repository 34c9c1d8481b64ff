"""gsub --container with Podman itself, where that is installed and runs: inside, signals, ends, what is left."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator

import pytest
from container_stories import (
    hears_a_signal_once_is_stopped_goes_on_and_is_killed,
    saves_before_its_run_limit_or_is_ended_by_it,
)
from live_cluster import Cluster, printed
from podman_cluster import IMAGE, PodmanCluster, remove_containers, why_no_containers

from gsched.run.processes import process_tree
from tests.support.folders import new_folder
from tests.support.small_root import small_root

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if shutil.which("podman") is None:
        pytest.skip("needs podman")
    base = new_folder()
    made = PodmanCluster(base / "c")
    try:
        why = why_no_containers(made, small_root(base / "root"))
        if why:
            pytest.skip(why)
        made.up("--sim-gpus", "2:exclusive_process")
        yield made
        assert "Traceback" not in made.logs()
    finally:
        made.down()
        remove_containers(made)
        shutil.rmtree(base, ignore_errors=True)


def left(cluster: Cluster) -> str:
    assert isinstance(cluster, PodmanCluster)
    return cluster.podman("ps", "--all", "--quiet")


def test_a_job_runs_in_the_image_as_its_user_and_in_its_directory(cluster: Cluster) -> None:
    (cluster.folder / "data").mkdir()
    (cluster.folder / "data" / "set").write_text("of data\n")
    script = "#!/bin/sh\nid -u; ls /; cat /d/set; echo $SECRET; echo here > written; cat /proc/self/cgroup; exit 7\n"
    done = cluster.run(
        *("gsub", "-o", "out", "--container", IMAGE, "--container-mount", "data:/d:ro", "-gpu", "num=1"),
        stdin=script,
        SECRET="hunter2",
    )
    job = int(re.findall(r"<(\d+)>", done.stdout)[0])
    (view,) = cluster.wait(job)
    text = printed(cluster.folder / "out")
    assert view.result is not None and view.result.exit_code == 7, text
    lines = text.splitlines()
    assert lines[0] == str(os.getuid()) and "usr" not in lines[1:8] and "of data" in lines and "hunter2" in lines
    assert (cluster.folder / "written").stat().st_uid == os.getuid()
    assert not cluster.is_fenced() or f"/{job}.1" in text, "the fence's group is that of the inside"
    assert left(cluster) == ""


def test_it_hears_a_signal_once_is_stopped_goes_on_and_is_killed(cluster: Cluster) -> None:
    hears_a_signal_once_is_stopped_goes_on_and_is_killed(cluster, IMAGE, cluster.folder / "signals")
    assert left(cluster) == ""


def test_it_is_asked_to_save_its_state_before_its_run_limit_and_ended_by_it(cluster: Cluster) -> None:
    saves_before_its_run_limit_or_is_ended_by_it(cluster, IMAGE)
    assert printed(cluster.folder / "deaf.out").count("begun") == 1
    assert left(cluster) == ""


@pytest.mark.parametrize("killed", ["conmon", "podman", "supervisor"])
def test_nothing_is_left_when_who_holds_the_container_is_killed(cluster: Cluster, killed: str) -> None:
    out = cluster.folder / f"killed.{killed}"
    job = cluster.submit("-o", str(out), "--container", IMAGE, "echo begun; sleep 1000; sleep 1000")
    cluster.until(lambda: out.exists() and "begun" in out.read_text(), "it does not begin")
    pid = cluster.starts(job).pid
    assert pid is not None
    main = process_tree.read_process(pid)
    assert main is not None
    tree = process_tree.descendants(main.ppid, process_tree.scan())
    assert {"conmon", "sleep"} <= {each.name for each in tree}
    if killed == "supervisor":
        os.kill(main.ppid, signal.SIGKILL)
        cluster.run("gkill", str(job))
    else:
        os.kill(next(each.pid for each in tree if each.name == killed), signal.SIGKILL)
    cluster.wait(job)
    alive = [str(each) for each in tree if process_tree.is_alive(each.pid, each.start)]
    assert not alive and left(cluster) == ""


def test_a_terminal_and_an_image_that_cannot_be_had(cluster: Cluster) -> None:
    done = cluster.run("gsub", "-Ip", "--container", IMAGE, "ls /bin; exit 3", check=False)
    assert done.returncode == 3 and "sleep" in done.stdout
    job = cluster.submit("-o", "none", "--container", "docker://localhost/gsched-none:1", "true")
    (view,) = cluster.wait(job)
    assert view.result is not None and view.result.exit_code == 125
    assert "gsched-none" in printed(cluster.folder / "none")


def test_tasks_of_glaunch_have_a_container_each(cluster: Cluster) -> None:
    cluster.configure(lsb_hosts="=Begin Host\nHOST_NAME MXJ\ndefault 8\nEnd Host\n")
    job = cluster.submit("-n", "2", "-o", "tasks", "--container", IMAGE, "glaunch ls /")
    cluster.wait(job)
    text = printed(cluster.folder / "tasks")
    assert text.split().count("bin") == 2 and "home" not in text and left(cluster) == ""
