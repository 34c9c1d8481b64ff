"""Which command lines begin with the launcher, and what its path is put in the place of."""

from __future__ import annotations

import pytest

from gsched.dialect.launching.launcher_names import bare_launcher, is_launcher, with_path


@pytest.mark.parametrize(
    ("command", "bare", "changed"),
    [
        ("glaunch --torch python a.py", "glaunch", "/b/g --torch python a.py"),
        ("glaunch", "glaunch", "/b/g"),
        (" exec glaunch x", "glaunch", " exec /b/g x"),
        ("blaunch -z 'a b' x", "blaunch", "/b/g -z 'a b' x"),
        ("/opt/g/bin/glaunch x", "", ""),
        ("'/opt/a b/glaunch' x", "", ""),
        ("'glaunch' x", "", ""),
    ],
)
def test_the_launcher(command: str, bare: str, changed: str) -> None:
    assert bare_launcher(command) == bare
    assert is_launcher(command)
    assert not bare or with_path(command, "/b/g") == changed


@pytest.mark.parametrize("command", ["", "glauncher x", "echo glaunch", "python glaunch.py", "glaunch-x", "glaunch; x"])
def test_other_commands(command: str) -> None:
    assert not is_launcher(command) and bare_launcher(command) == "" and with_path(command, "/b/g") == command
