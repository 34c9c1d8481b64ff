"""Options of bsub around a job: steps, copies, warnings, copied files, defaults of the environment, esubs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.dialect.bsub import OtherScript, ParsedSubmission, ReadOther, read_submission
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.esub import changed, parameters, read_lines, write_lines
from gsched.dialect.slurm.job_fields import Reading
from gsched.dialect.slurm.sbatch import read_batch_script
from gsched.dialect.spec_values import SpecValues, ValueContext

NOON = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC).timestamp()
AROUND = ValueContext(cwd="/home/ann/dir", now=NOON, zone=UTC)


def submit(
    *words: str,
    stdin: bytes = b"",
    files: dict[str, bytes] | None = None,
    read_other: ReadOther | None = None,
    **env: str,
) -> ParsedSubmission:
    def read_file(path: str) -> bytes:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory")
        return (files or {})[path]

    return read_submission(
        words,
        read_stdin=lambda: stdin,
        read_file=read_file,
        env=env,
        around=AROUND,
        parse_script=True,
        is_program=lambda word: word.startswith("/bin/"),
        read_other=read_other,
    )


def test_what_stands_around_a_job() -> None:
    words = ["-E", "a; b", "-Ep", "c", "-L", "/bin/zsh", "-outdir", "out.%J", "-app", "care", "-ti", "-u", "ann", "-B"]
    spec = submit(*words, "-Ne", "-f", "a > b", "-f", "c <<", "-f", "d >< e", "-wa", "sigurg", "-wt", "1:05", "x").spec
    assert (spec.pre_exec, spec.post_exec, spec.login_shell) == ("a; b", "c", "/bin/zsh")
    assert (spec.output_dir, spec.application, spec.end_orphan) == ("/home/ann/dir/out.%J", "care", True)
    assert (spec.mail_user, spec.notify_begin, spec.notify_end, spec.notify_error) == ("ann", True, False, True)
    assert spec.file_copies == ("a > b", "c << c", "d >< e")
    assert (spec.warning_signal, spec.warning_s) == ("URG", 3900)


def test_defaults_of_the_environment() -> None:
    names = {"LSB_DEFAULT_JOBGROUP": "/g", "LSB_DEFAULT_USERGROUP": "ml", "LSB_DEFAULTPROJECT": "p"}
    spec = submit("x", **names).spec
    assert (spec.group, spec.user_group, spec.project) == ("/g", "ml", "p")
    own = submit("-g", "/mine", "-G", "red", "-P", "q", "x", **names).spec
    assert (own.group, own.user_group, own.project) == ("/mine", "red", "q")


def test_a_limit_scaled_by_a_host_is_told_of() -> None:
    spec = submit("-W", "1:30/gpu01", "x").spec
    assert spec.run_limit_s == 5400
    note = "-W 1:30/gpu01: times are not scaled by the speed of hosts; 1:30 counts on every host"
    assert tuple(map(sentence, spec.warnings)) == (note,)


def test_a_script_of_windows_is_run_with_the_line_ends_of_unix() -> None:
    job = submit(stdin=b"#!/bin/sh\r\n#BSUB-J win # why\r\necho a\r\n")
    assert (job.script, job.spec.name) == (b"#!/bin/sh\n#BSUB-J win # why\necho a\n", "win")
    assert tuple(map(sentence, job.spec.warnings)) == (
        "Line 1 of the script ends with CR LF (Windows): it is run with the line ends of Unix",
    )


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["plain.sh"], b"hostname\n"),
        (["/bin/plain.sh"], None),
        (["-Zs", "/bin/plain.sh"], b"hostname\n"),
        (["plain.sh", "1"], None),
    ],
)
def test_which_scripts_are_copied(words: list[str], script: bytes | None) -> None:
    files = dict.fromkeys(("plain.sh", "/bin/plain.sh"), b"hostname\n")
    assert submit(*words, files=files).script == script


@given(
    st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), st.text(st.characters(codec="utf-8"), max_size=20))
)
def test_lines_for_esubs_can_be_read_again(values: dict[str, str]) -> None:
    values = {name: "".join(value.split("\r")) for name, value in values.items()}
    values = {name: " ".join(value.splitlines()) for name, value in values.items()}
    assert read_lines(write_lines(values), "x") == values


def test_what_an_esub_is_told_and_may_change() -> None:
    options = BSUB.read(["-n", "2,4", "-W", "1:00", "-M", "2G", "-x", "-R", "a", "-R", "b", "-oo", "f", "prog"])
    told = parameters(options, "prog 1", AROUND)
    assert told == {
        "LSB_SUB_NUM_PROCESSORS": "2",
        "LSB_SUB_MAX_NUM_PROCESSORS": "4",
        "LSB_SUB_RLIMIT_RUN": "3600",
        "LSB_SUB_RLIMIT_RSS": str(2 * 1024 * 1024),
        "LSB_SUB_EXCLUSIVE": "Y",
        "LSB_SUB_RES_REQ": "select[(a)&&(b)]",
        "LSB_SUB_OUT_FILE": "f",
        "LSB_SUB_COMMANDNAME": "prog",
        "LSB_SUB_COMMAND_LINE": "prog 1",
    }
    changes = {"LSB_SUB_EXCLUSIVE": "SUB_RESET", "LSB_SUB_OUT_FILE": "g", "LSB_SUB_RES_REQ": "c", "LSB_SUB_HOLD": "Y"}
    found = changed(options, changes)
    assert (found.has("x"), found.last("o"), found.has("oo"), found.all("R"), found.has("H")) == (
        False,
        "g",
        False,
        ("c",),
        True,
    )
    with pytest.raises(BadRequest, match="not a number"):
        changed(options, {"LSB_SUB_RLIMIT_RUN": "soon"})


@pytest.mark.parametrize(
    ("words", "literal"),
    [
        (["echo", "$HOME"], "$HOME"),
        (["echo", "a", "${LSB_JOBINDEX}", "$OTHER"], "${LSB_JOBINDEX}"),
        (["echo $HOME"], ""),
        (["$HOME/prog", "$5", "a$HOME", "$HOME/x", "$(date)", "$", "${x:-1}"], ""),
    ],
)
def test_a_variable_that_stays_as_it_is_is_told_of(words: list[str], literal: str) -> None:
    spec = submit(*words).spec
    note = "on the execution host: only in a command that is one word are variables"
    assert tuple(map(sentence, spec.warnings)) == ((f"{literal} is not expanded {note}",) if literal else ())
    assert not literal or f"'{literal}'" in spec.command


SLURM = """#!/bin/bash
#SBATCH -J train -p gpu
#SBATCH --time=264:00:00 --gres=gpu:a100:2
#SBATCH --mem=16G -o name.%j.out   # where to
#SBATCH --mail-type=END -c 4
./train
"""


def read_slurm(other: OtherScript, over: SpecValues) -> ParsedSubmission:
    assert other.mark == "#SBATCH"
    name = other.words[0] if other.words else "sbatch"
    return read_batch_script(other.script, other.words, {"A": "1"}, Reading(AROUND, "ann", name, shifted_by_0, over))


def shifted_by_0(number: int, indices: str) -> str:
    return indices


def test_a_script_of_slurm_is_submitted_as_sbatch_would() -> None:
    files = {"job.sh": SLURM.encode()}
    for words, name, said in (([], "train", ()), (["job.sh", "a"], "train", ("a",)), (["-Zs", "job.sh"], "train", ())):
        job = submit(*words, stdin=SLURM.encode(), files=files, read_other=read_slurm)
        spec = job.spec
        assert (spec.front_end, spec.name, spec.queue, spec.script_words) == ("slurm", name, "gpu", said)
        assert (spec.run_limit_s, spec.slots, spec.gpu_req) == (264 * 3600, 4, "num=2:j_exclusive=yes:gmodel=a100")
        assert (spec.output_file, spec.output_overwrite, spec.notify_end) == ("name.%J.out", True, True)
        assert (spec.command, job.script, job.environment["SLURM_CPUS_PER_TASK"]) == ("./train", SLURM.encode(), "4")


def test_gsubs_own_options_count_before_lines_of_slurm() -> None:
    words = ("-n", "8", "-W", "10", "-gpu", "num=1", "-J", "own[1-2]", "-o", "own.%J", "-P", "p", "-H", "-K")
    job = submit(*words, stdin=SLURM.encode(), read_other=read_slurm)
    spec = job.spec
    assert (spec.slots, spec.defaulted, spec.run_limit_s, spec.gpu_req) == (8, (), 600, "num=1")
    assert (spec.name, spec.indices, spec.index_shift, spec.project, spec.hold) == ("own", "1-2", 0, "p", True)
    assert (spec.output_file, spec.output_overwrite, job.wait) == ("own.%J", False, True)
    assert (spec.queue, spec.res_req) == ("gpu", "rusage[mem=16384MB] span[hosts=1]")
    assert job.environment["SLURM_NTASKS"] == "8" and "SLURM_CPUS_PER_TASK" not in job.environment
    assert "-R" not in job.refused(["queue"], "no") and job.refused(["queue"], "no").startswith(
        "line 2 of the script: "
    )
    assert job.refused(["slots"], "too many") == "too many. Job not submitted."


def test_defaults_of_gsubs_environment_hold_for_scripts_of_slurm() -> None:
    env = {"LSB_DEFAULTPROJECT": "p", "LSB_DEFAULTQUEUE": "night"}
    script = b"#!/bin/sh\n#SBATCH -n 2\nls\n"
    spec = submit(stdin=script, read_other=read_slurm, **env).spec
    assert (spec.project, spec.queue) == ("p", "night")
    assert submit(stdin=SLURM.encode(), read_other=read_slurm, **env).spec.queue == "gpu"
    assert submit("-I", stdin=script, read_other=read_slurm).spec.output_file == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--qos=high", "line 2 of the script: --qos: there is no QOS: queues (--partition) say what jobs may do"),
        ("-J 'open", "line 2 of the script: the quote ' in '-J 'open' is not closed"),
        ("-t soon", "line 2 of the script: -t: "),
    ],
)
def test_what_is_wrong_in_a_line_of_slurm_is_told_with_its_number(line: str, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        submit(stdin=f"#!/bin/sh\n#SBATCH {line}\nls\n".encode(), read_other=read_slurm)
    assert caught.value.text.startswith(said) and caught.value.text.endswith(". Job not submitted.")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#BSUB -n 2\n#SBATCH -n 2\n", "line 1 of the script is a #BSUB line and line 2 a #SBATCH line: "),
        ("#SBATCH -n 2\nls\n#BSUB\n", "line 1 of the script is a #SBATCH line and line 3 a #BSUB line: "),
        ("#!/bin/sh\n#PBS -N a\n\n#SBATCH -J a\n", "line 2 of the script is a #PBS line and line 4 a #SBATCH line: "),
    ],
)
def test_a_script_with_lines_of_two_systems_is_refused_with_both(script: str, said: str) -> None:
    for words in ([], ["job.sh"], ["job.sh", "a"], ["-Zs", "job.sh"]):
        with pytest.raises(BadRequest) as caught:
            submit(*words, stdin=script.encode(), files={"job.sh": script.encode()}, read_other=read_slurm)
        assert caught.value.text.startswith(said) and caught.value.exit_code == 255


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\ncat > job.sh <<EOF\n#SBATCH -n 1\nEOF\n",
        "# see #SBATCH\n #SBATCH -n 1\n##PBS -N x\n#PBSX\nls\n",
    ],
)
def test_what_no_other_system_would_obey_is_no_directive(script: str) -> None:
    assert submit(stdin=script.encode()).script == script.encode()


@given(st.binary(max_size=60))
def test_any_directive_of_another_system_is_refused_with_one_line(rest: bytes) -> None:
    for mark in (b"#SBATCH ", b"#PBS "):
        with pytest.raises(BadRequest) as caught:
            submit(stdin=mark + b" ".join(rest.replace(b"\0", b"").split()) + b"\nls\n")
        assert caught.value.text.startswith("line 1 of the script: ") and caught.value.text.isprintable()
