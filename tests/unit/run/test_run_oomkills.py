"""Processes that the kernel killed because there was no memory left, as a supervisor finds out about them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gsched.run.processes import oom_kills


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill 0\n", 0),
        ("oom_kill x\n", 0),
        ("", 0),
    ],
)
def test_a_group_counts_its_own(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "memory.events").write_text(text)
    assert oom_kills.of_group((str(tmp_path),)) == count
    assert oom_kills.of_job((str(tmp_path),), 0, 0) == count


def test_the_machines_count_tells_only_of_a_job_that_was_killed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 7\nunevictable 3\n")
    assert oom_kills.of_machine(str(tmp_path / "vmstat")) == 7
    assert oom_kills.of_machine(str(tmp_path / "none")) == 0
    assert oom_kills.of_job((), 1, signal.SIGKILL) == 1
    assert oom_kills.of_job((), 1, signal.SIGTERM) == oom_kills.of_job((), 0, signal.SIGKILL) == 0
