"""Where a private cluster is, and making one where it cannot be made."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from gsched.app.clusters.private_config import config_of
from gsched.app.clusters.private_down import down
from gsched.app.clusters.private_home import Home
from gsched.app.clusters.private_up import up
from gsched.base.errors import BadRequest, ConfigError, GschedError
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import Locations


def test_a_cluster_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    home = Home(tmp_path / "cluster", tmp_path / "cluster" / "conf")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))  # as a full disk
    try:
        with pytest.raises(GschedError, match=f"the cluster cannot be made: {home.folder}.*: File too large"):
            up(home, sim_gpus=None, hosts=["h1"], gpu_resources=True, say=print)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not home.exists


def test_an_empty_name_of_a_folder_does_not_mean_the_cluster_of_the_user() -> None:
    with pytest.raises(BadRequest, match="--dir: the name of the folder is empty"):
        Home.find("")


def test_a_cluster_with_wrong_files_tells_of_what_is_wrong_alone(tmp_path: Path) -> None:
    home = Home(tmp_path, tmp_path / "conf")
    folders = {name: str(tmp_path / name) for name in ("state_dir", "log_dir", "server_dir", "run_dir", "spool_dir")}
    locations = Locations(conf_dir=str(home.conf), **folders)
    write_private(
        str(home.conf), NewConfiguration(cluster="c", hosts=["h1"], slots=1, folders=locations, gpu_provider="none")
    )
    params = home.conf / "lsb.params"
    params.write_text(params.read_text().replace("End Parameters", ""))
    with pytest.raises(ConfigError) as caught:
        config_of(home)
    assert len(caught.value.problems) > 1  # the notes that come first belong to files as they are made
    assert caught.value.errors.splitlines() == [f"{params}:3: section Parameters has no End Parameters"]


def test_a_cluster_with_wrong_files_is_ended_and_called_by_its_name(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "lsf.conf").write_text(f'GSCHED_RUNDIR="{tmp_path / "run"}"\nNO SETTING\n')
    (conf / "lsf.cluster.lab").write_text("Begin Host\n")
    told: list[str] = []
    down(Home(tmp_path, conf), kill=False, say=told.append)
    (conf / "lsf.cluster.other").touch()
    down(Home(tmp_path, conf), kill=False, say=told.append)
    assert told == ["cluster lab was not up", f"the cluster in {tmp_path} was not up"]
