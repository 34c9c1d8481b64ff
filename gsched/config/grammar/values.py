"""Reading single values of parameters and cells, and one schema's worth of `KEY = value` lines.

Readers turn a text into a value or raise BadRequest with what is wrong; `KeyValues` adds the place, and makes sure that
no line is left without either an effect or a word about it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from gsched.base.errors import BadRequest, GschedError
from gsched.config.grammar.findings import Findings, SourcePlace, show, suggestion
from gsched.config.grammar.lsf_names import is_of_lsf
from gsched.config.grammar.sections import KeyValue

T = TypeVar("T")
D = TypeVar("D")

MAX_INTERVAL_S = 86_400 * 365
RESERVED_WORDS = frozenset({"all", "default", "others", "none", "allremote"})
"""Words of LSF's own that no host, queue or user may be called."""

CONTROLS = ("SUSPEND_CONTROL", "RESUME_CONTROL", "TERMINATE_CONTROL")
_WITH_QUOTES = frozenset(
    {"DESCRIPTION", "PRE_EXEC", "POST_EXEC", "HOST_PRE_EXEC", "HOST_POST_EXEC", "JOB_STARTER", *CONTROLS}
)
"""Parameters whose quotes belong to the value: text, and commands that a shell reads."""

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,58}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,254}\$?")


def integer(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not low <= int(text) <= high:
            raise BadRequest(f"'{show(text)}' is not a whole number from {low} to {high}")
        return int(text)

    return read


LOG_LEVELS = (
    *("LOG_EMERG", "LOG_ALERT", "LOG_CRIT", "LOG_ERR", "LOG_WARNING", "LOG_NOTICE", "LOG_INFO", "LOG_DEBUG"),
    *("LOG_DEBUG1", "LOG_DEBUG2", "LOG_DEBUG3"),
)
"""LSF's, the most urgent first."""


def log_level(text: str) -> str:
    """One of LOG_LEVELS."""
    if text.upper() not in LOG_LEVELS:
        raise BadRequest(f"'{show(text)}' is no level of a log ({', '.join(LOG_LEVELS)})")
    return text.upper()


def minutes(text: str) -> int:
    """A reader of whole minutes, one at least; the value is in seconds."""
    return 60 * integer(1, 10**6)(text)


def nice(text: str) -> int:
    """NICE: LSF's own queues say 20, and the kernel's largest is 19."""
    return min(19, integer(-20, 20)(text))


def unquoted(text: str) -> str:
    """The value without one pair of double quotes around all of it, in which LSF's documentation often puts it."""
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1] else text


def with_text(read: Callable[[str], T]) -> Callable[[str], tuple[str, T]]:
    """A reader that keeps the value as it is written, too."""
    return lambda text: (" ".join(text.split()), read(text))


def number(text: str) -> float:
    """A finite number in decimal notation."""
    if not re.fullmatch(r"[+-]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][+-]?[0-9]{1,3})?", text):
        raise BadRequest(f"'{show(text)}' is not a number")
    value = float(text)
    if not math.isfinite(value):
        raise BadRequest(f"'{show(text)}' is too large")
    return value


def real(low: float, high: float) -> Callable[[str], float]:
    """A reader of numbers from `low` to `high`."""

    def read(text: str) -> float:
        value = number(text)
        if not low <= value <= high:
            raise BadRequest(f"'{show(text)}' is not a number from {low:g} to {high:.0f}")
        return value

    return read


def seconds(low: float) -> Callable[[str], float]:
    """A reader of durations in seconds, `low` to one year; fractions are allowed."""

    def read(text: str) -> float:
        value = number(text)
        if not low <= value <= MAX_INTERVAL_S:
            raise BadRequest(f"'{show(text)}' is not a number of seconds from {low:g} to {MAX_INTERVAL_S}")
        return value

    return read


def yes_or_no(text: str) -> bool:
    """Y or N (also y, n, yes, no)."""
    if text.casefold() not in ("y", "n", "yes", "no"):
        raise BadRequest(f"'{show(text)}' is neither Y nor N")
    return text.casefold().startswith("y")


def interactive_jobs(text: str) -> str:
    """`YES`, `NO` or `ONLY` in any case. Source: lsb.queues(5), INTERACTIVE."""
    word = text.upper()
    if word in ("YES", "Y"):
        return "YES"
    if word in ("NO", "N"):
        return "NO"
    if word != "ONLY":
        raise BadRequest(f"'{show(text)}' is none of YES, NO and ONLY")
    return word


def absolute_path(text: str) -> str:
    """An absolute path without variables."""
    if not text.startswith("/") or not text.isprintable() or len(text) > 4000:
        raise BadRequest(f"'{show(text)}' is not an absolute path")
    if "$" in text or "/../" in text + "/":
        raise BadRequest(f"'{show(text)}': variables and '..' are not replaced; write the path in full")
    return text.rstrip("/") or "/"


def job_folder(text: str) -> str:
    """A folder of jobs: absolute, or relative to where they are submitted, with patterns such as %J in it."""
    if not text.isprintable() or len(text) > 4000:
        raise BadRequest(f"'{show(text)}' is not a path")
    if "$" in text:
        raise BadRequest(f"'{show(text)}': variables are not replaced; %H is the home directory, %U the user")
    return text


def default_group(text: str) -> str:
    """A job group for jobs that name none: a path, in which %p is the project and %u the user."""
    parts = text.split("/")
    named = [part.replace("%p", "p").replace("%u", "u") for part in parts if part]
    if not text.startswith("/") or any(part in (".", "..") or "%" in part or part != part.strip() for part in named):
        raise BadRequest(f"'{show(text)}' is not the path of a job group: /GROUP/..., with %p and %u in it")
    return plain_text(text)


def plain_text(text: str) -> str:
    """Any text of one line."""
    if not text.isprintable():
        raise BadRequest(f"'{show(text)}' holds unprintable characters")
    return text


def command_line(text: str) -> str:
    """A command of at most 4094 characters, as LSF allows."""
    if len(text) > 4094:
        raise BadRequest(f"the command has {len(text)} characters, 4094 are the most")
    return plain_text(text)


def host_name(text: str) -> str:
    """A host's name. Reserved words and patterns are refused."""
    if not _HOST.fullmatch(text) or text.casefold() in RESERVED_WORDS:
        raise BadRequest(f"'{show(text)}' cannot be the name of a host")
    return text


def queue_name(text: str) -> str:
    """A queue's name: a letter or `_`, then letters, digits and `_ . -`, at most 59 characters."""
    if text.casefold() in RESERVED_WORDS:
        raise BadRequest(f"'{show(text)}' is a reserved word and cannot be the name of a queue")
    if not _NAME.fullmatch(text):
        raise BadRequest(f"'{show(text)}' cannot be the name of a queue")
    return text


def group_name(text: str) -> str:
    """Name of a group of hosts or users, or of a compute unit."""
    if not _NAME.fullmatch(text) or text.casefold() in RESERVED_WORDS:
        raise BadRequest(f"'{show(text)}' cannot be the name of a group")
    return text


def cluster_name(text: str) -> str:
    """A cluster's name: it is part of a file's name, so it holds nothing but letters, digits and `_ . -`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,38}", text):
        raise BadRequest(f"'{show(text)}' cannot be the name of a cluster")
    return text


def user_name(text: str) -> str:
    """An account's name. Reserved words are refused."""
    if text.endswith(("@", "/")) or not _USER.fullmatch(text) or text.casefold() in RESERVED_WORDS:
        raise BadRequest(f"'{show(text)}' cannot be the name of a user")
    return text


class KeyValues:
    """The `KEY = value` lines of one section or of lsf.conf, taken one by one; `finish` speaks about the rest."""

    def __init__(self, entries: Iterable[KeyValue], findings: Findings, *, where: str, fold_case: bool = True) -> None:
        self._findings = findings
        self._where = where
        self._fold = fold_case
        self._entries: dict[str, KeyValue] = {}
        self._repeats: dict[str, list[KeyValue]] = {}
        self._taken: list[str] = []
        for entry in entries:
            key = self._key(entry.key)
            if key in self._entries:
                first = self._entries[key].at
                findings.error(entry.at, f"{show(entry.key)} is set twice (first at line {first.line})")
                self._repeats.setdefault(key, []).append(entry)
            else:
                self._entries[key] = entry

    def take(self, name: str, read: Callable[[str], T], default: D) -> T | D:
        """The value of `name`, or `default` when it is not set or cannot be read (which is reported)."""
        self._taken.append(name)
        entry = self._entries.get(self._key(name))
        if entry is None:
            return default
        # A repeat does not count, but what is wrong with it is said at once with the rest.
        for repeat in self._repeats.get(self._key(name), ()):
            self._read(repeat, name, read, default)
        return self._read(entry, name, read, default)

    def _read(self, entry: KeyValue, name: str, read: Callable[[str], T], default: D) -> T | D:
        try:
            value = entry.value if name in _WITH_QUOTES else unquoted(entry.value)
            if not value:
                raise BadRequest("the value is empty")
            return read(value)
        except GschedError as error:
            self._findings.error(entry.at, f"{name}: {error.text}")
            return default

    def written(self) -> tuple[str, ...]:
        """All lines as they were written, `KEY = value` each."""
        return tuple(f"{entry.key} = {entry.value}" for entry in self._entries.values())

    def place(self, name: str) -> SourcePlace | None:
        """Where `name` is set; None if it is not."""
        entry = self._entries.get(self._key(name))
        return entry.at if entry else None

    def finish(
        self,
        refused: Mapping[str, str],
        without_effect: Mapping[str, str],
        also_known: Iterable[str] = (),
        as_here: Mapping[str, tuple[frozenset[str], str]] | None = None,
    ) -> None:
        """Report every line that nobody took.

        `refused` and `without_effect` map names that LSF knows to a word of explanation, which may be empty.
        `also_known` are names that are read elsewhere; one of them may be what was meant. `as_here`: names that have no
        effect either where each word of the value is one of these.
        """
        known = {self._key(name) for name in self._taken}
        by_key = {self._key(name): name for name in (*refused, *without_effect)}
        so = as_here or {}
        for key, entry in self._entries.items():
            if key in known or self._findings.is_full(entry.at.path):
                continue
            name = by_key.get(key, "")
            words, because = so.get(name, (frozenset(), ""))
            if words and words.issuperset(entry.value.casefold().split()):
                self._findings.note(entry.at, f"{name} has no effect: {because}")
            elif name in without_effect and name:
                because = f": {without_effect[name]}" if without_effect[name] else ""
                self._findings.note(entry.at, f"{name} has no effect{because}")
            elif name:
                because = f": {refused[name]}" if refused[name] else ""
                self._findings.error(entry.at, f"{name} is not supported yet{because}")
            else:
                near = suggestion(entry.key, (*self._taken, *refused, *without_effect, *also_known))
                what = f"unknown parameter {show(entry.key)} in {self._where}"
                if not near and is_of_lsf(entry.key):
                    what = f"{show(entry.key)} is not supported yet, or it is no parameter of LSF"
                self._findings.error(entry.at, what + near)

    def _key(self, name: str) -> str:
        return name.casefold() if self._fold else name
