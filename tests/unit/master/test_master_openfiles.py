"""A thousand sessions are a thousand open files."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging, resource, sys
from gsched.master.open_files import allow_sessions
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
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.splitlines(), done.stderr) == (said, "")


@pytest.mark.parametrize(("hard", "hosts", "most"), [(20_000, 1000, 5024), (2048, 1000, 1792), (1024, 1000, 1000)])
def test_connections_leave_files_for_the_store(hard: int, hosts: int, most: int) -> None:
    text = PROGRAM.replace("SOFT", "128").replace("HARD", str(hard)).replace("allow_sessions(1000)", "")
    text = text.replace("import allow_sessions", "import most_connections") + f"print(most_connections({hosts}))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.splitlines()[-1], done.stderr) == (str(most), "")
