"""What an esub is told of a submission, and what it may change: `NAME="value"` lines and the options they stand for.

Nothing here runs a program or opens a file. Source: esub(8) of LSF 10.1 and of Lava.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.dialect.directives import split_words
from gsched.dialect.job_limits import COUNTS, LIMITS, SIZES_MIB, read_limit, read_minutes
from gsched.dialect.options import Parsed
from gsched.dialect.spec_values import ValueContext
from gsched.resreq.parsing.syntax import merge

ABORT = 97
"""Exit code of an esub that refuses the submission (LSB_SUB_ABORT_VALUE)."""
ABORTED = "Request aborted by esub"
RESET = "SUB_RESET"
_NAMES = {
    "JOB_NAME": "J",
    "JOB_DESCRIPTION": "Jd",
    "QUEUE": "q",
    "IN_FILE": "i",
    "OUT_FILE": "o",
    "ERR_FILE": "e",
    "USER_GROUP": "G",
    "DEPEND_COND": "w",
    "RES_REQ": "R",
    "PRE_EXEC": "E",
    "LOGIN_SHELL": "L",
    "MAIL_USER": "u",
    "PROJECT_NAME": "P",
    "HOSTS": "m",
    "NUM_PROCESSORS": "n",
    "BEGIN_TIME": "b",
    "TERM_TIME": "t",
    "ADDITIONAL": "a",
    "RLIMIT_CPU": "c",
    "RLIMIT_FSIZE": "F",
    "RLIMIT_DATA": "D",
    "RLIMIT_STACK": "S",
    "RLIMIT_CORE": "C",
    "RLIMIT_RSS": "M",
    "RLIMIT_RUN": "W",
    "RLIMIT_SWAP": "v",
    "RLIMIT_PROCESS": "p",
    "RLIMIT_THREAD": "T",
}
_FLAGS = {"EXCLUSIVE": "x", "NOTIFY_END": "N", "NOTIFY_BEGIN": "B", "RERUNNABLE": "r", "HOLD": "H"}
_LATER = {
    "LSB_SUB3_APP": "app",
    "LSB_SUB3_POST_EXEC": "Ep",
    "LSB_SUB3_CWD": "cwd",
    "LSB_SUB3_JOB_REQUEUE": "Q",
    "LSB_SUB4_GPU_REQ": "gpu",
    "LSB_SUB4_OUTDIR": "outdir",
}
OPTIONS = {f"LSB_SUB_{name}": option for name, option in (*_NAMES.items(), *_FLAGS.items())} | _LATER
"""Parameter -> the option that it stands for."""
_MOST = "LSB_SUB_MAX_NUM_PROCESSORS"
COMMAND = "LSB_SUB_COMMAND_LINE"
_ALIKE = {"i": ("is",), "o": ("oo",), "e": ("eo",), "r": ("rn",), "N": ("Ne",)}
"""Options that say the same in another way."""
_SECONDS, _KIB = ("W", "c"), tuple(option for option in LIMITS if option not in (*COUNTS, "c"))


@dataclass(frozen=True, slots=True)
class Changes:
    """What esubs want: parameters with other values (RESET: none), and variables for the job."""

    parameters: Mapping[str, str]
    environment: Mapping[str, str]


Esub = Callable[[Sequence[str], Callable[[], Mapping[str, str]]], Changes]
"""Runs the esubs that were named with -a (and those of the cluster) over the parameters, which are asked for only if
there are any. Raises BadRequest."""


def parameters(options: Parsed, command: str, around: ValueContext) -> dict[str, str]:
    """What the esubs are told: times as in the options, limits in seconds and KB, flags as Y."""
    found: dict[str, str] = {}
    for name, option in OPTIONS.items():
        given = options.last_of(option, *_ALIKE.get(option, ())) if option not in ("r", "N") else None
        if option in _FLAGS.values():
            if options.has(option):
                found[name] = "Y"
        elif option in ("R", "a"):
            if options.has(option):
                found[name] = merge(options.all(option)) if option == "R" else " ".join(options.all(option))
        elif given is not None:
            found[name] = _told(option, given[1], around)
    least, comma, most = found.get("LSB_SUB_NUM_PROCESSORS", "").partition(",")
    if least:
        found["LSB_SUB_NUM_PROCESSORS"], found[_MOST] = least.strip(), (most if comma else least).strip()
    words = command.split(None, 1)
    found["LSB_SUB_COMMANDNAME"] = words[0] if words else ""
    found[COMMAND] = command
    return found


def changed(options: Parsed, changes: Mapping[str, str]) -> Parsed:
    """The options with what the parameters say instead. Raises BadRequest for a parameter that nobody knows."""
    for name, value in changes.items():
        if name in (COMMAND, "LSB_SUB_COMMANDNAME", _MOST):
            continue
        option = OPTIONS.get(name)
        if option is None:
            raise BadRequest(f"an esub sets {name}, which is not supported")
        options = options.without((option, *_ALIKE.get(option, ())).__contains__)
        if value == RESET or (option in _FLAGS.values() and value.upper() not in ("Y", "YES", "1")):
            continue
        options = options.followed_by(Parsed(((option, _meant(option, value, changes)),), options.rest))
    return options


def write_lines(values: Mapping[str, str]) -> str:
    """The values as lines that a shell can source."""
    return "".join(f'{name}="{_escaped(value)}"\n' for name, value in values.items())


def read_lines(text: str, what: str) -> dict[str, str]:
    """The `NAME=value` lines of a file. A quoted value may go over several lines. Raises BadRequest."""
    found: dict[str, str] = {}
    held = ""
    for line in text.splitlines():
        held = f"{held}\n{line}" if held else line
        try:
            words = split_words(held)
        except BadRequest:
            continue  # the quote is closed on a later line
        held = ""
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                raise BadRequest(f"{what} of an esub: '{line[:60]}' is not of the form NAME=\"value\"")
            found[name] = value
    if held:
        raise BadRequest(f"{what} of an esub: a quote in '{held[:60]}' is not closed")
    return found


def _told(option: str, value: str, around: ValueContext) -> str:
    if option in _SECONDS:
        return str(read_minutes(value.partition("/")[0])[0])
    if option in _KIB:
        return str(round(read_limit(option, value, around.unit) * (1024 if option in SIZES_MIB else 1)))
    return value


def _meant(option: str, value: str, changes: Mapping[str, str]) -> str:
    if option == "n" and _MOST in changes and changes[_MOST] != value:
        return f"{value},{changes[_MOST]}"
    if option not in _SECONDS and option not in _KIB:
        return "" if option in _FLAGS.values() else value
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise BadRequest(f"an esub sets the limit of -{option} to '{value[:40]}', which is not a number")
    return str(math.ceil(int(value) / 60)) if option in _SECONDS else f"{value}KB"


def _escaped(value: str) -> str:
    return "".join("\\" + char if char in '\\"$`' else char for char in value)
