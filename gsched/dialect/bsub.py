"""bsub's command line and a script's #BSUB lines, read into one Submission and checked without knowing the cluster.

Whether the queue exists or the requirement can be met is the scheduler's to say. Files are read through the caller's
own functions only. Source: bsub(1) of LSF 10.1.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gsched.base.errors import BadRequest
from gsched.base.units import parse_run_limit
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.command_line import join_words
from gsched.dialect.directives import directives
from gsched.dialect.environment import choose_environment
from gsched.dialect.options import Parsed

SCRIPT_LIMIT = 2 * 1024 * 1024
"""Most bytes of a script: it travels in one message and is kept for as long as the job is remembered."""
MAX_SLOTS = 1_000_000
_MAX_TEXT = 4094
"""Longest name or path, as in LSF."""
_SHOWN_COMMAND = 4094
_BOM = b"\xef\xbb\xbf"
_CWD_PATTERN = re.compile("%(JG?|I|E[JI]|[PUGH])")
"""What LSF replaces in -cwd. Source: bsub(1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job as asked for. Empty texts mean "not said". Paths are as given, with %J and %I in them."""

    command: str = ""
    """The command line; for a script its effective lines joined with `;`, for display only."""
    script: bytes | None = None
    """The script to run, whole; None for a command line."""
    queue: str = ""
    queue_named: bool = False
    """Was it named with -q (and not by LSB_DEFAULTQUEUE)?"""
    name: str = ""
    project: str = ""
    slots: int = 1
    requirements: tuple[str, ...] = ()
    """Every -R, in order."""
    hosts: tuple[str, ...] = ()
    cwd: str = ""
    """Absolute directory of submission."""
    specified_cwd: str = ""
    input_file: str = ""
    output_file: str = ""
    output_overwrite: bool = False
    error_file: str = ""
    error_overwrite: bool = False
    run_limit_s: int | None = None
    environment: Mapping[str, str]
    wait: bool = False
    hold: bool = False
    wants_help: bool = False
    wants_version: bool = False
    warnings: tuple[str, ...] = ()


def rejected(reason: str) -> str:
    """LSF's sentence for a submission that was refused."""
    return f"{reason.rstrip('.')}. Job not submitted."


def read_submission(
    words: Sequence[str],
    *,
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
    cwd: str,
    parse_script: bool = False,
) -> Submission:
    """The submission that `words` (without the program's name) ask for.

    Standard input is read only if there is no command. `parse_script` is the cluster's LSB_BSUB_PARSE_SCRIPT; the
    variable of that name in `env` overrides it: then a command that is a readable text file and stands alone is
    submitted as a copy, its #BSUB lines honoured. What the command line says replaces what #BSUB lines say of the
    same option. Raises BadRequest with one line ending in "Job not submitted."
    """
    try:
        line = BSUB.read(words)
        if line.has("h", "-help", "V"):
            return Submission(environment={}, wants_help=line.has("h", "-help"), wants_version=line.has("V"))
        flag = env.get("LSB_BSUB_PARSE_SCRIPT", "")
        source = _source(
            line.rest, read_stdin, read_file, env, parse_script=flag.upper() == "Y" if flag else parse_script
        )
        return _submission(_merged(line, source.directives), source, env, cwd)
    except BadRequest as error:
        raise BadRequest(rejected(error.text)) from None


@dataclass(frozen=True, slots=True)
class _Source:
    """What is to run, and what its directives say."""

    command: str
    script: bytes | None = None
    directives: Parsed = field(default_factory=Parsed)
    warnings: tuple[str, ...] = ()


def _source(
    words: Sequence[str],
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
    *,
    parse_script: bool,
) -> _Source:
    if not words:
        return _script_source(_read(read_stdin), "No command is specified")
    command = join_words(words, quote_first=env.get("LSB_API_QUOTE_CMD", "").upper() == "Y")
    if not command.strip():
        raise BadRequest("No command is specified")
    script = _script_file(words[0], read_file) if parse_script else None
    if script is None or not any(True for _ in directives(script)):
        # A plain program or script runs where it lies: its $0 and its neighbours are what its author expects.
        return _Source(_text(command, "the command"))
    if len(words) == 1:
        source = _script_source(script, "No command is specified in the script file")
        return replace(source, command=_text(command, "the command"))
    note = f"{words[0]} was given arguments, so it is not copied: what its file holds when the job starts is run"
    return _Source(_text(command, "the command"), None, _directives(_checked_script(script)), (note,))


def _read(read_stdin: Callable[[], bytes]) -> bytes:
    try:
        return read_stdin()
    except OSError as error:
        raise BadRequest(f"standard input cannot be read as a script: {error.strerror}") from None


def _script_file(path: str, read_file: Callable[[str], bytes]) -> bytes | None:
    """The text file `path`; None when it is no file, or a program: then the word is a command."""
    try:
        data = read_file(path)
    except (OSError, ValueError):
        return None
    return None if b"\0" in data else data


def _script_source(script: bytes, nothing: str) -> _Source:
    script = _checked_script(script)
    command = shown_command(script)
    if not command:
        raise BadRequest(nothing)
    return _Source(command, script, _directives(script))


def _checked_script(script: bytes) -> bytes:
    if len(script) > SCRIPT_LIMIT:
        raise BadRequest(f"The script is longer than {SCRIPT_LIMIT // (1024 * 1024)} MB")
    if b"\0" in script:
        raise BadRequest("The script is a binary file, not text")
    if b"\r\n" in script or script.endswith(b"\r"):
        number = script.partition(b"\r")[0].count(b"\n") + 1
        raise BadRequest(
            f"Line {number} of the script ends with CR LF (Windows); convert it, with dos2unix for example"
        )
    return script.removeprefix(_BOM)


def shown_command(script: bytes) -> str:
    """COMMAND of a script: its lines joined with `;`, without blank lines, comments and directives; cut when long."""
    lines = (line.strip() for line in script.decode("utf-8", "replace").split("\n"))
    command = ";".join(line for line in lines if line and not line.startswith("#"))
    return command if len(command) <= _SHOWN_COMMAND else command[: _SHOWN_COMMAND - 3] + "..."


def _directives(script: bytes) -> Parsed:
    given: list[tuple[str, str]] = []
    for number, words in directives(script):
        try:
            parsed = BSUB.read(words)
        except BadRequest as error:
            raise BadRequest(f"line {number} of the script: {error.text}") from None
        if parsed.rest or parsed.has("h", "-help", "V"):
            word = parsed.rest[0] if parsed.rest else "-" + parsed.given[-1][0]
            raise BadRequest(f"line {number} of the script: '{word}' cannot stand in a #BSUB line")
        given += parsed.given
    return Parsed(tuple(given))


_TOGETHER = ({"o", "oo"}, {"e", "eo"})
"""Options that say the same thing in two ways: one on the command line replaces the other in the script."""


def _merged(line: Parsed, script: Parsed) -> Parsed:
    replaced = {name for name, _ in line.given}
    for names in _TOGETHER:
        if names & replaced:
            replaced |= names
    kept = tuple(each for each in script.given if each[0] not in replaced)
    return Parsed(kept + line.given)


def _submission(options: Parsed, source: _Source, env: Mapping[str, str], cwd: str) -> Submission:
    for name, value in options.given:
        _text(value, f"the value of -{name}")
    output_file, output_overwrite = _file(options, "o", "oo")
    error_file, error_overwrite = _file(options, "e", "eo")
    specified = _path(options, "cwd")
    if _CWD_PATTERN.search(specified):
        raise BadRequest(f"-cwd: patterns such as %J in '{specified}' are not supported yet")
    queue = options.last("q") or env.get("LSB_DEFAULTQUEUE", "")
    return Submission(
        command=source.command,
        script=source.script,
        queue=_one_queue(queue, options.has("q")),
        queue_named=options.has("q"),
        name=_job_name(options),
        project=options.last("P") or env.get("LSB_DEFAULTPROJECT", ""),
        slots=_slots(options.last("n", "1")),
        requirements=tuple(text for text in options.all("R") if text.strip()),
        hosts=tuple(_hosts(options.last("m"))),
        cwd=cwd,
        specified_cwd=posixpath.normpath(posixpath.join(cwd, specified)) if specified else "",
        input_file=_path(options, "i"),
        output_file=output_file,
        output_overwrite=output_overwrite,
        error_file=error_file,
        error_overwrite=error_overwrite,
        run_limit_s=_run_limit(options.last("W")) if options.has("W") else None,
        environment=choose_environment(options.all("env"), env),
        wait=options.has("K"),
        hold=options.has("H"),
        warnings=source.warnings,
    )


def _text(value: str, what: str) -> str:
    """`value`, if it can be kept as text. Raises BadRequest for bytes that are not UTF-8, and for NUL."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(f"{what} is not UTF-8") from None
    if "\0" in value:
        raise BadRequest(f"{what} holds a NUL byte")
    return value


def _path(options: Parsed, name: str) -> str:
    value = options.last(name)
    if options.has(name) and not value.strip():
        raise BadRequest(f"option -{name} needs a path that is not empty")
    if len(value) > _MAX_TEXT:
        raise BadRequest(f"the path given with -{name} is longer than {_MAX_TEXT} characters")
    return value


def _file(options: Parsed, append: str, overwrite: str) -> tuple[str, bool]:
    """(path, is it overwritten) by whichever of the two options came last."""
    last = options.last_of(append, overwrite)
    return ("", False) if last is None else (_path(options, last[0]), last[0] == overwrite)


def _one_queue(text: str, named: bool) -> str:
    names = text.split()
    if named and not names:
        raise BadRequest("option -q needs the name of a queue")
    if len(names) > 1:
        raise BadRequest(f"a list of queues ('{text}') is not supported yet; name one queue")
    return names[0] if names else ""


def _job_name(options: Parsed) -> str:
    name = options.last("J")
    if options.has("J") and not name.strip():
        raise BadRequest("Bad job name: -J needs a name that is not empty")
    if "[" in name:
        raise BadRequest(f"job arrays (-J '{name}') are not supported yet")
    if len(name) > _MAX_TEXT:
        raise BadRequest(f"Bad job name: it is longer than {_MAX_TEXT} characters")
    return name


def _slots(text: str) -> int:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise BadRequest(f"-n: '{text}' is not a number of slots")
    numbers = [int(part) for part in parts]
    if not 1 <= numbers[0] <= MAX_SLOTS:
        raise BadRequest(f"-n: '{text}' is not a number of slots from 1 to {MAX_SLOTS}")
    if numbers[0] != numbers[-1]:
        raise BadRequest(f"-n: a range of slots ('{text}') is not supported yet; give one number")
    return numbers[0]


def _hosts(text: str) -> Iterator[str]:
    for word in text.split():
        if word.endswith("!") or "+" in word or word == "others":
            raise BadRequest(f"-m: host preferences such as '{word}' are not supported yet; give names of hosts")
        yield word


def _run_limit(text: str) -> int:
    try:
        return parse_run_limit(text)
    except BadRequest as error:
        raise BadRequest(f"-W: {error.text}") from None
