"""A script with lines of any of the three batch systems, read by its own system's reader: what it asks for, and where.

No cluster is asked: what only a cluster knows (the arrays of other jobs, its priorities) is taken as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.dialect.bsub import ParsedSubmission, read_bsub_script
from gsched.dialect.bsub_options import NOTED
from gsched.dialect.directives import directives
from gsched.dialect.options import Parsed
from gsched.dialect.options import place as line_place
from gsched.dialect.pbs.chunk_lists import parse_select
from gsched.dialect.pbs.pbs_values import split_quoted
from gsched.dialect.pbs.qsub import read_qsub
from gsched.dialect.pbs.qsub_fields import FIELDS as PBS_FIELDS
from gsched.dialect.pbs.qsub_fields import QsubReading
from gsched.dialect.script_marks import PBS_MARK, SLURM_MARK, leading_directives, mark_of
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.slurm.job_fields import FIELDS as SLURM_FIELDS
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.slurm.sbatch import read_sbatch
from gsched.dialect.spec_values import ValueContext, spec_values
from gsched.model.jobs.job import JobSpec

BSUB_DIALECT, SBATCH_DIALECT, PBS_DIALECT = "bsub", "sbatch", "pbs"
CWD, HOME, SERVER = "/<cwd>", "/<home>", "<server>"
"""Stand for what is known only when the script is submitted."""
_PBS_PRIORITIES = 2048
_LSF_ALONE = {
    "a": "esub programs are those of LSF's bsub",
    "-signal": "it also asks for the state to be saved before preemption: that is gsub's",
    "-restart-on": "restarts by cause are those of gsub",
    "-max-restarts": "restarts by exit code 99 are those of gsub",
    "-notify": "notices are those of gsub",
    "-service": "pages of jobs are those of gsub",
    "-notebook": "pages of jobs are those of gsub",
    "-service-users": "pages of jobs are those of gsub",
    "-test-only": "it says nothing of the job itself",
    "-dry-run": "it says nothing of the job itself",
    "-json": "it says nothing of the job itself",
    "-plot": "curves are those of gsub",
    **{option.name: option.noted for option in NOTED},
}
"""Options of bsub that no other dialect has -> why."""
_MORE_SLURM = {
    "specified_cwd": ("chdir",),
    "output_overwrite": ("open-mode",),
    "error_overwrite": ("open-mode",),
    "hold": ("hold",),
    "rerunnable": ("requeue", "no-requeue"),
    "warning_signal": ("signal",),
    "notify_end": ("mail-type",),
    "notify_begin": ("mail-type",),
    "notify_error": ("mail-type",),
    "end_orphan": ("kill-on-invalid-dep",),
}
_MORE_PBS = {
    "specified_cwd": ("d", "w"),
    "hold": ("h",),
    "rerunnable": ("r",),
    "notify_end": ("m",),
    "notify_begin": ("m",),
    "notify_error": ("m",),
    "script_words": ("F",),
    "umask": ("W",),
}


@dataclass(frozen=True, slots=True)
class AskedVariables:
    """Which variables of the submission a job gets."""

    all: bool = True
    names: tuple[str, ...] = ()
    """`NAME` or `NAME=VALUE`."""


@dataclass(frozen=True, slots=True)
class AskedScript:
    """What a script asks for."""

    dialect: str
    spec: JobSpec
    script: bytes
    lines: frozenset[int] = frozenset()
    """Its directives: their lines, from 1."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Field -> the line and option that has set it."""
    variables: AskedVariables = AskedVariables()
    waits: bool = False
    umask: int | None = None
    cpus_per_task: int = 0
    """Slots of a task, or of an MPI process; 0: nobody says."""
    unsaid: tuple[str, ...] = ()
    """Options that say nothing of the job itself: place and reason."""
    shell: bytes = b""
    """The first line that -S of qsub asks for."""


def read_script(script: bytes, name: str, user: str, now: ValueContext) -> AskedScript:
    """What the script of this file name asks for. Raises BadRequest with one line."""
    around = ValueContext(cwd=CWD, home=HOME, now=now.now, zone=now.zone)
    mark, _ = mark_of(script, as_bsub=False)
    if mark == SLURM_MARK:
        return _of_slurm(script, name, user, around)
    return _of_pbs(script, name, user, around) if mark == PBS_MARK else _of_lsf(script, around)


def _of_lsf(script: bytes, around: ValueContext) -> AskedScript:
    asked = read_bsub_script(script, around)
    options = asked.options
    items = [item.strip() for text in options.all("env") for item in split_quoted(text)]
    plain = tuple(item for item in items if item not in ("all", "none"))
    variables = AskedVariables(not items or "all" in items, plain)
    unsaid = tuple(
        f"line {line} of the script: -{name}: {_LSF_ALONE[name]}"
        for name, _, line in options.placed()
        if name in _LSF_ALONE
    )
    lines = frozenset(number for number, _ in directives(script))
    places = _lsf_places(options, around)
    return AskedScript(BSUB_DIALECT, asked.spec, script, lines, places, variables, asked.wait, unsaid=unsaid)


def _lsf_places(options: Parsed, around: ValueContext) -> dict[str, str]:
    """Field -> the line and the option that has set it last."""
    places: dict[str, str] = {}
    for name, value, line in options.placed():
        fields = spec_values(Parsed(((name, value),)), around)
        limits = [f"limits.{limit}" for limit in fields.pop("limits", ())]
        places |= dict.fromkeys([*fields, *limits], f"{line_place(line)}: -{name}")
    return places


def _of_slurm(script: bytes, name: str, user: str, around: ValueContext) -> AskedScript:
    asked = read_sbatch(
        GnuWords(rest=(name or "sbatch",)),
        read_stdin=lambda: script,
        read_file=lambda path: script,
        env={},
        around=around,
        user=user,
        element_of=lambda number, indices: indices,
    )
    words = asked.words
    items = split_quoted(words.value("export", "ALL"))
    plain = tuple(item for item in items if item not in ("ALL", "NONE", "NIL"))
    notes = {option.name: option.note for option in SBATCH.options if option.note}
    unsaid = [f"{each.place}: {notes[each.name]}" for each in words.given if each.name in notes]
    unsaid += [
        f"{each.place}: it says nothing of the job itself"
        for each in words.given
        if each.name in ("nice", "qos", "clusters", "quiet", "verbose", "test-only")
    ]
    told = asked.parsed.environment
    return AskedScript(
        SBATCH_DIALECT,
        asked.parsed.spec,
        script,
        _leading(script, SLURM_MARK),
        words.places({**SLURM_FIELDS, **_MORE_SLURM}),
        AskedVariables("ALL" in items, plain),
        asked.parsed.wait,
        cpus_per_task=int(told.get("SLURM_CPUS_PER_TASK", "0")),
        unsaid=tuple(unsaid),
    )


def _of_pbs(script: bytes, name: str, user: str, around: ValueContext) -> AskedScript:
    reading = QsubReading(
        around=around,
        user=user,
        host="localhost",
        server=SERVER,
        element_of=lambda number, indices: indices,
        max_priority=lambda: _PBS_PRIORITIES,
    )
    asked = read_qsub(
        [name or "STDIN"], read_stdin=lambda: script, read_file=lambda path: script, env={}, reading=reading
    )
    parsed, words = asked.parsed, asked.words
    unsaid = [_pbs_unsaid(each) for each in words.given if each.name in ("p", "c", "u", "x", "E")]
    return AskedScript(
        PBS_DIALECT,
        parsed.spec,
        script,
        _leading(script, PBS_MARK),
        words.places({**PBS_FIELDS, **_MORE_PBS}),
        AskedVariables(words.has("V"), tuple(_pbs_variables(words))),
        parsed.wait,
        parsed.umask,
        _cpus_of_process(parsed),
        tuple(unsaid),
        parsed.script.partition(b"\n")[0] if parsed.script is not None and words.has("S") else b"",
    )


def _pbs_unsaid(given: GivenOption) -> str:
    reason = "priorities are those of each cluster" if given.name == "p" else "it says nothing of the job itself"
    return f"{given.place} {given.value}: {reason}".replace(" :", ":")


def _pbs_variables(words: GnuWords) -> list[str]:
    return [item.strip() for each in words.given if each.name == "v" for item in split_quoted(each.value)]


def _cpus_of_process(parsed: ParsedSubmission) -> int:
    """CPUs of each MPI process, where all chunks say the same."""
    said = next((each for each in parsed.spec.front_end_words if each.startswith("select=")), "")
    found = re.search("mpiprocs=", said)
    if not found:
        return 0
    chunks = parse_select(said.removeprefix("select="))
    each = {chunk.ncpus // chunk.mpiprocs if chunk.mpiprocs else 0 for chunk in chunks}
    return each.pop() if len(each) == 1 else 0


def _leading(script: bytes, mark: str) -> frozenset[int]:
    return frozenset(number for number, _ in leading_directives(script, mark.encode(), "convert"))
