"""Months of history become files: what ghist and gacct say of the jobs is the same before and after, byte for byte."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from archived_past import QUESTIONS, Past
from live_cluster import Cluster as Live

import gsched


@pytest.fixture(scope="module")
def past(module_cluster: Callable[..., Live], tmp_path_factory: pytest.TempPathFactory) -> Past:
    return Past(module_cluster("--sim-gpus", "2:exclusive_process"), tmp_path_factory.mktemp("archives"))


def test_commands_answer_from_files_as_from_the_store(past: Past) -> None:
    live, folder = past.live, str(past.archive)
    before = past.answers()
    assert [code for code, _, _ in before] == [0] * len(QUESTIONS)
    said = live.run("gadmin", "history", "archive", "--keep", past.before, folder).stdout
    assert said.endswith(": 7 jobs, {} events, as in the store\n".format(said.split(", ")[1].split()[0])), said
    assert past.answers("--archive", folder) == before


def test_a_program_reads_files_as_it_reads_the_store(past: Past) -> None:
    past.live.run("gadmin", "history", "archive", "--keep", past.before, str(past.archive))
    with gsched.Cluster(past.live.conf) as cluster:
        stored = list(cluster.history())
        assert list(cluster.history(archive=past.archive)) == stored
    assert list(gsched.history(archive=past.archive)) == stored
    assert [view.state for view in gsched.history([past.archive], ids=[past.failed])] == ["EXIT"]
    with pytest.raises(gsched.GschedError, match="there is no such folder"):
        list(gsched.history(past.archive / "none"))


@pytest.mark.nightly
def test_damage_is_named_by_file_and_line(past: Past, tmp_path: Path) -> None:
    live = past.live
    live.run("gadmin", "history", "archive", "--keep", past.before, str(past.archive))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in past.archive.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    (jobs,) = copy.glob("jobs-*.jsonl.gz")
    lines = gzip.decompress(jobs.read_bytes()).splitlines()
    jobs.write_bytes(gzip.compress(b"\n".join([lines[0], b"{", *lines[2:], b""])))
    done = past.asked("ghist", "-a", "--archive", str(copy))
    assert (done.returncode, done.stdout) == (65, "") and done.stderr.startswith(f"{jobs}:2: "), done.stderr
    jobs.write_bytes(gzip.compress(b"\n".join([*lines, b""]), 1))
    done = past.asked("gacct", "--archive", str(copy))
    assert done.returncode == 65 and done.stderr.startswith(f"{jobs}: its SHA-256 is "), done.stderr
    done = past.asked("ghist", "--archive", str(tmp_path / "none"))
    assert (done.returncode, done.stderr) == (255, f"{tmp_path}/none: there is no such folder\n")
