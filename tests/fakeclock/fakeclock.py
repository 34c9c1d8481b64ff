"""Builds the library by which one process has a clock that is wrong; what it does is told at the top of fakeclock.c."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("fakeclock.c")
OFFSET_VARIABLE = "GSCHED_FAKE_CLOCK_S"


class NoCompiler(Exception):
    """There is no C compiler here; the text says so and is meant as the reason of a skipped test."""


def build(target: Path) -> Path:
    """Compile the library, for LD_PRELOAD. Raises NoCompiler, or CalledProcessError when it does not compile."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NoCompiler("no C compiler (gcc or cc) to build a clock that is wrong with")
    flags = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    subprocess.run([compiler, *flags, "-o", str(target), str(SOURCE)], check=True)
    return target
