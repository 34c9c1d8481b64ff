"""A submission from keyword arguments: they become bsub's options, and are read and checked as those are.

What an option means is known to gsched.dialect alone, so a program and a command line can never mean different things.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from gsched.api import values
from gsched.api.named import NamesJob, number_of
from gsched.base.envdir import home_of, read_setting
from gsched.base.errors import BadRequest, GschedError
from gsched.base.ids import show_job
from gsched.cli.session.call import INPUT_LIMIT
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.bsub import read_submission
from gsched.dialect.environment import environment_block
from gsched.dialect.notify import MOST_BYTES, NotifyFile, is_missing, path_of
from gsched.dialect.options import Parsed
from gsched.dialect.spec_values import ValueContext, place_of_fields
from gsched.model.views.view import Submission

PathOrText = str | os.PathLike[str]
CommandLine = PathOrText | Sequence[PathOrText | float]

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
    slots: int | Sequence[int]
    """-n: slots in all, or the least and the most."""
    env: Mapping[str, str]
    """The job's environment, instead of this process's."""
    cwd: PathOrText
    """The directory it runs in; relative paths of the job count from it."""
    input: PathOrText
    output: PathOrText
    """-o; %J is the job's number, %I the index in an array."""
    error: PathOrText
    overwrite: bool
    """The output and error files are emptied first (-oo, -eo)."""
    after: str | NamesJob | Iterable[NamesJob]
    """Jobs that must be DONE first, or a condition as for -w: `ended(12) && done(13)`."""
    array: int | str | range | Sequence[int]
    """Elements: their number, a list such as `1-100:2%8`, a range, or their indices."""
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
    notify: str | Sequence[str]
    """--notify: whom to tell of the job: `mail,fail`, a URL, the path of a program, a name of ~/.gsched/notify."""
    plot: str | Sequence[str]
    """--plot: numbers of the output that are drawn, `loss=loss = ([0-9.e+-]+)`."""
    script: str | bytes | os.PathLike[str]
    """A script instead of a command, its text or the Path of its file; its #BSUB lines count, options given here come
    before them."""
    options: Sequence[str]
    """Further words of a gsub command line: `["-M", "4GB", "-x"]`."""


class JobRequest(SubmitOptions, total=False):
    """One job of submit_many."""

    command: CommandLine
    """A line for the shell, or the words of a command, which reach it as they are."""


class RequestReader:
    """Where requests become submissions: what is the same for all requests of a moment is looked up once."""

    def __init__(self, conf_dir: str) -> None:
        self._environment = dict(os.environ)
        self._home = home_of(os.getuid(), self._environment)
        unit = self._environment.get(UNIT_VARIABLE) or read_setting(conf_dir, UNIT_VARIABLE) or _DEFAULT_UNIT
        self._around = ValueContext(
            cwd=os.getcwd(),
            now=time.time(),
            zone=zone_of(self._environment),
            unit=unit,
            home=self._home,
            notify_file=lambda: self._notify_file,
        )
        self._host = os.uname().nodename.partition(".")[0]
        self._umask = _umask()
        self._block_here = environment_block(self._environment)
        self._options = Parsed()
        """Of the last submission."""

    def submission(self, request: JobRequest) -> Submission:
        """The submission that is asked for. Raises BadRequest naming the option that is wrong."""
        for name, value in request.items():
            if name not in _KNOWN:
                raise BadRequest(f"submit has no option '{name}'{values.nearest(name, _KNOWN)}")
            if value is None:
                raise BadRequest(f"submit: {name}=None: leave the option out instead")
        around = self._around
        if "cwd" in request:
            around = dataclasses.replace(around, cwd=os.path.abspath(values.path("cwd", request["cwd"])))
        script = _script(request["script"], around.cwd) if "script" in request else b""
        words = [*_options(request), *values.texts("options", request.get("options", ()))]
        asked = read_submission(
            [*words, *_command(request)],
            read_stdin=lambda: script,
            read_file=functools.partial(_read_file, around.cwd),
            env=self._environment,
            around=around,
            parse_script=True,
        )
        if asked.is_for_terminal:
            raise BadRequest("submit: -h, -V, -K, -I, --test-only and --dry-run are for the command line")
        spec = msgspec.structs.replace(asked.spec, home=self._home, submit_host=self._host, umask=self._umask)
        self._options = asked.options
        chosen = values.environment(request["env"]) if "env" in request else asked.environment
        return Submission(
            spec=spec,
            environment=self._block(chosen),
            script=asked.script or b"",
            input=asked.input,
            notice_targets=asked.notice_targets,
        )

    @functools.cached_property
    def _notify_file(self) -> NotifyFile | None:
        return _notify_file(self._environment, self._home)

    def place(self, error: GschedError) -> str:
        """The lines of the last submission's script that the master finds wrong; empty where it is not about them."""
        return place_of_fields(self._options, error.about)

    def _block(self, environment: Mapping[str, str]) -> bytes:
        # Of most requests it is this process's environment, copied: one block stands for them all.
        return self._block_here if environment == self._environment else environment_block(environment)


def _joined(name: str, value: object) -> Sequence[str]:
    return (" ".join(values.texts(name, value)),)


def _text(name: str, value: object) -> Sequence[str]:
    return (values.text(name, value),)


def _path(name: str, value: object) -> Sequence[str]:
    return (values.path(name, value),)


def _whole(name: str, value: object) -> Sequence[str]:
    return (str(values.whole(name, value)),)


def _gpus(name: str, value: object) -> Sequence[str]:
    if isinstance(value, str):
        return (f"num={value}" if _RANGE.fullmatch(value) else values.plain(value),)
    count = values.whole(name, value, " or a text such as '2..8' or 'num=2:mode=shared'")
    return (f"num={count}",) if count else ()


def _slots(name: str, value: object) -> Sequence[str]:
    if isinstance(value, str) or values.whole_or_none(value) is not None:
        return (values.text(name, value),)
    counts = values.members(name, value, "a whole number, or the least and the most,")
    return (",".join(str(values.whole(name, each)) for each in counts),)


def _conditions(name: str, after: object) -> Sequence[str]:
    if isinstance(after, str):
        return (values.plain(after),)
    is_one = values.whole_or_none(after) is not None or not isinstance(after, Iterable)
    jobs: list[Any] = [after] if is_one else values.members(name, after, "a job")
    return (" && ".join(f"done({show_job(number_of(job))})" for job in jobs),) if jobs else ()


def _minutes(name: str, limit: object) -> Sequence[str]:
    if isinstance(limit, str):
        return (values.plain(limit),)
    if values.whole_or_none(limit) is not None or isinstance(limit, float):
        raise BadRequest(f"{name}={limit!r}: is that minutes or seconds? Give timedelta(minutes=...) or '1:30'")
    return (str(ceil(values.duration(name, limit).total_seconds() / 60)),)


def _array(array: object) -> str:
    """`[1-100:2]%8`."""
    count = values.whole_or_none(array)
    if count is not None:
        array = f"1-{count}"
    elif isinstance(array, range):
        if not array or array.step < 1:
            raise BadRequest(f"array={array!r}: the indices of an array ascend, and there is at least one")
        array = f"{array.start}-{array[-1]}:{array.step}"
    elif not isinstance(array, str):
        indices = values.members("array", array, "a number, a text such as '1-100:2%8', a range or a list of indices")
        if not indices:
            raise BadRequest(f"array={array!r}: there is at least one index")
        array = ",".join(str(values.whole("array", index)) for index in indices)
    text, percent, limit = values.plain(array).partition("%")
    return f"[{text.strip().removeprefix('[').removesuffix(']')}]{percent}{limit}"


_RANGE = re.compile(r"[0-9]+\.\.[0-9]+", re.ASCII)
_SCRIPTS = (".sh", ".bash", ".csh", ".zsh", ".py", ".bsub", ".lsf", ".job")


def _read_file(folder: str, name: str) -> bytes:
    """A file of the program, no longer than one of a command. Raises OSError."""
    with open(os.path.join(folder, name), "rb") as file:
        content = file.read(INPUT_LIMIT + 1)
    if len(content) > INPUT_LIMIT:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), name)
    return content


def _script(script: object, cwd: str) -> bytes:
    """The text of a script. Raises BadRequest, also for a text that is meant to be the name of a file."""
    if isinstance(script, bytes):
        return script
    if isinstance(script, os.PathLike):
        where = Path(cwd) / os.fsdecode(script)
        try:
            return where.read_bytes()
        except OSError as problem:
            raise BadRequest(f"script={script!r}: {where}: {problem.strerror}") from None
    if not isinstance(script, str):
        raise values.wrong("script", script, "the text of a script, or the Path of its file,")
    if script and len(script.split()) == 1 and "\0" not in script:
        name = script.strip()
        if name.endswith(_SCRIPTS) or (len(name) < _LONGEST_PATH and (Path(cwd) / name).is_file()):
            raise BadRequest(f"script={script!r} is the name of a file: give Path({name!r}), or what stands in it")
    return script.encode()


_LONGEST_PATH = 4096
_KNOWN = JobRequest.__optional_keys__
_VALUES: Mapping[str, tuple[str, Callable[[str, Any], Sequence[str]]]] = {
    "name": ("J", _text),
    "queue": ("q", _joined),
    "slots": ("n", _slots),
    "gpus": ("gpu", _gpus),
    "requirement": ("R", values.texts),
    "hosts": ("m", _joined),
    "input": ("i", _path),
    "output": ("o", _path),
    "error": ("e", _path),
    "after": ("w", _conditions),
    "run_limit": ("W", _minutes),
    "project": ("P", _text),
    "priority": ("sp", _whole),
    "group": ("g", _text),
    "notify": ("-notify", values.texts),
    "plot": ("-plot", values.texts),
}
"""Option of submit -> bsub's, and how its value is written; one that may be given more often has several."""
_EMPTIED = {"o": "oo", "e": "eo"}


def _options(request: JobRequest) -> Iterator[str]:
    """The words of a gsub command line for what was asked, without the command."""
    given: dict[str, Any] = dict(request)
    if "array" in given:
        given["name"] = f"{values.text('name', given.get('name', ''))}{_array(given['array'])}"
    empties = values.truth("overwrite", given.get("overwrite", False))
    for field in _VALUES.keys() & given:
        option, written = _VALUES[field]
        if empties:
            option = _EMPTIED.get(option, option)
        for word in written(field, given[field]):
            yield from (f"-{option}", word)
    if values.truth("hold", given.get("hold", False)):
        yield "-H"


def _command(request: JobRequest) -> tuple[str, ...]:
    """The command behind the options; nothing for a script."""
    command: object = request.get("command", ())
    if isinstance(command, os.PathLike):
        command = (command,)
    if isinstance(command, str):
        command = values.plain(command)
    else:
        parts = values.members("command", command, "a line for the shell, a path or a list of words")
        command = shlex.join(values.word("command", part) for part in parts)
    if not command and "script" not in request:
        raise BadRequest("submit needs a command, or script=")
    if command and "script" in request:
        raise BadRequest("submit takes a command or script=, not both")
    return ("--", command) if command else ()


def _notify_file(environment: Mapping[str, str], home: str) -> NotifyFile | None:
    """This user's ~/.gsched/notify; None where there is none. Raises BadRequest where it cannot be read."""
    path = path_of(environment, home)
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return NotifyFile(path, file.read(MOST_BYTES + 1), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    except OSError as error:
        if is_missing(error, environment):
            return None
        raise BadRequest(f"{path}: cannot be read: {error.strerror}") from None


def _umask() -> int:
    """This process's umask; os.umask could only tell by setting it, for all threads."""
    try:
        found = re.search(r"^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1], 8) if found is not None else 0o022
