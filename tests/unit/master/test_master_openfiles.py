"""A thousand sessions are a thousand open files."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging, resource, sys
from gsched.master.openfiles import allow_sessions
logging.basicConfig(stream=sys.stdout, format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))
allow_sessions(1000)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "said"),
    [
        (256, 2048, ["(2048, 2048)"]),
        (2000, 2000, ["(2000, 2000)"]),
        (
            128,
            1024,
            [
                "this process may open 1024 files (ulimit -Hn), and 1000 hosts need 1512: "
                "some agents will not get through",
                "(1024, 1024)",
            ],
        ),
    ],
)
def test_the_limit_of_open_files_is_raised(soft: int, hard: int, said: list[str]) -> None:
    text = PROGRAM.replace("SOFT", str(soft)).replace("HARD", str(hard))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (said, "")
