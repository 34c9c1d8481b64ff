"""srun within a job: its options and variables as a step.

Files are not opened here. Whether the job has what is asked for is its agent's to say. Source: srun(1) of Slurm 22.05.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsched.base.errors import BadRequest
from gsched.base.node_lists import expand_nodes
from gsched.dialect.directives import split_words
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords, refuse_parts
from gsched.dialect.slurm.job_shape import parse_gpus
from gsched.dialect.slurm.slurm_values import named_variables, parse_count, parse_job
from gsched.dialect.slurm.srun_table import SRUN
from gsched.model.jobs.job_step import MOST_PROGRAMS, StepProgram, StepRequest
from gsched.model.jobs.step_facts import LONGEST_STEP_NAME
from gsched.model.jobs.step_layout import BLOCK, CYCLIC, StepShape

_LAUNCHERS = {"pmi2": "mpiexec.hydra", "pmix": "mpirun"}
"""How processes of MPI find each other -> the launcher of the MPIs that do it so: Intel MPI and MPICH; Open MPI."""
MPI_TYPES = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"
_NOT_WITH_MPI = (
    "label",
    "multi-prog",
    "pty",
    "nodes",
    "nodelist",
    "exclude",
    "relative",
    "ntasks-per-node",
    "distribution",
)
"""Options that say of each task what an MPI's own launcher has other options for."""
_BIND_WORDS = ("quiet", "q", "verbose", "v")
"""Of --cpu-bind: how much is said of the binding. Alone they leave it as it is."""
_FLAGS = ("0", "no", "false", "")
_OF_JOB = {"ntasks": "SLURM_NTASKS", "gpus-per-task": "SLURM_GPUS_PER_TASK", "cpus-per-task": "SRUN_CPUS_PER_TASK"}
"""What a job tells its steps, where they do not say it."""
_GPUS = ("gres", "gpus", "gpus-per-node", "gpus-per-task")
_NOT_OF_VARIABLES = ("mem", "mem-per-cpu", "mem-per-gpu", "time", *_GPUS)
"""Options that only describe the job when a variable has them."""


@dataclass(frozen=True, slots=True)
class StepAsk:
    """A step, and what its command does with what its tasks print."""

    request: StepRequest
    words: tuple[str, ...]
    """The command; empty with --multi-prog."""
    job: int
    """0: that of the environment is not named."""
    cwd: str
    environment: Mapping[str, str]
    output: str
    """Empty: all is printed. Else a file, as a pattern, or `none`, or a task's number."""
    error: str
    input: str
    """A file; empty: what is typed."""
    truncates: bool
    labels: bool
    kills_on_bad_exit: bool
    wait_s: float
    """0: for ever."""
    quits_on_interrupt: bool
    shows_status: bool
    is_quiet: bool
    is_unbuffered: bool


def read_step(
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    read_file: Callable[[str], bytes],
    address: str = "",
    has_program: Callable[[str], bool] = lambda name: True,
) -> StepAsk:
    """`words`: without the program's name; `has_program`: whether there is one of that name in PATH. Raises
    BadRequest.
    """
    line = SRUN.read(words)
    refuse_parts(line.rest)
    variables = [each for each in SRUN.in_environment(env).given if each.name not in _NOT_OF_VARIABLES]
    given = GnuWords((*variables, *line.given), line.rest)
    check_values(given)
    folder = posixpath.normpath(posixpath.join(cwd, line.value("chdir"))) if line.has("chdir") else cwd
    programs: tuple[StepProgram, ...] = ()
    if not line.rest:
        raise BadRequest("fatal: No command given to execute.")
    shape = shape_of_step(line, given, env)
    if is_set(given, "multi-prog"):
        programs = read_programs(_text(line.rest[0], read_file), shape.tasks, line.rest[1:])
    command = line.rest
    if mpi := mpi_type(given):
        shape, command = under_mpi(mpi, given, shape, command, has_program)
    reader, input_file = _input(given.value("input"), shape.tasks)
    request = StepRequest(
        shape=shape,
        programs=programs,
        reader=reader,
        is_at_once=given.has("immediate"),
        pty=line.has("pty"),
        address=address,
        name=(line.value("job-name") or (posixpath.basename(line.rest[0]) if mpi else ""))[:LONGEST_STEP_NAME],
    )
    return StepAsk(
        request=request,
        words=() if programs else command,
        job=_job(given.value("jobid")),
        cwd=folder,
        environment=exported(given, env),
        output=given.value("output"),
        error=given.value("error"),
        input=input_file,
        truncates=given.value("open-mode", "truncate") == "truncate",
        labels=is_set(given, "label"),
        kills_on_bad_exit=given.has("kill-on-bad-exit") and given.value("kill-on-bad-exit") not in ("0",),
        wait_s=float(_number(given, "wait", 0, least=0)),
        quits_on_interrupt=given.has("quit-on-interrupt"),
        shows_status=not given.has("disable-status"),
        is_quiet=given.has("quiet"),
        is_unbuffered=is_set(given, "unbuffered"),
    )


def check_values(given: GnuWords) -> None:
    """Values of options that a step and a job of its own read alike. Raises BadRequest."""
    mpi_type(given)
    bind = given.value("cpu-bind", "none").rpartition(",")[2]
    if bind not in ("none", "no", *_BIND_WORDS):
        raise BadRequest(f"--cpu-bind: '{bind[:40]}' is not supported: gsub -R 'affinity[core(1)]' binds jobs to cores")
    if given.value("open-mode", "truncate") not in ("append", "truncate"):
        raise BadRequest(f"--open-mode: '{given.value('open-mode')[:40]}' is neither append nor truncate")


def mpi_type(given: GnuWords) -> str:
    """pmi2 or pmix, whose versions are all the same; empty: tasks need not find each other. Raises BadRequest."""
    name = given.value("mpi", "none").lower()
    found = re.fullmatch("(pmix)(?:_v[1-9])?|(pmi2)", name, re.ASCII)
    if found is None and name not in ("none", "list"):
        kinds = ", ".join(_LAUNCHERS)
        raise BadRequest(
            f"--mpi: '{name[:40]}' is not supported: none, {kinds} are, or say mpirun in the place of srun"
        )
    return found[1] or found[2] if found is not None else ""


def under_mpi(
    kind: str, given: GnuWords, shape: StepShape, words: tuple[str, ...], has_program: Callable[[str], bool]
) -> tuple[StepShape, tuple[str, ...]]:
    """The step of an MPI program: its MPI's own launcher, which starts processes on all hosts of the job by glaunch.

    `has_program`: whether there is one of that name. Raises BadRequest that says what to say in srun's place.
    """
    launcher = _LAUNCHERS[kind]
    instead = f"say {launcher} -n {shape.tasks} ... in the place of srun"
    if not has_program(launcher):
        raise BadRequest(f"--mpi={kind}: there is no {launcher} in PATH: load the MPI that the program was built with")
    other = next((given.last(name) for name in _NOT_WITH_MPI if given.has(name)), None)
    if other is not None and other.written.startswith("-"):
        raise BadRequest(f"--mpi={kind}: {other.written} is not supported with it: {instead}")
    if shape.cpus > 1 or (shape.gpus_per_task, shape.gpus_per_node, shape.gpus) != (None, None, None):
        raise BadRequest(f"--mpi={kind}: CPUs and GPUs of each task are not supported with it: {instead}")
    count = str(shape.tasks)
    told = [f"{name}={count}" for name in ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS")]
    unset = [word for name in ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS") for word in ("-u", name)]
    return StepShape(tasks=1, is_whole=True), ("env", *unset, *told, launcher, "-n", count, *words)


def shape_of_step(line: GnuWords, given: GnuWords, env: Mapping[str, str]) -> StepShape:
    """How many tasks where. Raises BadRequest."""
    nodes = _nodes(line.value("nodes"))
    per_node = _number(line, "ntasks-per-node", 0)
    hosts = tuple(_hosts(line, "nodelist"))
    tasks = _number(line, "ntasks", 0)
    if not tasks:
        if line.has("nodes", "ntasks-per-node", "nodelist"):
            nodes = nodes or len(hosts) or _told(env, "SLURM_JOB_NUM_NODES")
            tasks = nodes * (per_node or 1)
        else:
            tasks = _told(env, _OF_JOB["ntasks"])
    cpus = _number(line, "cpus-per-task", 0) or _told(env, _OF_JOB["cpus-per-task"])
    distribution = given.value("distribution", BLOCK).partition(",")[0].partition(":")[0].lower().replace("*", BLOCK)
    if distribution not in (BLOCK, CYCLIC):
        raise BadRequest(f"--distribution: '{distribution[:40]}' is not supported: block and cyclic are")
    gpus = _gpus(line, env)
    return StepShape(
        tasks=tasks,
        nodes=min(nodes, tasks),
        cpus=cpus,
        per_node=per_node,
        hosts=hosts,
        excluded=tuple(_hosts(line, "exclude")),
        relative=_number(line, "relative", 0, least=0),
        distribution=distribution,
        gpus_per_task=gpus.get("gpus-per-task"),
        gpus_per_node=gpus.get("gpus-per-node"),
        gpus=gpus.get("gpus"),
        overlaps=is_set(given, "overlap") or line.has("pty"),
        overcommits=is_set(given, "overcommit"),
        is_whole=is_set(given, "whole"),
    )


def _gpus(line: GnuWords, env: Mapping[str, str]) -> dict[str, int]:
    """What the step says of GPUs, else what its job says of each task."""
    asked = [given for name in _GPUS if (given := line.last(name)) is not None]
    if len(asked) > 1:
        raise BadRequest(f"{asked[1].place}: {asked[0].written} says already how many GPUs it needs")
    bind = line.value("gpu-bind", "").rpartition(",")[2]
    per_task = re.fullmatch("(?:per_task|single):([0-9]{1,4})", bind, re.ASCII)
    if bind and bind != "none" and per_task is None:
        raise BadRequest(f"--gpu-bind: '{bind[:40]}' is not supported: none and per_task:COUNT are")
    if per_task is not None and not (asked and asked[0].name == "gpus-per-task"):
        return {"gpus-per-task": int(per_task[1])}
    if not asked:
        variable = _OF_JOB["gpus-per-task"]
        told = GivenOption("gpus-per-task", env.get(variable, ""), variable)
        return {"gpus-per-task": parse_gpus(told)[0]} if told.value else {}
    count, _ = parse_gpus(asked[0])
    name = {"gres": "gpus-per-node"}.get(asked[0].name, asked[0].name)
    if name == "gpus-per-task" and bind == "none":
        return {"gpus": count * _number(line, "ntasks", 1)}
    return {name: count}


_JOB_PREFIXES = ("SLURM", "GSCHED_", "LSB_", "CUDA_")
"""Of variables that tell a step of its job."""


def exported(given: GnuWords, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that --export admits, beside those of the job. Raises BadRequest."""
    option = given.last("export")
    if option is None:
        return dict(env)
    items = option.value.split(",")
    kept = {
        name: value
        for name, value in env.items()
        if "ALL" in items or name.startswith(_JOB_PREFIXES) or name in ("HOME", "PATH", "USER")
    }
    return kept | named_variables(option.place, items, env)


def read_programs(text: str, tasks: int, arguments: Sequence[str] = ()) -> tuple[StepProgram, ...]:
    """The lines of a --multi-prog file: `0,2-3 COMMAND ARGUMENT ...`, * for all others. Raises BadRequest."""
    found: list[StepProgram] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            ranks, *words = split_words(line)
        except BadRequest as error:
            raise BadRequest(f"line {number} of the file of programs: {error.text}") from None
        if not words or not re.fullmatch(r"\*|[0-9]{1,7}(-[0-9]{1,7})?(,[0-9]{1,7}(-[0-9]{1,7})?)*", ranks, re.ASCII):
            raise BadRequest(f"line {number} of the file of programs: task numbers and a command are needed")
        found.append(StepProgram(() if ranks == "*" else tuple(map(_range, ranks.split(","))), (*words, *arguments)))
        if len(found) > MOST_PROGRAMS:
            raise BadRequest(f"the file of programs has more than {MOST_PROGRAMS} lines")
    named = [(first, last) for each in found for first, last in each.ranks]
    wrong = next((each for each in named if not each[0] <= each[1]), None)
    if wrong is not None:
        raise BadRequest(f"the file of programs: {wrong[0]}-{wrong[1]} is no range")
    if all(each.ranks for each in found):
        free = next((task for task in range(tasks) if not any(a <= task <= b for a, b in named)), None)
        if free is not None:
            raise BadRequest(f"the file of programs says nothing of task {free}")
    return tuple(found)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def is_set(given: GnuWords, name: str) -> bool:
    """A flag, or a variable that says yes."""
    option = given.last(name)
    return option is not None and (option.written.startswith("-") or option.value.lower() not in _FLAGS)


def _text(name: str, read_file: Callable[[str], bytes]) -> str:
    try:
        return read_file(name).decode("utf-8", "surrogateescape")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadRequest(f"Unable to open file {name[:200]}: {reason}") from None


def _job(text: str) -> int:
    if not text:
        return 0
    number, indices = parse_job(text)
    if indices is not None:
        raise BadRequest(f"--jobid: {text[:40]}: an element of an array is named by its own number (squeue -o %A)")
    return number


def _number(words: GnuWords, name: str, default: int, least: int = 1) -> int:
    given = words.last(name)
    if given is None:
        return default
    try:
        return parse_count(given.value, least)
    except BadRequest as error:
        raise BadRequest(f"{given.place}: {error.text}") from None


def _told(env: Mapping[str, str], variable: str) -> int:
    """A number that the job tells its steps; 1 where it tells none. Raises BadRequest: scripts set it, too."""
    try:
        return parse_count(env.get(variable) or "1", 0) or 1
    except BadRequest as error:
        raise BadRequest(f"{variable}: {error.text}") from None


def _nodes(text: str) -> int:
    if not text:
        return 0
    try:
        return parse_count(text.partition("-")[0])
    except BadRequest as error:
        raise BadRequest(f"--nodes: {error.text}") from None


def _hosts(words: GnuWords, name: str) -> list[str]:
    given = words.last(name)
    try:
        return list(dict.fromkeys(expand_nodes(given.value))) if given is not None else []
    except BadRequest as error:
        raise BadRequest(f"--{name}: {error.text}") from None


def _input(text: str, tasks: int) -> tuple[int, str]:
    """(the task that reads; -1: all, and the file; empty: what is typed). Source: srun(1), "IO Redirection"."""
    if text in ("", "all"):
        return -1, ""
    if text == "none":
        return -1, "/dev/null"
    if text.isascii() and text.isdigit() and len(text) < 7:
        if int(text) >= tasks:
            raise BadRequest(f"--input: there is no task {text}: there are {tasks}")
        return int(text), ""
    if pattern := re.search("%[0-9]*.?", text):
        raise BadRequest(f"--input: {pattern[0]} is not supported: one file is read for all tasks")
    return -1, text
