"""The private cluster's configuration: it loads, it never replaces anything, it takes no text that could break it."""

from __future__ import annotations

import os
import resource

import msgspec
import pytest

from gsched.base.errors import BadRequest, ConfigError, Conflict
from gsched.config.configuration import load
from gsched.config.template import MAP_STANZA, RESOURCE_STANZA, NewConfiguration, write_private
from gsched.model.config import Locations
from gsched.model.hosts.resource import GPU_COUNTERS

FOLDERS = Locations(
    conf_dir="/c",
    state_dir="/home/o'neill/my state",
    log_dir="/l",
    server_dir="/e#1",
    run_dir="/run/x",
    spool_dir="/s",
)
ARGUMENTS = {"cluster": "private", "hosts": ["h1"], "slots": 16, "folders": FOLDERS, "gpu_provider": "nvml"}


@pytest.mark.parametrize("gpu_resources", [False, True])
def test_what_is_written_loads(tmp_path, gpu_resources):
    conf = tmp_path / "a" / "conf"
    arguments = {**ARGUMENTS, "hosts": ["h1", "h2"], "gpu_provider": "sim:/in v", "administrators": ["me"]}
    write_private(str(conf), NewConfiguration(**arguments, gpu_resources=gpu_resources))
    loaded = load(str(conf), "h1")
    assert [str(p) for p in loaded.problems if p.severity == "error"] == []
    config = loaded.required()
    assert (config.cluster, config.master_host, config.administrators) == ("private", "h1", ("me",))
    assert config.locations == msgspec.structs.replace(FOLDERS, conf_dir=str(conf))
    assert config.gpu_provider == "sim:/in v"
    assert {host.max_slots for host in config.hosts.values()} == {16}
    assert {name: queue.priority for name, queue in config.queues.items()} == {"normal": 30, "short": 35, "night": 20}
    assert config.params.default_queues == ("normal",)
    assert (config.timing.exchange_s, config.timing.gpu_probe_s, config.timing.elim_restart_s) == (1, 1, 1)
    assert config.timing.usage_sample_s == 1
    assert config.params.root_may_submit
    assert os.path.samefile(conf / "lsbatch" / "private" / "configdir" / "lsb.params", conf / "lsb.params")
    assert config.external_on("h2") == (GPU_COUNTERS if gpu_resources else ())


def test_the_walk_through_adds_the_gpu_resources_by_appending(tmp_path):
    write_private(str(tmp_path), NewConfiguration(**ARGUMENTS, gpu_resources=False))
    before = load(str(tmp_path), "h1").required()
    for name, stanza in zip(("lsf.shared", "lsf.cluster.private"), (RESOURCE_STANZA, MAP_STANZA), strict=True):
        with open(tmp_path / name, "a", encoding="utf-8") as file:
            file.write(stanza)
    after = load(str(tmp_path), "h1").required()
    assert after.external_on("h1") == GPU_COUNTERS
    assert after.digest != before.digest


def test_an_existing_file_is_kept_and_nothing_is_written(tmp_path):
    (tmp_path / "lsb.hosts").write_text("mine")
    with pytest.raises(Conflict, match=r"lsb\.hosts is already there"):
        write_private(str(tmp_path), NewConfiguration(**ARGUMENTS))
    assert [path.name for path in tmp_path.iterdir()] == ["lsb.hosts"]
    assert (tmp_path / "lsb.hosts").read_text() == "mine"


def test_files_that_cannot_be_written_leave_nothing_in_the_way(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))  # as a full disk, at the first larger file
    try:
        with pytest.raises(Conflict, match=r"conf/ls[fb]\.[a-z]+: File too large"):
            write_private(str(tmp_path / "conf"), NewConfiguration(**ARGUMENTS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "conf").iterdir()) == []
    write_private(str(tmp_path / "conf"), NewConfiguration(**ARGUMENTS))
    assert load(str(tmp_path / "conf"), "h1").required().cluster == "private"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Conflict, match="file"):
        write_private(str(tmp_path / "file" / "conf"), NewConfiguration(**ARGUMENTS))


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": "a/b"},
        {"cluster": "x\nEnd Cluster"},
        {"hosts": []},
        {"hosts": ["h1", "h1"]},
        {"hosts": ["h1 x"]},
        {"slots": 0},
        {"gpu_provider": "sim:rel"},
        {"administrators": ["a b"]},
        {"folders": msgspec.structs.replace(FOLDERS, log_dir="rel")},
        {"folders": msgspec.structs.replace(FOLDERS, log_dir='/a"b')},
        {"folders": msgspec.structs.replace(FOLDERS, log_dir="/a\nLSF_ROOT_USER=Y")},
    ],
)
def test_arguments_that_no_file_could_hold(tmp_path, change):
    with pytest.raises(BadRequest):
        write_private(str(tmp_path / "conf"), NewConfiguration(**{**ARGUMENTS, **change}))
    assert not (tmp_path / "conf").exists()


def test_a_folder_for_sockets_that_is_too_long_is_found_before_writing(tmp_path):
    folders = msgspec.structs.replace(FOLDERS, run_dir="/" + "x" * 120)
    with pytest.raises(ConfigError, match="GSCHED_RUNDIR: the path has 121 bytes"):
        write_private(str(tmp_path / "conf"), NewConfiguration(**{**ARGUMENTS, "folders": folders}))
    assert not (tmp_path / "conf").exists()
