"""Programs that others wrote for a batch system, on the commands of `gsched names`: how tests run them.

Each program has an environment of its own, made by `make test-clients`, and a driver in tests/clients that prints
`OK NAME`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from live_cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "tests" / "clients"


def environment(cluster: Cluster, system: str, home: Path) -> dict[str, str]:
    """What a person has who has sourced profile.SYSTEM: no variable of gsched, and none of its folders on PATH."""
    words = [f". {cluster.folder}/bin/profile.{system} && env -0"]
    told = subprocess.run(
        ["sh", "-c", *words], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    found = dict(line.split("=", 1) for line in told.stdout.split("\0") if line)
    return {**found, "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8", "TZ": "UTC", "USER": "ann"}


def drive(cluster: Cluster, client: str, system: str) -> None:
    """Run the program's driver for this system; fails with all that it said. Skips where it is not installed."""
    python = ROOT / f".venv-{client}" / "bin" / "python"
    if not (python.parent.parent / ".installed").exists():
        pytest.skip(f"needs {client} in an environment of its own: make .venv-{client}/.installed")
    home = cluster.folder / f"{client}-{system}"
    home.mkdir()
    done = subprocess.run(
        [str(python), str(CLIENTS / f"drive_{client}.py"), system],
        env=environment(cluster, system.replace("torque", "pbs"), home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0 and f"OK {client}" in done.stdout.splitlines(), done.stdout + done.stderr
    print(f"\nOK {client} on {system}")
    shutil.rmtree(home, ignore_errors=True)
