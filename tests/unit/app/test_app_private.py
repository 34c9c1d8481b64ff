"""Making a private cluster where it cannot be made."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from gsched.app.private import Home, up
from gsched.base.errors import GschedError


def test_a_cluster_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    home = Home(tmp_path / "cluster", tmp_path / "cluster" / "conf")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))  # as a full disk
    try:
        with pytest.raises(GschedError, match=f"the cluster cannot be made: {home.folder}.*: File too large"):
            up(home, sim_gpus=None, hosts=["h1"], gpu_resources=True, say=print)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not home.exists
