"""Options of bsub around a job: steps, copies, warnings, copied files, defaults of the environment, esubs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.dialect.bsub import ParsedSubmission, read_submission
from gsched.dialect.bsub_options import BSUB
from gsched.dialect.esub import changed, parameters, read_lines, write_lines
from gsched.dialect.spec_values import ValueContext

NOON = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC).timestamp()
AROUND = ValueContext(cwd="/home/ann/dir", now=NOON, zone=UTC)


def submit(*words: str, stdin: bytes = b"", files: dict[str, bytes] | None = None, **env: str) -> ParsedSubmission:
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
    note = "Warning: -W 1:30/gpu01: times are not scaled by the speed of hosts; 1:30 counts on every host"
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
    assert tuple(map(sentence, spec.warnings)) == ((f"Warning: {literal} is not expanded {note}",) if literal else ())
    assert not literal or f"'{literal}'" in spec.command


SLURM = """#!/bin/bash
#SBATCH -J train -p gpu
#SBATCH --time=264:00:00 --gres=gpu:a100:2
#SBATCH --mem=16G -o name.%j.out   # where to
#SBATCH --mail-type=END -c 4
./train
"""
PBS = """#!/bin/bash
#PBS -N job -q long -V -j oe
#PBS -l select=4:ncpus=8:ngpus=1,walltime=04:00:00
#PBS -A proj -W depend=afterok:1
./train
"""
SLURM_SAID = (
    "line 2 of the script: #SBATCH lines are not obeyed, and there is no #BSUB line: say #BSUB -J train -q gpu "
    '-W 264:00 -gpu "num=2:gmodel=a100" -R "rusage[mem=16GB]" -o name.%J.out instead '
    "(nothing stands for --mail-type, -c); a line '#BSUB' alone has it run as it is, and sbatch obeys the "
    "lines (gsched names slurm DIR). Job not submitted."
)
PBS_SAID = (
    "line 2 of the script: #PBS lines are not obeyed, and there is no #BSUB line: say #BSUB -J job -q long -n 32 "
    '-R "span[ptile=8]" -gpu "num=1" -W 4:00 -P proj instead (nothing stands for -W); '
    "a line '#BSUB' alone has it run as it is. Job not submitted."
)


@pytest.mark.parametrize(("script", "said"), [(SLURM, SLURM_SAID), (PBS, PBS_SAID)])
def test_scripts_for_other_systems_are_refused_with_what_to_say(script: str, said: str) -> None:
    files = dict.fromkeys(("job.sh", "/bin/job.sh"), script.encode())
    for words in ([], ["job.sh"], ["/bin/job.sh"], ["/bin/job.sh", "1"], ["-Zs", "job.sh"], ["-n", "2", "job.sh"]):
        with pytest.raises(BadRequest) as caught:
            submit(*words, stdin=script.encode(), files=files)
        assert caught.value.text == said and caught.value.exit_code == 255


@pytest.mark.parametrize("own", ["#BSUB\n", "#BSUB -n 2\n"])
def test_a_script_for_several_systems_runs(own: str) -> None:
    assert submit(stdin=(SLURM + own).encode()).script == (SLURM + own).encode()


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\ncat > job.sh <<EOF\n#SBATCH -n 1\nEOF\n",
        "# see #SBATCH\n #SBATCH -n 1\n##PBS -N x\n#PBSX\nls\n",
    ],
)
def test_what_no_other_system_would_obey_is_no_directive(script: str) -> None:
    assert submit(stdin=script.encode()).script == script.encode()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-t 90", "-W 1:30 instead;"),
        ("-t 1-2", "-W 26:00 instead;"),
        ("-t 0:30", "-W 0:01 instead;"),
        ("--time 2-03:04:05", "-W 51:05 instead;"),
        ("--gpus=3", '-gpu "num=3" instead;'),
        ("--gres=gpu", '-gpu "num=1" instead;'),
        ("--gres=nic:1", "say what it needs in #BSUB lines (nothing stands for --gres);"),
        ("-o out.%x", "say what it needs in #BSUB lines (nothing stands for -o);"),
        ("-J 'two words'", "-J 'two words' instead;"),
        ("--exclusive", "-x instead;"),
        ("-t soon -J 'open", "(nothing stands for -t);"),
        ("", "say what it needs in #BSUB lines;"),
    ],
)
def test_options_of_sbatch_and_what_stands_for_them(line: str, said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        submit(stdin=f"#SBATCH {line}\nls\n".encode())
    assert said in caught.value.text


@given(st.binary(max_size=60))
def test_any_directive_of_another_system_is_refused_with_one_line(rest: bytes) -> None:
    for mark in (b"#SBATCH ", b"#PBS "):
        with pytest.raises(BadRequest) as caught:
            submit(stdin=mark + b" ".join(rest.replace(b"\0", b"").split()) + b"\nls\n")
        assert caught.value.text.startswith("line 1 of the script: ") and caught.value.text.isprintable()
