"""What lies in a folder of archives beside what the manifest names. It must never delete or replace an archived file:
what an older manifest does not know may be all that is left of jobs.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path

from gsched.base.errors import BadRequest, Conflict
from gsched.master.archive.archive_files import half_of, publish, rename_new
from gsched.master.archive.archive_manifest import MANIFEST, Manifest, Part

_ARCHIVED = re.compile(r"(jobs|events|contents)-.*\.gz")
_MOST_SHOWN = 3


def find_planned(folder: Path, planned: Part, say: Callable[[str], None]) -> bool:
    """Whether all files of the part are there now. Where one is lost for good the others get names that are in
    nobody's way. Raises BadRequest.
    """
    names = [file.name for file in planned.files]
    try:
        for name in names:
            _finish(folder, name)
        if all(os.path.lexists(folder / name) for name in names):
            return True
        for name in names:
            if os.path.lexists(folder / name):
                say(f"{name}: not all files of its part are there: it is {_put_aside(folder, name)} now")
    except OSError as problem:
        raise BadRequest(f"{problem.filename or folder}: {problem.strerror}") from None
    return False


def _finish(folder: Path, name: str) -> None:
    half = half_of(folder, name)
    if not os.path.lexists(half):
        return
    if not os.path.lexists(folder / name):
        publish(folder, name)
    elif os.path.samefile(half, folder / name):
        os.unlink(half)  # it has both names


def _put_aside(folder: Path, name: str) -> str:
    for number in itertools.count(1):
        aside = f"aside-{number}-{name}"
        with contextlib.suppress(FileExistsError):
            rename_new(folder / name, folder / aside)
            return aside
    raise AssertionError("numbers have no end")


def refuse_strangers(folder: Path, manifest: Manifest) -> None:
    """Raises Conflict for files of an archive that the manifest does not name: it was lost, or is not the newest."""
    named = {file.name for part in manifest.parts for file in part.files}
    try:
        found = sorted(name for name in os.listdir(folder) if _ARCHIVED.fullmatch(name) and name not in named)
    except OSError as problem:
        raise BadRequest(f"{folder}: {problem.strerror}") from None
    if found:
        shown = ", ".join(found[:_MOST_SHOWN]) + (
            f" and {len(found) - _MOST_SHOWN} more" if found[_MOST_SHOWN:] else ""
        )
        raise Conflict(
            f"{folder}: {MANIFEST} does not name {shown}, which may be all that is left of jobs: put the newest "
            f"{MANIFEST} back, or choose another folder"
        )
