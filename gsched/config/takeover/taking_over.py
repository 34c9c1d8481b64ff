"""From the files of an installation of LSF to those of a cluster of gsched: what its readers refuse is left out, until
they refuse nothing.

The readers are asked again and again, for each time of the week at which an `#if time(...)` comes to something else. It
reads and writes no file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from gsched.base.errors import ConfigError, Problem
from gsched.config.config_folder import ConfigFolder
from gsched.config.configuration import check_texts
from gsched.config.grammar.findings import Findings
from gsched.config.takeover.edited_file import EditedFile
from gsched.config.takeover.installation import LsfInstallation
from gsched.config.takeover.own_settings import Folders, add_default_queue, set_own
from gsched.model.queues.window import DAY_MIN, WEEK_MIN, Window, is_open

_READ_ORDER = ("lsf.conf", "lsf.shared", "lsf.cluster.", "lsb.params", "lsb.users", "lsb.hosts", "lsb.applications")
"""The rest is read after these. One file is mended at a time, in this order: later ones may be right once it is."""
MOST_TIMES = 200
"""Times of the week for which the files are checked."""

Windows = tuple[Window, ...]


@dataclass(slots=True)
class Takeover:
    """The new files, and what is known of their lines."""

    cluster: str
    conf_dir: str
    files: dict[str, EditedFile]
    others: list[str]
    latin: list[str]
    notes: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """(name of the file, line of LSF's) -> what the readers note; line 0: of the whole file."""
    about_files: list[str] = field(default_factory=list)
    """Notes about files that are not there."""

    def texts(self) -> dict[str, str]:
        """Name below the new folder -> text."""
        return {name: file.written()[0] for name, file in self.files.items()}

    def modes(self) -> dict[str, int]:
        """Name below the new folder -> mode of LSF's file."""
        return {name: file.mode for name, file in self.files.items()}


def take_over(found: LsfInstallation, conf_dir: str, folders: Folders) -> Takeover:
    """What the files of `conf_dir` are to be. `found` is changed. `conf_dir` is absolute.

    Raises ConfigError for what keeps the whole from being taken over.
    """
    new = Takeover(found.cluster, conf_dir, found.files, found.others, found.latin)
    set_own(found.files, found.cluster, conf_dir, folders)
    minutes: list[int] = []
    conditions: dict[Windows, None] = {}
    while left := _times(conditions, minutes)[: MOST_TIMES - len(minutes)]:
        for minute in left:
            _mend(new, minute)
            conditions.update(dict.fromkeys(_conditions(new, minute)))
        minutes += left
    for minute in minutes:
        _note(new, minute)
    return new


def _mend(new: Takeover, minute: int) -> None:
    """Leave out what is refused at that time."""
    while True:
        add_default_queue(new.files)
        problems = _check(new, minute)
        errors = [problem for problem in problems if problem.severity == "error"]
        if not errors:
            return
        # Lines move when something is left out: where each problem stands is found out before.
        places = [(each, *_origin(new, each)) for each in errors]
        first = min(_rank(new, each) for each in errors)
        if not _leave_out([place for place in places if _rank(new, place[0]) == first]) and not _leave_out(places):
            raise ConfigError([Problem(file.source if file else each.path, at, each.text) for each, file, at in places])


def _check(new: Takeover, minute: int) -> list[Problem]:
    return check_texts(new.conf_dir, new.texts(), minute=minute).problems


def _rank(new: Takeover, problem: Problem) -> int:
    name = os.path.relpath(problem.path, new.conf_dir)
    return next((rank for rank, start in enumerate(_READ_ORDER) if name.startswith(start)), len(_READ_ORDER))


def _origin(new: Takeover, problem: Problem) -> tuple[EditedFile | None, int]:
    """The file, and the line of LSF's."""
    file = new.files.get(os.path.relpath(problem.path, new.conf_dir))
    if file is None or not problem.line:
        return file, 0
    _, origins = file.written()
    return file, origins[problem.line - 1] if problem.line <= len(origins) else 0


def _leave_out(places: Iterable[tuple[Problem, EditedFile | None, int]]) -> bool:
    """Whether there was something left to leave out."""
    done = False
    for problem, file, line in places:
        if file is not None and line:
            done |= file.leave_out(line, problem.about, problem.text)
    return done


def _note(new: Takeover, minute: int) -> None:
    for problem in _check(new, minute):
        file, line = _origin(new, problem)
        if file is None:
            text = f"{os.path.relpath(problem.path, new.conf_dir)}: {problem.text}"
            texts = new.about_files
        else:
            text, texts = problem.text, new.notes.setdefault((file.name, line), [])
        if text not in texts:
            texts.append(text)


def _times(conditions: Iterable[Windows], done: Iterable[int]) -> list[int]:
    """A minute of the week for each of the ways in which the conditions can come out that was not tried yet."""
    edges = {0}
    for windows in conditions:
        for window in windows:
            days = range(1) if window.weekly else range(7)
            edges.update((edge + day * DAY_MIN) % WEEK_MIN for day in days for edge in (window.start, window.end))
    tried = {_outcome(conditions, minute) for minute in done}
    found: dict[tuple[bool, ...], int] = {}
    for minute in sorted(edges):
        found.setdefault(_outcome(conditions, minute), minute)
    return [minute for outcome, minute in found.items() if outcome not in tried]


def _outcome(conditions: Iterable[Windows], minute: int) -> tuple[bool, ...]:
    return tuple(is_open(windows, minute) for windows in conditions)


def _conditions(new: Takeover, minute: int) -> list[Windows]:
    """What the #if of the files depend on, as far as they are read at that time."""
    texts: dict[str, bytes | None] = {name: text.encode() for name, text in new.texts().items()}
    folder = ConfigFolder(new.conf_dir, texts, Findings(), minute, reads=False)
    for name in texts:
        if name != "lsf.conf" and "/" not in name:
            folder.sections(name)
    return [windows for windows, _ in folder.directives.conditions]
