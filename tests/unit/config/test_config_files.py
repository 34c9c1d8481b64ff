"""The folder as a whole: which files, in which order, and that nothing in them ever raises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from config_texts import BASE, check, with_lines
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import ConfigError
from gsched.config.configuration import check_texts, load

EXAMPLE = Path(__file__).parents[3] / "conf"


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def test_the_base_loads_from_a_folder(tmp_path):
    write(tmp_path, BASE)
    loaded = load(str(tmp_path), "h1")
    assert loaded.problems == []
    config = loaded.required()
    assert config.cluster == "c1"
    assert config.master_host == "h1"
    assert list(config.hosts) == ["h1", "h2", "h3", "client"]
    assert config.hosts["h1"].source == f"{tmp_path}/lsf.cluster.c1:6"
    assert config.locations.conf_dir == str(tmp_path)
    assert len(config.digest) == 64


def test_a_changed_file_changes_the_digest():
    one, other = check(), check({"lsb.users": BASE["lsb.users"] + "# a word\n"})
    assert one.config is not None and other.config is not None
    assert one.config.digest == check().config.digest != other.config.digest


def test_the_shipped_example_loads():
    loaded = load(str(EXAMPLE), "login01")
    assert [str(p) for p in loaded.problems if p.severity == "error"] == []
    config = loaded.required()
    assert config.master_host == "login01"
    assert config.mapped["scratch"] == ("gpu01", "gpu02")
    assert config.hosts["gpu02"].values == {"fabric": "ib", "cadlic": 2.0}
    assert config.queues["night"].hosts == ("gpu01", "gpu02", "gpu03")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("lsf.conf", "lsf.conf: the file is missing"),
        ("lsb.queues", "lsb.queues: the file is missing"),
        ("lsf.cluster.c1", "lsf.shared:3: cluster c1 has no file lsf.cluster.c1"),
    ],
)
def test_a_missing_file_that_is_needed(name, error):
    assert error in check({name: None}).errors


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("lsb.params", "lsb.params: note: the file is missing: every parameter has its default"),
        ("lsb.hosts", "lsb.hosts: note: the file is missing: every host has as many slots as CPUs"),
    ],
)
def test_a_missing_file_with_defaults_is_noted(name, note):
    checked = check({name: None})
    assert (checked.errors, checked.notes) == ([], [note])


def test_without_lsf_shared_the_only_cluster_file_names_the_cluster():
    text = "Begin Host\nHOSTNAME model type server RESOURCES\nh1 ! ! 1 ()\nEnd Host\n"
    checked = check({"lsf.shared": None, "lsf.cluster.c1": None, "lsf.cluster.other": text})
    assert checked.errors == []
    assert checked.config is not None and checked.config.cluster == "other"
    two = check({"lsf.shared": None, "lsf.cluster.other": text})
    assert two.errors == ["lsf.cluster.c1: there are 2 lsf.cluster files and lsf.shared names no cluster"]
    none = check({"lsf.shared": None, "lsf.cluster.c1": None})
    assert "lsf.cluster.NAME: the file is missing" in none.errors


def test_a_cluster_file_of_another_cluster_is_noted_and_not_read():
    checked = check({"lsf.cluster.c2": "rubbish\n"})
    assert checked.errors == []
    assert checked.notes == ["lsf.cluster.c2: note: not read: the cluster is c1 (lsf.shared)"]


def test_a_file_that_is_not_supported_is_refused_when_it_says_something():
    assert check({"lsb.reasons": "# nothing\n"}).errors == []
    assert check({"lsb.reasons": "\nBegin Reason\nNAME = x\nEnd Reason\n"}).errors == [
        "lsb.reasons:2: section Reason: lsb.reasons is not supported yet"
    ]


def test_all_problems_come_at_once_in_file_order():
    checked = check(
        {
            **with_lines("lsf.conf", "GSCHED_GPU_INTERVAL=soon"),
            **with_lines("lsf.shared", "Begin Nonsense", "End Nonsense"),
            **with_lines("lsb.params", "stray"),
            "lsb.queues": "Begin Queue\nQUEUE_NAME = normal\nPRIORITY = x\nNICE = y\nEnd Queue\n",
            "lsb.hosts": "Begin Host\nHOST_NAME MXJ\nh9 1\nEnd Host\n",
            "lsb.users": "Begin Group\nEnd Group\n",
        }
    )
    assert [error.split(": ")[0] for error in checked.errors] == [
        "lsf.conf:4",
        "lsf.shared:21",
        "lsb.params:4",
        "lsb.queues:3",
        "lsb.queues:4",
        "lsb.hosts:3",
        "lsb.users:1",
    ]


def test_files_that_cannot_be_read_are_named(tmp_path):
    write(tmp_path, BASE)
    (tmp_path / "lsb.params").unlink()
    os.mkfifo(tmp_path / "lsb.params")
    (tmp_path / "lsb.users").unlink()
    (tmp_path / "lsb.users").mkdir()
    (tmp_path / "lsb.hosts").write_bytes(b"Begin Host\n\xff\n")
    (tmp_path / "lsf.cluster.c1.bak").write_text("rubbish")
    problems = [str(problem).removeprefix(f"{tmp_path}/") for problem in load(str(tmp_path), "h1").problems]
    assert problems == [
        "lsb.params: not a regular file",
        "lsb.hosts:2: not UTF-8 text",
        "lsb.users: cannot be read: Is a directory",
    ]


def test_a_folder_that_is_not_there(tmp_path):
    loaded = load(str(tmp_path / "none"), "h1")
    assert "the configuration folder cannot be read: No such file or directory" in str(loaded.problems[0])
    with pytest.raises(ConfigError) as caught:
        loaded.required()
    assert caught.value.problems == loaded.problems


def test_a_machine_outside_the_cluster_is_noted():
    assert check(hostname="elsewhere").notes == [
        "lsf.cluster.c1: note: this machine (elsewhere) is not a host of the cluster"
    ]
    assert check(hostname="client").notes == []


_TEXTS_OF_ALL_KINDS = """
    Begin End Host Queue Parameters Resource ResourceMap Cluster User ClusterAdmins = ( ) () [ ] @ ~ ! - \\ # all others
    default h1 h2 normal RESOURCENAME TYPE INTERVAL Numeric String 60 Y N LOCATION scratch lic tokens HOSTNAME HOST_NAME
    MXJ RESOURCES server model QUEUE_NAME PRIORITY RES_REQ HOSTS USERS RUNLIMIT select[ LSB_SHAREDIR=/x EXINTERVAL 1 -1
    1e999 99999999999999999999 5@[all] [default] ([h1])
"""
_WORDS = st.sampled_from([*_TEXTS_OF_ALL_KINDS.split(), *"\n" * 12])
_TEXT = st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=40).map(" ".join))


@given(st.dictionaries(st.sampled_from([*BASE, "lsb.resources", "lsf.cluster.c2"]), _TEXT, min_size=1, max_size=8))
def test_no_text_in_any_file_raises(changes):
    texts = {**BASE, **changes}
    loaded = check_texts("/conf", texts, "h1")
    assert (loaded.config is None) == any(problem.severity == "error" for problem in loaded.problems)
    for problem in loaded.problems:
        assert "\n" not in str(problem)
        name = problem.path.removeprefix("/conf/")
        assert 0 <= problem.line <= texts.get(name, "").count("\n") + 1


@given(st.binary(max_size=200))
def test_no_bytes_in_a_file_raise(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("conf")
    write(folder, BASE)
    (folder / "lsf.shared").write_bytes(data)
    load(str(folder), "h1")
