"""bsub's command line and a script's #BSUB lines, read into one Submission and checked without knowing the cluster.

Whether the queue exists or the requirement can be met is the scheduler's to say. Files are read through the caller's
own functions only. Source: bsub(1) of LSF 10.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gsched.base.errors import BadRequest
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.command_line import join_words
from gsched.dialect.directives import directives
from gsched.dialect.environment import choose_environment
from gsched.dialect.options import Parsed
from gsched.dialect.spec_values import Surroundings, check_text, spec_values
from gsched.model.job import JobSpec

SCRIPT_LIMIT = 2 * 1024 * 1024
"""Most bytes of a script: it travels in one message and is kept for as long as the job is remembered."""
_SHOWN_COMMAND = 4094
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One job as asked for. `spec` lacks what the caller's side or the master adds: user, home, submission host."""

    spec: JobSpec = field(default_factory=lambda: JobSpec(command="", user="", queue=""))
    """Of a script the command is its effective lines joined with `;`, for display only. Paths have %J and %I in them;
    an empty queue and project mean the default ones."""
    script: bytes | None = None
    """The script to run, whole; None for a command line."""
    environment: Mapping[str, str]
    wait: bool = False
    wants_help: bool = False
    wants_version: bool = False


def rejected(reason: str) -> str:
    """LSF's sentence for a submission that was refused."""
    return f"{reason.rstrip('.')}. Job not submitted."


def read_submission(
    words: Sequence[str],
    *,
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
    around: Surroundings,
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
        return _submission(_merged(line, source.directives), source, env, around)
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
        return _Source(check_text(command, "the command"))
    if len(words) == 1:
        source = _script_source(script, "No command is specified in the script file")
        return replace(source, command=check_text(command, "the command"))
    note = f"{words[0]} was given arguments, so it is not copied: what its file holds when the job starts is run"
    return _Source(check_text(command, "the command"), None, _directives(_checked_script(script)), (note,))


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


_TOGETHER = ({"o", "oo"}, {"e", "eo"}, {"r", "rn"})
"""Options that say the same thing in two ways: one on the command line replaces the other in the script."""


def _merged(line: Parsed, script: Parsed) -> Parsed:
    replaced = {name for name, _ in line.given}
    for names in _TOGETHER:
        if names & replaced:
            replaced |= names
    kept = tuple(each for each in script.given if each[0] not in replaced)
    return Parsed(kept + line.given)


def _submission(options: Parsed, source: _Source, env: Mapping[str, str], around: Surroundings) -> Submission:
    values = spec_values(options, around)
    if not values.get("queue"):
        values["queue"] = " ".join(dict.fromkeys(env.get("LSB_DEFAULTQUEUE", "").split()))
    if not values.get("project"):
        values["project"] = env.get("LSB_DEFAULTPROJECT", "")
    if "slots" not in values:
        values["defaulted"] = ("slots",)  # TASKLIMIT of the queue may say how many
    spec = JobSpec(command=source.command, user="", cwd=around.cwd, warnings=source.warnings, **values)
    return Submission(
        spec=spec,
        script=source.script,
        environment=choose_environment(options.all("env"), env),
        wait=options.has("K"),
    )
