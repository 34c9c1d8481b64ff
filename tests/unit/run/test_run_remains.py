"""Which attempt something comes from that outlived it."""

from __future__ import annotations

import os
import subprocess

import pytest
from run_host import CLUSTER

from gsched.run.fence import cgroup_files
from gsched.run.fence.cgroup_root import tag_of
from gsched.run.processes.attempt_marks import left_by
from tests.support.process_start import await_environment


def test_a_job_that_a_job_submitted_is_not_taken_for_it(on_host):
    async def scenario(host):
        outer = {"GSCHED_ATTEMPT_ID": f"{CLUSTER}/1.1"}
        await host.run("printenv GSCHED_ATTEMPT_ID", 2, environment={"PATH": os.environ["PATH"], **outer})
        assert host.output(2) == f"{CLUSTER}/2.1\n"

    on_host(scenario)


def test_what_an_attempt_has_left_is_known_by_its_mark():
    def sleeper(mark: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={"GSCHED_ATTEMPT_ID": mark, "PATH": os.environ["PATH"]})

    marks = [f"{CLUSTER}/7.2", f"other-{CLUSTER}/7.2", f"{CLUSTER}/7.2.1", ""]
    children = [sleeper(mark) for mark in marks]
    try:
        pids = [child.pid for child in children]
        for pid in pids:
            await_environment(pid)
        assert left_by([*pids, 1, 999999999], CLUSTER, {}.get) == {pids[0]: "7.2"}
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.needs_root
def test_nobody_puts_a_process_of_his_own_into_the_attempt_of_another_user():
    """A stranger was taken for a job's own process: unseen on its GPU, and its memory was charged to the job."""
    stranger, own = 54321, 54322

    def sleeper(uid: int, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["sleep", "60"], env={"GSCHED_ATTEMPT_ID": f"{CLUSTER}/{name}"}, user=uid)

    children = [sleeper(stranger, "7.2"), sleeper(own, "7.2"), sleeper(stranger, "8.1")]
    try:
        pids = [child.pid for child in children]
        for pid in pids:
            await_environment(pid)
        assert left_by(pids, CLUSTER, {"7.2": own}.get) == {pids[1]: "7.2"}, "of 8.1 nobody knows whose it was"
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("0::/gsched/{tag}/17.1", "17.1"),
        ("5:devices:/docker/x/gsched/{tag}/17.3/inner", "17.3"),
        ("5:devices:/docker/y/gsched/{tag}/17.3/inner", None),
        ("0::/user.slice/gsched/{tag}/17.1", None),
        ("0::/gsched/{other}/17.1", None),
        ("0::/user.slice", None),
    ],
)
def test_what_an_attempt_has_left_is_known_by_its_control_group(monkeypatch, line, name):
    """In a container whose hierarchy of devices begins at a group of its own."""
    text = "1:name=systemd:/\n" + line.format(tag=tag_of(CLUSTER), other=tag_of("other")) + "\n"
    mounts = "1 1 0:1 / /c rw - cgroup2 cgroup2 rw\n2 1 0:2 /docker/x /d rw - cgroup cgroup rw,devices\n"
    monkeypatch.setattr(cgroup_files, "read", lambda path: mounts if path.endswith("mountinfo") else text)
    monkeypatch.setattr(cgroup_files, "_known_tops", {})
    assert left_by([999999999], CLUSTER, {}.get) == ({999999999: name} if name else {})
