"""What qsub's options mean for a job: their values, read and checked, as fields of a JobSpec.

Whether a queue, project or job of that name exists is not known here. Source: qsub(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gsched.base.coded_text import coded
from gsched.base.errors import BadRequest
from gsched.dialect.pbs.job_attributes import JobAttributes
from gsched.dialect.pbs.job_files import FilePlaces, files_of
from gsched.dialect.pbs.pbs_values import parse_moment
from gsched.dialect.pbs.resource_lists import AskedResources
from gsched.dialect.slurm.array_lists import ArrayList, parse_array
from gsched.dialect.slurm.dependencies import ElementOf
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.dialect.spec_values import MAX_TEXT, SpecValues, ValueContext, check_text

LONGEST_NAME = 236
_LOWEST, _HIGHEST = -1024, 1023
_NAME = re.compile(r"[A-Za-z0-9_+][!-.0-~]*", re.ASCII)
_RANGE = re.compile(r"[0-9]{1,10}-[0-9]{1,10}(?::[0-9]{1,10})?(?:%[0-9]{1,9})?", re.ASCII)
_MAILS: Mapping[str, SpecValues] = {
    "n": {},
    "a": {"notify_error": True},
    "b": {"notify_begin": True},
    "e": {"notify_end": True},
    "j": {},
}

FIELDS: Mapping[str, tuple[str, ...]] = {
    "res_req": ("l",),
    "slots": ("l",),
    "gpu_req": ("l",),
    "run_limit_s": ("l",),
    "exclusive": ("l", "n"),
    "queue": ("q",),
    "dependency": ("W",),
    "file_copies": ("W",),
    "begin_at": ("a",),
    "priority": ("p",),
    "project": ("A", "P"),
    "indices": ("J", "t"),
    "array_limit": ("J", "t", "W"),
    "name": ("N",),
    "output_file": ("o",),
    "error_file": ("e",),
    "mail_user": ("M",),
    "interactive": ("I",),
    "limits.CPULIMIT": ("l",),
    "limits.SWAPLIMIT": ("l",),
    "limits.FILELIMIT": ("l",),
}
"""Which options set the fields that the master may find wrong."""


@dataclass(frozen=True, slots=True)
class QsubReading:
    """What the meaning of a value may hang on."""

    around: ValueContext
    user: str
    host: str
    """Where qsub was called."""
    server: str
    """What stands behind the dot of job ids: the cluster's name."""
    element_of: ElementOf
    max_priority: Callable[[], int | None]
    """The cluster's MAX_USER_PRIORITY."""
    over: SpecValues = field(default_factory=dict)
    """Fields that count before all options: those that another command than qsub was given."""

    def is_here(self, host: str) -> bool:
        """Is it the host where qsub was called?"""
        short = host.partition(".")[0]
        return not host or short == "localhost" or short == self.host.partition(".")[0]


def fields_of(
    words: GnuWords, default_name: str, resources: AskedResources, attributes: JobAttributes, reading: QsubReading
) -> SpecValues:
    """The fields that the options set; of an option given twice the later counts. Raises BadRequest."""
    values: SpecValues = {"queue": "", "name": _tidy(default_name), "rerunnable": True, **resources.values}
    if not resources.is_sized:
        values["defaulted"] = ("slots",)
    values |= plain_fields(words, reading) | _array(words) | attributes.values
    limit = attributes.values.get("array_limit", values.get("array_limit", 0))
    if limit and values.get("indices"):
        values["array_limit"] = limit
    elif "array_limit" in attributes.values:
        raise BadRequest("illegal -W value: max_run_subjobs= is one of arrays (-J)")
    sandbox = values.pop("sandbox", "HOME")
    values.setdefault("specified_cwd", reading.around.home if sandbox == "HOME" else "")
    values["front_end_words"] = resources.said
    if reading.over:
        values |= _counting(reading.over)
    places = file_places(reading, values["name"], bool(values.get("indices")), values.get("index_shift", 0))
    files = files_of(words, places) if not values.get("interactive") else {}
    return values | files | reading.over


def plain_fields(words: GnuWords, reading: QsubReading) -> SpecValues:
    """The fields of options that each say one thing; of an option given twice the later counts. Raises BadRequest."""
    values: SpecValues = {}
    for given in {each.name: each for each in words.given}.values():
        try:
            check_text(given.value, "the value")
            values |= _READERS[given.name](given.value, reading) if given.name in _READERS else {}
        except BadRequest as error:
            text = error.text if error.text.startswith("illegal") else f"illegal -{given.name} value: {error.text}"
            raise BadRequest(f"{given.place}: {text}" if given.line else text) from None
    return values | _project(words)


def file_places(reading: QsubReading, name: str, is_array: bool, shift: int) -> FilePlaces:
    """What the names of a job's files hang on."""
    return FilePlaces(
        cwd=reading.around.cwd,
        home=reading.around.home,
        host=reading.host,
        name=name,
        is_array=is_array,
        shift=shift,
        server=reading.server,
    )


def _counting(over: SpecValues) -> SpecValues:
    """Fields that another command was given, and what follows from them."""
    found = dict(over)
    if over.keys() & {"slots", "res_req", "gpu_req"}:
        found["front_end_words"] = ()  # what the script asked for is not what it gets
    if "slots" in over:
        found["defaulted"] = ()
    if over.get("indices"):
        found |= {"index_shift": 0, "array_limit": over.get("array_limit", 0)}
    return found


def _tidy(name: str) -> str:
    """A script's name as a job's: what cannot stand there is left out."""
    kept = re.sub(r"[^!-.0-~]", "_", name)[:LONGEST_NAME]
    return kept if _NAME.fullmatch(kept) else f"_{kept}"[:LONGEST_NAME]


def _array(words: GnuWords) -> SpecValues:
    given = [each for each in words.given if each.name in ("J", "t")]
    if not given:
        return {}
    last = given[-1]
    if {each.name for each in given} == {"J", "t"}:
        raise BadRequest(f"{last.place}: -J and -t say the same: give one of them")
    if last.name == "J" and not _RANGE.fullmatch(last.value):
        raise BadRequest(f"illegal -J value: '{last.value[:60]}' is not FIRST-LAST[:STEP][%COUNT]")
    try:
        array: ArrayList = parse_array(last.value)
    except BadRequest as error:
        raise BadRequest(f"illegal -{last.name} value: {error.text}") from None
    return {"indices": array.indices, "array_limit": array.limit, "index_shift": array.shift}


def _project(words: GnuWords) -> SpecValues:
    """-P, else -A: a job belongs to one project."""
    project, account = words.last("P"), words.last("A")
    given = project or account
    if given is None:
        return {}
    if project is not None and account is not None and project.value != account.value:
        raise BadRequest(
            f"-A {account.value[:40]}: -P {project.value[:40]} names the project already: give one of them"
        )
    return {"project": _text(given.value)}


def _text(text: str) -> str:
    if not text.strip() or len(text) > MAX_TEXT:
        raise BadRequest(f"a value of 1 to {MAX_TEXT} characters is needed")
    return text.strip()


def _name(text: str, reading: QsubReading) -> SpecValues:
    text = text.removeprefix("=")  # PSI/J writes -N="NAME"
    if not _NAME.fullmatch(text) or len(text) > LONGEST_NAME:
        raise BadRequest(
            f"'{text[:60]}': a name has up to {LONGEST_NAME} characters without blanks and slashes, and begins with a "
            "letter, a digit, _ or +"
        )
    return {"name": text}


def _queue(text: str, reading: QsubReading) -> SpecValues:
    queue, at, server = text.strip().partition("@")
    if at and server not in (reading.server, reading.server.partition(".")[0]):
        raise BadRequest(f"'@{server[:60]}': there is one server, {reading.server}")
    if any(char.isspace() for char in queue):
        raise BadRequest(f"'{text[:60]}' is no queue")
    return {"queue": queue}


def _begin(text: str, reading: QsubReading) -> SpecValues:
    return {"begin_at": parse_moment(text, reading.around.now, reading.around.zone)}


def _priority(text: str, reading: QsubReading) -> SpecValues:
    if not re.fullmatch("[+-]?[0-9]{1,5}", text.strip(), re.ASCII) or not _LOWEST <= int(text) <= _HIGHEST:
        raise BadRequest(f"'{text[:40]}' is no whole number from {_LOWEST} to {_HIGHEST}")
    if not int(text):
        return {}
    most = reading.max_priority()
    if most is None:
        return {"warnings": (coded("warning.no_priorities", f"-p {text.strip()}"),)}
    return {"priority": 1 + (int(text) - _LOWEST) * (most - 1) // (_HIGHEST - _LOWEST)}


def _rerun(text: str, reading: QsubReading) -> SpecValues:
    if text.strip().lower() not in ("y", "n"):
        raise BadRequest(f"'{text[:40]}' is neither y nor n")
    return {"rerunnable": text.strip().lower() == "y"}


def _mail(text: str, reading: QsubReading) -> SpecValues:
    found: SpecValues = {}
    for letter in text.strip():
        if letter not in _MAILS or (letter == "n" and len(text.strip()) > 1):
            raise BadRequest(f"'{text[:40]}' is neither n nor some of a, b, e and j")
        found |= _MAILS[letter]
    return found


def _mail_user(text: str, reading: QsubReading) -> SpecValues:
    if len(text.split()) != 1 or "," in text or text.startswith("-") or len(text) > MAX_TEXT:
        raise BadRequest(f"'{text[:60]}' is not one address for mail")
    return {"mail_user": text.strip()}


def _checkpoint(text: str, reading: QsubReading) -> SpecValues:
    if text not in ("n", "u", "none"):
        raise BadRequest(f"'{text[:40]}' is not supported: there are no checkpoints, and n says so")
    return {}


def _user(text: str, reading: QsubReading) -> SpecValues:
    names = {item.partition("@")[0] for item in text.split(",")}
    if names != {reading.user}:
        raise BadRequest(f"'{text[:60]}': jobs run as whoever submits them, {reading.user}")
    return {}


def _directory(text: str, reading: QsubReading) -> SpecValues:
    if not text.strip() or len(text) > MAX_TEXT:
        raise BadRequest(f"a path of 1 to {MAX_TEXT} characters is needed")
    return {"specified_cwd": posixpath.normpath(posixpath.join(reading.around.cwd, text))}


def _arguments(text: str, reading: QsubReading) -> SpecValues:
    try:
        return {"script_words": tuple(shlex.split(text))}
    except ValueError as error:
        raise BadRequest(f"'{text[:60]}': {error}") from None


_READERS: Mapping[str, Callable[[str, QsubReading], SpecValues]] = {
    "N": _name,
    "q": _queue,
    "a": _begin,
    "p": _priority,
    "r": _rerun,
    "m": _mail,
    "M": _mail_user,
    "c": _checkpoint,
    "u": _user,
    "d": _directory,
    "w": _directory,
    "F": _arguments,
    "h": lambda text, reading: {"hold": True},
    "n": lambda text, reading: {"exclusive": True},
}
