"""`gsched names lsf`: commands that work from anywhere, and nothing of anybody else's is replaced."""

from __future__ import annotations

import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

import gsched
from gsched.app.installation.lsf_names import PROFILE, write_lsf_names
from gsched.base.errors import BadRequest, Conflict
from gsched.cli.registry import ALIASES, LOCAL_ONLY
from gsched.config.template import NewConfiguration, write_private
from gsched.model.config import Locations


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folders = Locations(conf_dir="", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
    folder = tmp_path / "a conf"
    write_private(
        str(folder),
        NewConfiguration(
            cluster="c1", hosts=["h1"], slots=4, folders=folders, gpu_provider="none", administrators=["ann"]
        ),
    )
    return folder


def put(folder: Path, conf: Path | None = None, **environment: str) -> list[str]:
    said: list[str] = []
    write_lsf_names(str(folder), str(conf) if conf else None, environment, said.append)
    return said


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=False)


def test_every_command_has_its_lsf_name(tmp_path: Path, conf: Path) -> None:
    said = put(tmp_path / "bin", conf)
    names = {*ALIASES, *LOCAL_ONLY, "badmin", "lsadmin", "lsfstartup", "lsfshutdown", "lsf_daemons"}
    assert {path.name for path in (tmp_path / "bin").iterdir()} == {*names, PROFILE}
    assert said[0] == f"{len(names)} commands and profile.lsf are in {tmp_path}/bin, for the cluster c1 of {conf}"
    assert said[1] == f"use them: . {tmp_path}/bin/profile.lsf"
    assert all(os.access(tmp_path / "bin" / name, os.X_OK) for name in names)


@pytest.mark.slow
def test_they_work_in_an_empty_environment_and_speak_of_themselves(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", conf)
    for name in ("bjobs", "lsclusters", "badmin", "lsadmin", "lsfstartup", "lsf_daemons"):
        shown = run(tmp_path / "bin" / name, "-h")
        assert shown.returncode == 0 and name in shown.stdout and "gjobs" not in shown.stdout, shown.stderr
    (tmp_path / "link").symlink_to(tmp_path / "bin" / "bjobs")
    assert run(tmp_path / "link", "-h").stdout.startswith("bjobs: ")
    shown = run(tmp_path / "bin" / "badmin", "showconf", "mbd")
    lines = [line.strip().split(" = ") for line in shown.stdout.splitlines()[1:]]
    assert all(len(line) == 2 for line in lines)
    assert dict(lines)["LSF_CONFDIR"] == str(conf) and dict(lines)["LSB_SHAREDIR"] == "/s"
    assert dict(lines)["LSF_UNIT_FOR_LIMITS"] == "MB"
    wrong = run(tmp_path / "bin" / "badmin", "nosuch")
    assert wrong.returncode == 255 and "badmin" in wrong.stderr and "nosuch" in wrong.stderr
    limits = run(tmp_path / "bin" / "lsadmin", "showconf", "lim")
    assert limits.stdout.splitlines()[1:] == shown.stdout.splitlines()[1:]


def test_a_directory_as_standard_input_is_refused_in_one_line(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", conf)
    (conf / ".master").write_text(f"unix:{tmp_path}/nobody\n")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{tmp_path}/bin/bsub < /"], env={}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (255, "")
    assert (
        done.stderr == "standard input cannot be read as a script: it is closed, or a directory. Job not submitted.\n"
    )


def test_which_cluster_is_meant(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", conf)
    told = run(tmp_path / "bin" / "bjobs")
    assert told.returncode == 255 and str(conf) in told.stderr
    for name in ("LSF_ENVDIR", "GSCHED_ENVDIR"):
        told = run(tmp_path / "bin" / "bjobs", **{name: "/elsewhere", "HOME": "/nowhere"})
        assert "/elsewhere" in told.stderr and str(conf) not in told.stderr
    told = run(tmp_path / "bin" / "bjobs", LSF_ENVDIR="/lsf", GSCHED_ENVDIR="/gsched")
    assert "/lsf" in told.stderr and "/gsched" not in told.stderr
    told = run(tmp_path / "bin" / "badmin", "showconf", "mbd", LSF_ENVDIR="/lsf", GSCHED_ENVDIR="/gsched")
    assert "/lsf/lsf.conf" in told.stderr


def test_the_folder_is_found_as_every_command_finds_it(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", GSCHED_ENVDIR=str(conf))
    assert str(conf) in run(tmp_path / "bin" / "bjobs").stderr
    with pytest.raises(BadRequest, match=r"no lsf\.conf in /nowhere; --conf names"):
        put(tmp_path / "bin", Path("/nowhere"))


def test_the_profile_sets_what_clients_look_for(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", conf)
    asked = f". '{tmp_path}/bin/profile.lsf'; . '{tmp_path}/bin/profile.lsf'; env"
    told = run("/bin/sh", "-c", asked, PATH="/usr/bin:/bin")
    found = dict(line.split("=", 1) for line in told.stdout.splitlines())
    assert found["LSF_ENVDIR"] == str(conf) and found["LSF_SERVERDIR"] == "/e"
    assert found["LSF_BINDIR"] == found["LSF_LIBDIR"] == f"{tmp_path}/bin"
    assert found["PATH"] == f"{tmp_path}/bin:/usr/bin:/bin"


def test_files_of_others_stay(tmp_path: Path, conf: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bkill").write_text("#!/bin/sh\n# mine\n")
    with pytest.raises(Conflict, match=f"{folder}/bkill is there and was not written by"):
        put(folder, conf)
    assert [path.name for path in folder.iterdir()] == ["bkill"]
    (folder / "bkill").unlink()
    put(folder, conf)
    (folder / "bkill").write_bytes((folder / "bjobs").read_bytes())
    put(folder, conf)
    assert run(folder / "bkill", "-h").stdout.startswith("bkill: ")


def test_an_older_configuration_gets_the_layout_and_advice(tmp_path: Path, conf: Path) -> None:
    configdir = conf / "lsbatch" / "c1" / "configdir"
    configdir.unlink()
    kept = [line for line in (conf / "lsf.conf").read_text().splitlines() if not line.startswith(("LSF_C", "LSF_U"))]
    (conf / "lsf.conf").write_text("\n".join(kept) + "\n")
    said = put(tmp_path / "bin", conf)
    assert (configdir / "lsb.params").samefile(conf / "lsb.params")
    assert [line.split(": ")[1] for line in said[:2]] == ["add LSF_UNIT_FOR_LIMITS=MB", f"add LSF_CONFDIR={conf}"]


def test_an_installation_that_is_gone_is_named(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", conf)
    text = (tmp_path / "bin" / "bjobs").read_text()
    python = next(line for line in text.splitlines() if line.startswith("gsched_python="))
    (tmp_path / "bin" / "bjobs").write_text(text.replace(python, "gsched_python=/gone/python"))
    told = run(tmp_path / "bin" / "bjobs")
    assert told.returncode == 255 and told.stderr.startswith("bjobs: there is no /gone/python any more")


def test_an_interpreter_without_gsched_is_named(tmp_path: Path, conf: Path) -> None:
    put(tmp_path / "bin", conf)
    venv.create(tmp_path / "venv", with_pip=False)
    for name in ("bjobs", "badmin"):
        path = tmp_path / "bin" / name
        text = path.read_text().replace(str(Path(gsched.__file__).parent.parent), "/gone/site-packages")
        path.write_text(re.sub("(?m)^gsched_python=.*", f"gsched_python={tmp_path}/venv/bin/python", text))
        told = run(path)
        assert told.returncode == 255 and "Traceback" not in told.stderr
        assert told.stderr.startswith(f"{name}: gsched is not installed for {tmp_path}/venv/bin/python any more")
