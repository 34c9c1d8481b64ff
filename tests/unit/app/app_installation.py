"""gsched as pip would install it, with test commands: for tests of commands as a person runs them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
DOOR_TESTS = ROOT / "tests" / "unit" / "door"
PATIENCE_S = 60.0
LINKED = (
    *("noop", "show", "cat", "mode", "slurp", "stream", "code", "hold", "deaf", "refuse", "fault", "yes"),
    *("gsub", "gjobs", "gkill", "ghist"),
)

# The native launcher's, beside bin/launcher
PYTHON, NATIVE = "python", "native"
KINDS = (PYTHON, pytest.param(NATIVE, marks=pytest.mark.needs_gcc))
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build_launcher() -> ModuleType:
    """launcher/build_launcher.py, which the build of a wheel runs."""
    spec = importlib.util.spec_from_file_location("build_launcher", ROOT / "launcher" / "build_launcher.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write_launcher(file: Path, kind: str, flags: Sequence[str] = ()) -> None:
    """One of the commands, as the build writes it with and without a C compiler; `flags`: of another kind of build.

    Raises CannotCompile.
    """
    if kind == PYTHON:
        shutil.copyfile(ROOT / "bin" / "launcher", file)
    else:
        build = build_launcher()
        with tempfile.TemporaryDirectory(prefix="native") as folder:
            shutil.copyfile(build.compile_launcher(Path(folder), flags or (*build.RELEASE, "-Werror")), file)
    file.chmod(0o755)


# Test commands are put into the registry of every process of this installation that has `site`, door or not.
CUSTOMIZE = f"""
import sys
sys.path.append({str(DOOR_TESTS)!r})
import door_commands
from gsched.cli import registry
registry.COMMANDS.update(door_commands.COMMANDS)
for name in list(registry.COMMANDS):
    if name not in door_commands.COMMANDS:
        del registry.COMMANDS[name]
"""

DOOR = """
import sys
from pathlib import Path
from gsched.door.server import serve
serve(sys.argv[1], configuration=Path(sys.argv[2]))
"""


class Installation:
    """gsched as pip would install it: scripts and interpreter in bin/, the package in site-packages."""

    def __init__(self, folder: Path, kind: str = PYTHON) -> None:
        self.kind = kind
        self.bin = folder / "venv" / "bin"
        self.python = self.bin / "python"
        venv.create(folder / "venv", symlinks=True)
        packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
        (packages / "gsched").symlink_to(ROOT / "gsched")
        # Not as sitecustomize.py: Debian's own comes before it.
        (packages / "commands_of_the_test.py").write_text(CUSTOMIZE)
        (packages / "commands_of_the_test.pth").write_text("import commands_of_the_test\n")
        write_launcher(self.bin / LINKED[0], kind)
        for name in LINKED[1:]:
            shutil.copy(self.bin / LINKED[0], self.bin / name)
        self.configuration = folder / "conf"
        self.configuration.mkdir()
        self.nothing = folder / "empty"
        self.nothing.mkdir()

    def open_door(self, configuration: Path) -> subprocess.Popen[bytes]:
        """A door in a process of its own, ready; its socket is configuration/run/sock."""
        script = self.configuration.parent / "run_door.py"
        script.write_text(DOOR)
        door = subprocess.Popen(
            [self.python, script, configuration / "run" / "sock", configuration], env={"THE": "DOOR"}, cwd="/"
        )
        pointer = configuration / ".door"
        deadline = time.monotonic() + PATIENCE_S
        while not pointer.exists():
            assert door.poll() is None and time.monotonic() < deadline, "the door did not open"
            time.sleep(0.005)
        return door

    def env(self, door: bool = True, **more: str) -> dict[str, str]:
        folder = self.configuration if door else self.nothing
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "GSCHED_ENVDIR": str(folder), "HOME": "/nonexistent", **more}

    def run(
        self, *argv: str, door: bool = True, cwd: str | Path = "/", data: bytes = b"", **env: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        return subprocess.run(
            [self.bin / argv[0], *argv[1:]],
            cwd=cwd,
            env=self.env(door, **env),
            input=data,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, *argv: str, door: bool = True, **options: object) -> subprocess.Popen[bytes]:
        """Start a command with pipes for its streams."""
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            [self.bin / argv[0], *argv[1:]], env=self.env(door), **{**streams, **options}
        )


BOTH = pytest.mark.parametrize("door", [True, False], ids=["door", "in-process"])


def finish(process: subprocess.Popen[bytes], data: bytes | None = None) -> tuple[bytes, bytes, int]:
    out, err = process.communicate(data, timeout=PATIENCE_S)
    return out, err, process.returncode


def seen(result: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    assert (result.stderr, result.returncode) == (b"", 0)
    answer = json.loads(result.stdout)
    assert isinstance(answer, dict)
    return answer
