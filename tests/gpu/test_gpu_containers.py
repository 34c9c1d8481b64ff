"""A job in a container of Podman has the GPUs that gsched gave it, and its processes on them are known as its own.

The image is made of this host's programs; Python and the driver's libraries are mounted into it, so that no image has
to be fetched.
"""

from __future__ import annotations

import _ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import gpu_machine
import pytest
from findings import Findings
from gpu_cluster import PROGRAMS, STARTING_S, GpuCluster, MakeGpuCluster
from podman_cluster import IMAGE, PodmanCluster, remove_containers, why_no_containers

from tests.support.folders import new_folder
from tests.support.small_root import small_root

pytestmark = [
    pytest.mark.row("containers (Podman): the job's GPUs inside, and its processes known"),
    pytest.mark.limit(120),
]

DRIVER, CHECKS, WORK = "/driver", "/checks", "/work"
"""Where the folders of the driver's libraries, of the programs and of the cluster are inside."""
PYTHON = os.path.realpath(sys.executable)
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


class GpuPodmanCluster(PodmanCluster, GpuCluster):
    """Its jobs may have containers and GPUs."""


@pytest.fixture(scope="module")
def podman(make_cluster: MakeGpuCluster) -> Iterator[GpuPodmanCluster]:
    if shutil.which("podman") is None:
        pytest.skip("podman is not here")
    if not gpu_machine.driver_folder():
        pytest.skip("libcuda.so.1 is not here")
    base = new_folder()
    tried = GpuPodmanCluster(base / "tried")
    root = small_root(base / "root", with_libraries_of=(PYTHON, _ctypes.__file__))
    why = why_no_containers(tried, root)
    remove_containers(tried)
    if why:
        pytest.skip(why)
    cluster = make_cluster(GpuPodmanCluster)
    assert isinstance(cluster, GpuPodmanCluster)
    why_no_containers(cluster, root)
    yield cluster
    cluster.end_jobs()
    remove_containers(cluster)
    shutil.rmtree(base, ignore_errors=True)


def in_container(cluster: GpuPodmanCluster, name: str, *words: str, gpu: str = "") -> int:
    """A job that runs Python with these words in a container."""
    mounts = {
        f"{sys.base_prefix}:{sys.base_prefix}:ro",
        f"{gpu_machine.driver_folder()}:{DRIVER}:ro",
        f"{PROGRAMS}:{CHECKS}:ro",
        f"{cluster.folder}:{WORK}",
    }
    options = [word for mount in sorted(mounts) for word in ("--container-mount", mount)]
    asked = ("-gpu", gpu) if gpu else ()
    command = f"export LD_LIBRARY_PATH={DRIVER}; exec {PYTHON} {' '.join(words)}"
    return cluster.submit(*asked, "-o", f"{name}.log", "--container", IMAGE, *options, command)


def test_the_gpus_of_the_job_are_inside(podman: GpuPodmanCluster, findings: Findings) -> None:
    is_described = any(path.is_dir() and any(path.iterdir()) for path in map(Path, CDI_FOLDERS))
    findings.measure("GPUs come into containers by", "CDI" if is_described else "device files")
    words = (f"{CHECKS}/cuda_program.py", "--say", f"{WORK}/inside", "--mib", "1024", "--until", f"{WORK}/stop")
    job = in_container(podman, "inside", *words, gpu=gpu_machine.all_gpus())
    said = podman.said("inside", job)
    findings.expect(
        said.get("uuid") == gpu_machine.uuid(), "a program inside has the job's GPU", podman.output("inside")
    )

    def own() -> list[int]:
        return [each["PID"] for each in podman.gpu().get("PROCESSES") or () if each["JOBID"] == str(job)]

    if not said["error"]:
        findings.comes(own, "ghosts lists its process as the job's", podman.gpu)
    podman.touch("stop")
    (view,) = podman.wait(job, timeout_s=STARTING_S)
    findings.expect(view.state == "DONE", "the job is DONE", podman.output("inside"))


def test_a_container_without_gpus_has_no_device(podman: GpuPodmanCluster, findings: Findings) -> None:
    job = in_container(podman, "outside", f"{CHECKS}/cuda_program.py", "--look", "--say", f"{WORK}/outside")
    said = podman.said("outside", job)
    findings.expect(said.get("devices") == {}, "there is no device of a GPU inside", said)
    findings.expect(said.get("error"), "CUDA shows no GPU", said)
    findings.expect(podman.ended(job) == "DONE", "the job is DONE", podman.output("outside"))
