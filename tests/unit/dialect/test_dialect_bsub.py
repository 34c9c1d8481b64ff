"""bsub's command lines and #BSUB scripts, as users and LSF's clients write them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.base.ids import element_id
from gsched.base.patterns import expand_job_id
from gsched.dialect.bsub import SCRIPT_LIMIT, ParsedSubmission, read_submission, shown_command
from gsched.dialect.directives import split_words
from gsched.dialect.environment import choose_environment
from gsched.dialect.spec_values import ValueContext

NOON = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC).timestamp()
AROUND = ValueContext(cwd="/home/ann/dir", now=NOON, zone=UTC)
INTERACTIVE = "-I, -Ip and -Is are the kinds of interactive jobs"
PACK = "option -pack stands alone: the options and the command of each job are in its file"
ENV = {"HOME": "/home/test", "PATH": "/bin", "DISPLAY": ":0"}


def submit(
    *words: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None, env: Mapping[str, str] = ENV
) -> ParsedSubmission:
    def read_file(path: str) -> bytes:
        if files is None or path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return read_submission(words, read_stdin=lambda: stdin, read_file=read_file, env=env, around=AROUND)


def refusal(*words: str, stdin: bytes = b"", files: Mapping[str, bytes] | None = None, **env: str) -> str:
    with pytest.raises(BadRequest) as caught:
        submit(*words, stdin=stdin, files=files, env={**ENV, **env})
    assert caught.value.exit_code == 255
    text = caught.value.text
    assert "\n" not in text and text.endswith(". Job not submitted.")
    return text.removesuffix(". Job not submitted.")


def test_the_command_of_the_transcript() -> None:
    job = submit("-R", "select[ngpus>0] rusage[ngpus_excl_p=1]", "sudo", "A=/opt/a:/opt/b", "time", "./train.sh")
    assert job.spec.command == "sudo A=/opt/a:/opt/b time ./train.sh"
    assert job.spec.res_req == "select[ngpus>0] rusage[ngpus_excl_p=1]"
    assert (job.script, job.spec.queue, job.spec.queue_named, job.spec.slots, job.spec.run_limit_s) == (
        None,
        "",
        False,
        1,
        None,
    )
    assert job.spec.cwd == "/home/ann/dir" and job.environment == ENV


def test_every_option() -> None:
    words = ["-J", "한글 이름", "-q", "gpu", "-n", "4,4", "-m", "a b", "-o", "o.%J", "-eo", "e.%J", "-i", "in", "-cwd"]
    job = submit(*words, "sub/../run", "-P", "p", "-W", "1:30", "-K", "-H", "-R", "a", "-R", "b", "prog")
    assert (job.spec.name, job.spec.queue, job.spec.queue_named, job.spec.slots, job.spec.hosts) == (
        "한글 이름",
        "gpu",
        True,
        4,
        ("a", "b"),
    )
    assert (job.spec.output_file, job.spec.output_overwrite, job.spec.error_file, job.spec.error_overwrite) == (
        "o.%J",
        False,
        "e.%J",
        True,
    )
    assert (job.spec.input_file, job.spec.cwd, job.spec.specified_cwd) == ("in", "/home/ann/dir", "/home/ann/dir/run")
    assert (job.spec.project, job.spec.run_limit_s, job.wait, job.spec.hold) == ("p", 5400, True, True)
    assert job.spec.res_req == "select[(a)&&(b)]"


def test_defaults_from_the_environment() -> None:
    job = submit("prog", env={"LSB_DEFAULTQUEUE": "night", "LSB_DEFAULTPROJECT": "p1"})
    assert (job.spec.queue, job.spec.queue_named, job.spec.project) == ("night", False, "p1")
    assert submit("prog", env={"LSB_JOB_CWD": "run.%J"}).spec.specified_cwd == "/home/ann/dir/run.%J"
    assert submit("-cwd", "/w", "prog", env={"LSB_JOB_CWD": "run.%J"}).spec.specified_cwd == "/w"
    assert submit("prog", env={"LSB_JOB_CWD": "%H/run"}).spec.specified_cwd == "%H/run"
    own = submit("-cwd", "%H/run/", "-outdir", "%H/out", "prog").spec
    assert (own.specified_cwd, own.output_dir) == ("%H/run", "%H/out")


def test_that_no_slots_were_asked_for_is_told() -> None:
    assert submit("prog").spec.defaulted == ("slots",)
    assert submit("-n", "1", "prog").spec.defaulted == ()
    assert submit(stdin=SCRIPT).spec.defaulted == ()  # it says -n 2


SCRIPT = b"""#!/bin/bash
### -- a job --
#BSUB -J train           # the name
#BSUB-n 2
#BSUB -q "first" -o out.%J
#BSUB -R rusage[ngpus_excl_p=1]
#BSUB -R "select[type==any] span[hosts=1]"    # comment
 #BSUB -q indented
##BSUB -q doubled
#BSUBMIT nothing
python train.py --name '#1'
#BSUB -q last
echo done
"""


def test_a_script_on_standard_input() -> None:
    job = submit(stdin=SCRIPT)
    assert (job.spec.name, job.spec.slots, job.spec.queue, job.spec.output_file) == ("train", 2, "last", "out.%J")
    assert job.spec.res_req == "select[type==any] rusage[ngpus_excl_p=1] span[hosts=1]"
    assert job.script == SCRIPT
    assert job.spec.command == "python train.py --name '#1';echo done"


def test_the_command_line_beats_the_script() -> None:
    job = submit("-q", "now", "-oo", "mine", "-R", "rusage[mem=1]", stdin=SCRIPT)
    assert (job.spec.queue, job.spec.output_file, job.spec.output_overwrite) == ("now", "mine", True)
    assert job.spec.res_req == "rusage[mem=1]"
    assert job.spec.name == "train"


def test_a_script_named_as_the_command() -> None:
    files = {"job.sh": SCRIPT, "prog": b"\x7fELF\0\0"}
    assert submit("job.sh", files=files).script is None
    on = {**ENV, "LSB_BSUB_PARSE_SCRIPT": "Y"}
    job = submit("job.sh", files=files, env=on)
    assert (job.script, job.spec.name) == (SCRIPT, "train")
    with_words = submit("job.sh", "arg", files=files, env=on)
    assert (with_words.script, with_words.spec.command, with_words.spec.name) == (None, "job.sh arg", "train")
    assert with_words.spec.warnings and "job.sh" in sentence(with_words.spec.warnings[0])
    assert submit("prog", files=files, env=on).spec.command == "prog"
    assert submit("hostname", files=files, env=on).spec.command == "hostname"


def test_help_and_version_need_no_command() -> None:
    assert submit("-h").wants_help and submit("--help").wants_help and submit("-V").wants_version


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "No command is specified"),
        (("",), "No command is specified"),
        (("-n", "0", "x"), "-n: '0' is not a number of slots from 1 to 1000000"),
        (("-n", "four", "x"), "-n: 'four' is not a number of slots"),
        (("-n", "²", "x"), "-n: '²' is not a number of slots"),
        (("-n", "4,2", "x"), "-n: '4,2': the most slots are fewer than the least"),
        (("-n", "0,2", "x"), "-n: '0,2' is not a number of slots from 1 to 1000000"),
        (("-n", "4,8,9", "x"), "-n: '4,8,9' is not a number of slots"),
        (("-W", "soon", "x"), "-W: 'soon' is not a run limit of the form [hours:]minutes"),
        (("-J", " ", "x"), "Bad job name: -J needs a name that is not empty"),
        (("-q", " ", "x"), "option -q needs the name of a queue"),
        (("-o", "", "x"), "option -o needs a path that is not empty"),
        (("-IX", "x"), f"option -IX is not supported: {INTERACTIVE}"),
        (("-Is", "-i", "f", "x"), "Input file not allowed with pseudo-terminal"),
        (("-ISs", "-i", "f", "x"), "Input file not allowed with pseudo-terminal"),
        (("-IS", "-i", "f", "x"), "options -IS and -i exclude each other"),
        (("-I", "-is", "f", "x"), "options -I and -i exclude each other"),
        (("-I", "-r", "x"), "Interactive job cannot be rerunnable"),
        (("-Ip", "-J", "a[1-3]", "x"), "a job array cannot be interactive"),
        (("-I", "-oo", "f", "x"), "options -I and -oo exclude each other: what an interactive job prints is shown"),
        (("-k", "a", "x"), "option -k is not supported: there are no checkpoints"),
        (("-ext", "a", "x"), "option -ext is not supported: there are no external schedulers"),
        (("-wa", "URG", "x"), "option -wa needs -wt beside it"),
        (("-wt", "5", "x"), "option -wt needs -wa beside it"),
        (
            ("-wa", "touch a", "-wt", "5", "x"),
            "-wa: 'touch a' is not the name of a signal; commands and CHKPNT are not supported",
        ),
        (("-L", "bash", "x"), "-L: 'bash' is not the absolute path of a shell (at most 58 characters)"),
        (("-f", "a to b", "x"), "-f: 'a to b' is not of the form LOCAL OPERATOR [REMOTE] with > < << >< or <>"),
        (("-is", "gone", "x"), "-is: gone cannot be read: gone"),
        (("-Zs", "gone"), "-Zs: gone cannot be read: gone"),
        (("-Zs", "prog", "1"), "option -Zs: only a script without arguments can be copied"),
        (("-pack", "f", "-n", "2"), PACK),
        (("-W", "10/", "x"), "-W: '10/' names no host behind the /"),
        (("-J", "\udcff", "x"), "the value of -J is not UTF-8"),
        (("echo", "\udcff"), "the command is not UTF-8"),
        (("echo", "a\0b"), "the command holds a NUL byte"),
        (("-env", "A B=1", "x"), "-env: 'A B=1' is not NAME, NAME=VALUE or ~NAME"),
    ],
)
def test_refused_command_lines(words: tuple[str, ...], reason: str) -> None:
    assert refusal(*words) == reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (b"#!/bin/sh\n# nothing\n#BSUB -n 1\n", "No command is specified"),
        (b'ls\n#BSUB -J "open\n', "line 2 of the script: the quote \" in '-J \"open' is not closed"),
        (
            b"#BSUB -rcacct 1\nls\n",
            "line 1 of the script: option -rcacct is not supported: there is no resource connector",
        ),
        (b"#BSUB -n 2 prog\nls\n", "line 1 of the script: 'prog' cannot stand in a #BSUB line"),
        (b"#BSUB -h\nls\n", "line 1 of the script: '-h' cannot stand in a #BSUB line"),
        (b"#BSUB -J \xff\nls\n", "line 1 of the script: the #BSUB line is not UTF-8"),
        (b"ls\0", "The script is a binary file, not text"),
        (b"#" * (SCRIPT_LIMIT + 1), "The script is longer than 16 MB"),
    ],
)
def test_refused_scripts(script: bytes, reason: str) -> None:
    assert refusal(stdin=script) == reason


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            "#BSUB -n 1\n#BSUB -W soon",
            "line 2 of the script: -W: 'soon' is not a run limit of the form [hours:]minutes",
        ),
        ("#BSUB -n 0", "line 1 of the script: -n: '0' is not a number of slots from 1 to 1000000"),
        ("#\n#BSUB -M lots", "line 2 of the script: -M: 'lots' is not a size such as 500, 500MB or 16G"),
        ("#BSUB -f 'a to b'", "line 1 of the script: -f: 'a to b' is not of the form LOCAL OPERATOR"),
        ("#BSUB -n 4\n#BSUB -nnodes 3", "line 2 of the script: -nnodes 3: 4 slots (-n) cannot be spread"),
        ("#BSUB -R ok\n#BSUB -R 'span[hosts='", "line 2 of the script: "),
        ("#\n#BSUB -gpu num=x", "line 2 of the script: "),
        ("#\n#BSUB -env 'A B=1'", "line 2 of the script: -env: 'A B=1' is not NAME, NAME=VALUE or ~NAME"),
        ("#\n#BSUB -wt 5", "line 2 of the script: option -wt needs -wa beside it"),
        ("#\n#BSUB -K", "line 2 of the script: options -I and -K exclude each other"),
        ("#BSUB -is gone", "line 1 of the script: -is: gone cannot be read: gone"),
        ("#BSUB -b 13:00\n#BSUB -t 12:30", "line 2 of the script: Start time is later than termination time"),
    ],
)
def test_wrong_values_of_a_script_name_their_line(lines: str, reason: str) -> None:
    words = ["-I"] if lines.endswith("-K") else []
    assert refusal(*words, stdin=f"{lines}\nls\n".encode()).startswith(reason)


@pytest.mark.parametrize(
    ("text", "seconds", "notes"),
    [
        ("1.7", 120, ("-W 1.7: rounded up to whole minutes: 2",)),
        ("0.2", 60, ("-W 0.2: rounded up to whole minutes: 1",)),
        ("1:30.0", 5400, ()),
        ("2.00", 120, ()),
        ("0.0", None, ("-W 0.0: the job has no run limit of its own; the queue's counts",)),
        ("1:59.5", 7200, ("-W 1:59.5: rounded up to whole minutes: 120",)),
        ("0", None, ("-W 0: the job has no run limit of its own; the queue's counts",)),
        ("0:00", None, ("-W 0:00: the job has no run limit of its own; the queue's counts",)),
        ("60", 3600, ()),
    ],
)
def test_run_limits_that_are_no_whole_minutes(text: str, seconds: int | None, notes: tuple[str, ...]) -> None:
    spec = submit("-W", text, "x").spec
    assert (spec.run_limit_s, tuple(map(sentence, spec.warnings))) == (seconds, notes)


@pytest.mark.parametrize("text", ["1.", ".5", "1.x", "1.5.5", "-1", "1:", ":5", "", "1e3", "٣.٥", ":", "0x"])
def test_what_is_no_run_limit(text: str) -> None:
    assert refusal("-W", text, "x") == f"-W: '{text}' is not a run limit of the form [hours:]minutes"


def test_an_estimate_or_a_warning_of_no_time_is_refused() -> None:
    assert refusal("-We", "0", "x") == "-We: '0': an estimate is at least one minute"
    assert refusal("-wt", "0:0", "-wa", "URG", "x") == "-wt: '0:0': a time before the end is at least one minute"


def test_what_is_wrong_on_the_command_line_has_no_line() -> None:
    assert refusal("-n", "0", stdin=b"#BSUB -n 2\n#BSUB -W 5\nls\n").startswith("-n: '0'")


def test_a_wrong_line_that_the_command_line_replaces_is_not_read() -> None:
    assert submit("-W", "5", stdin=b"#BSUB -W soon\nls\n").spec.run_limit_s == 300


@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u2007", "\u3000"])
def test_no_break_spaces_of_a_directive_are_blanks(blank: str) -> None:
    script = "#BSUB -n 2\n#BSUB -R 'select[ncpus > 1] span[hosts=1]'\n#BSUB -J 'a b' # why\n#BSUB '-W 5'\necho 'c d'\n"
    job = submit(stdin=script.replace(" ", blank).encode())
    assert (job.spec.slots, job.spec.res_req, job.spec.name) == (2, "select[ncpus > 1] span[hosts=1]", "a b")
    assert job.spec.run_limit_s == 300
    assert job.script == script.replace(" ", blank).encode()


def test_a_script_file_without_commands() -> None:
    text = refusal("job.sh", files={"job.sh": b"#BSUB -n 1\n"}, LSB_BSUB_PARSE_SCRIPT="Y")
    assert text == "No command is specified in the script file"


def test_standard_input_that_cannot_be_read() -> None:
    def fail() -> bytes:
        raise OSError(27, "File too large")

    with pytest.raises(BadRequest, match="standard input cannot be read as a script: File too large"):
        read_submission([], read_stdin=fail, read_file=lambda path: b"", env={}, around=AROUND)


def test_a_byte_order_mark_does_not_hide_the_first_line() -> None:
    assert submit(stdin=b"\xef\xbb\xbf#!/bin/sh\nls\n").script == b"#!/bin/sh\nls\n"


def test_scripts_in_other_encodings_are_kept_as_they_are() -> None:
    script = "# 주석\necho 안녕\n".encode("cp949")
    job = submit(stdin=script)
    assert job.script == script and job.spec.command.startswith("echo ")


def test_long_scripts_are_cut_where_they_are_shown() -> None:
    assert len(shown_command(b"echo hello\n" * 10_000)) == 4094


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ((), ENV),
        (("all",), ENV),
        (("none",), {}),
        (("all, SEED=1, ~DISPLAY",), {"HOME": "/home/test", "PATH": "/bin", "SEED": "1"}),
        (("none, PATH, B=2",), {"PATH": "/bin", "B": "2"}),
        (("PATH, NOSUCH",), {"PATH": "/bin"}),
        (("all", "A=1", "B='x, y'"), {**ENV, "A": "1", "B": "x, y"}),
        (("none", "A=1", "B=a=b"), {"A": "1", "B": "a=b"}),
    ],
)
def test_choice_of_the_environment(lists: tuple[str, ...], expected: dict[str, str]) -> None:
    assert choose_environment(lists, ENV) == expected


def test_environment_lines_of_a_script_add_up() -> None:
    job = submit(stdin=b"#BSUB -env none\n#BSUB -env A=1\n#BSUB -env B=2\nls\n")
    assert job.environment == {"A": "1", "B": "2"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (' -J "a b" -o x#1 # rest', ["-J", "a b", "-o", "x#1"]),
        ("'it''s' \"\" a\\ b", ["its", "", "a b"]),
        ('"a \\" b" \'c \\\' #x', ['a " b', "c \\"]),
        ("", []),
    ],
)
def test_words_of_a_directive(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.lists(st.text(alphabet="ab \"'\\#[]=<>$`가", max_size=10), max_size=5))
def test_quoted_words_come_back(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    assert split_words(quoted) == words


@given(st.binary(max_size=200))
def test_any_script_is_taken_or_refused_with_one_line(script: bytes) -> None:
    try:
        job = submit(stdin=b"#BSUB " + script)
    except BadRequest as error:
        assert "\n" not in error.text
    else:
        assert job.spec.command


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("out.%J.%I", "out.17.3"),
        ("%J%J/%%J", "1717/%17"),
        ("100%", "100%"),
        ("dir/", "dir/17.3.out"),
        ("%x", "%x"),
    ],
)
def test_job_numbers_in_file_names(path: str, expected: str) -> None:
    assert expand_job_id(path, element_id(17, 3), extension="out") == expected


def test_several_queues_are_handed_on_in_their_order() -> None:
    assert submit("-q", "short  normal short", "prog").spec.queue == "short normal"
    assert submit("prog", env={"LSB_DEFAULTQUEUE": "night normal"}).spec.queue == "night normal"


@pytest.mark.parametrize(("option", "kind"), [("-IS", "I"), ("-ISp", "Ip"), ("-ISs", "Is")])
def test_what_lsf_does_by_ssh_is_interactive_all_the_same(option: str, kind: str) -> None:
    assert submit(option, "bash").spec.interactive == kind
