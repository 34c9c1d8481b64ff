"""Command lines, scripts and values that people get wrong, thrown at the readers of all three dialects.

Whatever comes in, either it is read, or one line says what is wrong; and no reading takes more than so many steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC

import pytest

from gsched.base.errors import BadRequest
from gsched.dialect.bsub import read_bsub_script
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.converting.conversion import MARK_OF, convert
from gsched.dialect.pbs.qsub import read_pbs_script, read_qsub
from gsched.dialect.pbs.qsub_fields import QsubReading
from gsched.dialect.pbs.qsub_options import QSUB
from gsched.dialect.script_marks import PBS_MARK, SLURM_MARK, mark_of
from gsched.dialect.slurm.allocation import read_salloc, read_srun
from gsched.dialect.slurm.array_lists import shifted
from gsched.dialect.slurm.gnu_options import GnuOption
from gsched.dialect.slurm.job_fields import Reading
from gsched.dialect.slurm.job_updates import UPDATE_KEYWORDS, read_job_change
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.slurm.sbatch import read_batch_script, read_sbatch
from gsched.dialect.slurm.srun_table import SALLOC, SRUN
from gsched.dialect.slurm.step_options import read_step
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job import JobSpec
from tests.support.hostile_words import HostileWords, at_most

FEW, MANY = 300, 70_000
MOST_STEPS = 400_000
"""Lines of Python. A list of nodes may stand for 10,000 names, and an array of dependencies for as many elements."""
LONGEST = 1000
"""Characters of what is said."""
AROUND = ValueContext(cwd="/home/ann/run", now=1_795_000_000.0, zone=UTC, home="/home/ann")


def element_of(number: int, indices: str) -> str:
    return shifted(indices, 1)[0]


OF_SLURM = Reading(around=AROUND, user="ann", default_name="job.sh", element_of=element_of)
OF_PBS = QsubReading(
    around=AROUND,
    user="ann",
    host="login1.site",
    server="firestone",
    element_of=element_of,
    max_priority=lambda: 100,
)
SPEC = JobSpec(
    command="x", user="ann", queue="normal", slots=4, res_req="span[ptile=2] rusage[mem=1GB]", run_limit_s=600
)
LSF_OPTIONS = [GnuOption(option.name, option.name, option.value, refused=option.refused) for option in BSUB.options]
TABLES = {"#BSUB": LSF_OPTIONS, "#SBATCH": SBATCH.options, "#PBS": QSUB.options}
VARIABLES = [option.variable for table in (SBATCH, SRUN, SALLOC) for option in table.options if option.variable]
VARIABLES += [
    "PBS_DPREFIX",
    "SHELL",
    "PATH",
    "SLURM_NTASKS",
    "SLURM_JOB_NUM_NODES",
    "SRUN_CPUS_PER_TASK",
    "SLURM_GPUS_PER_TASK",
]


def script_of(words: HostileWords, mark: str) -> bytes:
    """Mostly one of this dialect."""
    return words.script({mark: TABLES[mark]} if words.random.random() < 0.95 else TABLES)


def _sbatch(words: HostileWords) -> object:
    script, env = script_of(words, "#SBATCH"), words.variables(VARIABLES)
    line = SBATCH.read(words.line(SBATCH.options, ("job.sh",)))
    return read_sbatch(
        line,
        read_stdin=lambda: script,
        read_file=lambda path: script,
        env=env,
        around=AROUND,
        user="ann",
        element_of=OF_SLURM.element_of,
    )


def _srun(words: HostileWords) -> object:
    return read_srun(words.line(SRUN.options, ("hostname",)), words.variables(VARIABLES), OF_SLURM)


def _step(words: HostileWords) -> object:
    programs = words.value().encode("utf-8", "replace")
    return read_step(
        words.line(SRUN.options, ("hostname",)), words.variables(VARIABLES), "/home/ann", lambda path: programs
    )


def _salloc(words: HostileWords) -> object:
    return read_salloc(words.line(SALLOC.options, ("hostname",)), words.variables(VARIABLES), OF_SLURM)


def _update(words: HostileWords) -> object:
    names = words.random.sample(sorted(UPDATE_KEYWORDS), k=words.random.randint(1, 3))
    return read_job_change({name: words.value() for name in names}, SPEC, OF_SLURM)


def _qsub(words: HostileWords) -> object:
    script, env = script_of(words, "#PBS"), words.variables(VARIABLES)
    line = words.line(QSUB.options, ("job.sh",), one_letter=True)
    return read_qsub(line, read_stdin=lambda: script, read_file=lambda path: script, env=env, reading=OF_PBS)


def _script(words: HostileWords) -> object:
    """As gsub reads one."""
    script, env = words.script(TABLES), words.variables(VARIABLES)
    mark, _ = mark_of(script)
    if mark == SLURM_MARK:
        return read_batch_script(script, ["job.sh"], env, OF_SLURM)
    if mark == PBS_MARK:
        return read_pbs_script(script, ["job.sh"], env, OF_PBS)
    return read_bsub_script(script, AROUND)


def _converted(words: HostileWords) -> object:
    target = words.random.choice(list(MARK_OF))
    found = convert(words.script(TABLES), target, name="job.sh", user="ann", now=AROUND)
    for note in found.notes:
        check_line(note)
    return found


READERS: Mapping[str, Callable[[HostileWords], object]] = {
    "sbatch": _sbatch,
    "srun": _srun,
    "srun in a job": _step,
    "salloc": _salloc,
    "scontrol update": _update,
    "qsub": _qsub,
    "a script": _script,
    "convert": _converted,
}


def check_line(text: str) -> None:
    """Commands print what is said without the control characters of what it is said of."""
    assert text.strip() and len(text) <= LONGEST, repr(text)


def throw(seed: int) -> bool:
    """Whether the words of this seed were read."""
    name, reader = list(READERS.items())[seed % len(READERS)]
    try:
        with at_most(MOST_STEPS):
            reader(HostileWords(f"{name} {seed}"))
    except BadRequest as error:
        check_line(error.text)
        return False
    except BaseException as problem:
        problem.add_note(f"{name}, seed {seed}")
        raise
    return True


def test_hundreds_of_hostile_lines_and_scripts() -> None:
    read = sum(throw(seed) for seed in range(FEW))
    assert FEW / 10 < read < FEW * 9 / 10  # else they are too hostile, or not at all


@pytest.mark.nightly
def test_a_hundred_thousand_of_them() -> None:
    for seed in range(FEW, MANY):
        throw(seed)


def _said(read: Callable[[], object]) -> str:
    with at_most(MOST_STEPS), pytest.raises(BadRequest) as told:
        read()
    check_line(told.value.text)
    return told.value.text


def sbatch(*words: str, script: str = "#!/bin/sh\necho\n") -> JobSpec:
    with at_most(MOST_STEPS):
        return read_sbatch(
            SBATCH.read([*words, "job.sh"]),
            read_stdin=lambda: b"",
            read_file=lambda path: script.encode(),
            env={},
            around=AROUND,
            user="ann",
            element_of=element_of,
        ).parsed.spec


def qsub(*words: str, script: str = "#!/bin/sh\necho\n") -> JobSpec:
    with at_most(MOST_STEPS):
        found = read_qsub(
            [*words, "job.sh"], read_stdin=lambda: b"", read_file=lambda path: script.encode(), env={}, reading=OF_PBS
        )
    return found.parsed.spec


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mem=-1"], "--mem: Invalid size '-1'"),
        (["--array=0-9999999999"], "--array: Job array index error: '1-10000000000'"),
        (["-w", "n[0-99999999]"], "-w: Invalid node list 'n[0-99999999]': more than 10000 nodes are named"),
        (["-x", "n[1-9999],m[1-9999]"], "-x: Invalid node list 'm[1-9999]': more than 10000 nodes are named"),
        (["-t", "1:2:3:4"], "-t: Invalid time specification '1:2:3:4'"),
    ],
)
def test_what_sbatch_refuses_and_does_not_work_at(words: list[str], said: str) -> None:
    assert _said(lambda: sbatch(*words)).startswith(said)


def test_an_array_of_a_thousand_million_is_read_and_not_counted_out() -> None:
    spec = sbatch("--array=0-999999999%5")
    assert (spec.indices, spec.array_limit, spec.index_shift) == ("1-1000000000", 5, 1)
    assert qsub("-J", "0-999999999").indices == "1-1000000000"


def test_no_gpu_is_none() -> None:
    assert sbatch("--gres=gpu:0").gpu_req == sbatch("--gres=none").gpu_req == qsub("-l", "ngpus=0").gpu_req == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10", 600),
        ("10:30", 630),
        ("1:00:00", 3600),
        ("2-1", 49 * 3600),
        ("2-1:30", 49 * 3600 + 1800),
        ("2-1:30:15", 49 * 3600 + 1815),
        ("0", None),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_times_in_all_forms_of_slurm(text: str, seconds: int | None) -> None:
    assert sbatch("-t", text).run_limit_s == seconds


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-l", "walltime=1:00,walltime=2:00"], "-l: illegal -l value: walltime=2:00: walltime is given twice"),
        (["-l", "select=1:ncpus=1:ncpus=2"], "illegal -l value: ncpus is given twice in a chunk"),
        (["-l", "nodes=2:ppn=1:ppn=2"], "illegal -l value: ppn is given twice for a node"),
        (["-l", "mem=1gb", "-l", "mem=2gb"], "-l: illegal -l value: mem=2gb: mem is given twice"),
        (["-l", "select=999999999:ncpus=999999999"], "illegal -l value: more than 1000000 CPUs"),
        (["-l", "walltime=0"], "illegal -l value: walltime=0 would let nothing run"),
    ],
)
def test_what_qsub_refuses_of_resources(words: list[str], said: str) -> None:
    assert _said(lambda: qsub(*words)).startswith(said)


@pytest.mark.parametrize("lines", ["#SBATCH -n 1\n#PBS -N x\n", "#PBS -N x\n#SBATCH -n 1\n", "#PBS -N x\n#BSUB -n 1\n"])
def test_a_script_of_two_dialects(lines: str) -> None:
    script = f"#!/bin/sh\n{lines}echo\n"
    for read in (lambda: sbatch(script=script), lambda: qsub(script=script)):
        assert _said(read).startswith("line ")
    assert _said(lambda: mark_of(script.encode())).startswith("line 2 of the script is a ")
