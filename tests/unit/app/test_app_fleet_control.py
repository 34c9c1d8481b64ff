"""Starting units here and elsewhere: with a stand-in for systemctl, and for ssh."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.app import fleet_control
from gsched.model.config import ClusterConfig, Locations
from gsched.model.host import HostConfig
from gsched.model.queue import Queue

SYSTEMCTL = """#!/bin/sh
echo "$(hostname_of_call) $*" >> {log}
case $* in *gsched-agent*) test -z "$BROKEN" || {{ echo "Unit gsched-agent.service not found." >&2; exit 5; }} ;; esac
"""
RSH = """#!/bin/sh
host=$1; shift
test $host != far || {{ echo "no route to $host" >&2; exit 255; }}
echo "$host $*" >> {log}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterConfig:
    programs = {"systemctl": SYSTEMCTL.replace("$(hostname_of_call)", "here"), "rsh": RSH}
    for name, text in programs.items():
        (tmp_path / name).write_text(text.format(log=tmp_path / "log"))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(fleet_control, "host_name", lambda: "h1")
    (tmp_path / "lsf.conf").write_text(f"LSF_RSH={tmp_path}/rsh\n")
    return ClusterConfig(
        cluster="c",
        master_host="h1",
        hosts={name: HostConfig(name=name, server=name != "desk") for name in ("h1", "h2", "desk", "far")},
        queues={"normal": Queue(name="normal", priority=30)},
        locations=Locations(conf_dir=str(tmp_path), state_dir="", log_dir="", server_dir="", run_dir="", spool_dir=""),
    )


def called(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "log").read_text().splitlines())


def test_everything_is_started_where_it_belongs(config: ClusterConfig, tmp_path: Path) -> None:
    problems = fleet_control.start_all(config)
    assert called(tmp_path) == [
        "desk systemctl start gsched-door.service",
        "h2 systemctl start gsched-door.service gsched-agent.service",
        "here start gsched-master.service gsched-door.service gsched-agent.service",
    ]
    assert problems == {"h1": "", "h2": "", "desk": "", "far": "no route to far"}
    assert (tmp_path / "log").read_text().startswith("here "), "the master comes first"


def test_agents_alone(config: ClusterConfig, tmp_path: Path) -> None:
    assert fleet_control.start_agents(config, ["h2", "h1"]) == {"h2": "", "h1": ""}
    assert called(tmp_path) == ["h2 systemctl start gsched-agent.service", "here start gsched-agent.service"]


def test_a_host_without_units(config: ClusterConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "1")
    (problem,) = fleet_control.start_agents(config, ["h1"]).values()
    assert problem == "Unit gsched-agent.service not found. (gadmin install-units makes the units)"


def test_no_way_to_other_hosts(config: ClusterConfig, tmp_path: Path) -> None:
    (tmp_path / "lsf.conf").write_text("LSF_RSH=/no/such/rsh -q\n")
    assert fleet_control.start_agents(config, ["h2"]) == {"h2": "/no/such/rsh: there is no such program here"}
