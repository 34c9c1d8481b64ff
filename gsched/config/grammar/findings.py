"""What a check of the configuration found: places, a bounded collection of problems, and the lines people read.

It must never raise for the contents of a file, and never let a file's bytes reach a terminal unescaped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import msgspec

from gsched.base.errors import Problem

MAX_PROBLEMS_PER_FILE = 200
_SHOWN_CHARACTERS = 60
_COMPARED_NAMES = 2000


class SourcePlace(msgspec.Struct, frozen=True):
    """Where something stands: the file as named to the loader and a 1-based line, 0 for the file as a whole."""

    path: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


class Findings:
    """Collects problems of all files; per file at most MAX_PROBLEMS_PER_FILE, then one line that says so."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._count: dict[str, int] = {}

    def error(self, at: SourcePlace, text: str, *about: str) -> None:
        """Something because of which the configuration is refused. `about` as Problem has it."""
        self._add(at, text, "error", about)

    def note(self, at: SourcePlace, text: str) -> None:
        """Something worth knowing that refuses nothing."""
        self._add(at, text, "note")

    @property
    def has_errors(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)

    def is_full(self, path: str) -> bool:
        """Whether nothing more is listed for this file: reading on would only take time."""
        return self._count.get(path, 0) > MAX_PROBLEMS_PER_FILE

    def sorted(self, paths: Sequence[str]) -> list[Problem]:
        """All problems in the order of `paths`, then by line, then as found; other files come last."""
        order = {path: number for number, path in enumerate(paths)}
        return sorted(self.problems, key=lambda problem: (order.get(problem.path, len(order)), problem.line))

    def _add(self, at: SourcePlace, text: str, severity: str, about: tuple[str, ...] = ()) -> None:
        count = self._count[at.path] = self._count.get(at.path, 0) + 1
        if count <= MAX_PROBLEMS_PER_FILE:
            self.problems.append(Problem(at.path, at.line, text, severity, about))
        elif count == MAX_PROBLEMS_PER_FILE + 1:
            # An error whatever was dropped: what is not listed must not be taken for harmless.
            text = f"more than {MAX_PROBLEMS_PER_FILE} problems in this file; the rest is not listed"
            self.problems.append(Problem(at.path, at.line, text))


def show(text: str) -> str:
    """`text` fit for one line of a terminal: unprintable characters as `?`, at most 60 characters."""
    clean = "".join(character if character.isprintable() else "?" for character in text[: _SHOWN_CHARACTERS + 1])
    return clean if len(text) <= _SHOWN_CHARACTERS else clean[:_SHOWN_CHARACTERS] + "..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` when one of `known` is near to `name`, else (or among too many names) the empty text."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    if len(by_fold) > _COMPARED_NAMES:
        return ""
    near = difflib.get_close_matches(name[:_SHOWN_CHARACTERS].casefold(), list(by_fold), n=1, cutoff=0.7)
    return f"; did you mean {by_fold[near[0]]}?" if near else ""
