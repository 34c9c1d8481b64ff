"""sbatch's options, variables and #SBATCH lines as one submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.base.patterns import expand_job_id
from gsched.dialect.slurm.array_lists import parse_array, shifted
from gsched.dialect.slurm.batch_scripts import words_of
from gsched.dialect.slurm.dependencies import condition_of
from gsched.dialect.slurm.gnu_options import GivenOption
from gsched.dialect.slurm.job_fields import nice_of
from gsched.dialect.slurm.moments import parse_moment
from gsched.dialect.slurm.option_table import SBATCH
from gsched.dialect.slurm.sbatch import BatchSubmission, read_sbatch
from gsched.dialect.slurm.slurm_values import parse_duration, parse_job, show_duration
from gsched.dialect.spec_values import ValueContext
from gsched.model.jobs.job import SLURM, JobSpec

NOW = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC
AROUND = ValueContext(cwd="/home/ann/run", now=NOW, zone=UTC)
SCRIPT = "#!/bin/bash\necho\n"


def submitted(*words: str, script: str = SCRIPT, env: Mapping[str, str] | None = None) -> BatchSubmission:
    def read_file(path: str) -> bytes:
        if path != "job.sh":
            raise FileNotFoundError(2, "No such file or directory")
        return script.encode()

    return read_sbatch(
        SBATCH.read(words),
        read_stdin=script.encode,
        read_file=read_file,
        env=env or {},
        around=AROUND,
        user="ann",
        element_of=lambda number, indices: shifted(indices, 1)[0],
    )


def spec(*words: str, **more: Any) -> JobSpec:
    return submitted(*words, **more).parsed.spec


def test_what_a_job_is_without_options() -> None:
    job = spec("job.sh")
    assert (job.front_end, job.name, job.slots, job.command) == (SLURM, "job.sh", 1, "echo")
    assert (job.output_file, job.output_overwrite, job.error_file) == ("slurm-%J.out", True, "")
    assert job.defaulted == ("slots",)
    assert spec().name == "sbatch" and spec("--wrap", "hostname").name == "wrap"


def test_options_of_the_line_count_before_variables_and_those_before_the_script() -> None:
    script = "#!/bin/bash\n#SBATCH --job-name=a -t 10\n#SBATCH -p x # comment\necho\n#SBATCH -J late\n"
    env = {"SBATCH_PARTITION": "y", "SBATCH_TIMELIMIT": "20"}
    job = spec("-t", "30", "job.sh", script=script, env=env)
    assert (job.name, job.run_limit_s, job.queue) == ("a", 1800, "y")


def test_arguments_of_the_script() -> None:
    job = spec("-n2", "job.sh", "--time", "a b")
    assert job.script_words == ("--time", "a b") and job.run_limit_s is None


@pytest.mark.parametrize(
    ("words", "slots", "requirement", "gpus"),
    [
        ("-n 4", 4, "", ""),
        ("-n 4 -c 2", 8, "span[block=2]", ""),
        ("-N 2 --ntasks-per-node=4", 8, "span[ptile=4]", ""),
        ("-N 2 -n 5 -c 2", 10, "span[ptile=6]", ""),
        ("-N 1 -n 4 --gres=gpu:4", 4, "span[hosts=1]", "num=4:j_exclusive=yes"),
        ("--ntasks=8 --tasks-per-node=4 --gres=gpu:titan:2", 8, "span[ptile=4]", "num=2:j_exclusive=yes:gmodel=titan"),
        ("--gres=gpu", 1, "", "num=1:j_exclusive=yes"),
        ("-G 4 -N 2", 2, "span[ptile=1]", "num=2:j_exclusive=yes"),
        ("-G a100:3", 1, "span[hosts=1]", "num=3:j_exclusive=yes:gmodel=a100"),
        ("-n 3 --gpus-per-task=2", 3, "", "num=2/task:j_exclusive=yes"),
        ("-n 4 -N 2 --gpus-per-task=2", 4, "span[ptile=2]", "num=4:j_exclusive=yes"),
        ("-n2 --ntasks-per-node=4 --gpus-per-task=1", 2, "span[hosts=1]", "num=2:j_exclusive=yes"),
        ("-c 8 --gres=gpu:1", 8, "span[hosts=1]", "num=1:j_exclusive=yes"),
        ("--mem=4G", 1, "rusage[mem=4096MB]", ""),
        ("--mem=1T", 1, "rusage[mem=1048576MB]", ""),
        ("-w n[1-4]", 4, "span[ptile=1]", ""),
        ("-n2 --mem-per-cpu=512", 2, "rusage[mem=512MB/task]", ""),
        ("--gres=gpu:2 --mem-per-gpu=1G", 1, "rusage[mem=2048MB]", "num=2:j_exclusive=yes"),
        ("-C big&fast", 1, "select[big && fast]", ""),
        ("-L matlab:2,comsol", 1, "rusage[matlab=2/job:comsol=1/job]", ""),
        ("--tmp=2G", 1, "select[maxtmp>=2048]", ""),
        ("-x n[1-2]", 1, "select[hname!=n1 && hname!=n2]", ""),
    ],
)
def test_shapes(words: str, slots: int, requirement: str, gpus: str) -> None:
    job = spec(*words.split(), "job.sh")
    assert job.slots == slots and job.gpu_req == gpus
    assert job.res_req.replace(" ", "") == requirement.replace(" ", "")


def test_fields() -> None:
    job = spec(
        *("-J", "train", "-o", "%x.%j.%u", "-e", "err/%%", "--open-mode=append", "-D", "../other", "-A", "risk"),
        *("--comment", "so it is", "--exclusive", "-w", "n[1-2]", "--hold", "-M", "all", "--priority=7", "--requeue"),
        *("--signal=B:USR1@120", "--mail-type=END,FAIL", "--mail-user=ann@example.org", "--begin=now+1hour"),
        *("--deadline=2027-01-01", "--kill-on-invalid-dep=yes", "-d", "afterok:1:2_3?afterany:4", "-t", "1-02:03:04"),
        "job.sh",
    )
    assert (job.output_file, job.error_file, job.output_overwrite) == ("train.%J.ann", "err/%", False)
    assert (job.specified_cwd, job.project, job.description) == ("/home/ann/other", "risk", "so it is")
    assert job.exclusive and job.hold and job.rerunnable and job.hosts == ("n1", "n2")
    assert (job.warning_signal, job.warning_s, job.warns_main, job.priority) == ("USR1", 120, True, 7)
    assert not spec("--signal=USR1", "job.sh").warns_main and not spec("--signal=R:USR1", "job.sh").warns_main
    assert job.notify_end and job.notify_error and job.mail_user == "ann@example.org"
    assert job.begin_at == NOW + 3600 and job.terminate_at == 1_798_761_600.0 and job.end_orphan
    assert job.dependency == "done(1) && done(2[4]) || ended(4)"
    assert job.run_limit_s == 93_784


def test_files_are_named_after_the_step_of_the_batch_script() -> None:
    """dask-jobqueue names its files with %J, submitit with %t."""
    assert spec("-o", "%x-%J.out", "-e", "%j_%t.%n.%s", "-J", "dask", "job.sh").output_file == "dask-%J.out"
    assert spec("-e", "%j_%t.%n.%s", "job.sh").error_file == "%J_0.0.batch"
    assert spec("-a", "2,5", "-o", "%J", "job.sh").output_file == "%J_%I"


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("%5j_%3A.%2t%n%20j", "00012_012.000" + "0" * 8 + "12"),
        ("%N.%5N %s", "gpu01.gpu01 batch"),
        ("%a%b", "00"),
        ("%%j %%5j %j%%", "%j %5j 12%"),
        ("100%x", "100ru%n"),
        (r"\%j.%N\out", "%j.%Nout"),
    ],
)
def test_names_of_files_are_filled_in_as_slurm_does(pattern: str, name: str) -> None:
    job = spec("-o", pattern, "-J", "ru%n", "job.sh")
    assert expand_job_id(job.output_file, 12, host="gpu01.example.org") == name


def test_names_of_an_arrays_files() -> None:
    job = spec("-a", "0-20", "-o", "%A_%4a_%b %3j", "job.sh")
    assert expand_job_id(job.output_file, element_id(12, 14)) == "12_0013_3 012_13"
    job = spec("-a", "1-20", "-o", "%A_%4a_%b", "job.sh")
    assert expand_job_id(job.output_file, element_id(12, 14)) == "12_0014_4"


def test_an_array_that_begins_with_0_is_shifted() -> None:
    job = spec("--array=0-6:3%2", "-o", "%A_%a %j", "job.sh")
    assert (job.indices, job.array_limit, job.index_shift, job.output_file) == ("1-7:3", 2, 1, "%J_%i %J_%i")
    assert spec("--array=1-3", "job.sh").index_shift == 0
    assert spec("-a", "2,5", "job.sh").output_file == "slurm-%J_%I.out"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--array=0-999999999999", "--array: Invalid job array specification '0-999999999999'"),
        ("--array=3-1", "--array: "),
        ("--mem=-1", "--mem: Invalid size '-1'"),
        ("--gres=gpu:-1", "--gres: Invalid GPU model '-1'"),
        ("--gres=shard:1", "--gres: 'shard:1': gpu[:MODEL][:COUNT] is the only generic resource"),
        ("-G 3 -N 2", "-G: 3 GPUs cannot be shared out evenly over 2 nodes"),
        ("-N2 -n3 --gpus-per-task=1", "--gpus-per-task: 3 tasks are not as many on each node"),
        ("-N 3 -w n[1-2]", "--nodelist: 2 nodes are named and 3 asked for"),
        ("-o %4q.out", "--output: %4q is not supported: %j, %J, %A, %a, %b, %N, %n, %s, %t, %u, %x are filled in"),
        ("-o out.%", "--output: % is not supported"),
        ("-G 1 --gres=gpu:1", "-G: --gres says already how many GPUs it needs"),
        ("-t 1:2:3:4", "-t: Invalid time specification '1:2:3:4'"),
        ("-w n[0-99999999]", "-w: Invalid node list"),
        ("--signal=FOO@3", "--signal: Invalid signal 'FOO@3'"),
        ("-d singleton", "-d: dependency singleton is not supported"),
        ("-d afterok", "-d: Invalid dependency 'afterok'"),
        ("--mail-type=TIME_LIMIT_90", "--mail-type: 'TIME_LIMIT_90' is not supported"),
        ("-N 1 --ntasks-per-node=2 -n 4", "4 tasks are more than 2 on each of 1 nodes"),
        ("--qos=high", "--qos: there is no QOS"),
        ("--export==3", "--export: '=3' is not NAME or NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_named(words: str, said: str) -> None:
    with pytest.raises(BadRequest) as error:
        spec(*words.split(" "), "job.sh")
    assert error.value.text.startswith(said)
    option, _, value = words.partition(" ")
    script = f"#!/bin/sh\n#SBATCH {option} {value}\necho\n"
    with pytest.raises(BadRequest) as error:
        spec("job.sh", script=script)
    assert said.partition(": ")[0] in error.value.text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "Batch script is empty!"),
        ("echo\n", "This does not look like a batch script."),
        ("#!/bin/sh\r\necho\r\n", "line 1 of the script ends as on DOS"),
        ("#!/bin/sh\n#SBATCH -J x\n#BSUB -n 4\necho", "line 3 of the script: a #BSUB line in a script for sbatch"),
        ("#!/bin/sh\n#SBATCH -J 'x\n", "line 2 of the script: the quote ' in "),
        ("#!/bin/sh\n#SBATCH --parsable\n", "line 2 of the script: '--parsable' cannot stand in an #SBATCH line"),
        ("#!/bin/sh\n#SBATCH job.sh\n", "line 2 of the script: 'job.sh' cannot stand in an #SBATCH line"),
    ],
)
def test_scripts_that_are_refused(script: str, said: str) -> None:
    with pytest.raises(BadRequest) as error:
        spec("job.sh", script=script)
    assert error.value.text.startswith(said)


def test_what_the_master_refuses_is_told_with_the_option() -> None:
    asked = submitted("job.sh", script="#!/bin/sh\n#SBATCH -p nope\necho")
    assert asked.refused(("queue",), "nope: No such queue") == "line 2 of the script: -p: nope: No such queue"
    assert asked.refused(("slots",), "no") == "no"


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ((), {"A", "B", "HOME"}),
        (("--export=ALL,C=3",), {"A", "B", "C", "HOME"}),
        (("--export=NONE",), {"HOME"}),
        (("--export=B,C=3",), {"B", "C", "HOME"}),
    ],
)
def test_the_environment(words: Sequence[str], kept: set[str]) -> None:
    env = {"A": "1", "B": "2", "HOME": "/home/ann", "SLURM_JOB_ID": "7"}
    found = submitted(*words, "-n", "2", "job.sh", env=env).parsed.environment
    assert {name for name in found if not name.startswith("SLURM_")} == kept
    assert found["SLURM_NTASKS"] == "2" and "SLURM_JOB_ID" not in found


def test_what_a_job_is_told_of_its_memory() -> None:
    found = submitted("--mem=2G", "-d", "afterok:3", "job.sh").parsed.environment
    assert (found["SLURM_MEM_PER_NODE"], found["SLURM_JOB_DEPENDENCY"]) == ("2048", "afterok:3")


def test_memory_of_the_command_line_takes_the_place_of_other_memory() -> None:
    script = "#!/bin/sh\n#SBATCH --mem=1G\necho"
    assert spec("--mem-per-cpu=5", "job.sh", script=script, env={"SBATCH_MEM_PER_GPU": "3"}).res_req == (
        spec("--mem-per-cpu=5", "job.sh").res_req
    )


def test_a_directive_without_a_blank_counts() -> None:
    assert spec("job.sh", script="#!/bin/sh\n#SBATCH--time=1\necho").run_limit_s == 60


def test_a_variable_of_what_is_refused_is_refused() -> None:
    with pytest.raises(BadRequest, match="SBATCH_QOS: there is no QOS"):
        spec("job.sh", env={"SBATCH_QOS": "high"})


def test_a_number_alone_is_waited_for() -> None:
    assert spec("-d", "12", "job.sh").dependency == "ended(12)"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("0:30", 30), ("1:00:00", 3600), ("264:00:00", 950_400), ("2-12", 216_000), ("UNLIMITED", None)],
)
def test_durations(text: str, seconds: int | None) -> None:
    assert parse_duration(text) == seconds


@given(st.integers(1, 10**8))
def test_a_duration_is_read_as_it_is_shown(seconds: int) -> None:
    assert parse_duration(show_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "after_s"),
    [("now", 0), ("now+90", 90), ("now+2hours", 7200), ("12:00", 3200), ("11:00", 86_000), ("tomorrow", 46_400)],
)
def test_moments(text: str, after_s: float) -> None:
    assert parse_moment(text, NOW, UTC) == NOW + after_s


@pytest.mark.parametrize("text", ["0", "x", "1_", "1_[", "-3", "1_2_3", "99999999999999999999", "4294967314_1"])
def test_numbers_of_jobs(text: str) -> None:
    with pytest.raises(BadRequest, match="Invalid job id"):
        parse_job(text)


@given(st.lists(st.text(max_size=20), max_size=5), st.binary(max_size=80))
def test_any_line_and_any_script_are_read_or_refused_in_one_line(words: list[str], text: bytes) -> None:
    """No traceback, whatever comes."""
    for read in (lambda: submitted(*words), lambda: words_of(b"#!/bin/sh\n#SBATCH " + text)):
        try:
            read()
        except BadRequest as error:
            assert error.text


@given(
    st.lists(
        st.tuples(st.sampled_from([each.name for each in SBATCH.options if each.value]), st.text(max_size=12)),
        max_size=5,
    )
)
def test_any_values_are_read_or_refused(options: list[tuple[str, str]]) -> None:
    try:
        spec(*(f"--{name}={value}" for name, value in options), "job.sh")
    except BadRequest as error:
        assert error.text


def test_arrays_and_conditions_of_any_length_take_no_time() -> None:
    assert parse_array("0-2147483645").shift == 1
    with pytest.raises(BadRequest):
        condition_of("afterok:" + ":".join(["x"] * 100_000), lambda number, indices: indices)


def test_options_that_only_advise_are_taken_with_a_note() -> None:
    found = submitted("--wckey=x", "--hint=nomultithread", "-m", "block", "--get-user-env", "-J", "a", "job.sh")
    notes = SBATCH.notes(found.words)
    assert [note.partition(":")[0] for note in notes] == ["--wckey", "--hint", "-m", "--get-user-env"]
    assert found.parsed.spec.name == "a" and not found.parsed.spec.res_req
    assert not SBATCH.notes(submitted("-J", "a", "--qos=normal", "job.sh").words)


@pytest.mark.parametrize(("text", "less"), [("", 100), ("7", 7), ("0", 0), ("-5", 0), ("2147483645", 100)])
def test_nice(text: str, less: int) -> None:
    assert nice_of(GivenOption("nice", text, "--nice")) == less


@pytest.mark.parametrize("text", ["low", "1.5", "--5", "9" * 11])
def test_what_is_no_nice_value(text: str) -> None:
    with pytest.raises(BadRequest, match="--nice: Invalid nice value"):
        nice_of(GivenOption("nice", text, "--nice"))
