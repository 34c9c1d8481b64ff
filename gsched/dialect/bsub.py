"""bsub's command line and a script's #BSUB lines, read into one Submission and checked without knowing the cluster.

Whether the queue exists or the requirement can be met is the scheduler's to say. Files are read through the caller's
own functions only. Source: bsub(1) of LSF 10.1.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from gsched.base.coded_text import AnyText, coded
from gsched.base.errors import BadRequest
from gsched.base.patterns import counted_from
from gsched.dialect.bsub_options import BSUB, RESETS
from gsched.dialect.command_line import join_words, unexpanded
from gsched.dialect.directives import directives
from gsched.dialect.environment import choose_environment
from gsched.dialect.esub import COMMAND, Esub, changed, parameters
from gsched.dialect.launching.launch_options import LAUNCH_NAMES, read_launched
from gsched.dialect.notify import notices_of
from gsched.dialect.options import Parsed, told_of
from gsched.dialect.script_marks import mark_of
from gsched.dialect.service_options import NOTEBOOK, NOTEBOOK_NAME, check_service
from gsched.dialect.spec_values import (
    INTERACTIVE,
    SpecValues,
    ValueContext,
    check_interactive,
    check_text,
    check_warning,
    place_of_fields,
    spec_values,
)
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice_targets import packed_targets, read_targets
from gsched.model.queues.container import FORMS, is_folder

SCRIPT_LIMIT = 16 * 1024 * 1024
"""Most bytes of a script: it travels in one message and is kept for as long as the job is remembered."""
_SHOWN_COMMAND = 4094
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSubmission:
    """One job as asked for. `spec` lacks what the caller's side or the master adds: user, home, submission host."""

    spec: JobSpec = field(default_factory=lambda: JobSpec(command="", user="", queue=""))
    """Of a script the command is its effective lines joined with `;`, for display only. Paths have %J and %I in them;
    an empty queue and project mean the default ones."""
    script: bytes | None = None
    """The script to run, whole; None for a command line."""
    input: bytes | None = None
    """-is: what standard input is to be."""
    notice_targets: bytes = b""
    """Where the notices go that `spec` wants (gsched.model.jobs.notice_targets.packed_targets)."""
    environment: Mapping[str, str]
    pack: str = ""
    """-pack: the file whose lines are the submissions; all else means nothing then."""
    wait: bool = False
    test_only: bool = False
    """It is asked when the job could start; none is submitted."""
    dry_run: bool = False
    """It is asked what would become of the job; none is submitted."""
    as_json: bool = False
    """The answer to that is for a program."""
    from_stdin: bool = False
    """Standard input was the script: nothing is left of it."""
    is_interactive: bool = False
    wants_help: bool = False
    wants_version: bool = False
    options: Parsed = field(default_factory=Parsed)
    """All that count, with their places: what the master finds wrong is told of with them."""
    umask: int | None = None
    """That of the job; None: as whoever submits has it."""
    other_places: Mapping[str, str] = field(default_factory=dict)
    """Field -> where a script for another batch system has set it."""

    @property
    def is_for_terminal(self) -> bool:
        """Whether it is something that only a command at a terminal does: help, a wait, a sitting, a question."""
        return self.wants_help or self.wants_version or self.wait or self.is_interactive or self.is_question

    @property
    def is_question(self) -> bool:
        """Whether nothing is submitted, and it is asked what would become of the job."""
        return self.test_only or self.dry_run

    def refused(self, about: Iterable[str], reason: str) -> str:
        """LSF's sentence for a submission of which these fields were found wrong, for that reason."""
        places = [self.other_places[each] for each in about if each in self.other_places]
        where = place_of_fields(self.options, about) or next(iter(places), "")
        return rejected(f"{where}: {reason}" if where else reason)


@dataclass(frozen=True, slots=True)
class OtherScript:
    """A script with lines of another batch system."""

    mark: str
    """`#SBATCH`."""
    line: int
    """The first of them."""
    script: bytes
    words: tuple[str, ...] = ()
    """Its file and its arguments; empty where it came on standard input."""


ReadOther = Callable[[OtherScript, SpecValues], ParsedSubmission]
"""Reads such a script as the submitting command of its system does; the fields that are given count before those that
the script sets. Raises BadRequest.
"""

ReadEarlier = Callable[[str], ParsedSubmission]
"""What the job that is called so was submitted with. Raises GschedError."""


def rejected(reason: str) -> str:
    """LSF's sentence for a submission that was refused."""
    return f"{reason.rstrip('.')}. Job not submitted."


def read_submission(  # noqa: PLR0913 - all that the caller's side gives
    words: Sequence[str],
    *,
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
    around: ValueContext,
    parse_script: bool = False,
    is_program: Callable[[str], bool] = lambda word: True,
    esub: Esub | None = None,
    read_other: ReadOther | None = None,
    read_earlier: ReadEarlier | None = None,
) -> ParsedSubmission:
    """The submission that `words` (without the program's name) ask for.

    Standard input is read only if there is no command. `parse_script` is the cluster's LSB_BSUB_PARSE_SCRIPT; the
    variable of that name in `env` overrides it: then a command that is a readable text file and stands alone is
    submitted as a copy, its #BSUB lines honoured; without such lines only if it is no program (`is_program`). What
    the command line says replaces what #BSUB lines say of the same option. A script with lines of another batch system
    is read by `read_other`, and refused without it; the job of --resubmit by `read_earlier`.
    `esub` may change all of it.
    Raises BadRequest with one line ending in "Job not submitted."
    """
    try:
        line = BSUB.read(words)
        if line.has("h", "-help", "V"):
            return ParsedSubmission(environment={}, wants_help=line.has("h", "-help"), wants_version=line.has("V"))
        if line.has("pack"):
            return ParsedSubmission(environment={}, pack=_pack(line))
        flag = env.get("LSB_BSUB_PARSE_SCRIPT", "")
        parse = flag.upper() == "Y" if flag else parse_script
        reading = _Reading(
            read_stdin, read_file, is_program, env, read_other or _nobody_reads, read_earlier or _nobody_remembers
        )
        source = _notebook(line) if line.has("-notebook") else _source(line, reading, parse_script=parse)
        options = _merged(line, source.directives)
        options, command = read_launched(options, source.command, _words_of(source, line))
        source = replace(source, command=command)
        if esub is not None:
            options, source, env = _through_esub(esub, options, source, env, around)
        asked = _submission(options, source, reading, env, around)
        if options.has("-container"):
            with told_of(options.line("-container")):
                check_image_file(asked.spec.container, read_file)
        return asked
    except BadRequest as error:
        raise BadRequest(rejected(error.text)) from None


def read_bsub_script(script: bytes, around: ValueContext) -> ParsedSubmission:
    """What a script's own #BSUB lines ask for; no file that they name is read. Raises BadRequest."""
    reading = _Reading(lambda: script, lambda path: b"", lambda word: True, {}, _nobody_reads, _nobody_remembers)
    source = _script_source(script, "No command is specified")
    return _submission(_merged(Parsed(), source.directives), source, reading, {}, around)


def _words_of(source: _Source, line: Parsed) -> Sequence[str]:
    """Those of the job's command; of a script there are none."""
    if source.script is not None:
        return ()
    return line.rest or ((source.command,) if source.earlier is not None else ())


def _pack(line: Parsed) -> str:
    if len(line.given) > 1 or line.rest:
        raise BadRequest("option -pack stands alone: the options and the command of each job are in its file")
    if not line.last("pack").strip():
        raise BadRequest("option -pack needs the name of a file")
    return line.last("pack")


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the caller's side is asked for texts."""

    stdin: Callable[[], bytes]
    file: Callable[[str], bytes]
    is_program: Callable[[str], bool]
    env: Mapping[str, str]
    other: ReadOther
    earlier: ReadEarlier


@dataclass(frozen=True, slots=True)
class _Source:
    """What is to run, and what its directives say."""

    command: str
    script: bytes | None = None
    directives: Parsed = field(default_factory=Parsed)
    warnings: tuple[AnyText, ...] = ()
    from_stdin: bool = False
    other: OtherScript | None = None
    earlier: ParsedSubmission | None = None
    """The job of --resubmit: what it was submitted with counts where nothing else is said."""


def _source(line: Parsed, reading: _Reading, *, parse_script: bool) -> _Source:
    if not line.has("-resubmit"):
        return _new_source(line, reading, parse_script=parse_script)
    earlier = reading.earlier(line.last("-resubmit"))
    if not line.rest and not line.has("Zs"):
        return _Source(earlier.spec.command, earlier.script, earlier=earlier)
    source = _new_source(line, reading, parse_script=parse_script)
    if source.other is not None:
        raise BadRequest(f"--resubmit: a script with {source.other.mark} lines says all of its job by itself")
    return replace(source, earlier=replace(earlier, spec=msgspec.structs.replace(earlier.spec, script_words=())))


def _new_source(line: Parsed, reading: _Reading, *, parse_script: bool) -> _Source:
    words = line.rest
    if not words:
        if line.has("Zs"):
            raise BadRequest("option -Zs copies the file that is the command, and there is none")
        return replace(_script_source(_read(reading.stdin), "No command is specified"), from_stdin=True)
    command = join_words(words, quote_first=reading.env.get("LSB_API_QUOTE_CMD", "").upper() == "Y")
    if not command.strip():
        raise BadRequest("No command is specified")
    if line.has("Zs"):
        return _spooled(words, command, reading)
    script = _script_file(words[0], reading.file) if parse_script else None
    mark, number = mark_of(script) if script is not None else ("", 0)
    if script is not None and mark:
        return _other_source(OtherScript(mark, number, script, tuple(words)))
    is_script = script is not None and any(True for _ in directives(script))
    literal = unexpanded(words)
    notes = (coded("warning.not_expanded", literal),) if literal else ()
    if script is None or not (is_script or (len(words) == 1 and not reading.is_program(words[0]))):
        # A plain program or script runs where it lies: its $0 and its neighbours are what its author expects.
        return _Source(check_text(command, "the command"), warnings=notes)
    if len(words) == 1:
        source = _script_source(script, "No command is specified in the script file")
        return replace(source, command=check_text(command, "the command"))
    note = coded("warning.not_copied", words[0])
    script, _ = _checked_script(script)
    return _Source(check_text(command, "the command"), None, _directives(script), (note, *notes))


def _notebook(line: Parsed) -> _Source:
    """--notebook: JupyterLab, which takes its token from its environment."""
    given = " ".join(line.rest) or next((name for name in ("-Zs", "--resubmit") if line.has(name[1:])), "")
    if given:
        raise BadRequest(f"--notebook says what runs, so '{given[:40]}' cannot stand beside it: use --service auto")
    return _Source(NOTEBOOK)


def _spooled(words: Sequence[str], command: str, reading: _Reading) -> _Source:
    """-Zs: the job runs a copy of the script that is the command."""
    if len(words) > 1:
        raise BadRequest("option -Zs: only a script without arguments can be copied")
    try:
        script = reading.file(words[0])
    except (OSError, ValueError) as error:
        raise BadRequest(f"-Zs: {words[0]} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    source = _script_source(script, "No command is specified in the script file")
    if source.other is not None:
        return replace(source, other=replace(source.other, words=tuple(words)))
    return replace(source, command=check_text(command, "the command"))


def _other_source(found: OtherScript) -> _Source:
    script, notes = _checked_script(found.script)
    return _Source(shown_command(script) or ":", script, warnings=notes, other=replace(found, script=script))


def _read(read_stdin: Callable[[], bytes]) -> bytes:
    try:
        return read_stdin()
    except OSError as error:
        # The command's own script puts something unreadable in a directory's place.
        reason = "it is closed, or a directory" if error.errno == errno.EBADF else error.strerror
        raise BadRequest(f"standard input cannot be read as a script: {reason}") from None


def _script_file(path: str, read_file: Callable[[str], bytes]) -> bytes | None:
    """The text file `path`; None when it is no file, or a program: then the word is a command."""
    try:
        data = read_file(path)
    except (OSError, ValueError):
        return None
    return None if b"\0" in data else data


def _script_source(script: bytes, nothing: str) -> _Source:
    mark, number = mark_of(script)
    if mark:
        return _other_source(OtherScript(mark, number, script))
    script, notes = _checked_script(script)
    command = shown_command(script)
    if not command:
        raise BadRequest(nothing)
    return _Source(command, script, _directives(script), notes)


def _checked_script(script: bytes) -> tuple[bytes, tuple[AnyText, ...]]:
    """The script as it is run, and what is to be said of it."""
    if len(script) > SCRIPT_LIMIT:
        raise BadRequest(f"The script is longer than {SCRIPT_LIMIT // (1024 * 1024)} MB")
    if b"\0" in script:
        raise BadRequest("The script is a binary file, not text")
    script = script.removeprefix(_BOM)
    if b"\r\n" not in script and not script.endswith(b"\r"):
        return script, ()
    number = script.partition(b"\r")[0].count(b"\n") + 1
    note = coded("warning.line_ends", number)
    return script.replace(b"\r\n", b"\n").removesuffix(b"\r"), (note,)


def shown_command(script: bytes) -> str:
    """COMMAND of a script: its lines joined with `;`, without blank lines, comments and directives; cut when long."""
    lines = (line.strip() for line in script.decode("utf-8", "replace").split("\n"))
    command = ";".join(line for line in lines if line and not line.startswith("#"))
    return command if len(command) <= _SHOWN_COMMAND else command[: _SHOWN_COMMAND - 3] + "..."


_OF_COMMAND_LINES = ("h", "-help", "V", "-notebook", "-resubmit", "-snapshot", *LAUNCH_NAMES)


def _directives(script: bytes) -> Parsed:
    given: list[tuple[str, str]] = []
    lines: list[int] = []
    for number, words in directives(script):
        with told_of(number):
            parsed = BSUB.read(words)
            if parsed.rest or parsed.has(*_OF_COMMAND_LINES):
                word = parsed.rest[0] if parsed.rest else "-" + parsed.given[-1][0]
                raise BadRequest(f"'{word[:40]}' cannot stand in a #BSUB line")
        given += parsed.given
        lines += [number] * len(parsed.given)
    return Parsed(tuple(given), lines=tuple(lines))


_TOGETHER = ({"o", "oo"}, {"e", "eo"}, {"r", "rn"}, {"i", "is"}, {"N", "Ne"}, {*INTERACTIVE})
"""Options that say the same thing in two ways: one on the command line replaces the other in the script."""


def _merged(line: Parsed, script: Parsed) -> Parsed:
    if not script.given:
        return line
    replaced = {name for name, _ in line.given}
    for names in _TOGETHER:
        if names & replaced:
            replaced |= names
    return script.without(replaced.__contains__).followed_by(line)


def _through_esub(
    esub: Esub, options: Parsed, source: _Source, env: Mapping[str, str], around: ValueContext
) -> tuple[Parsed, _Source, Mapping[str, str]]:
    names = [name for text in options.all("a") for name in text.split()]

    def told() -> Mapping[str, str]:
        spec_values(options, around)  # what is wrong is said in the words of the option
        return parameters(options, source.command, around)

    changes = esub(names, told)
    command = changes.parameters.get(COMMAND, source.command)
    if command != source.command:
        if source.script is not None:
            raise BadRequest("an esub sets LSB_SUB_COMMAND_LINE, and the job is a script")
        if not command.strip():
            raise BadRequest("No command is specified")
        source = replace(source, command=check_text(command, "the command of an esub"))
    if changes.environment:
        env = {**env, **changes.environment}
    return changed(options, changes.parameters), source, env


_FROM_ENVIRONMENT = {
    "project": "LSB_DEFAULTPROJECT",
    "group": "LSB_DEFAULT_JOBGROUP",
    "user_group": "LSB_DEFAULT_USERGROUP",
    "application": "LSB_DEFAULT_APP",
}
"""What a job gets that does not say it itself."""


def _submission(
    options: Parsed,
    source: _Source,
    reading: _Reading,
    env: Mapping[str, str],
    around: ValueContext,
) -> ParsedSubmission:
    check_warning(options)
    check_interactive(options)
    check_service(options)
    _check_questions(options)
    values = spec_values(options, around)
    warnings = (*source.warnings, *values.pop("warnings", ()))
    other = reading.other(source.other, values) if source.other is not None else source.earlier
    warnings += other.spec.warnings if other is not None else ()
    if source.earlier is not None:
        values, env, around = _over_earlier(source.earlier, options, values, around)
    else:
        values = _values(options, values if other is None else _fields(other.spec) | values, env, around.cwd)
    notices, targets = notices_of(_notify(options), around.notify_file, around.cwd, around.home)
    if other is not None:  # mail that its script asks for
        notices, targets = (*notices, *other.spec.notices), (*targets, *read_targets(other.notice_targets))
    command, script = source.command, source.script
    if source.other is not None and other is not None:
        command, script = other.spec.command, other.script
    spec = JobSpec(command=command, user="", cwd=around.cwd, warnings=warnings, notices=notices, **values)
    last = options.last_of("i", "is")
    return ParsedSubmission(
        spec=spec,
        script=script,
        input=_input(last[1], reading.file, options.line("is")) if last is not None and last[0] == "is" else None,
        notice_targets=packed_targets(targets),
        environment=_environment(options, env) if other is None or options.has("env") else other.environment,
        wait=options.has("K") or (other is not None and other.wait),
        dry_run=options.has("-dry-run"),
        as_json=options.has("-json"),
        test_only=options.has("-test-only") or (other is not None and other.test_only),
        from_stdin=source.from_stdin,
        is_interactive=bool(spec.interactive),
        options=options,
        umask=other.umask if other is not None else None,
        other_places=other.other_places if other is not None else {},
    )


def _check_questions(options: Parsed) -> None:
    """Raises BadRequest for what cannot stand beside a question, or is none without one."""
    for name in ("-test-only", "-dry-run"):
        if options.has(name) and options.has("K"):
            raise BadRequest(f"-K cannot wait for a job that -{name} does not submit")
    if options.has("-test-only") and options.has("-dry-run"):
        raise BadRequest("--test-only and --dry-run cannot be given together")
    if options.has("-json") and not options.has("-dry-run"):
        raise BadRequest("--json is given together with --dry-run")


def _values(options: Parsed, values: SpecValues, env: Mapping[str, str], cwd: str) -> SpecValues:
    """The fields, with what a job gets that does not say it itself."""
    if not values.get("queue"):
        values["queue"] = " ".join(dict.fromkeys(env.get("LSB_DEFAULTQUEUE", "").split()))
    values |= {name: env.get(variable, "") for name, variable in _FROM_ENVIRONMENT.items() if not values.get(name)}
    if env.get("LSB_JOB_CWD") and not values.get("specified_cwd"):
        values["specified_cwd"] = counted_from(cwd, check_text(env["LSB_JOB_CWD"], "LSB_JOB_CWD"))
    if options.has("-notebook") and "name" not in values:
        values["name"] = NOTEBOOK_NAME
    if "slots" not in values:
        values["defaulted"] = ("slots",)  # TASKLIMIT of the queue may say how many
    return values


def _over_earlier(
    earlier: ParsedSubmission, options: Parsed, values: SpecValues, around: ValueContext
) -> tuple[SpecValues, Mapping[str, str], ValueContext]:
    """The fields of a job that is submitted anew, where they are changed; its variables, and where it was submitted."""
    spec = earlier.spec
    if spec.spooled_input and "input_file" not in values:
        raise BadRequest(f"--resubmit: the copy that -is made of {spec.input_file} is not kept: give -is again")
    said = {"slots": spec.slots, "queue": spec.queue, **_fields(spec)}
    for option, *fields in RESETS.values():
        together = next((names for names in _TOGETHER if option in names), {option})
        if options.has(*together):
            said = {name: value for name, value in said.items() if name not in fields}
    if options.has("J"):
        said = {name: value for name, value in said.items() if name not in ("indices", "array_limit", "index_shift")}
    values = said | values
    if options.has("n"):
        values["defaulted"] = ()
    return values, earlier.environment, replace(around, cwd=spec.cwd or around.cwd)


_OWN_FIELDS = ("command", "user", "cwd", "warnings", "notices", "spooled_input")


def _fields(spec: JobSpec) -> SpecValues:
    """What a script for another batch system says of its job."""
    plain = msgspec.structs.asdict(JobSpec(command="", user="", queue=""))
    said = msgspec.structs.asdict(spec)
    return {name: said[name] for name, value in plain.items() if said[name] != value and name not in _OWN_FIELDS}


def _nobody_reads(other: OtherScript, values: SpecValues) -> ParsedSubmission:
    raise BadRequest(f"line {other.line} of the script: {other.mark} lines are not read here: gsub FILE reads them")


def _nobody_remembers(job: str) -> ParsedSubmission:
    raise BadRequest("option --resubmit is for the command line of gsub")


def _notify(options: Parsed) -> list[tuple[str, int]]:
    return [(value, line) for name, value, line in options.placed() if name == "-notify"]


def _environment(options: Parsed, env: Mapping[str, str]) -> dict[str, str]:
    for name, value, line in options.placed():
        if name == "env":
            with told_of(line):
                choose_environment([value], {})
    return choose_environment(options.all("env"), env)


def _input(path: str, read_file: Callable[[str], bytes], line: int) -> bytes:
    with told_of(line):
        try:
            return read_file(path)
        except (OSError, ValueError) as error:
            raise BadRequest(f"-is: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def check_image_file(image: str, read_file: Callable[[str], bytes]) -> None:
    """Raise BadRequest for what should be a folder and is a file here; what is not here may be on the hosts."""
    if not is_folder(image):
        return
    try:
        read_file(image)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) != errno.EFBIG:
            return
    raise BadRequest(f"--container: {image[:60]} is a file, and an image is {FORMS}")
