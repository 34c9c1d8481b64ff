"""bmod's command line, read into the fields of jobs that are to change, checked without knowing the jobs.

What may be changed of which job is the scheduler's to say. Source: bmod(1) of LSF 10.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gsched.base.coded_text import AnyText
from gsched.base.errors import BadRequest
from gsched.dialect.bsub import check_image_file
from gsched.dialect.bsub_options import BMOD, LIMIT_RESETS, RESETS
from gsched.dialect.job_limits import LIMITS
from gsched.dialect.notify import notices_of_options
from gsched.dialect.options import Parsed
from gsched.dialect.spec_values import SpecValues, ValueContext, check_text, spec_values
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice_targets import packed_targets

_ARRAY_LIMIT = re.compile(r"%([0-9]{1,9})", re.ASCII)
_FIXED = ("hold", "queue_named")
"""Fields that options set and that say nothing of a job that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """New values for jobs. Of `values` every one replaces the job's; limits are changed one by one."""

    jobs: tuple[str, ...] = ()
    """Words that name jobs, as typed."""
    values: SpecValues = field(default_factory=dict)
    """Field of JobSpec, other than `limits` -> its new value."""
    limits: dict[str, float | None] = field(default_factory=dict)
    """Limit -> its new value; None takes the job's own away."""
    notice_targets: bytes = b""
    """Where the notices go that `values` want (gsched.model.jobs.notice_targets.packed_targets)."""
    notes: tuple[AnyText, ...] = ()
    """What is to be said of the values."""
    default_slots: bool = False
    """-nn."""
    ends_host_file: bool = False
    """-hostfilen: for jobs that have one alone."""
    wants_help: bool = False
    wants_version: bool = False

    @property
    def spec(self) -> JobSpec:
        """The new values in a spec; what is not in `values` means nothing.

        -nn leaves the number of tasks to the queue, as a submission without -n does.
        """
        values: SpecValues = {"command": "", "user": "", "queue": ""} | self.values
        if self.default_slots:
            values["defaulted"] = ("slots",)
        return JobSpec(**values)


def unmodified(reason: str) -> str:
    """LSF's sentence for a modification that was refused."""
    return f"{reason.rstrip('.')}. Job not modified."


def read_modification(
    words: Sequence[str], around: ValueContext, read_file: Callable[[str], bytes] | None = None
) -> Modification:
    """The modification that `words` (without the program's name) ask for. `read_file`: reads a file of the caller;
    None: what an image is on the caller's side is not looked at.

    Raises BadRequest with one line ending in "Job not modified."
    """
    try:
        line = BMOD.read(words)
        if line.has("h", "-help", "V"):
            return Modification(wants_help=line.has("h", "-help"), wants_version=line.has("V"))
        asked = _modification(line, around)
        if read_file is not None and line.has("-container"):
            check_image_file(asked.values["container"], read_file)
        return asked
    except BadRequest as error:
        raise BadRequest(unmodified(error.text)) from None


def _modification(line: Parsed, around: ValueContext) -> Modification:
    for name, option in [(name, each[0]) for name, each in RESETS.items()] + list(LIMIT_RESETS.items()):
        if line.has(name) and line.has(option):
            raise BadRequest(f"options -{option} and -{name} contradict each other")
    names = line.last("J")
    array_limit = _ARRAY_LIMIT.fullmatch(names.strip())
    values = spec_values(Parsed(tuple(each for each in line.given if each[0] != "J" or not array_limit)), around)
    if values.pop("indices", ""):
        raise BadRequest(f"-J '{names[:60]}': the indices of an array cannot be changed; -J '%5' changes its limit")
    if "name" in values:
        del values["array_limit"]
    if array_limit:
        values["array_limit"] = int(array_limit[1])
    if line.has("Z"):
        values["command"] = _command(line.last("Z"))
    targets = _notices(line, around, values)
    for name in _FIXED:
        values.pop(name, None)
    notes = values.pop("warnings", ())
    limits: dict[str, float | None] = dict(values.pop("limits", {}))
    for name, (_, *fields) in RESETS.items():
        if line.has(name):
            values |= {each: _DEFAULTS[each] for each in fields}
    limits |= {LIMITS[option]: None for name, option in LIMIT_RESETS.items() if line.has(name)}
    if not values and not limits:
        raise BadRequest("nothing to change: give an option (-h lists them)")
    if not line.rest:
        raise BadRequest("name a job")
    return Modification(
        jobs=tuple(line.rest),
        values=values,
        limits=limits,
        notice_targets=targets,
        notes=notes,
        default_slots=line.has("nn", "hostfilen"),
        ends_host_file=line.has("hostfilen"),
    )


def _notices(line: Parsed, around: ValueContext, values: SpecValues) -> bytes:
    """Puts the wishes of --notify among the values; where the notices go is returned, packed."""
    if not line.has("-notify"):
        return b""
    asked = [(value, 0) for value in line.all("-notify")]
    values["notices"], targets = notices_of_options(asked, around.notify_file, around.cwd, around.home)
    return packed_targets(targets)


def _command(text: str) -> str:
    if not text.strip():
        raise BadRequest("No command is specified")
    return check_text(text, "the command")


def _defaults() -> SpecValues:
    """What a field is when its option was not given. An empty queue or project is the cluster's default one."""
    plain = JobSpec(command="", user="", queue="", project="")
    return {name: getattr(plain, name) for _, *fields in RESETS.values() for name in fields}


_DEFAULTS = _defaults()
