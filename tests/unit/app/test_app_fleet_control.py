"""Starting units here and elsewhere: with a stand-in for systemctl, and for ssh."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from gsched.app.clusters import fleet_control
from gsched.app.commands import lsf_startup
from gsched.model.config import ClusterConfig, Locations, Network
from gsched.model.hosts.host import HostConfig
from gsched.model.queues.queue import Queue

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


def test_doors_are_stopped_as_they_are_started(config: ClusterConfig, tmp_path: Path) -> None:
    problems = fleet_control.stop_doors(config)
    assert called(tmp_path) == [
        "desk systemctl stop gsched-door.service",
        "h2 systemctl stop gsched-door.service",
        "here stop gsched-door.service",
    ]
    assert problems == {"h1": "", "h2": "", "desk": "", "far": "no route to far"}


def test_all_daemons_go_down_and_the_doors_last(
    config: ClusterConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_all(client: object, config: ClusterConfig) -> dict[str, str]:
        assert not (tmp_path / "log").exists()
        return {"h1": "", "h2": ""}

    monkeypatch.setattr(lsf_startup, "_home", lambda: SimpleNamespace(conf=""))
    monkeypatch.setattr(lsf_startup, "config_of", lambda home: config)
    monkeypatch.setattr(lsf_startup, "connect", lambda envdir: contextlib.nullcontext())
    monkeypatch.setattr(lsf_startup, "stop_all", stop_all)
    config = msgspec.structs.replace(config, network=Network(port=1))
    done = CliRunner().invoke(lsf_startup.lsfshutdown, ["-f"])
    assert done.exit_code == 255
    assert done.output.splitlines() == [
        "the master on h1 ends",
        "h1: stopped",
        "h2: stopped",
        "far: its door goes on: no route to far",
    ]
    assert len(called(tmp_path)) == 3


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
