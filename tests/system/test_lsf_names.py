"""The commands of `gsched names lsf` on a real cluster: from anywhere, with nothing in the environment."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, Cluster

import gsched

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def cluster(module_cluster: Callable[..., Cluster]) -> Cluster:
    made = module_cluster("--sim-gpus", "2:exclusive_process")
    made.run("gsched", "names", "lsf", str(made.folder / "bin"))
    return made


def run(cluster: Cluster, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """One of the commands with just these variables, in another directory."""
    path = cluster.folder / "bin" / words[0]
    return subprocess.run(
        [str(path), *words[1:]],
        env=env,
        cwd="/",
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_job_from_an_empty_environment(cluster: Cluster) -> None:
    script = f"#BSUB -J told\n#BSUB -n 2 # two slots\n#BSUB -o {cluster.folder}/told.%J\n"
    # The commands work in the job as well: the configuration folder is handed on.
    script += f'{cluster.folder}/bin/bjobs -noheader -o "jobid stat slots" $LSB_JOBID\n'
    told = run(cluster, "bsub", "-K", stdin=script)
    assert told.returncode == 0, told.stderr
    job = re.match(r"Job <(\d+)> is submitted to default queue <normal>\.\n", told.stdout)
    assert job is not None
    assert f"\n{job[1]} RUN 2\n" in "\n" + (cluster.folder / f"told.{job[1]}").read_text()
    asked = run(cluster, "bjobs", "-a", "-noheader", "-o", "jobid stat job_name", job[1], HOME="/nonexistent")
    assert asked.stdout == f"{job[1]} DONE told\n"


def test_without_the_door_it_is_the_same(cluster: Cluster) -> None:
    asked = run(cluster, "lsid", GSCHED_DOOR="off")
    assert asked.stdout.splitlines()[-2:] == run(cluster, "lsid").stdout.splitlines()[-2:]
    assert asked.stdout.splitlines()[-2] == "My cluster name is private"


def test_an_installation_of_another_kind_in_its_place_is_found(cluster: Cluster) -> None:
    """As when `make install` and `make test` take turns: gsched is there, but not where it was."""
    path = cluster.folder / "bin" / "bjobs"
    text = path.read_text()
    place = f"' {shlex.quote(str(Path(gsched.__file__).parent.parent))} "
    assert place in text
    path.write_text(text.replace(place, "' /gone/site-packages "))
    try:
        asked = run(cluster, "bjobs")
    finally:
        path.write_text(text)
    assert (asked.returncode, asked.stderr) == (0, "No unfinished job found\n")


def test_another_configuration_is_meant_when_it_is_named(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("LSF_ENVDIR", "GSCHED_ENVDIR"):
        asked = run(cluster, "bjobs", **{name: str(tmp_path)})
        assert asked.returncode == 255 and str(tmp_path) in asked.stderr


def test_what_clients_ask_before_they_begin(cluster: Cluster) -> None:
    lines = run(cluster, "badmin", "showconf", "mbd").stdout.strip().split("\n")
    settings = dict(line.strip().split(" = ") for line in lines[1:])
    name = run(cluster, "lsclusters", "-w").stdout.split("\n")[1].split()[0]
    lsb_params = Path(settings["LSF_CONFDIR"]) / "lsbatch" / name / "configdir" / "lsb.params"
    assert re.search(r"^DEFAULT_QUEUE\s*=\s*normal$", lsb_params.read_text(), re.MULTILINE)
    assert "LSF_UNIT_FOR_LIMITS=MB" in (Path(settings["LSF_ENVDIR"]) / "lsf.conf").read_text().splitlines()
    assert Path(settings["LSB_SHAREDIR"]).is_dir()


@pytest.mark.nightly
def test_the_daemons_are_stopped_and_started_as_an_administrators_script_does(cluster: Cluster) -> None:
    refused = run(cluster, "lsfshutdown", stdin="n\n")
    assert refused.returncode == 255 and refused.stdout.endswith("[y/n] ")
    assert run(cluster, "lsf_daemons", "status").returncode == 0
    assert run(cluster, "lsfshutdown", "-f").stdout == "cluster private is down\n"
    status = run(cluster, "lsf_daemons", "status")
    assert status.returncode == 1 and status.stdout.startswith("master               not running\n")
    assert "cluster private is up" in run(cluster, "lsfstartup", "-f").stdout
    assert "cluster private is up" in run(cluster, "lsf_daemons", "restart").stdout
    assert run(cluster, "lsf_daemons", "status").returncode == 0
    wrong = run(cluster, "lsf_daemons", "begin")
    assert wrong.returncode == 255 and "begin" in wrong.stderr


def test_parameters_are_those_of_the_master(cluster: Cluster) -> None:
    def parameters() -> dict[str, str]:
        lines = run(cluster, "bparams", "-a").stdout.splitlines()
        return {name.strip(): value.strip() for name, value in (line.split("=", 1) for line in lines)}

    assert parameters()["MAX_JOB_ARRAY_SIZE"] == "1000000"
    path = cluster.conf / "lsb.params"
    path.write_text(path.read_text().replace("End Parameters", "MAX_JOB_ARRAY_SIZE = 500\nEnd Parameters"))
    assert parameters()["MAX_JOB_ARRAY_SIZE"] == "1000000"
    done = run(cluster, "badmin", "reconfig")
    assert done.returncode == 0 and done.stdout == "Reconfiguration initiated\n", done.stderr
    assert parameters()["MAX_JOB_ARRAY_SIZE"] == "500"
