"""Defects that users of early builds found, each held by a test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest
from live_cluster import Cluster

from gsched.model.views.view import JobFilter


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    return module_cluster("--sim-gpus", "2:exclusive_process")


def test_a_job_whose_folder_is_removed_does_not_run_twice(cluster: Cluster):
    runs = cluster.folder / "runs"
    job_id = cluster.submit("sh", "-c", f"echo run >> '{runs}'; until [ -e removed ]; do sleep 0.05; done; exit 4")
    cluster.until(runs.exists, "the job never ran")
    shutil.rmtree(cluster.folder / "spool" / cluster.host / "attempts" / f"{job_id}.1")
    (cluster.folder / "removed").touch()
    view = cluster.wait(job_id)[0]
    assert (view.state, view.attempt) == ("EXIT", 1)
    assert runs.read_text() == "run\n"


def test_gpeek_tells_what_keeps_it_from_the_output(cluster: Cluster):
    job_id = cluster.submit("sleep", "600")
    cluster.starts(job_id)
    cluster.kill(f"agent-{cluster.host}")
    try:
        peek = cluster.run("gpeek", str(job_id), check=False)
        assert peek.returncode == 255
        assert f"the output is on {cluster.host}, whose agent is not connected" in peek.stderr
        assert "Not yet started" not in peek.stderr
    finally:
        cluster.up()
        cluster.run("gkill", str(job_id))
        cluster.wait(job_id)


def test_a_mode_that_changes_under_a_job_is_said(cluster: Cluster):
    job_id = cluster.submit("-R", "rusage[ngpus_excl_p=1]", "sleep", "600")
    cluster.starts(job_id)
    cluster.run("gsched", "sim-gpu", "0", "compute_mode=shared")
    text = f"is held as ngpus_excl_p by job {job_id}"
    cluster.until(lambda: text in " ".join(cluster.run("ghosts", "-l").stdout.split()), "no note about the mode")
    cluster.run("gkill", str(job_id))
    cluster.wait(job_id)
    cluster.run("gsched", "sim-gpu", "0", "compute_mode=exclusive_process")


def test_a_cluster_with_a_broken_file_can_be_looked_at_and_stopped(make_cluster: Callable[..., Cluster]):
    cluster = make_cluster("--sim-gpus", "1:shared")
    with (cluster.conf / "lsb.params").open("a") as file:
        file.write("JUNK\n")
    status = cluster.run("gsched", "status", check=False)
    assert status.returncode == 1
    assert "lsb.params:" in status.stdout
    assert "master" in status.stdout
    down = cluster.run("gsched", "down")
    assert down.stdout.endswith("is down\n")
    # Ended on purpose: commands say so at once and do not wait for it to come back.
    jobs = cluster.run("gjobs", check=False)
    assert (jobs.returncode, jobs.stdout) == (255, "")
    assert "gsched up" in jobs.stderr


def test_the_wait_for_a_master_is_configured_in_lsf_conf(make_cluster: Callable[..., Cluster]):
    cluster = make_cluster("--sim-gpus", "0")
    conf = cluster.conf / "lsf.conf"
    conf.write_text(conf.read_text().replace("GSCHED_COMMAND_WAIT=60", "GSCHED_COMMAND_WAIT=0.5"))
    cluster.kill("master")
    jobs = cluster.run("gjobs", check=False)
    assert jobs.returncode == 255
    assert "has not answered for 0.5 s" in jobs.stderr


def test_a_gpu_given_unasked_is_said_in_the_effective_requirement(make_cluster: Callable[..., Cluster]):
    cluster = make_cluster("--sim-gpus", "1:shared")
    params = cluster.conf / "lsb.params"
    params.write_text(params.read_text().replace("GPU_UNREQUESTED = hide", "GPU_UNREQUESTED = auto=1"))
    cluster.run("gadmin", "reconfig")
    job_id = cluster.submit("true")
    assert cluster.wait(job_id)[0].effective_req.endswith("rusage[ngpus_shared=1.00]")
    with cluster.client() as client:
        assert [job.job_id for job in client.jobs(JobFilter(finished=True))] == [job_id]


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null/below"])
def test_a_folder_that_cannot_be_made_is_one_line(cluster: Cluster, folder: str):
    done: subprocess.CompletedProcess[str] = cluster.run("gsched", "up", "--dir", folder, check=False)
    assert done.returncode == 255
    assert len(done.stderr.splitlines()) == 1
    assert folder.split("/")[1] in done.stderr
    assert "internal error" not in done.stderr
