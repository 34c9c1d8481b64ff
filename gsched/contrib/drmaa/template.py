"""Job templates: what a program says of a job before it is submitted, as `drmaa.JobTemplate` has it.

Values are kept as they were given, and their types are checked. What they mean to gsched is said in `gsub_words`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gsched.contrib.drmaa import const
from gsched.contrib.drmaa.errors import (
    DrmaaException,
    InvalidAttributeFormatException,
    InvalidAttributeValueException,
    InvalidJobTemplateException,
    UnsupportedAttributeException,
    coded,
)

_SPAN = re.compile(r"(?:(?:(\d{1,6}):)?(\d{1,6}):)?(\d{1,9})", re.ASCII)


class Attribute:
    """An attribute that is a text; empty until it is set, and again when None is set."""

    unset: Any = ""

    def __init__(self, drmaa_name: bytes) -> None:
        self.drmaa_name = drmaa_name.decode()
        self.name = ""

    def __set_name__(self, owner: type[JobTemplate], name: str) -> None:
        self.name = name

    def __get__(self, template: JobTemplate | None, owner: object = None) -> Any:
        return self if template is None else template.values().get(self.name, self.unset)

    def __set__(self, template: JobTemplate, value: Any) -> None:
        if value is None:
            template.values().pop(self.name, None)
        else:
            template.values()[self.name] = self.checked(value)

    def checked(self, value: Any) -> Any:
        """The value as it is kept. Raises InvalidAttributeFormatException."""
        return self.text(value)

    def text(self, value: Any) -> str:
        """A text, also from bytes or a path. Raises InvalidAttributeFormatException."""
        if not isinstance(value, str | bytes | os.PathLike):
            raise self.wrong(value, "a text")
        return os.fsdecode(value)

    def wrong(
        self, value: object, wanted: str, kind: type[DrmaaException] = InvalidAttributeFormatException
    ) -> DrmaaException:
        """The error for a value that is not what is wanted."""
        return coded(kind, f"{self.name}={value!r}: {wanted} is wanted")


class FlagAttribute(Attribute):
    """True or False; False until it is set."""

    unset = False

    def checked(self, value: Any) -> bool:
        """Any value, as Python takes it for true or false."""
        return bool(value)


class SecondsAttribute(Attribute):
    """A whole number of seconds, or a text `[[hours:]minutes:]seconds`; None until it is set."""

    unset = None

    def checked(self, value: Any) -> int:
        """Seconds. Raises InvalidAttributeFormatException; InvalidAttributeValueException below 1."""
        if isinstance(value, int) and not isinstance(value, bool):
            seconds = value
        else:
            found = _SPAN.fullmatch(self.text(value).strip())
            if found is None:
                raise self.wrong(value, "a number of seconds, or [[hours:]minutes:]seconds,")
            hours, minutes, rest = (int(part or 0) for part in found.groups())
            seconds = (hours * 60 + minutes) * 60 + rest
        if seconds < 1:
            raise self.wrong(value, "at least a second", InvalidAttributeValueException)
        return seconds


class NoTransferAttribute(Attribute):
    """Which files the system is to copy: gsched copies none, so only an empty text can be set."""

    def checked(self, value: Any) -> str:
        """Raises UnsupportedAttributeException for anything but an empty text or mode."""
        letters = str(value) if isinstance(value, const.FileTransferMode) else self.text(value)
        if letters:
            text = "gsched copies no files by itself: put -f into nativeSpecification"
            raise coded(UnsupportedAttributeException, f"{self.name}={letters!r}: {text}")
        return letters


class WordsAttribute(Attribute):
    """A list of words; empty until it is set."""

    def __get__(self, template: JobTemplate | None, owner: object = None) -> Any:
        return self if template is None else list(template.values().get(self.name, ()))

    def checked(self, value: Any) -> tuple[str, ...]:
        """The words; what is no text becomes one. Raises InvalidAttributeFormatException for one text alone."""
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise self.wrong(value, "a list of words")
        return tuple(os.fsdecode(each) if isinstance(each, bytes | os.PathLike) else str(each) for each in value)


class MappingAttribute(Attribute):
    """Names with values; empty until it is set."""

    def __get__(self, template: JobTemplate | None, owner: object = None) -> Any:
        return self if template is None else dict(template.values().get(self.name, {}))

    def checked(self, value: Any) -> dict[str, str]:
        """Raises InvalidAttributeFormatException for what is no mapping, and for a name that holds `=`."""
        if not isinstance(value, Mapping):
            raise self.wrong(value, "a mapping of names to values")
        found = {self._word(name): self._word(each) for name, each in value.items()}
        for name in found:
            if not name or "=" in name:
                raise self.wrong(name, "the name of a variable")
        return found

    def _word(self, value: Any) -> str:
        return os.fsdecode(value) if isinstance(value, bytes | os.PathLike) else str(value)


class JobTemplate:
    """A job to be submitted; attributes can be given as keywords. Deleted templates raise InvalidJobTemplateException.

    A template may be used for any number of jobs, and changed in between.
    """

    HOME_DIRECTORY = const.PLACEHOLDER_HD.decode()
    """Stands for the home directory, at the beginning of a path."""
    WORKING_DIRECTORY = const.PLACEHOLDER_WD.decode()
    """Stands for the working directory, at the beginning of a path."""
    PARAMETRIC_INDEX = const.PLACEHOLDER_INCR.decode()
    """Stands for the index of a job of runBulkJobs, anywhere in a path."""

    remoteCommand = Attribute(const.REMOTE_COMMAND)
    """The program to be run."""
    args = WordsAttribute(const.V_ARGV)
    """Its arguments, which reach it unchanged."""
    jobSubmissionState = Attribute(const.JS_STATE)
    """`JobSubmissionState.HOLD_STATE`: the job waits until it is released (`-H`)."""
    workingDirectory = Attribute(const.WD)
    """Where the job runs (`-cwd`); without it, where the program that submits it runs."""
    jobCategory = Attribute(const.JOB_CATEGORY)
    """An application profile (`-app`)."""
    nativeSpecification = Attribute(const.NATIVE_SPECIFICATION)
    """Options of gsub as on a command line; they count before what other attributes say."""
    jobEnvironment = MappingAttribute(const.V_ENV)
    """Variables that are added to the environment of the program that submits the job."""
    jobName = Attribute(const.JOB_NAME)
    inputPath = Attribute(const.INPUT_PATH)
    """`[HOST]:PATH` of standard input; the host is ignored, for files are shared."""
    outputPath = Attribute(const.OUTPUT_PATH)
    """`[HOST]:PATH` of the file that standard output is appended to, or of a folder, in which it is JOB.out or
    JOB.INDEX.out; no report is put into it.
    """
    errorPath = Attribute(const.ERROR_PATH)
    """The same for error output, with err for out."""
    joinFiles = FlagAttribute(const.JOIN_FILES)
    """True: error output goes to outputPath, too, and errorPath is ignored."""
    transferFiles = NoTransferAttribute(const.TRANSFER_FILES)
    email = WordsAttribute(const.V_EMAIL)
    """The address to which the report is mailed at the end (`-u`, `-N`)."""
    blockEmail = FlagAttribute(const.BLOCK_EMAIL)
    """True: no mail is sent, whatever email and nativeSpecification say."""
    startTime = Attribute(const.START_TIME)
    """The job starts no sooner (`-b`): `[[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu]`."""
    deadlineTime = Attribute(const.DEADLINE_TIME)
    """The job is ended then, started or not (`-t`); of the same form."""
    hardWallclockTimeLimit = SecondsAttribute(const.WCT_HLIMIT)
    """Seconds after which the job is ended, rounded up to minutes (`-W`)."""
    softWallclockTimeLimit = SecondsAttribute(const.WCT_SLIMIT)
    """Seconds that it is estimated to take, rounded up to minutes (`-We`)."""
    hardRunDurationLimit = SecondsAttribute(const.DURATION_HLIMIT)
    """As hardWallclockTimeLimit; the smaller of both counts."""
    softRunDurationLimit = SecondsAttribute(const.DURATION_SLIMIT)
    """As softWallclockTimeLimit; the smaller of both counts."""

    def __init__(self, **attributes: Any) -> None:
        self._values: dict[str, Any] | None = {}
        for name, value in attributes.items():
            setattr(self, name, value)

    def __enter__(self) -> JobTemplate:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def values(self) -> dict[str, Any]:
        """What has been set, by the attributes' names. Raises InvalidJobTemplateException once it is deleted."""
        if self._values is None:
            raise coded(InvalidJobTemplateException, "this job template has been deleted")
        return self._values

    def delete(self) -> None:
        """The template can be used no more; jobs that were submitted with it go on. Raises InvalidJobTemplateException
        the second time.
        """
        self.values()
        self._values = None

    @property
    def attributeNames(self) -> list[str]:
        """DRMAA's names of the attributes that are one value, and that can be set."""
        several = (WordsAttribute, MappingAttribute, NoTransferAttribute)
        found = (each for each in vars(JobTemplate).values() if isinstance(each, Attribute))
        return [each.drmaa_name for each in found if not isinstance(each, several)]
