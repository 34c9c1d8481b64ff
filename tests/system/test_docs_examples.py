"""What the documents show is what happens: their transcripts are typed on a cluster with simulated GPUs."""

from __future__ import annotations

import getpass
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import BIN, Cluster

from tests.support.doc_examples import PAGES, ROOT, Example, Reader, examples, picture, typing_environment
from tests.support.folders import new_folder

pytestmark = pytest.mark.system

STORY = "getting-started.md"
"""A page that is read from its beginning to its end: it makes its own cluster."""
TRAINING = "training.md"
SEVERAL_HOSTS = ("parallel.md", TRAINING)
BY_MPI = ("--launch mpi", "--launch ddl")
FRAMEWORKS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "ray", "mpirun", "python", "py-spy")
"""What the page on training starts, all of them stand-ins."""
TRAIN = """\
import os, time
print("CUDA_VISIBLE_DEVICES =", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
for epoch in (1, 2):
    print("epoch", epoch, flush=True)
time.sleep(600)
"""
RUN = [*(each for page in PAGES for each in examples(page) if not each.why_not_run), picture()]


def reader_in(folder: Path, env: dict[str, str]) -> Reader:
    """A reader with the programs that the pages speak of."""
    (folder / "train.py").write_text(TRAIN)
    for name in ("train.sh", "prepare.sh"):
        (folder / name).write_text("#!/bin/sh\nexec python3 train.py\n")
        (folder / name).chmod(0o755)
    shutil.copy(ROOT / "examples" / "torchrun.sh", folder)
    names = {"/home/ann": env["HOME"], "ann": getpass.getuser()}
    return Reader(folder, env, names, socket.gethostname().partition(".")[0])


@pytest.fixture(scope="module")
def clusters(module_cluster: Callable[..., Cluster]) -> Callable[[Example], Cluster]:
    """The cluster of an example's page, made when it is first wanted."""
    made: dict[str, Cluster] = {}

    def of(example: Example) -> Cluster:
        hosts = "gpu01,gpu02" if example.page in SEVERAL_HOSTS else "gpu01"
        if hosts not in made:
            made[hosts] = module_cluster("--sim-gpus", "4:exclusive_process", "--hosts", hosts)
        return made[hosts]

    return of


def end_jobs(cluster: Cluster) -> None:
    """End whatever the transcript has left: in turns, for jobs that wait for others begin as those end."""
    cluster.run("gkill", "-r", "0", check=False)
    cluster.until(lambda: cluster.run("gjobs", "-noheader", "-o", "jobid").stdout == "", "jobs go on")


@pytest.mark.parametrize("example", [each for each in RUN if each.page != STORY], ids=str)
def test_it_is_as_the_page_shows(example: Example, clusters: Callable[[Example], Cluster], tmp_path: Path) -> None:
    if " " in str(BIN) and any(word in command for command, _ in example.commands for word in BY_MPI):
        pytest.skip("below a path with a blank no MPI is told of glaunch (docs/parallel.md)")
    cluster = clusters(example)
    env = typing_environment(tmp_path, BIN) | {"GSCHED_ENVDIR": str(cluster.conf), "GSCHED_HOSTNAME": "gpu01"}
    if example.page == TRAINING:
        (tmp_path / ".frameworks").mkdir()
        for name in FRAMEWORKS:
            (tmp_path / ".frameworks" / name).symlink_to(ROOT / "tests" / "support" / "stand_in_launchers.py")
        env["PATH"] = f"{tmp_path}/.frameworks:{env['PATH']}"
    with cluster.files_as_they_are():
        try:
            reader_in(tmp_path, env).play(example)
        finally:
            end_jobs(cluster)


@pytest.fixture
def home() -> Iterator[Path]:
    folder = new_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_first_day_is_as_the_page_tells_it(home: Path) -> None:
    reader = reader_in(home, typing_environment(home, BIN))
    try:
        for example in (each for each in RUN if each.page == STORY):
            reader.play(example)
    finally:
        reader._run("gsched down --kill")
