"""gsub --container on a real cluster, with a stand-in for Podman: words, environment, signals, ends, tasks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import BIN, Cluster, printed

from tests.support import stand_in_podman

NAME = "registry.example/train:1"
IMAGE = f"docker://{NAME}"
QUEUES = """
Begin Queue
QUEUE_NAME = boxed
PRIORITY = 20
CONTAINER = docker[image(registry.example/site:2) options(--rm -v /tmp:/scratch:ro)]
End Queue

Begin Queue
QUEUE_NAME = gone
PRIORITY = 20
CONTAINER = podman[image(oci-archive:/images/gone.tar)]
End Queue
"""


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    programs = stand_in_podman.install(tmp_path_factory.mktemp("programs")).parent
    log = tmp_path_factory.mktemp("log") / "podman"
    path = f"{programs}:{BIN}:/usr/bin:/bin"
    made = module_cluster("--sim-gpus", "2:exclusive_process", PATH=path, STAND_IN_PODMAN_LOG=str(log))
    made.configure(lsb_queues=QUEUES, lsb_hosts="=Begin Host\nHOST_NAME MXJ\ndefault 8\nEnd Host\n")
    return made


def calls(cluster: Cluster) -> list[list[str]]:
    path = Path(cluster.env["STAND_IN_PODMAN_LOG"])
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def output(cluster: Cluster, *words: str, **env: str) -> str:
    job = cluster.submit("-o", "out.%J", *words, **env)
    cluster.wait(job)
    return printed(cluster.folder / f"out.{job}")


def test_a_command_runs_inside_with_the_environment_but_no_value_among_the_words(cluster: Cluster) -> None:
    calls(cluster)
    job = cluster.submit(
        *("-o", "out.%J", "--container", IMAGE, "--container-mount", "data:/data:ro", "-gpu", "num=1"),
        'echo "$container $SECRET $PATH $(pwd)"; exit 7',
        SECRET="hunter2",
    )
    (done,) = cluster.wait(job)
    assert printed(cluster.folder / f"out.{job}") == f"podman hunter2 /usr/bin:/bin {cluster.folder}\n"
    assert done.result is not None and done.result.exit_code == 7
    (run, *after) = calls(cluster)
    assert "hunter2" not in str(run)
    assert NAME in run
    options, _ = stand_in_podman.options_of(run[2:])
    assert f"{cluster.folder}/data:/data:ro" in options["--volume"]
    assert f"{cluster.folder}:{cluster.folder}" in options["--volume"]
    assert options["--cgroups"] == ["disabled"] and "--device" not in options  # simulated GPUs have none
    assert [each[1] for each in after] == ["ps"], "what could be left is looked for when the job is over"
    told = cluster.run("gjobs", "-l", str(job)).stdout.replace("\n", "").replace(" " * 21, "")
    assert f"Container Image <{IMAGE}>" in told and f"Container Mounts <{cluster.folder}/data:/data:ro>" in told


@pytest.mark.parametrize("words", [["-q", "gone"], ["--container", "oci-archive:/images/gone.tar"]])
def test_an_image_that_is_not_on_the_host_is_named(cluster: Cluster, words: list[str]) -> None:
    job = cluster.submit("-o", "out.%J", *words, "true")
    (done,) = cluster.wait(job)
    assert done.state == "EXIT"
    told = cluster.run("gjobs", "-l", str(job)).stdout.replace("\n", "").replace(" " * 21, "")
    assert "container image /images/gone.tar: No such file or directory" in told


def test_steps_before_a_job_may_fetch_its_image(cluster: Cluster) -> None:
    image = cluster.folder / "fetched.tar"
    job = cluster.submit("-E", f"touch {image}", "--container", f"oci-archive:{image}", "true")
    assert [view.state for view in cluster.wait(job)] == ["DONE"] and image.exists()


def test_a_check_of_the_files_notes_an_image_of_the_site_that_is_not_there(cluster: Cluster) -> None:
    said = cluster.run("gadmin", "ckconfig").stderr.splitlines()
    assert [line for line in said if "CONTAINER" in line] == [
        "note: CONTAINER of queue gone: /images/gone.tar is not to be had on this host (No such file or directory); "
        "the hosts that run its jobs need it"
    ]


def test_a_script_and_its_lines(cluster: Cluster) -> None:
    script = f"#!/bin/sh\n#BSUB --container {IMAGE}\n#BSUB -o script.out\necho $container $1\n"
    done = cluster.run("gsub", stdin=script)
    cluster.wait(int(done.stdout.split("<")[1].split(">")[0]))
    assert printed(cluster.folder / "script.out") == "podman\n"


def test_a_job_hears_a_signal_once_and_ends_by_it(cluster: Cluster) -> None:
    script = "trap 'echo heard' USR1; trap 'echo over; exit 3' TERM; echo begun > begun; while :; do sleep 0.05; done"
    job = cluster.submit("-o", "out.%J", "--container", IMAGE, script)
    cluster.until((cluster.folder / "begun").exists, "it does not begin")
    cluster.run("gkill", "-s", "USR1", str(job))
    out = cluster.folder / f"out.{job}"
    cluster.until(lambda: "heard" in out.read_text(), "it hears nothing")
    cluster.run("gkill", "-s", "TERM", str(job))
    cluster.wait(job)
    assert (printed(out).count("heard"), printed(out).count("over")) == (1, 1)


def test_a_job_is_stopped_and_goes_on_and_is_killed(cluster: Cluster) -> None:
    job = cluster.submit("--container", IMAGE, "sleep 1000")
    cluster.starts(job)
    cluster.run("gstop", str(job))
    cluster.becomes(job, "USUSP")
    cluster.run("gresume", str(job))
    cluster.becomes(job, "RUN")
    cluster.run("gkill", str(job))
    (done,) = cluster.wait(job)
    assert (done.state, done.result.term_reason if done.result else "") == ("EXIT", "TERM_OWNER")


def test_what_a_queue_says_counts_for_jobs_that_say_nothing(cluster: Cluster) -> None:
    calls(cluster)
    assert output(cluster, "-q", "boxed", "echo $container") == "podman\n"
    run = calls(cluster)[0]
    assert "registry.example/site:2" in run and "/tmp:/scratch:ro" in run
    assert output(cluster, "-q", "boxed", "--container", IMAGE, "true") == "" and NAME in calls(cluster)[0]
    assert "CONTAINER:  docker[image(registry.example/site:2) " in cluster.run("gqueues", "-l", "boxed").stdout


def test_the_tasks_of_a_launched_job_are_what_runs_inside(cluster: Cluster) -> None:
    calls(cluster)
    text = output(cluster, "-n", "2", "--container", IMAGE, "glaunch printenv container")
    assert text == "podman\npodman\n"
    names = {stand_in_podman.options_of(each[2:])[0]["--name"][0] for each in calls(cluster) if each[1] == "run"}
    assert len(names) == 2, "a container for each task"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--container", "/etc/passwd"), "--container: /etc/passwd is a file, and an image is docker://NAME"),
        (("--container", f"{IMAGE}@sha256:zz"), "--container: 'docker://registry.example/train:1@sha256:zz' is not of"),
        (("--container", f"{IMAGE}\n"), "--container: 'docker://registry.example/train:1\\n' is no image"),
        (("--container", "http://x"), "--container: 'http://x' is none of docker://NAME"),
        (("--container-mount", "/data"), "--container-mount needs --container IMAGE"),
        (("--container", IMAGE, "--container-mount", "/etc"), "--container-mount: /etc cannot be mounted"),
        (("--container", IMAGE, "-cwd", "/"), "/ cannot be mounted into a container"),
    ],
)
def test_what_cannot_be_is_refused_with_one_line(cluster: Cluster, words: tuple[str, ...], message: str) -> None:
    done = cluster.run("gsub", *words, "true", check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (255, "", 1)
    assert done.stderr.startswith(message) and done.stderr.endswith("Job not submitted.\n")


@pytest.mark.skipif(shutil.which("apptainer") is not None, reason="apptainer is installed here")
def test_an_image_that_no_host_can_run_is_refused(cluster: Cluster) -> None:
    done = cluster.run("gsub", "--container", "image.sif", "true", check=False)
    told = "No host that the job may use has apptainer, which run containers. Job not submitted.\n"
    assert (done.returncode, done.stderr) == (255, told)
