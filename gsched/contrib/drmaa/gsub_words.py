"""From a job template to what `Cluster.submit` takes: a line for the shell, words of a gsub command line, variables.

What a word means is known to gsched.dialect alone. What the category says counts least, then the attributes, then
nativeSpecification, as in the DRMAA library of LSF. Standard output is directed to its file by the line itself, for
`gsub -o` would put a report into the file, which programs written for DRMAA do not expect there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil

from gsched.base.errors import BadRequest
from gsched.contrib.drmaa.const import SUBMISSION_STATE_ACTIVE, SUBMISSION_STATE_HOLD
from gsched.contrib.drmaa.errors import (
    ConflictingAttributeValuesException,
    InvalidAttributeFormatException,
    InvalidAttributeValueException,
    InvalidJobTemplateException,
    UnsupportedAttributeException,
    coded,
)
from gsched.contrib.drmaa.partial_time import as_gsub_takes_it, moment_of
from gsched.contrib.drmaa.template import JobTemplate
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.options import Parsed

_OF_A_COMMAND_LINE = frozenset(
    {
        *("I", "Ip", "Is", "IS", "ISp", "ISs", "K", "h", "-help", "V", "pack", "-resubmit", "Zs"),
        *("-test-only", "-dry-run", "-json", "-notebook"),
    }
)
_OF_MAIL = frozenset({"u", "B", "N", "Ne"})
_VARIABLES = {"%J": '"$LSB_JOBID"', "%I": '"$LSB_JOBINDEX"'}


@dataclass(frozen=True, slots=True)
class SubmissionWords:
    """A job as `Cluster.submit` takes it: `command`, `options=` and, where there is one, `env=`."""

    command: str
    options: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Empty: that of this process, unchanged."""


def words_of(template: JobTemplate, now: float, indices: str = "") -> SubmissionWords:
    """What is submitted for the template; `indices` are those of an array, `1-9:2`. `now`: seconds since 1970.

    Raises the errors of DRMAA about attributes, which name the attribute.
    """
    if not template.remoteCommand:
        raise coded(InvalidJobTemplateException, "remoteCommand is not set")
    native = native_options(template.nativeSpecification)
    if template.blockEmail:
        native = native.without(lambda name: name in _OF_MAIL)
    name = _name(template, native)
    options = ["-app", template.jobCategory] if template.jobCategory else []
    options += [*_plain_words(template, now), *_file_words(template, is_array=bool(indices))]
    options += _as_words(native.without(lambda option: option == "J"))
    if name or indices:
        options += ["-J", f"{name}[{indices}]" if indices else name]
    environment = {**os.environ, **template.jobEnvironment} if template.jobEnvironment else {}
    return SubmissionWords(_command(template, native, is_array=bool(indices)), options, environment)


def native_options(text: str) -> Parsed:
    """nativeSpecification, read as gsub reads its command line.

    Raises InvalidAttributeFormatException for a quote that is left open, and InvalidAttributeValueException for what
    gsub would refuse, and for options that have a meaning only at a terminal.
    """
    try:
        parsed = BSUB.read(shlex.split(text))
    except ValueError as problem:
        raise coded(InvalidAttributeFormatException, f"nativeSpecification={text!r}: {problem}") from None
    except BadRequest as error:
        raise coded(InvalidAttributeValueException, f"nativeSpecification: {error.text}") from None
    if parsed.rest:
        said = f"'{parsed.rest[0]}' is no option; the command is in remoteCommand and args"
        raise coded(InvalidAttributeValueException, f"nativeSpecification: {said}")
    for name, _ in parsed.given:
        if name in _OF_A_COMMAND_LINE:
            said = f"-{name} is for the command line, or says what runs"
            raise coded(InvalidAttributeValueException, f"nativeSpecification: {said}")
    return parsed


def _as_words(parsed: Parsed) -> Iterator[str]:
    for name, value in parsed.given:
        option = BSUB.option(name)
        yield f"-{name}"
        if option is not None and option.value:
            yield value


def _name(template: JobTemplate, native: Parsed) -> str:
    """The job's name, without indices: only runBulkJobs makes arrays."""
    where, name = ("nativeSpecification: -J", native.last("J")) if native.has("J") else ("jobName", template.jobName)
    if "[" in name or "]" in name:
        raise coded(InvalidAttributeValueException, f"{where} '{name[:60]}': arrays are submitted by runBulkJobs")
    return str(name)


def _plain_words(template: JobTemplate, now: float) -> Iterator[str]:
    """What is neither the command nor a file."""
    if template.jobSubmissionState == SUBMISSION_STATE_HOLD:
        yield "-H"
    elif template.jobSubmissionState not in ("", SUBMISSION_STATE_ACTIVE):
        text = f"jobSubmissionState={template.jobSubmissionState!r}: drmaa_active or drmaa_hold is wanted"
        raise coded(InvalidAttributeValueException, text)
    if template.startTime:
        yield from ("-b", as_gsub_takes_it(moment_of(template.startTime, "startTime", now)))
    if template.deadlineTime:
        yield from ("-t", as_gsub_takes_it(moment_of(template.deadlineTime, "deadlineTime", now)))
    for option, *spans in (
        ("-W", template.hardWallclockTimeLimit, template.hardRunDurationLimit),
        ("-We", template.softWallclockTimeLimit, template.softRunDurationLimit),
    ):
        given = [span for span in spans if span is not None]
        if given:
            yield from (option, str(ceil(min(given) / 60)))
    if template.email and not template.blockEmail:
        if len(template.email) > 1:
            text = f"email={template.email!r}: mail about a job goes to one address"
            raise coded(UnsupportedAttributeException, text)
        yield from ("-u", template.email[0], "-N")


def _file_words(template: JobTemplate, *, is_array: bool) -> Iterator[str]:
    if template.workingDirectory:
        yield from ("-cwd", _filled(template, template.workingDirectory))
    if template.inputPath:
        yield from ("-i", _path(template, "inputPath"))
    if template.joinFiles:
        if template.errorPath and not template.outputPath:
            text = "joinFiles=True sends errors to outputPath, and only errorPath is set"
            raise coded(ConflictingAttributeValuesException, text)
    elif template.errorPath:
        yield from ("-e", _file(template, "errorPath", "err", is_array=is_array))


def _command(template: JobTemplate, native: Parsed, *, is_array: bool) -> str:
    """The line for the shell, which is the program itself from the beginning: signals reach it, and its own end is what
    is told of.
    """
    words = (_in_folders(template, word) for word in (template.remoteCommand, *template.args))
    line = f"exec {shlex.join(words)}"
    if template.outputPath and not native.has("o", "oo"):
        line += f" >>{_for_the_shell(_file(template, 'outputPath', 'out', is_array=is_array))}"
        if template.joinFiles:
            line += " 2>&1"
    return line


def _file(template: JobTemplate, name: str, ending: str, *, is_array: bool) -> str:
    """The path of a file to be written; in place of a folder that of a file in it, one for each job."""
    path = _path(template, name)
    if path.endswith("/") or os.path.isdir(_in_folders(template, os.path.join(JobTemplate.WORKING_DIRECTORY, path))):
        return os.path.join(path, f"%J.%I.{ending}" if is_array else f"%J.{ending}")
    return path


def _path(template: JobTemplate, name: str) -> str:
    """The path of `[HOST]:PATH`, placeholders filled in. A path without a colon is taken as it is."""
    given: str = getattr(template, name)
    host, colon, path = given.partition(":")
    if not colon or "/" in host:
        path = given
    if not path:
        raise coded(InvalidAttributeFormatException, f"{name}={given!r} is not of the form [HOST]:PATH")
    return _filled(template, path)


def _filled(template: JobTemplate, path: str) -> str:
    """The path with its placeholders filled in: gsub fills in %I for each element."""
    return _in_folders(template, path).replace(JobTemplate.PARAMETRIC_INDEX, "%I")


def _in_folders(template: JobTemplate, word: str) -> str:
    """The word, the placeholder of a folder at its beginning replaced."""
    if word.startswith(JobTemplate.HOME_DIRECTORY):
        return os.path.expanduser("~") + word.removeprefix(JobTemplate.HOME_DIRECTORY)
    if not word.startswith(JobTemplate.WORKING_DIRECTORY):
        return word
    folder = template.workingDirectory
    if folder.startswith(JobTemplate.WORKING_DIRECTORY):
        raise coded(InvalidAttributeValueException, f"workingDirectory={folder!r} cannot stand for itself")
    here = os.path.abspath(_in_folders(template, folder)) if folder else os.getcwd()
    return here + word.removeprefix(JobTemplate.WORKING_DIRECTORY)


def _for_the_shell(path: str) -> str:
    """A word of the shell for the path; %J and %I stand for what they stand for in paths of gsub."""
    parts = re.split("(%[JI])", path)
    return "".join(_VARIABLES.get(part) or (shlex.quote(part) if part else "") for part in parts)
