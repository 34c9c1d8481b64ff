"""gsub --container with Apptainer itself, where that is installed and runs: inside, signals, ends, what is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_stories import (
    hears_a_signal_once_is_stopped_goes_on_and_is_killed,
    saves_before_its_run_limit_or_is_ended_by_it,
)
from live_cluster import Cluster, printed

from gsched.run.processes import process_tree
from tests.support.folders import new_folder
from tests.support.small_root import small_root

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    path = new_folder()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(base: Path) -> Iterator[Cluster]:
    if shutil.which("apptainer") is None:
        pytest.skip("needs apptainer")
    built = subprocess.run(
        ["apptainer", "build", str(base / "image.sif"), str(small_root(base / "root"))], capture_output=True, text=True
    )
    tried = subprocess.run(
        ["apptainer", "exec", "--pid", str(base / "image.sif"), "/bin/sh", "-c", "echo works"],
        capture_output=True,
        text=True,
    )
    if "works" not in tried.stdout:
        pytest.skip(f"apptainer cannot run containers here: {(built.stderr + tried.stderr).strip().splitlines()[-1]}")
    made = Cluster(base / "c")
    try:
        made.up("--sim-gpus", "2:exclusive_process")
        yield made
        assert "Traceback" not in made.logs()
    finally:
        made.down()


@pytest.fixture(params=["image.sif", "root"])
def image(request: pytest.FixtureRequest, base: Path) -> str:
    return str(base / request.param)


def output(cluster: Cluster, *words: str, **env: str) -> tuple[int | None, str, str]:
    """Exit code, output and errors of a job."""
    job = cluster.submit("-o", "out.%J", "-e", "err.%J", *words, **env)
    (view,) = cluster.wait(job)
    code = None if view.result is None else view.result.exit_code
    return code, printed(cluster.folder / f"out.{job}"), (cluster.folder / f"err.{job}").read_text()


def test_a_job_runs_in_the_image_as_its_user_and_in_its_directory(cluster: Cluster, image: str) -> None:
    (cluster.folder / "data").mkdir(exist_ok=True)
    (cluster.folder / "data" / "set").write_text("of data\n")
    script = "id -u; ls /bin; cat /d/set; echo $SECRET $CUDA_VISIBLE_DEVICES; echo here > written; pwd; exit 7"
    alone = "set -- /proc/[0-9]*; echo $#; echo x > /tmp/x && echo x > /var/tmp/x && cat /tmp/x"
    words = ("--container", image, "--container-mount", "data:/d:ro", "-gpu", "num=1")
    code, text, errors = output(cluster, *words, script, SECRET="hunter2")
    assert code == 7, errors
    lines = text.splitlines()
    assert lines[0] == str(os.getuid()) and "python3" not in lines and "sleep" in lines
    assert "of data" in lines and "hunter2 0" in lines and str(cluster.folder) in lines
    assert (cluster.folder / "written").stat().st_uid == os.getuid()
    assert output(cluster, *words, alone) == (0, "2\nx\n", ""), "it sees its own processes, and has its own /tmp"
    code, _, errors = output(cluster, *words, "echo x > /d/set")
    assert code != 0 and "Read-only" in errors


def test_it_has_the_hosts_shared_memory_and_nothing_is_said(cluster: Cluster, image: str) -> None:
    name = f"gsched-test-{os.getpid()}"
    there = Path("/dev/shm") / name
    there.write_text("of the host\n")
    try:
        assert output(cluster, "--container", image, f"cat /dev/shm/{name}") == (0, "of the host\n", "")
    finally:
        there.unlink()


def test_it_hears_a_signal_once_is_stopped_goes_on_and_is_killed(cluster: Cluster, image: str) -> None:
    out = cluster.folder / f"signals.{os.path.basename(image)}"
    hears_a_signal_once_is_stopped_goes_on_and_is_killed(cluster, image, out)


def test_it_is_asked_to_save_its_state_before_its_run_limit_and_ended_by_it(cluster: Cluster, base: Path) -> None:
    saves_before_its_run_limit_or_is_ended_by_it(cluster, str(base / "image.sif"))


@pytest.mark.parametrize("killed", ["first", "supervisor"])
def test_nothing_is_left_when_who_holds_the_container_is_killed(cluster: Cluster, base: Path, killed: str) -> None:
    out = cluster.folder / f"killed.{killed}"
    job = cluster.submit("-o", str(out), "--container", str(base / "image.sif"), "echo begun; sleep 1000; sleep 1000")
    cluster.until(lambda: out.exists() and "begun" in out.read_text(), "it does not begin")
    pid = cluster.starts(job).pid
    assert pid is not None
    main = process_tree.read_process(pid)
    assert main is not None
    tree = process_tree.descendants(main.ppid, process_tree.scan())
    assert "sleep" in {each.name for each in tree}
    if killed == "supervisor":
        os.kill(main.ppid, signal.SIGKILL)
        cluster.run("gkill", str(job))
    else:
        os.kill(pid, signal.SIGKILL)
    cluster.wait(job)
    alive = [str(each) for each in tree if process_tree.is_alive(each.pid, each.start)]
    assert not alive


def test_a_terminal_and_an_image_that_is_not_there(cluster: Cluster, base: Path) -> None:
    done = cluster.run("gsub", "-Ip", "--container", str(base / "image.sif"), "ls /bin; exit 3", check=False)
    assert done.returncode == 3 and "sleep" in done.stdout
    (view,) = cluster.wait(cluster.submit("--container", str(base / "none.sif"), "true"))
    told = cluster.run("gjobs", "-l", str(view.job_id)).stdout.replace("\n", "").replace(" " * 21, "")
    assert view.state == "EXIT" and f"container image {base}/none.sif: No such file or directory" in told


def test_tasks_of_glaunch_have_a_container_each(cluster: Cluster, base: Path) -> None:
    cluster.configure(lsb_hosts="=Begin Host\nHOST_NAME MXJ\ndefault 8\nEnd Host\n")
    code, text, errors = output(cluster, "-n", "2", "--container", str(base / "image.sif"), "glaunch ls /")
    assert code == 0 and text.split().count("bin") == 2 and "opt" not in text, errors
