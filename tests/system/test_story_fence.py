"""A job gets its GPUs and nothing else, whatever it does to its environment and its session."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import Cluster, printed

pytestmark = [pytest.mark.system, pytest.mark.needs_root]

GPUS = 4
ONE, TWO = "rusage[ngpus_shared=1]", "rusage[ngpus_shared=2]"
SUDO = '#!/bin/sh\nexec env -i PATH="$PATH" "$@"\n'
LOOK = """\
#!/bin/sh
for minor in 0 1 2 3; do
    { : < nvidia$minor; } 2>&1 | grep -q "not permitted" || echo $minor
done
"""
"""Prints the minors of the devices that it may open: no driver serves them, but that is another error."""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Minors run against the indexes, as they do on many machines (pains 2)."""
    inventory = tmp_path_factory.mktemp("fence") / "gpus.json"
    inventory.write_text(json.dumps([{"index": index, "minor": GPUS - 1 - index} for index in range(GPUS)]))
    cluster = module_cluster("--sim-gpus", str(inventory))
    if not cluster.is_fenced():
        pytest.skip(cluster.run("ghosts", "-l").stdout.partition("(no fence: ")[2].partition(")")[0])
    for name, text in (("sudo", SUDO), ("look", LOOK)):
        path = cluster.folder / name
        path.write_text(text)
        path.chmod(0o755)
    for minor in range(GPUS):
        try:
            os.mknod(cluster.folder / f"nvidia{minor}", stat.S_IFCHR | 0o666, os.makedev(195, minor))
        except PermissionError:
            pytest.skip("device nodes cannot be made here")
    return cluster


@pytest.fixture(autouse=True)
def all_free(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.end_jobs()


def minors(cluster: Cluster, job: int) -> list[str]:
    """Those of the GPUs that the job was given."""
    with cluster.client() as client:
        minor_of = {each.gpu.uuid: each.gpu.minor for host in client.hosts() for each in host.gpus}
    allocation = cluster.job(job).allocation
    assert allocation is not None
    return sorted(str(minor_of[gpu.uuid]) for gpu in allocation.hosts[0].gpus)


def group_of(pid: int) -> Path:
    """Folder of the control group that a job's process is in."""
    line = next(line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if "/gsched/" in line)
    mounts = [row.split() for row in Path("/proc/self/mountinfo").read_text().splitlines() if " cgroup" in row]
    folders = [Path(row[4] + line.split(":", 2)[2]) for row in mounts]
    return next(folder for folder in folders if folder.is_dir())


@pytest.mark.parametrize("requirement", [ONE, TWO])
def test_sudo_drops_the_environment_and_the_job_still_has_its_gpus_alone(cluster: Cluster, requirement: str) -> None:
    """pains 3, and the command of the seed."""
    done = cluster.run(
        "gsub", "-o", "sudo.%J", "-R", requirement, "sudo", "./look", PATH=f"{cluster.folder}:{cluster.env['PATH']}"
    )
    assert done.stderr == ""
    job = int(done.stdout.partition("<")[2].partition(">")[0])
    assert [view.state for view in cluster.wait(job)] == ["DONE"]
    assert printed(cluster.folder / f"sudo.{job}").split() == minors(cluster, job)


def test_a_job_without_gpus_opens_none(cluster: Cluster) -> None:
    job = cluster.submit("-o", "none.%J", "setsid --wait ./look; echo end")
    cluster.wait(job)
    assert printed(cluster.folder / f"none.{job}") == "end\n"


def test_the_fence_outlives_agent_and_supervisor(cluster: Cluster) -> None:
    """pains 3, 13: nobody who could be killed holds it up."""
    script = "while [ ! -e looked.go ]; do sleep 0.02; done; ./look > looked.new; mv looked.new looked"
    job = cluster.submit("-R", ONE, "sh", "-c", script)
    pid = cluster.starts(job).pid
    assert pid is not None
    group = group_of(pid)
    cluster.kill(f"agent-{cluster.host}")
    supervisor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, 9)
    (cluster.folder / "looked.go").touch()
    cluster.until((cluster.folder / "looked").exists, "the job does not look")
    assert (cluster.folder / "looked").read_text().split() == minors(cluster, job)
    cluster.up()
    cluster.wait(job)
    assert not group.exists()


def test_a_job_that_cannot_be_fenced_waits_and_says_why(cluster: Cluster) -> None:
    """Its group's folder is blocked: it goes back to PEND, and starts when it can be fenced."""
    job = cluster.submit("-R", ONE, "sleep 600")
    pid = cluster.starts(job).pid
    assert pid is not None
    group = group_of(pid)
    later = cluster.submit("-H", "-R", ONE, "./look")
    blocked = group.parent / f"{later}.1"
    blocked.mkdir()
    (blocked / "cgroup.procs").write_text(f"{os.getpid()}\n")
    try:
        cluster.run("gresume", str(later))
        cluster.until(lambda: "processes of an earlier job" in cluster.run("ghist", "-l", str(later)).stdout, "no word")
        assert [view.state for view in cluster.wait(later)] == ["DONE"]
    finally:
        (blocked.parents[2] / "cgroup.procs").write_text(f"{os.getpid()}\n")
        blocked.rmdir()


def test_turned_off_it_is_said(cluster: Cluster) -> None:
    conf = cluster.conf / "lsf.conf"
    before = conf.read_text()
    cluster.down()
    conf.write_text(before + "GSCHED_GPU_FENCE=N\n")
    try:
        cluster.up()
        cluster.until(lambda: not cluster.is_fenced(), "ghosts -l does not say it")
        assert "(no fence: GSCHED_GPU_FENCE=N)" in " ".join(cluster.run("ghosts", "-l").stdout.split())
        done = cluster.run("gsub", "-R", ONE, "sudo", "true")
        assert done.stderr.startswith("Warning: sudo does not pass on CUDA_VISIBLE_DEVICES")
        names = ("CUDA_VISIBLE_DEVICES", "GSCHED_GPU_UUIDS", "CUDA_DEVICE_ORDER")
        job = cluster.submit("-o", "off.%J", "-R", ONE, f"echo {' '.join(f'${name}' for name in names)}; ./look")
        cluster.wait(job)
        text = printed(cluster.folder / f"off.{job}").split()
        assert cluster.granted(dict(zip(names, text, strict=False))) == text[0]
        assert text[3:] == ["0", "1", "2", "3"]
    finally:
        cluster.down()
        conf.write_text(before)
        cluster.up()
        cluster.until(cluster.is_fenced, "the fence is not back")
