"""Who is warned before a job's end."""

from __future__ import annotations

import os

import pytest

from gsched.run.processes.process_tree import read_process
from gsched.run.processes.warned_processes import MAIN, STEPS, warned


@pytest.mark.parametrize(("target", "expected"), [("", [1, 2, 3]), (MAIN, [1]), (STEPS, [2])])
def test_who_is_warned(target: str, expected: list[int]) -> None:
    processes = []
    for pid, name in ((1, "bash"), (2, "srun"), (3, "python")):
        process = read_process(os.getpid())
        assert process is not None
        process.pid, process.name = pid, name
        processes.append(process)
    assert [each.pid for each in warned(processes, target, 1)] == expected
