"""What becomes of the process that is to execute a job's program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXECUTE = """
import os, sys
sys.path.append(sys.argv[1])
from gsched.run.supervisor.job_process import execute
class Closed:
    def take(self):
        sys.path.clear(); sys.path_importer_cache.clear(); sys.meta_path.clear()
os._exit(execute([sys.argv[2:]], {"PATH": "/usr/bin:/bin"}, {}, Closed()))
"""


def execute(*words: str) -> tuple[int, str, str]:
    """Exit code, output and error of a program that is executed once no module can be imported any more."""
    argv = [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", EXECUTE, str(ROOT), *words]
    done = subprocess.run(argv, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_user_who_cannot_read_the_interpreter_runs_programs_all_the_same() -> None:
    assert execute("sh", "-c", "echo it runs") == (0, "it runs\n", "")


def test_what_cannot_be_executed_is_told_in_one_line() -> None:
    assert execute("no-such-program") == (127, "", "gsched: no-such-program: No such file or directory\n")
