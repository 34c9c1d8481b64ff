"""sbatch's command line, its variables and a script's #SBATCH lines, read into one submission.

What the command line says counts before variables, and those before the script. Whether the queue exists or the
requirement can be met is the scheduler's to say. Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.base.errors import BadRequest
from gsched.dialect.bsub import SCRIPT_LIMIT, ParsedSubmission, shown_command
from gsched.dialect.notify import mailed_as_whole
from gsched.dialect.slurm.batch_scripts import words_of
from gsched.dialect.slurm.dependencies import ElementOf
from gsched.dialect.slurm.gnu_options import GnuWords, refuse_parts
from gsched.dialect.slurm.job_fields import FIELDS, Reading, fields_of, named_nodes
from gsched.dialect.slurm.job_shape import shape_of
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.slurm.slurm_values import named_variables, parse_size_mib
from gsched.dialect.spec_values import ValueContext, check_text
from gsched.model.jobs.job import SLURM, JobSpec

_WRAPPED = "# This script was made by sbatch --wrap.\n\n"
"""Names no interpreter: the host's choice keeps functions that bash has exported."""
_NO_SCRIPT = (
    "This does not look like a batch script. The first line must start with #! followed by the path to an interpreter. "
    "For instance: #!/bin/sh"
)


@dataclass(frozen=True, slots=True)
class BatchSubmission:
    """A job as asked for, and how sbatch answers."""

    parsed: ParsedSubmission
    words: GnuWords
    """All options that count."""

    def with_array_mail(self) -> BatchSubmission:
        """The same; of an array there is one mail of its start and one of its end, unless ARRAY_TASKS is asked for."""
        return replace(self, parsed=_mailed(self.parsed, self.words, ()))

    def refused(self, about: Iterable[str], reason: str) -> str:
        """The reason, with the option that set what was found wrong."""
        names = {name for field in about for name in FIELDS.get(field, ())}
        given = next((each for each in reversed(self.words.given) if each.name in names), None)
        return f"{given.place}: {reason}" if given is not None else reason


def read_sbatch(
    line: GnuWords,
    *,
    read_stdin: Callable[[], bytes],
    read_file: Callable[[str], bytes],
    env: Mapping[str, str],
    around: ValueContext,
    user: str,
    element_of: ElementOf,
) -> BatchSubmission:
    """The submission that the command line asks for. Standard input is read only where no script is named. Raises
    BadRequest.
    """
    refuse_parts(line.rest[:1])
    wrapped = line.last("wrap")
    if wrapped is not None:
        if line.rest:
            raise BadRequest(f"--wrap: the command is the script, and '{line.rest[0][:60]}' stands behind it")
        if not wrapped.value.strip():
            raise BadRequest("--wrap needs a command")
        script, name = (_WRAPPED + wrapped.value + "\n").encode("utf-8", "surrogateescape"), "wrap"
    elif line.rest:
        script, name = _script_file(line.rest[0], read_file, env), posixpath.basename(line.rest[0])
    else:
        script, name = read_stdin(), "sbatch"
    options = _checked(script)
    all_words = GnuWords((*options.given, *SBATCH.in_environment(env).given, *line.given))
    reading = Reading(around, user, name, element_of)
    return BatchSubmission(_submission(all_words, script, line.rest[1:], env, reading), all_words)


def read_batch_script(
    script: bytes, words: Sequence[str], env: Mapping[str, str], reading: Reading
) -> ParsedSubmission:
    """The submission of a script that another command than sbatch was given. `words`: its file and its arguments, as
    far as they were named. Raises BadRequest.
    """
    given = GnuWords((*_checked(script).given, *SBATCH.in_environment(env).given))
    return _mailed(_submission(given, script, words[1:], env, reading), given, reading.over)


def _mailed(parsed: ParsedSubmission, words: GnuWords, over: Collection[str]) -> ParsedSubmission:
    if "ARRAY_TASKS" in words.value("mail-type").upper().split(","):
        return parsed
    spec, targets = mailed_as_whole(parsed.spec, over)
    return replace(parsed, spec=spec, notice_targets=targets)


def _script_file(name: str, read_file: Callable[[str], bytes], env: Mapping[str, str]) -> bytes:
    """The script, looked for here, and by a plain name also where programs are."""
    paths = [name]
    if "/" not in name:
        paths += [posixpath.join(folder, name) for folder in env.get("PATH", os.defpath).split(":") if folder]
    reason = ""
    for path in paths:
        try:
            return read_file(path)
        except (OSError, ValueError) as error:
            reason = reason or getattr(error, "strerror", None) or str(error)
    raise BadRequest(f"Unable to open file {name[:200]}: {reason}")


def _checked(script: bytes) -> GnuWords:
    if len(script) > SCRIPT_LIMIT:
        raise BadRequest(f"the script is longer than {SCRIPT_LIMIT // (1024 * 1024)} MB")
    if not script.strip():
        raise BadRequest("Batch script is empty!")
    if b"\0" in script:
        raise BadRequest("The Slurm controller does not allow scripts that contain a NULL character '\\0'.")
    if not script.startswith((b"#!", _WRAPPED.encode())):
        raise BadRequest(_NO_SCRIPT)
    if b"\r\n" in script:
        number = script.partition(b"\r")[0].count(b"\n") + 1
        raise BadRequest(f"line {number} of the script ends as on DOS (\\r\\n) instead of as on UNIX (\\n)")
    return words_of(script)


def _submission(
    words: GnuWords, script: bytes, arguments: Sequence[str], env: Mapping[str, str], reading: Reading
) -> ParsedSubmission:
    shape = shape_of(words, named_nodes(words))
    values = fields_of(words, shape, reading)
    for argument in arguments:
        check_text(argument, "an argument of the script")
    spec = JobSpec(
        command=shown_command(script) or ":",
        user="",
        cwd=reading.around.cwd,
        front_end=SLURM,
        script_words=tuple(arguments),
        **values,
    )
    counting = GnuWords(tuple(each for each in words.given if not _is_replaced(each.name, reading)))
    return ParsedSubmission(
        spec=spec,
        script=script,
        environment=submitted_environment(words, env) | told_of_options(counting, spec.slots, reading),
        wait=words.has("wait"),
        other_places=counting.places(FIELDS),
    )


def _is_replaced(option: str, reading: Reading) -> bool:
    return any(option in FIELDS.get(name, ()) for name in reading.over)


def submitted_environment(words: GnuWords, env: Mapping[str, str]) -> dict[str, str]:
    """The caller's variables that --export admits; none of those that tell of another job."""
    mine = {name: value for name, value in env.items() if not name.startswith("SLURM_")}
    given = words.last("export")
    if given is None:
        return mine
    items = given.value.split(",")
    kept = mine if "ALL" in items else {name: mine[name] for name in ("HOME", "PATH", "USER", "SHELL") if name in mine}
    return kept | named_variables(given.place, items, mine)


_TOLD = {
    "ntasks": "SLURM_NTASKS",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "comment": "SLURM_JOB_COMMENT",
    "dependency": "SLURM_JOB_DEPENDENCY",
    "reservation": "SLURM_JOB_RESERVATION",
}
_TOLD_MIB = {"mem": "SLURM_MEM_PER_NODE", "mem-per-cpu": "SLURM_MEM_PER_CPU", "mem-per-gpu": "SLURM_MEM_PER_GPU"}


def told_of_options(words: GnuWords, slots: int, reading: Reading) -> dict[str, str]:
    """What a job is told of its own options; the rest its agent tells it."""
    found = {variable: words.value(name) for name, variable in _TOLD.items() if words.has(name)}
    for name, variable in _TOLD_MIB.items():
        if words.has(name):
            found[variable] = str(math.ceil(parse_size_mib(words.value(name))))
    found["SLURM_SUBMIT_DIR"] = reading.around.cwd
    found.setdefault("SLURM_NTASKS", str(slots // int(found.get("SLURM_CPUS_PER_TASK", "1"))))
    found["SLURM_NPROCS"] = found["SLURM_NTASKS"]
    return found
