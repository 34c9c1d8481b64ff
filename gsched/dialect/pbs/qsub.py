"""qsub's command line and a script's #PBS lines, read into one submission.

What the command line says counts before the script. Whether the queue exists or the requirement can be met is the
scheduler's to say. Source: qsub(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from gsched.base.errors import BadRequest
from gsched.dialect.bsub import SCRIPT_LIMIT, ParsedSubmission, shown_command
from gsched.dialect.notify import mailed_as_whole
from gsched.dialect.options import place
from gsched.dialect.pbs.job_attributes import read_attributes
from gsched.dialect.pbs.pbs_environment import environment_of, login_shell_of, shell_of
from gsched.dialect.pbs.qsub_fields import FIELDS, QsubReading, fields_of
from gsched.dialect.pbs.qsub_options import QSUB
from gsched.dialect.pbs.resource_lists import read_resources
from gsched.dialect.script_marks import MARKS, leading_directives
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.spec_values import check_text
from gsched.model.jobs.job import PBS, JobSpec

_NOT_IN_SCRIPTS = ("C", "f", "z")
_STDIN = "STDIN"


@dataclass(frozen=True, slots=True)
class QsubSubmission:
    """A job as asked for, and how qsub answers."""

    parsed: ParsedSubmission
    words: GnuWords
    """All options that count."""

    def with_array_mail(self) -> QsubSubmission:
        """The same; of an array there is one mail of its start and one of its end, unless -m has a j."""
        return replace(self, parsed=_mailed(self.parsed, self.words, ()))

    def refused(self, about: Iterable[str], reason: str) -> str:
        """The reason, with the option that set what was found wrong."""
        names = {name for each in about for name in FIELDS.get(each, ())}
        given = next((each for each in reversed(self.words.given) if each.name in names), None)
        return f"{given.place}: {reason}" if given is not None else reason


@dataclass(frozen=True, slots=True)
class _Source:
    """What is to run: a script, or a command line."""

    name: str
    script: bytes | None
    command: str
    from_stdin: bool = False


def read_qsub(
    words: Sequence[str],
    *,
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
    reading: QsubReading,
) -> QsubSubmission:
    """The submission that `words` (without the program's name) ask for. Standard input is read only where neither a
    script nor a command is named, and the job is not interactive. Raises BadRequest.
    """
    line = QSUB.read(words)
    source = _source(line, words, read_stdin, read_file, env)
    mark = line.value("C", env.get("PBS_DPREFIX", "#PBS")).strip()
    of_script = _words_of(source.script, mark) if source.script is not None and mark else GnuWords()
    all_words = GnuWords((*of_script.given, *line.given))
    return QsubSubmission(_submission(all_words, source, env, reading), all_words)


def read_pbs_script(
    script: bytes, words: Sequence[str], env: Mapping[str, str], reading: QsubReading
) -> ParsedSubmission:
    """The submission of a script with #PBS lines that another command than qsub was given. `words`: its file and its
    arguments, as far as they were named. Raises BadRequest.
    """
    name = posixpath.basename(words[0]) if words else _STDIN
    source = _Source(name, _checked(script), "", from_stdin=not words)
    given = _words_of(script, "#PBS")
    asked = _mailed(_submission(given, source, env, reading), given, reading.over)
    if not words[1:]:
        return asked
    for word in words[1:]:
        check_text(word, "an argument of the script")
    return replace(asked, spec=msgspec.structs.replace(asked.spec, script_words=tuple(words[1:])))


def _mailed(parsed: ParsedSubmission, words: GnuWords, over: Collection[str]) -> ParsedSubmission:
    if "j" in words.value("m"):
        return parsed
    spec, targets = mailed_as_whole(parsed.spec, over)
    return replace(parsed, spec=spec, notice_targets=targets)


def _all(words: GnuWords, name: str) -> list[GivenOption]:
    return [each for each in words.given if each.name == name]


def _source(
    line: GnuWords,
    words: Sequence[str],
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
) -> _Source:
    rest = line.rest
    if rest and "--" in words and _ends_at_dashes(words, rest):
        for word in rest:
            check_text(word, "a word of the command")
        return _Source(posixpath.basename(rest[0]), None, shlex.join(rest))
    if len(rest) > 1:
        raise BadRequest(
            f"'{rest[1][:60]}' stands behind the script: options stand before it, and arguments are given with -F "
            "'ARGUMENTS', or qsub -- COMMAND ARGUMENTS"
        )
    if rest and rest[0] != "-":
        return _Source(posixpath.basename(rest[0]), _checked(_file(rest[0], read_file)), "")
    if line.has("I"):
        return _Source(_STDIN, None, shell_of(env))
    return _Source(_STDIN, _checked(read_stdin()), "", from_stdin=True)


def _ends_at_dashes(words: Sequence[str], rest: Sequence[str]) -> bool:
    """Whether `--` ended the options, rather than being one of the script's words."""
    return len(words) > len(rest) and words[len(words) - len(rest) - 1] == "--"


def _file(name: str, read_file: Callable[[str], bytes]) -> bytes:
    try:
        return read_file(name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadRequest(f"script file:: {reason}: {name[:200]}") from None


def _checked(script: bytes) -> bytes:
    if len(script) > SCRIPT_LIMIT:
        raise BadRequest(f"the script is longer than {SCRIPT_LIMIT // (1024 * 1024)} MB")
    if b"\0" in script:
        raise BadRequest("the script holds a NUL byte")
    if b"\r\n" in script:
        number = script.partition(b"\r\n")[0].count(b"\n") + 1
        raise BadRequest(f"script is written in DOS/Windows text format: line {number} of it ends in \\r\\n")
    return script


def _words_of(script: bytes, mark: str) -> GnuWords:
    """The options of the script's directives. Raises BadRequest naming the line that is wrong."""
    given: list[GivenOption] = []
    prefix = mark.encode("utf-8", "surrogateescape")
    if prefix in MARKS and prefix != b"#PBS":
        raise BadRequest(f"-C: {mark} lines are those of another batch system")
    for number, words in leading_directives(script, prefix, "qsub"):
        found = QSUB.read(words, number)
        wrong = next((each for each in found.given if each.name in _NOT_IN_SCRIPTS), None)
        if found.rest or wrong is not None:
            word = wrong.written if wrong is not None else found.rest[0]
            raise BadRequest(f"{place(number)}: '{word[:40]}' cannot stand in a {mark} line")
        given += found.given
    return GnuWords(tuple(given))


def _submission(
    words: GnuWords,
    source: _Source,
    env: Mapping[str, str],
    reading: QsubReading,
) -> ParsedSubmission:
    attributes = read_attributes(_all(words, "W"), reading.element_of, reading.is_here)
    resources = read_resources(_all(words, "l"))
    is_interactive = words.has("I") or attributes.is_interactive
    values = fields_of(words, source.name, resources, attributes, reading)
    script, command = source.script, source.command
    if is_interactive:
        _check_interactive(words, values, source)
        values |= {"interactive": "Is", "rerunnable": None, "output_file": "", "error_file": ""}
        if not words.has("x"):
            script, command = None, command if script is None else shell_of(env)
    if script is not None:
        script = _with_shell(script, words.value("S"), env, reading)
    spec = JobSpec(
        command=command or shown_command(script or b"") or ":",
        user="",
        cwd=reading.around.cwd,
        front_end=PBS,
        login_shell="" if words.has("V") else login_shell_of(env),
        **values,
    )
    return ParsedSubmission(
        spec=spec,
        script=script,
        environment=environment_of(words, env, spec, reading.around.home, resources.chunks, reading.host),
        wait=attributes.waits,
        from_stdin=source.from_stdin,
        is_interactive=is_interactive,
        umask=attributes.umask,
        other_places={name: at for name, at in words.places(FIELDS).items() if name not in reading.over},
    )


def _check_interactive(words: GnuWords, values: Mapping[str, object], source: _Source) -> None:
    if values.get("indices"):
        raise BadRequest("interactive and array job submission cannot be used together")
    if source.from_stdin:
        raise BadRequest("-I: the script was read from the terminal that the job is to have")
    for name in ("k", "j"):
        given = words.last(name)
        if given is not None and given.value != "n" and not given.line:
            raise BadRequest(f"-{name}: what an interactive job prints is shown")


def _with_shell(script: bytes, shells: str, env: Mapping[str, str], reading: QsubReading) -> bytes:
    """The script with the shell that runs it in its first line: that of -S, else its own, else the user's."""
    shell = _named_shell(shells, reading)
    if script.startswith(b"#!"):
        if not shell:
            return script
        _, newline, rest = script.partition(b"\n")
        return b"#!" + shell.encode() + newline + rest
    shell = shell or shell_of(env)
    return b"#!" + shell.encode() + b"\n" + script


def _named_shell(shells: str, reading: QsubReading) -> str:
    """Of `PATH[@HOST],...` the one for this host, or for any."""
    found = ""
    for part in filter(None, shells.split(",")):
        path, at, host = part.strip().partition("@")
        if not path.startswith("/") or any(char.isspace() for char in path):
            raise BadRequest(f"illegal -S value: '{part[:60]}' is not the absolute path of a shell")
        if not at or reading.is_here(host):
            found = found or check_text(path, "the shell")
    if shells and not found:
        raise BadRequest(f"illegal -S value: '{shells[:60]}' names no shell for this host")
    return found
