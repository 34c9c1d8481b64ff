"""What root's agent runs and reads: its configuration, certificates, orders, its interpreter, the packages it imports.

Who can change any of that is root on the host, so in a shared cluster the agent looks at its start, as it does at its
certificates. Elims are looked at when they are started. Must never look anything over for an agent that is not root's:
it can do no more than its user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gsched.base.coded_text import AnyText
from gsched.base.errors import GschedError
from gsched.base.machine.root_owned import problem_below, who_may_change

ATTEMPTS = "attempts"
"""The folder of orders in that of a spool."""
_MAPS = "/proc/self/maps"
_CONFIGURATION = ("lsf.", "lsb.")
_OTHERS = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib"})
"""Folders below Python's own library that are no part of it, or not imported."""


class Changeable(GschedError):
    """Others than root can change what root's agent would run or read: the line names the file."""

    status = "FAILED_PRECONDITION"


def check(conf_dir: str, others: Iterable[str] = ()) -> None:
    """Raise Changeable for the first thing that others than root can change, GschedError for what cannot be seen.

    `others`: absolute paths of what is read besides: certificates, and the files that the configuration names with
    #INCLUDE, wherever they lie.
    """
    _check(conf_dir, lambda: _first_problem(conf_dir, others))


def check_spool(spool: str) -> None:
    """As `check`, for the folder of orders: who can change an order says what root executes."""
    _check(spool, lambda: _problem_of_spool(f"{spool}/{ATTEMPTS}"))


def _check(what: str, look: Callable[[], AnyText]) -> None:
    try:
        problem = look()
    except OSError as error:
        raise GschedError(f"{error.filename or what}: cannot be looked at: {error.strerror or error}") from None
    if problem:
        raise Changeable(f"{problem}; what root's agent runs and reads must be for root alone to change")


def _problem_of_spool(attempts: str) -> AnyText:
    problem = who_may_change(attempts)
    if problem or not os.path.isdir(attempts):
        return problem
    return problem_below(attempts, deep=False)  # what lies in an attempt's folder may be its user's: no order does


def _first_problem(conf_dir: str, read: Iterable[str]) -> AnyText:
    seen: set[str] = set()
    folders = [os.path.abspath(folder) for folder in sys.path if os.path.isdir(folder)]
    library, *imported = packages()
    for path in (*_configuration(conf_dir), *read, *_interpreter(), *folders, library, *imported):
        problem = who_may_change(path, seen)
        if problem:
            return problem
    for folder in folders:  # modules and .pth files; whole packages only if they are used
        problem = problem_below(folder, deep=False)
        if problem:
            return problem
    for folder in (library, *imported):
        problem = problem_below(folder, without=_OTHERS if folder == library else frozenset())
        if problem:
            return problem
    return ""


def _configuration(conf_dir: str) -> Iterator[str]:
    yield conf_dir
    for name in sorted(os.listdir(conf_dir)):
        if name.startswith(_CONFIGURATION):
            yield f"{conf_dir}/{name}"


def _interpreter() -> Iterator[str]:
    """The program, what tells it where its packages are, and the libraries in its memory."""
    yield sys.executable
    yield f"{sys.prefix}/pyvenv.cfg"
    lines = Path(_MAPS).read_text(errors="surrogateescape").splitlines()
    paths = {fields[5] for line in lines if len(fields := line.split(None, 5)) == 6}
    yield from sorted(path for path in paths if path.startswith("/") and os.path.lexists(path))


def packages() -> list[str]:
    """Folders of Python's own library, then of the packages that this process has imported from elsewhere."""
    library = os.path.dirname(os.path.abspath(os.__file__))
    found: set[str] = set()
    for name in {name.partition(".")[0] for name in sys.modules}:
        paths = getattr(sys.modules.get(name), "__path__", None) or ()
        found.update(os.path.abspath(path) for path in paths if os.path.isdir(path))
    own = {folder for folder in found if os.path.dirname(folder) == library}
    return [library, *sorted(found - own)]
