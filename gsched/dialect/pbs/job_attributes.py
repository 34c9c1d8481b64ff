"""-W of qsub: a job's other attributes, each honoured, or refused by name with what to say instead.

Source: qsub(1B) and pbs_job_attributes(7B) of OpenPBS 23; qsub(1B) of Torque 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.depend_lists import condition_of
from gsched.dialect.pbs.pbs_values import parse_count, split_attributes
from gsched.dialect.slurm.dependencies import ElementOf
from gsched.dialect.slurm.gnu_options import GivenOption
from gsched.dialect.spec_values import SpecValues

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
REFUSED = {
    "group_list": "jobs run with the groups of whoever submits them",
    "egroup": "jobs run with the groups of whoever submits them",
    "cred": "jobs run as whoever submits them",
    "pwd": "jobs run as whoever submits them",
    "run_count": "gjobs tells how often a job ran",
    "run_version": "one version runs",
    "create_resv_from_job": "gadmin's grsvadd makes reservations",
    "reserve_start": "grsvadd makes reservations",
    "reserve_end": "grsvadd makes reservations",
    "job_radix": "a job's parts are opened all at once",
    "x": "there is no Moab: say it with -l or -q",
    "fault_tolerant": "a job whose host is lost is run again with -r y",
    "proxy_user": "jobs run as whoever submits them",
    "submit_filter": "esub of LSF changes submissions",
    "forward_x11": "there is no X11 forwarding",
    "interactive_port": "say -I",
}
"""Attributes that are known and not taken -> why, or what to say instead."""


@dataclass(slots=True)
class JobAttributes:
    """What -W said."""

    values: SpecValues = field(default_factory=dict)
    """Fields of a JobSpec."""
    waits: bool = False
    """block=true."""
    is_interactive: bool = False
    umask: int | None = None


def read_attributes(
    given: Iterable[GivenOption], element_of: ElementOf, is_here: Callable[[str], bool]
) -> JobAttributes:
    """Of an attribute given twice the later counts. `is_here`: is that this host's name? Raises BadRequest."""
    found = JobAttributes()
    for option in given:
        try:
            for name, value in split_attributes(option.value):
                if name in REFUSED:
                    raise BadRequest(f"{name}= is not supported: {REFUSED[name]}")
                if name not in _READERS:
                    raise BadRequest(f"{name[:40]}= is not known: {', '.join(sorted(_READERS))} are")
                _READERS[name](found, value, element_of, is_here)
        except BadRequest as error:
            raise BadRequest(f"{option.place}: illegal -W value: {error.text}") from None
    return found


def _flag(text: str, name: str) -> bool:
    if text.lower() not in (*_TRUE, *_FALSE):
        raise BadRequest(f"{name}='{text[:40]}' is neither true nor false")
    return text.lower() in _TRUE


_Reader = Callable[[JobAttributes, str, ElementOf, Callable[[str], bool]], None]


def _depend(found: JobAttributes, text: str, element_of: ElementOf, is_here: Callable[[str], bool]) -> None:
    # As PBS: a job that can never start because of another's end is deleted.
    found.values |= {"dependency": condition_of(text, element_of), "end_orphan": True}


def _block(found: JobAttributes, text: str, *_: object) -> None:
    found.waits = _flag(text, "block")


def _interactive(found: JobAttributes, text: str, *_: object) -> None:
    found.is_interactive = _flag(text, "interactive")


def _umask(found: JobAttributes, text: str, *_: object) -> None:
    if not re.fullmatch("[0-7]{1,4}", text, re.ASCII):
        raise BadRequest(f"umask='{text[:40]}' is no mask of permissions in octal digits")
    found.umask = int(text, 8) & 0o777


def _sandbox(found: JobAttributes, text: str, *_: object) -> None:
    if text.upper() not in ("HOME", "O_WORKDIR"):
        raise BadRequest(f"sandbox={text[:40]} is not supported: HOME and O_WORKDIR are, and TMPDIR is the job's own")
    found.values["sandbox"] = text.upper()


def _most(found: JobAttributes, text: str, *_: object) -> None:
    found.values["array_limit"] = parse_count(text)


def _copies(is_before: bool) -> _Reader:
    """stagein=JOBS_PATH@HOST:PATH and stageout=, as copies of gsub -f."""

    def read(found: JobAttributes, text: str, element_of: ElementOf, is_here: Callable[[str], bool]) -> None:
        for part in text.split(","):
            mine, at, rest = part.partition("@")
            host, colon, theirs = rest.partition(":")
            if not (at and colon and mine.strip() and theirs.strip()) or any(map(str.isspace, mine + theirs)):
                raise BadRequest(f"'{part[:60]}' is not JOBS_PATH@HOST:PATH, without blanks")
            if not is_here(host):
                raise BadRequest(f"'{host[:60]}': files are copied from and to the host of submission alone")
            copy = f"{theirs} {'>' if is_before else '<'} {mine}"
            found.values["file_copies"] = (*found.values.get("file_copies", ()), copy)

    return read


def _only(taken: str) -> _Reader:
    def read(found: JobAttributes, text: str, *_: object) -> None:
        if text.lower() != taken:
            raise BadRequest(f"'{text[:40]}' is not supported: {taken} is")

    return read


_READERS: Mapping[str, _Reader] = {
    "depend": _depend,
    "block": _block,
    "interactive": _interactive,
    "umask": _umask,
    "sandbox": _sandbox,
    "stagein": _copies(is_before=True),
    "stageout": _copies(is_before=False),
    "max_run_subjobs": _most,
    "release_nodes_on_stageout": _only("false"),
    "tolerate_node_failures": _only("none"),
}
