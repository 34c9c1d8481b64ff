"""srun's and salloc's options: all of the manuals' lists, steps of a job, and jobs of their own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.dialect.slurm.allocation import AllocationRequest, read_salloc, read_srun
from gsched.dialect.slurm.gnu_options import GnuOptions
from gsched.dialect.slurm.job_fields import Reading
from gsched.dialect.slurm.srun_table import SALLOC, SRUN
from gsched.dialect.slurm.step_options import StepAsk, read_step
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job_step import StepProgram

AROUND = ValueContext(cwd="/home/ann/run", now=1_795_000_000.0, zone=UTC)
READING = Reading(AROUND, "ann", "train", lambda number, indices: indices)
OF_JOB = {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "HOME": "/home/ann"}
FILE = b"# who does what\n0 ./first %t\n1-2,3 ./other 'a b' %o\n"

SRUN_OPTIONS = """
        accel-bind account/A acctg-freq bb bbf bcast bcast-exclude begin/b chdir/D cluster-constraint clusters/M
    comment compress constraint/C container contiguous core-spec/S cores-per-socket cpu-bind cpu-freq cpus-per-gpu
    cpus-per-task/c deadline delay-boot dependency/d disable-status/X distribution/m epilog error/e exact
    exclude/x exclusive export extra-node-info/B gid gpu-bind gpu-freq gpus-per-node gpus-per-socket gpus-per-task
    gpus/G gres gres-flags help/h het-group hint hold/H immediate/I input/i job-name/J jobid kill-on-bad-exit/K
    label/l licenses/L mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout
    multi-prog network nice no-allocate/Z no-kill/k nodefile/F nodelist/w nodes/N ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket ntasks/n open-mode output/o overcommit/O overlap oversubscribe/s partition/p
    power prefer preserve-env/E priority profile prolog propagate pty qos/q quiet/Q quit-on-interrupt reboot
    relative/r reservation resv-ports send-libs signal slurmd-debug sockets-per-node spread-job switches
    task-epilog task-prolog test-only thread-spec threads-per-core threads/T time-min time/t tmp uid unbuffered/u
    usage     use-min-nodes verbose/v version/V wait/W wckey x11
"""
SALLOC_OPTIONS = """
        account/A acctg-freq bb bbf begin bell chdir/D cluster-constraint clusters/M comment constraint/C
    container     contiguous core-spec/S cores-per-socket cpu-freq cpus-per-gpu cpus-per-task/c deadline
    delay-boot dependency/d     distribution/m exclude/x exclusive extra-node-info/B get-user-env gid gpu-bind
    gpu-freq gpus-per-node gpus-per-socket gpus-per-task gpus/G gres gres-flags help/h hint hold/H immediate/I
    job-name/J kill-command/K     licenses/L mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu
    mincpus network nice no-bell no-kill/k no-shell nodefile/F nodelist/w nodes/N ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket     ntasks/n overcommit/O oversubscribe/s partition/p power prefer priority
    profile qos/q quiet/Q reboot     reservation signal sockets-per-node spread-job switches thread-spec
    threads-per-core time-min time/t tmp uid     usage use-min-nodes verbose/v version/V wait-all-nodes wckey x11
"""
"""NAME/LETTER of each option in the lists of srun(1) and salloc(1) of Slurm 22.05."""


def read_file(name: str) -> bytes:
    if name != "programs":
        raise FileNotFoundError(2, "No such file or directory")
    return FILE


def step(*words: str, env: Mapping[str, str] = OF_JOB) -> StepAsk:
    return read_step(words, env, "/home/ann/run", read_file)


def srun(*words: str, env: Mapping[str, str] | None = None) -> AllocationRequest:
    return read_srun(words, env or {}, READING)


@pytest.mark.parametrize(("table", "manual"), [(SRUN, SRUN_OPTIONS), (SALLOC, SALLOC_OPTIONS)])
def test_each_option_of_the_manual_is_taken_or_refused_by_name(table: GnuOptions, manual: str) -> None:
    for entry in manual.split():
        name, _, letter = entry.partition("/")
        known = next((option for option in table.options if name in option.names), None)
        assert known is not None, entry
        assert letter in ("", known.letter), entry
        if known.refused:
            with pytest.raises(BadRequest, match=f"--{name}: {known.refused[:20]}"):
                table.read([f"--{name}=1"])
    letters = [option.letter for option in table.options if option.letter]
    assert len(letters) == len(set(letters))


def test_a_step_without_options_is_as_large_as_its_job() -> None:
    asked = step("hostname", "-f")
    assert (asked.request.shape.tasks, asked.words, asked.request.reader) == (4, ("hostname", "-f"), -1)
    assert asked.cwd == "/home/ann/run" and not asked.labels and asked.environment["HOME"] == "/home/ann"


@pytest.mark.parametrize(
    ("words", "tasks", "nodes", "per_node"),
    [
        (("-n", "3"), 3, 0, 0),
        (("-N", "2"), 2, 2, 0),
        (("-N1", "-n2"), 2, 1, 0),
        (("--ntasks-per-node=1",), 2, 2, 1),
        (("-N", "2", "--ntasks-per-node=3"), 6, 2, 3),
        (("-w", "a"), 1, 1, 0),
    ],
)
def test_how_many_tasks_a_step_has(words: tuple[str, ...], tasks: int, nodes: int, per_node: int) -> None:
    shape = step(*words, "x").request.shape
    assert (shape.tasks, shape.nodes, shape.per_node) == (tasks, nodes, per_node)


def test_what_a_step_says_of_gpus() -> None:
    assert step("--gpus-per-task=2", "x").request.shape.gpus_per_task == 2
    assert step("--gres=gpu:a100:2", "x").request.shape.gpus_per_node == 2
    assert step("--gres=none", "x").request.shape.gpus_per_node == 0
    assert step("-G3", "x").request.shape.gpus == 3
    assert step("--gpu-bind=per_task:1", "x").request.shape.gpus_per_task == 1
    told = step("x", env={**OF_JOB, "SLURM_GPUS_PER_TASK": "1", "SLURM_GPUS_PER_NODE": "8"}).request.shape
    assert (told.gpus_per_task, told.gpus_per_node) == (1, None)
    plain = step("x").request.shape
    assert (plain.gpus, plain.gpus_per_node, plain.gpus_per_task) == (None, None, None)


def test_what_is_done_with_output() -> None:
    asked = step("-l", "-K", "-W", "5", "-o", "out.%t", "-e", "none", "-i", "2", "-D", "sub", "-u", "-Q", "x")
    assert asked.labels and asked.kills_on_bad_exit and asked.wait_s == 5.0 and asked.is_unbuffered and asked.is_quiet
    assert (asked.output, asked.error, asked.request.reader, asked.cwd) == ("out.%t", "none", 2, "/home/ann/run/sub")
    assert not step("-K0", "x").kills_on_bad_exit
    assert step("x", env={**OF_JOB, "SLURM_LABELIO": "1"}).labels
    assert not step("x", env={**OF_JOB, "SLURM_LABELIO": "0"}).labels
    assert step("-i", "data", "x").input == "data"


@pytest.mark.parametrize("bind", ["none", "no", "q", "quiet", "v", "verbose", "quiet,none"])
def test_tasks_that_are_not_bound(bind: str) -> None:
    """Snakemake says --cpu-bind=q: whatever is usual, and not a word of it."""
    assert step(f"--cpu-bind={bind}", "x").words == ("x",)


def test_a_file_of_programs() -> None:
    found = step("--multi-prog", "programs").request.programs
    assert found == (
        StepProgram(((0, 0),), ("./first", "%t")),
        StepProgram(((1, 2), (3, 3)), ("./other", "a b", "%o")),
    )


@pytest.mark.parametrize(("mpi", "launcher"), [("pmix", "mpirun"), ("pmix_v4", "mpirun"), ("pmi2", "mpiexec.hydra")])
def test_an_mpi_program_is_started_by_its_own_launcher(mpi: str, launcher: str) -> None:
    asked = step(f"--mpi={mpi}", "-n3", "./solve", "-v")
    assert asked.words[-5:] == (launcher, "-n", "3", "./solve", "-v")
    assert asked.words[0] == "env" and "SLURM_NTASKS=3" in asked.words
    assert (asked.request.shape.tasks, asked.request.shape.is_whole, asked.request.name) == (1, True, "solve")
    with pytest.raises(BadRequest, match=f"there is no {launcher} in PATH"):
        read_step([f"--mpi={mpi}", "x"], {}, "/", lambda path: b"", has_program=lambda name: False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "fatal: No command given to execute."),
        (("-n", "0", "x"), "-n: Invalid numeric value '0'"),
        (
            ("--mpi=pmi1", "x"),
            "--mpi: 'pmi1' is not supported: none, pmi2, pmix are, or say mpirun in the place of srun",
        ),
        (("--mpi=pmix", "-N2", "x"), "--mpi=pmix: -N is not supported with it: say mpirun -n 2 ... in the place of"),
        (("--mpi=pmi2", "-c2", "x"), "--mpi=pmi2: CPUs and GPUs of each task are not supported with it: say mpiexec"),
        (("-m", "plane=4", "x"), "--distribution: 'plane=4' is not supported: block and cyclic are"),
        (("--cpu-bind=cores", "x"), "--cpu-bind: 'cores' is not supported"),
        (("--cpu-bind=q,cores", "x"), "--cpu-bind: 'cores' is not supported"),
        (("-n6", "--multi-prog", "programs"), "the file of programs says nothing of task 4"),
        (("--multi-prog", "nothing"), "Unable to open file nothing: No such file or directory"),
        (("-i", "9", "x"), "--input: there is no task 9: there are 4"),
        (("-i", "in.%2t", "x"), "--input: %2t is not supported: one file is read for all tasks"),
        (("--gres=gpu:1", "-G2", "x"), "-G: --gres says already how many GPUs it needs"),
        (("--jobid=7_1", "x"), "--jobid: 7_1: an element of an array"),
        (("--open-mode=x", "y"), "--open-mode: 'x' is neither append nor truncate"),
        (("--x11", "y"), "--x11: ssh -X"),
    ],
)
def test_steps_that_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        step(*words)
    assert refusal.value.text.startswith(said)


def test_the_line_of_the_seed() -> None:
    line = "-p gpu-titanxp -N 1 -n 4 -t 02:00:00 --gres=gpu:4 --pty /bin/bash -l"
    asked = srun(*line.split()).parsed
    job = asked.spec
    assert (job.queue, job.slots, job.run_limit_s, job.interactive) == ("gpu-titanxp", 4, 7200, "Is")
    assert (job.gpu_req, job.script_words, job.command) == (
        "num=4:j_exclusive=yes",
        ("/bin/bash", "-l"),
        "/bin/bash -l",
    )
    assert job.output_file == "" and job.name == "train"


def test_a_job_of_srun_begins_with_srun_which_knows_its_options() -> None:
    job = srun("-n2", "-l", "-K", "-o", "out.%t", "-J", "eval", "--mem=1G", "python", "-m", "x y").parsed.spec
    assert (job.interactive, job.name, job.command) == ("I", "eval", "python -m 'x y'")
    words = list(job.script_words)
    cut = words.index("--")
    assert words[cut:] == ["--", "python", "-m", "x y"]
    assert words[:cut] == ["--ntasks=2", "--label", "--kill-on-bad-exit", "--output=out.%t"]
    inner = step(*words)
    assert inner.labels and inner.kills_on_bad_exit and inner.words == ("python", "-m", "x y")


def test_what_cannot_be_outside_of_a_job() -> None:
    for words, said in ((("-r1", "x"), "--relative"), ((), "fatal: No command"), (("-I0", "x"), "--immediate")):
        with pytest.raises(BadRequest, match=said):
            srun(*words)


def test_salloc() -> None:
    asked = read_salloc(["-N2", "--gres=gpu:1", "./run.sh"], {"SALLOC_PARTITION": "short"}, READING)
    job = asked.parsed.spec
    assert (job.interactive, job.queue, job.slots, asked.command) == ("I", "short", 2, ("./run.sh",))
    held = read_salloc(["--no-shell"], {}, READING)
    assert held.parsed.spec.interactive == "" and b"sleep infinity" in (held.parsed.script or b"")
    with pytest.raises(BadRequest, match="--no-shell: nothing is run"):
        read_salloc(["--no-shell", "x"], {}, READING)


def test_a_job_within_a_job_has_nothing_of_the_other() -> None:
    found = srun("x", env={"SLURM_JOB_ID": "9", "A": "1"}).parsed.environment
    assert found["A"] == "1" and "SLURM_JOB_ID" not in found and found["GSCHED_STEP_OF_SRUN"] == "1"


@given(st.lists(st.text(max_size=20), max_size=5))
def test_any_words_are_read_or_refused_in_one_line(words: list[str]) -> None:
    for read in (lambda: step(*words), lambda: srun(*words), lambda: read_salloc(words, {}, READING)):
        try:
            read()
        except BadRequest as error:
            assert error.text


@given(
    st.lists(
        st.tuples(st.sampled_from([each.name for each in SRUN.options if each.value]), st.text(max_size=12)), max_size=4
    )
)
def test_any_values_are_read_or_refused(options: list[tuple[str, str]]) -> None:
    words = [f"--{name}={value}" for name, value in options]
    for read in (lambda: step(*words, "x"), lambda: srun(*words, "x")):
        try:
            read()
        except BadRequest as error:
            assert error.text
