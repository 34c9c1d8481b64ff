"""What the probes' tests share: the fake driver library, and programs to run as elims."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parents[3])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.fakenvml.build import NoCompiler, build  # noqa: E402 - the line above makes it importable


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a fake libnvidia-ml.so.1."""
    try:
        return build(tmp_path_factory.mktemp("fakenvml")).parent
    except NoCompiler as problem:
        pytest.skip(str(problem))


class FakeMachine:
    """State file of the fake library; saying something takes effect at the library's next call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def say(self, *lines: str) -> None:
        with self.path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


@pytest.fixture
def machine(fake_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A machine with four GPUs, as far as NVML in child processes can tell."""
    state = FakeMachine(tmp_path / "gpus.state")
    state.say("count=4", "driver=535.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake_library))
    monkeypatch.setenv("GSCHED_FAKE_NVML", str(state.path))
    return state


@pytest.fixture
def elim(tmp_path: Path) -> Callable[..., Path]:
    """Makes an executable sh script in the folder `server` and gives its path."""
    folder = tmp_path / "server"
    folder.mkdir()

    def make(name: str, script: str, *, first_line: str = "#!/bin/sh\n") -> Path:
        path = folder / name
        path.write_text(first_line + script)
        path.chmod(0o755)
        return path

    return make
