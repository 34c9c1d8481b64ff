"""Who but root can change a file, or put another one in its place.

Every step to it counts: folders, symbolic links and what they lead to. It only looks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from gsched.base.coded_text import AnyText, coded

_MOST_STEPS = 400
"""Of one path; links may lead in a circle."""


def who_may_change(path: str, seen: set[str] | None = None) -> AnyText:
    """Why others than root can change what lies at the absolute path; empty when nobody can, or nothing lies there.

    `seen` holds steps that were found good before; they are not looked at again. Raises OSError when that cannot be
    found out.
    """
    try:
        for step, status in _steps(path):
            if seen is not None and step in seen:
                continue
            problem = problem_of(step, status)
            if problem:
                return problem
            if seen is not None:
                seen.add(step)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return ""


def problem_of(path: str, status: os.stat_result) -> AnyText:
    """As `who_may_change`, for one file, folder or link by itself; `status` is what lstat(2) says of it."""
    if status.st_uid != 0:
        return coded("owner.other", path, status.st_uid)
    if stat.S_ISLNK(status.st_mode):
        return ""
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
        return ""  # what is root's there stays where it is
    if status.st_mode & stat.S_IWOTH:
        return coded("owner.everybody", path, f"{stat.S_IMODE(status.st_mode):04o}")
    if status.st_mode & stat.S_IWGRP and status.st_gid != 0:
        return coded("owner.group", path, status.st_gid, f"{stat.S_IMODE(status.st_mode):04o}")
    return ""


def problem_below(folder: str, *, deep: bool = True, without: frozenset[str] = frozenset()) -> AnyText:
    """The first problem of what lies in the folder, `deep`: at any depth; links are followed. Folders of a name in
    `without` are left out. Raises OSError.
    """
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name in without:
                    continue
                status = entry.stat(follow_symlinks=False)
                is_link = stat.S_ISLNK(status.st_mode)
                problem = who_may_change(entry.path) if is_link else problem_of(entry.path, status)
                if problem:
                    return problem
                if deep and stat.S_ISDIR(status.st_mode):
                    waiting.append(entry.path)
    return ""


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Each file, folder and link on the way, from / on. Raises OSError."""
    waiting = [part for part in reversed(path.split("/")) if part]
    at = "/"
    yield at, os.lstat(at)
    for _ in range(_MOST_STEPS):
        if not waiting:
            return
        part = waiting.pop()
        if part == "..":
            at = os.path.dirname(at)
            continue
        if part == ".":
            continue
        step = f"{at.rstrip('/')}/{part}"
        status = os.lstat(step)
        yield step, status
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(step)
            waiting += [each for each in reversed(target.split("/")) if each]
            at = "/" if target.startswith("/") else at
        else:
            at = step
    raise OSError(f"{path}: leads in a circle")
