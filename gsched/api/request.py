"""A submission from keyword arguments: they become bsub's options, and are read and checked as those are.

What an option means is known to gsched.dialect alone, so a program and a command line can never mean different things.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from gsched.api.named import Named, number_of
from gsched.base.envdir import home_of, read_setting
from gsched.base.errors import BadRequest
from gsched.base.ids import show_job
from gsched.cli.zone import zone_of
from gsched.dialect.bsub import read_submission
from gsched.dialect.environment import environment_block
from gsched.dialect.spec_values import Surroundings
from gsched.model.view import Submission

Text = str | os.PathLike[str]

UNIT_VARIABLE = "LSF_UNIT_FOR_LIMITS"
_DEFAULT_UNIT = "MB"


class SubmitOptions(TypedDict, total=False):
    """How a job is to run. What is left out is as for gsub without that option."""

    gpus: int | str
    """-gpu: a number of GPUs on each host, or a text such as `num=2:mode=exclusive_process`."""
    requirement: str | Sequence[str]
    """-R; several add up."""
    queue: str | Sequence[str]
    """-q; of several the first that accepts the job."""
    name: str
    slots: int | tuple[int, int]
    """-n: slots in all, or the least and the most."""
    env: Mapping[str, str]
    """The job's environment, instead of this process's."""
    cwd: Text
    """The directory it runs in; relative paths of the job count from it."""
    input: Text
    output: Text
    """-o; %J is the job's number, %I the index in an array."""
    error: Text
    overwrite: bool
    """The output and error files are emptied first (-oo, -eo)."""
    after: str | Named | Iterable[Named]
    """Jobs that must be DONE first, or a condition as for -w: `ended(12) && done(13)`."""
    array: int | str | range
    """Elements: their number, a list such as `1-100:2%8`, or a range."""
    run_limit: timedelta | str
    """-W: the job is ended when it has run for so long (whole minutes, rounded up), or `[hours:]minutes`."""
    project: str
    hosts: str | Sequence[str]
    """-m."""
    priority: int
    """-sp."""
    group: str
    """-g, a job group such as `/night`."""
    hold: bool
    """-H: it waits until it is resumed."""
    script: str | bytes
    """A script instead of a command; its #BSUB lines count, options given here come before them."""
    options: Sequence[str]
    """Further words of a gsub command line: `["-M", "4GB", "-x"]`."""


class JobRequest(SubmitOptions, total=False):
    """One job of submit_many."""

    command: str | Sequence[str]
    """A line for the shell, or the words of a command, which reach it as they are."""


class Desk:
    """Where requests become submissions: what is the same for all requests of a moment is looked up once."""

    def __init__(self, conf_dir: str) -> None:
        self._environment = dict(os.environ)
        unit = self._environment.get(UNIT_VARIABLE) or read_setting(conf_dir, UNIT_VARIABLE) or _DEFAULT_UNIT
        self._around = Surroundings(cwd=os.getcwd(), now=time.time(), zone=zone_of(self._environment), unit=unit)
        self._home = home_of(os.getuid(), self._environment)
        self._host = os.uname().nodename.partition(".")[0]
        self._umask = _umask()
        self._block_here = environment_block(self._environment)

    def submission(self, request: JobRequest) -> Submission:
        """The submission that is asked for. Raises BadRequest naming the option that is wrong."""
        unknown = next((name for name in request if name not in _KNOWN), None)
        if unknown is not None:
            raise BadRequest(f"submit has no option '{unknown}'")
        cwd = request.get("cwd")
        around = self._around
        if cwd is not None:
            around = dataclasses.replace(around, cwd=os.path.abspath(os.fspath(cwd)))
        script = request.get("script")
        words = [*_options(request), *request.get("options", ())]
        asked = read_submission(
            [*words, *_command(request)],
            read_stdin=lambda: script.encode() if isinstance(script, str) else script or b"",
            read_file=lambda path: (Path(around.cwd) / path).read_bytes(),
            env=self._environment,
            around=around,
            parse_script=True,
        )
        if asked.wants_help or asked.wants_version or asked.wait or asked.is_interactive:
            raise BadRequest("submit: -h, -V, -K and -I are for the command line")
        spec = msgspec.structs.replace(asked.spec, home=self._home, submit_host=self._host, umask=self._umask)
        chosen = request.get("env", asked.environment)
        return Submission(spec=spec, environment=self._block(chosen), script=asked.script or b"")

    def _block(self, environment: Mapping[str, str]) -> bytes:
        # Of most requests it is this process's environment, copied: one block stands for them all.
        return self._block_here if environment == self._environment else environment_block(environment)


def _plain(value: object) -> Sequence[str]:
    return (os.fspath(value) if isinstance(value, str | os.PathLike) else str(value),)


def _words(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def _joined(value: str | Sequence[str]) -> Sequence[str]:
    return (" ".join(_words(value)),)


def _gpus(value: int | str) -> Sequence[str]:
    if isinstance(value, int):
        return (f"num={value}",) if value else ()
    return (value,)


def _slots(value: int | tuple[int, int]) -> Sequence[str]:
    return (str(value) if isinstance(value, int) else ",".join(str(each) for each in value),)


def _conditions(after: str | Named | Iterable[Named]) -> Sequence[str]:
    if isinstance(after, str):
        return (after,)
    jobs = list(after) if isinstance(after, Iterable) else [after]
    return (" && ".join(f"done({show_job(number_of(job))})" for job in jobs),) if jobs else ()


def _minutes(limit: timedelta | str) -> Sequence[str]:
    if isinstance(limit, str):
        return (limit,)
    if not isinstance(limit, timedelta):
        raise BadRequest(f"run_limit={limit!r}: is that minutes or seconds? Give timedelta(minutes=...) or '1:30'")
    return (str(ceil(limit.total_seconds() / 60)),)


def _array(array: int | str | range) -> str:
    """`[1-100:2]%8`."""
    if isinstance(array, int):
        array = f"1-{array}"
    if isinstance(array, range):
        if not array or array.step < 1:
            raise BadRequest(f"array={array!r}: the indices of an array ascend, and there is at least one")
        array = f"{array.start}-{array[-1]}:{array.step}"
    indices, percent, limit = array.partition("%")
    return f"[{indices.strip().removeprefix('[').removesuffix(']')}]{percent}{limit}"


_KNOWN = JobRequest.__optional_keys__
_VALUES: Mapping[str, tuple[str, Callable[[Any], Sequence[str]]]] = {
    "name": ("J", _plain),
    "queue": ("q", _joined),
    "slots": ("n", _slots),
    "gpus": ("gpu", _gpus),
    "requirement": ("R", _words),
    "hosts": ("m", _joined),
    "input": ("i", _plain),
    "output": ("o", _plain),
    "error": ("e", _plain),
    "after": ("w", _conditions),
    "run_limit": ("W", _minutes),
    "project": ("P", _plain),
    "priority": ("sp", _plain),
    "group": ("g", _plain),
}
"""Option of submit -> bsub's, and how its value is written; one that may be given more often has several."""
_EMPTIED = {"o": "oo", "e": "eo"}


def _options(request: JobRequest) -> Iterator[str]:
    """The words of a gsub command line for what was asked, without the command."""
    values: dict[str, Any] = dict(request)
    for field, value in values.items():
        if value is None:
            raise BadRequest(f"submit: {field}=None: leave the option out instead")
    if "array" in values:
        values["name"] = f"{values.get('name', '')}{_array(values['array'])}"
    for field in _VALUES.keys() & values:
        option, written = _VALUES[field]
        if values.get("overwrite"):
            option = _EMPTIED.get(option, option)
        for word in written(values[field]):
            yield from (f"-{option}", word)
    if values.get("hold"):
        yield "-H"


def _command(request: JobRequest) -> tuple[str, ...]:
    """The command behind the options; nothing for a script."""
    command = request.get("command", ())
    if not command and "script" not in request:
        raise BadRequest("submit needs a command, or script=")
    if command and "script" in request:
        raise BadRequest("submit takes a command or script=, not both")
    if not command:
        return ()
    return ("--", command if isinstance(command, str) else shlex.join(os.fspath(word) for word in command))


def _umask() -> int:
    """This process's umask; os.umask could only tell by setting it, for all threads."""
    try:
        found = re.search(r"^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1], 8) if found is not None else 0o022
