"""What the build of a wheel makes of the commands, with a C compiler and without."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_installation import ROOT, build_launcher

from gsched import command_table
from gsched.app.installation.name_scripts import NATIVE_NAME
from gsched.run import attempt_files
from gsched.run.fork_server_client import WAITER_NAME

SOURCES = (
    *("bin/launcher", "bin/gsched-pam"),
    *(f"launcher/{name}" for name in ("build_launcher.py", "launcher.h", *build_launcher().SOURCES)),
    *(f"launcher/{name}" for name in build_launcher().WAITER_SOURCES),
    *("gsched/command_table.py", "gsched/app/launch.py", "gsched/app/launch_streams.py"),
    "gsched/run/attempt_files.py",
)
NAMES = {"gsched-pam", *(name for name, *_ in command_table.COMMANDS)}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the build of the commands reads, in a folder with a blank."""
    plugin = SimpleNamespace(BuildHookInterface=list)  # hatchling is there only while a wheel is built
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", plugin)
    for name in ("CC", "GSCHED_NO_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "a source"
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(source: Path) -> tuple[dict[str, str], bool]:
    """The files by their paths, each with its name in the wheel, and whether they are programs."""
    hook: dict[str, Any] = runpy.run_path(str(ROOT / "hatch_build.py"))
    mapping, is_native = hook["write_scripts"](source)
    assert all(os.access(path, os.X_OK) for path in mapping)
    return mapping, is_native


def is_program(path: str) -> bool:
    return Path(path).read_bytes().startswith(b"\x7fELF")


@pytest.mark.needs_gcc
def test_with_a_compiler_each_command_is_a_program(source: Path) -> None:
    mapping, is_native = build(source)
    assert is_native
    assert set(mapping.values()) == NAMES | {NATIVE_NAME, WAITER_NAME}
    assert {name for path, name in mapping.items() if not is_program(path)} == {"gsched-pam"}


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GSCHED_NO_NATIVE": "1"}, ""),
        ({"PATH": "/nonexistent"}, "there is no C compiler (cc)"),
        ({"CC": "/bin/false -m64"}, "/bin/false fails"),
        ({"CC": "/nonexistent/cc"}, "No such file or directory"),
    ],
)
def test_without_one_each_command_is_the_script(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    variables: dict[str, str],
    said: str,
) -> None:
    (source / "build" / "scripts").mkdir(parents=True)
    for name in (NATIVE_NAME, WAITER_NAME):
        (source / "build" / "scripts" / name).write_text("of an earlier build")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    mapping, is_native = build(source)
    assert not is_native
    assert set(mapping.values()) == NAMES
    script = (ROOT / "bin" / "launcher").read_bytes()
    assert all(Path(path).read_bytes() == script for path, name in mapping.items() if name != "gsched-pam")
    assert not any((source / "build" / "scripts" / name).exists() for name in (NATIVE_NAME, WAITER_NAME))
    printed = capfd.readouterr().err
    assert said in printed and bool(printed) is bool(said)


def test_the_program_has_its_values_from_the_python_sources() -> None:
    """Nothing of the protocol stands in the C source itself."""
    header = build_launcher().header()
    for name, mode in (("bsub", "SUBMITS"), ("qstat", "READS"), ("srun", "ATTENDS"), ("elim.gpu", "IS_ELIM")):
        assert f'{{"{name}", MODE_{mode}}}' in header
    assert "#define MAX_REQUEST 4194304\n" in header and "#define REQUEST 'R'\n" in header
    assert f'#define ANY_NAME "{NATIVE_NAME}"' in header


def test_the_program_has_the_script_as_it_is_but_for_what_it_says_itself() -> None:
    text = (ROOT / "bin" / "launcher").read_text()
    script = build_launcher().script().decode()
    assert script == "\n" + text.replace("\ngsched_door=\n", "\n")
    done = subprocess.run(["/bin/bash", "-n", "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_program_that_waits_has_its_values_from_the_python_sources() -> None:
    header = build_launcher().waiter_header()
    assert f'#define WAITER "{WAITER_NAME}"\n' in header and f'#define WAITED "{attempt_files.WAITED}"\n' in header


@pytest.mark.needs_gcc
def test_without_a_static_library_the_program_that_waits_is_linked_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = build_launcher()
    monkeypatch.setattr(module, "STATIC", ("-static", "-lnonexistent"))
    assert subprocess.run([module.compile_waiter(tmp_path)], capture_output=True, check=False).returncode == 2


@pytest.mark.needs_gcc
def test_the_program_asks_for_a_name_where_it_has_none(tmp_path: Path) -> None:
    module = build_launcher()
    program = tmp_path / NATIVE_NAME
    shutil.copy(module.compile_launcher(tmp_path), program)
    for words in ([], [""], ["/"]):
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (255, "", 1)
        assert done.stderr.startswith(f"usage: {NATIVE_NAME} NAME")
