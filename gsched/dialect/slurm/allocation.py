"""srun outside of a job, and salloc: their options as an interactive job.

srun's job begins with srun itself, which then is within the job and starts the tasks; with --pty it begins with the
command. salloc's job waits for its end. Source: srun(1), salloc(1) of Slurm 22.05.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gsched.base.errors import BadRequest
from gsched.dialect.bsub import ParsedSubmission
from gsched.dialect.slurm.gnu_options import GnuOptions, GnuWords, refuse_parts
from gsched.dialect.slurm.job_fields import FIELDS, Reading, fields_of, named_nodes
from gsched.dialect.slurm.job_shape import JobShape, shape_of
from gsched.dialect.slurm.job_variables import STEP_OF_SRUN
from gsched.dialect.slurm.sbatch import submitted_environment, told_of_options
from gsched.dialect.slurm.slurm_values import parse_count
from gsched.dialect.slurm.srun_table import SALLOC, SRUN
from gsched.dialect.slurm.step_options import check_values
from gsched.dialect.spec_values import check_text
from gsched.model.jobs.job import SLURM, JobSpec

_OF_STEP = (
    *("label", "output", "error", "input", "open-mode", "unbuffered", "kill-on-bad-exit", "wait", "multi-prog"),
    *("distribution", "overcommit", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-task", "gpu-bind"),
    *("quiet", "whole", "nodelist", "mpi"),
)
"""Options that srun within the job has to know."""
_OF_JOB_WITH_MPI = ("nodes", "ntasks-per-node", "nodelist")
"""Those of them that the job itself meets: an MPI's launcher takes the slots of the job as they lie."""
_TASKS = '#!/bin/sh\nexec "$GSCHED_GLAUNCH" --srun "$@"\n'
_TERMINAL = (
    "#!/bin/sh\nexport SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PTY_PORT=0\n"
    'unset GSCHED_STEP_OF_SRUN\nexec "$@"\n'
)
_HOLDING = "#!/bin/sh\nread -r code\nexit ${code:-0}\n"
"""salloc types the exit code of its command when that has ended."""
_HELD = "#!/bin/sh\nexec sleep infinity\n"
"""With --no-shell: until scancel."""


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """A job as asked for by srun or salloc."""

    parsed: ParsedSubmission
    words: GnuWords
    command: tuple[str, ...]

    def refused(self, about: Sequence[str], reason: str) -> str:
        """The reason, with the option that set what was found wrong."""
        names = {name for field in about for name in FIELDS.get(field, ())}
        given = next((each for each in reversed(self.words.given) if each.name in names), None)
        return f"{given.place}: {reason}" if given is not None else reason


@dataclass(frozen=True, slots=True)
class AllocatedProgram:
    """What the job runs."""

    script: bytes
    arguments: tuple[str, ...]
    shown: tuple[str, ...]
    """The words that people see."""
    interactive: str
    variables: Mapping[str, str] = field(default_factory=dict)


def read_srun(words: Sequence[str], env: Mapping[str, str], reading: Reading) -> AllocationRequest:
    """The job of `srun` with these words. Raises BadRequest."""
    line, given = _read(SRUN, words, env)
    if not line.rest:
        raise BadRequest("fatal: No command given to execute.")
    check_values(given)
    for name in ("relative", "jobid"):
        if line.has(name):
            raise BadRequest(f"--{name}: there is no job whose step this could be")
    shape = _shape(line, given, env)
    is_pty = line.has("pty")
    script = _TERMINAL if is_pty else _TASKS
    own = line.rest if is_pty else (*step_words(line, shape), "--", *line.rest)
    program = AllocatedProgram(script.encode(), tuple(own), line.rest, "Is" if is_pty else "I", {STEP_OF_SRUN: "1"})
    return AllocationRequest(_job(given, shape, env, reading, program), given, line.rest)


def read_salloc(words: Sequence[str], env: Mapping[str, str], reading: Reading) -> AllocationRequest:
    """The job of `salloc` with these words. Raises BadRequest."""
    line, given = _read(SALLOC, words, env)
    is_held = line.has("no-shell") or env.get("SALLOC_NO_SHELL", "") not in ("", "0")
    if is_held and line.rest:
        raise BadRequest(f"--no-shell: nothing is run, and '{line.rest[0][:60]}' stands behind it")
    shape = _shape(line, given, env)
    program = AllocatedProgram(
        (_HELD if is_held else _HOLDING).encode(), (), ("salloc", *line.rest), "" if is_held else "I"
    )
    return AllocationRequest(_job(given, shape, env, reading, program), given, line.rest)


def step_words(line: GnuWords, shape: JobShape) -> list[str]:
    """The options that srun within the job is given."""
    found = [f"--ntasks={shape.tasks}"]
    is_mpi = line.value("mpi", "none") != "none"
    for each in line.given:
        if each.name in _OF_STEP and not (is_mpi and each.name in _OF_JOB_WITH_MPI):
            found.append(f"--{each.name}={each.value}" if each.value else f"--{each.name}")
    return found


def _read(table: GnuOptions, words: Sequence[str], env: Mapping[str, str]) -> tuple[GnuWords, GnuWords]:
    """The command line's options alone, and those of variables too."""
    line = table.read(words)
    refuse_parts(line.rest)
    return line, GnuWords((*table.in_environment(env).given, *line.given), line.rest)


def _shape(line: GnuWords, given: GnuWords, env: Mapping[str, str]) -> JobShape:
    """GPUs and memory that the command line asks for take the place of what variables say of them."""
    for group in (("gres", "gpus", "gpus-per-node", "gpus-per-task"), ("mem", "mem-per-cpu", "mem-per-gpu")):
        if line.has(*group):
            kept = tuple(each for each in given.given if each.name not in group or each.written.startswith("-"))
            given = GnuWords(kept, given.rest)
    return shape_of(given, named_nodes(given))


def _job(
    given: GnuWords, shape: JobShape, env: Mapping[str, str], reading: Reading, program: AllocatedProgram
) -> ParsedSubmission:
    values = fields_of(given, shape, reading, has_files=False)
    if given.has("immediate") and given.value("immediate"):
        try:
            parse_count(given.value("immediate"))
        except BadRequest as error:
            raise BadRequest(f"--immediate: {error.text}") from None
    for argument in program.arguments:
        check_text(argument, "an argument of the command")
    spec = JobSpec(
        command=shlex.join(program.shown),
        user="",
        cwd=reading.around.cwd,
        front_end=SLURM,
        script_words=program.arguments,
        interactive=program.interactive,
        **values,
    )
    environment = submitted_environment(given, env) | told_of_options(given, shape.slots, reading)
    return ParsedSubmission(spec=spec, script=program.script, environment={**environment, **program.variables})
