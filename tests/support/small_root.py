"""A small root of a file system for containers: some of this host's programs, with the libraries that they need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

PROGRAMS = ("sh", "sleep", "cat", "id", "ls")
_EMPTY = ("tmp", "var/tmp", "etc", "proc", "sys", "dev", "run")


def small_root(folder: Path, with_libraries_of: Iterable[str] = ()) -> Path:
    """Make it at that path, which is returned. `with_libraries_of`: other files whose libraries are to be there."""
    programs = {program: os.path.realpath(shutil.which(program) or f"/bin/{program}") for program in PROGRAMS}
    for program, found in programs.items():
        _copy(found, folder / "bin" / program)
    for found in (*programs.values(), *with_libraries_of):
        listed = subprocess.run(["ldd", found], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            _copy(library, folder / library.lstrip("/"))
    for name in _EMPTY:
        (folder / name).mkdir(parents=True)
    for name in ("passwd", "group"):
        (folder / "etc" / name).touch()
    return folder


def _copy(source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
