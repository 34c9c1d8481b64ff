"""What the probes' tests share: the fake driver library, and programs to run as elims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


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
