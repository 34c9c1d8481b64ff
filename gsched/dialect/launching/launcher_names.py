"""Whether a command line begins with the launcher (`glaunch`, LSF's `blaunch`): everybody who asks is answered here."""

from __future__ import annotations

import re

LAUNCHERS = ("glaunch", "blaunch")
_BEGINNING = re.compile(
    r"\s*(?:exec\s+)?(?P<word>(?P<place>'(?:[^']*/)?|(?:[^\s']*/)?)"
    rf"(?P<name>{'|'.join(LAUNCHERS)})(?P<quote>'?))(?:\s|$)"
)


def is_launcher(command: str) -> bool:
    """Whether the command line starts tasks on the job's hosts, by whatever path."""
    return _BEGINNING.match(command) is not None


def bare_launcher(command: str) -> str:
    """The launcher's name where the command line begins with that alone, which PATH says more of; else empty."""
    found = _BEGINNING.match(command)
    return found["name"] if found is not None and not found["place"] and not found["quote"] else ""


def with_path(command: str, path: str) -> str:
    """The command line, which begins with a bare launcher, with that word for it."""
    found = _BEGINNING.match(command)
    return command if found is None else command[: found.start("word")] + path + command[found.end("word") :]
