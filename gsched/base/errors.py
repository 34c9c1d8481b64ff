"""Errors that reach a person: each knows its text, the exit code of a command, and the gRPC status it travels as.

The text is one clear line that names what and where. Nothing here ever formats a traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands that start fast import errors, and not what a text with a code is made of
    from gsched.base.coded_text import AnyText

LSF_FAILURE = 255
"""Exit code of LSF's commands for a refused request (C's -1)."""
BAD_DATA = 65
"""Exit code for a file that is not what it should be. Source: sysexits(3), EX_DATAERR."""


class GschedError(Exception):
    """Base of all errors meant for a person.

    `status` is the name of a gRPC status code; `exit_code` what a command that hits the error exits with; `about` the
    fields of the request that it finds wrong, where that is known: who made the request can tell where they stand.
    `said` is what travels on where the error becomes a fact (why a job was not started, say), `text` its sentence.
    """

    status = "UNKNOWN"
    exit_code = LSF_FAILURE
    about: tuple[str, ...] = ()

    def __init__(self, text: AnyText) -> None:
        self.said, self.text = text, str(text)
        super().__init__(self.text)


class BadRequest(GschedError):
    """The request cannot be understood or never be satisfied as it stands."""

    status = "INVALID_ARGUMENT"


class NotFound(GschedError):
    """The named thing does not exist."""

    status = "NOT_FOUND"


class Conflict(GschedError):
    """The thing exists but is in a state that does not allow the request (a finished job is killed, say)."""

    status = "FAILED_PRECONDITION"


class PermissionDenied(GschedError):
    """The caller may not do this."""

    status = "PERMISSION_DENIED"


class ResourceExhausted(GschedError):
    """A limit is reached or a disk is full; the same request may succeed later."""

    status = "RESOURCE_EXHAUSTED"


class Unavailable(GschedError):
    """The other side cannot be reached now."""

    status = "UNAVAILABLE"


class Internal(GschedError):
    """A fault of gsched itself."""

    status = "INTERNAL"


class DamagedData(GschedError):
    """A file is not what was written (a line that cannot be read, a wrong sum), or has gone: the text names it."""

    status = "DATA_LOSS"
    exit_code = BAD_DATA


class RequirementError(BadRequest):
    """A resource requirement string that cannot be used.

    `kind` is LSF's text for it ("Bad resource requirement syntax" or "Bad resource name"), `position` the 0-based
    offset in `source` where it was noticed, `detail` what is wrong there.
    """

    def __init__(self, kind: str, detail: str, source: str, position: int) -> None:
        super().__init__(f"{kind}: {detail} at position {position + 1} of <{source}>")
        self.kind = kind
        self.detail = detail
        self.source = source
        self.position = position


@contextmanager
def about(*fields: str) -> Iterator[None]:
    """What is refused in here is about these fields of the request, unless it says more closely which."""
    try:
        yield
    except GschedError as error:
        error.about = error.about or fields
        raise


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding in a configuration file. `line` is 1-based; 0 when the whole file is meant.

    `severity` is "error" (the file is refused) or "note" (worth knowing, nothing is refused). `about`: of a line of a
    table the column that is meant, and where one word of its value alone is meant, that word; empty: the whole line.
    """

    path: str
    line: int
    text: str
    severity: str = "error"
    about: tuple[str, ...] = ()

    def __str__(self) -> str:
        prefix = "" if self.severity == "error" else f"{self.severity}: "
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {prefix}{self.text}"


class ConfigError(GschedError):
    """Configuration with at least one error; carries every problem found, in file order."""

    status = "FAILED_PRECONDITION"

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def errors(self) -> str:
        """What is to be mended, without the notes: a line each."""
        return "\n".join(str(problem) for problem in self.problems if problem.severity == "error")
