"""gsub against a master over the wire: texts, streams, exit codes, and what travels."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.cli.commands.submission import gsub as gsub_module
from gsched.model import event as events
from gsched.model.jobs.job import AttemptResult
from gsched.model.jobs.notice import NoticeWish
from gsched.model.jobs.notice_targets import read_targets
from gsched.model.jobs.reason import PendingReason, PlannedStart
from gsched.model.views.view import JobEnd, JobView, StartForecast

NewCall = Callable[..., FakeCall]


def test_transcript_of_a_gpu_job(master: FakeMaster, call: NewCall) -> None:
    command = ["sudo", "LD_LIBRARY_PATH=/opt/DL/openblas/lib:/opt/DL/nccl/lib:/opt/DL/caffe-nv/lib", "time"]
    script = "./examples/cifar10/train_quick.sh"
    gsub = call("bsub", "-R", "select[ngpus>0] rusage[ngpus_excl_p=1]", *command, script)
    master.next_id = 1153
    assert gsub.run() == 0
    assert gsub.out == "Job <1153> is submitted to default queue <normal>.\n"
    assert "sudo --preserve-env=CUDA_VISIBLE_DEVICES" in gsub.err
    sent = master.submissions[0].spec
    assert sent.command == " ".join([*command, script])
    assert sent.res_req == "select[ngpus>0] rusage[ngpus_excl_p=1]"
    assert (sent.user, sent.combined_req, sent.environment, sent.script, sent.project) == ("", "", "", "", "")
    assert (sent.cwd, sent.home, sent.submit_host) == ("/opt/DL/caffe-nv", "/home/test", "ubuntu02")


def test_what_the_master_takes_back_is_not_said(master: FakeMaster, call: NewCall) -> None:
    """Where all hosts are fenced it does not repeat the warning of sudo."""
    master.keeps_warnings = False
    gsub = call("gsub", "-gpu", "num=1", "sudo", "true")
    assert (gsub.run(), gsub.err) == (0, "")
    assert len(master.submissions[0].spec.warnings) == 1


def test_what_is_left_in_the_background_is_told_to_end_with_the_job(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "./server --port 1 &")
    assert gsub.run() == 0
    assert "the command ends in &" in gsub.err and "ended with it" in gsub.err
    assert call("gsub", "./a & wait").run() == 0
    assert [len(each.spec.warnings) for each in master.submissions] == [1, 0]


def test_sudo_without_gpus_is_nobodys_business(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "sudo", "true")
    assert (gsub.run(), gsub.err) == (0, "")


def test_every_option_travels(master: FakeMaster, call: NewCall) -> None:
    options = "-J name -q night -n 4 -oo out.%J -e err.%J -i in -cwd sub -P cifar -W 1:30 -H".split()  # noqa: SIM905
    gsub = call("gsub", *options, "-m", "a b", "-R", "select[ngpus>0]", "-R", "rusage[mem=10]", "sh", "-c", "a; b")
    assert gsub.run() == 0
    assert gsub.out == "Job <220> is submitted to queue <night>.\n"
    sent = master.submissions[0].spec
    assert (sent.name, sent.queue, sent.queue_named, sent.slots) == ("name", "night", True, 4)
    assert (sent.output_file, sent.output_overwrite, sent.error_file, sent.error_overwrite) == (
        "out.%J",
        True,
        "err.%J",
        False,
    )
    assert (sent.input_file, sent.cwd, sent.specified_cwd) == ("in", "/opt/DL/caffe-nv", "/opt/DL/caffe-nv/sub")
    assert (sent.project, sent.run_limit_s, sent.hold, sent.hosts) == ("cifar", 5400, True, ("a", "b"))
    assert sent.res_req == "select[ngpus>0] rusage[mem=10]"
    assert sent.command == 'sh -c "a; b"'


def test_what_jobs_can_ask_for_travels(master: FakeMaster, call: NewCall) -> None:
    words = ["-J", "a[1-9:2]%3", "-n", "2,4", "-gpu", "num=1", "-w", "done(7)", "-sp", "5", "-g", "/risk", "-G", "ml"]
    words += ["-x", "-r", "-U", "r#1", "-Q", "99", "-We", "10", "-m", "a+2 b! others", "-M", "1G", "-Jd", "about"]
    assert call("gsub", *words, "true").run() == 0
    sent = master.submissions[0].spec
    assert (sent.name, sent.indices, sent.array_limit, sent.slots, sent.max_slots) == ("a", "1-9:2", 3, 2, 4)
    assert (sent.gpu_req, sent.dependency, sent.priority, sent.group) == ("num=1", "done(7)", 5, "/risk")
    assert (sent.user_group, sent.exclusive, sent.rerunnable, sent.reservation) == ("ml", True, True, "r#1")
    assert (sent.requeue_exit_values, sent.estimate_s, sent.description) == ("99", 600, "about")
    assert (sent.hosts, sent.host_levels, sent.first_hosts, sent.other_hosts) == (("a", "b"), (2, 0), ("b",), True)
    assert sent.limits == {"MEMLIMIT": 1024.0}


NOTIFY = "/home/test/.gsched/notify"


def test_where_notices_go_travels_beside_the_job(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "--notify", "https://h/S3CR3T,fail", "true")
    gsub.files[NOTIFY], gsub.modes[NOTIFY] = b"mail events=end\n", 0o644
    assert gsub.run() == 0
    (sent,) = master.submissions
    assert sent.spec.notices == (
        NoticeWish(way="mail", events=("end",)),
        NoticeWish(way="webhook", events=("fail",)),
    )
    assert [target.to for target in read_targets(sent.notice_targets)] == ["", "https://h/S3CR3T"]
    assert "S3CR3T" not in str(sent.spec)


def test_a_file_of_notices_that_is_wrong_is_told_with_its_line(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "true")
    gsub.files[NOTIFY] = b"mail\nwebhok https://h/S3CR3T\n"
    assert gsub.run() == 255 and not master.submissions
    assert gsub.err == f"{NOTIFY}:2: 'webhok' is none of webhook, command, mail. Job not submitted.\n"
    gsub = call("gsub", "true")
    gsub.files[NOTIFY], gsub.modes[NOTIFY] = b"webhook https://h/S3CR3T\n", 0o644
    assert gsub.run() == 255 and "chmod 600" in gsub.err and "S3CR3T" not in gsub.err


def test_another_file_of_notices_can_be_named_and_then_it_must_be_there(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "true", GSCHED_NOTIFY_FILE="/work/notify")
    gsub.files["/work/notify"] = b"mail\n"
    assert gsub.run() == 0 and len(master.submissions[0].spec.notices) == 1
    gsub = call("gsub", "true", GSCHED_NOTIFY_FILE="/work/notify")
    gsub.files[NOTIFY] = b"mail\n"
    assert gsub.run() == 255
    assert gsub.err == "/work/notify: cannot be read: No such file or directory. Job not submitted.\n"
    gsub = call("gsub", "true", GSCHED_NOTIFY_FILE="")
    gsub.files[NOTIFY] = b"mail\n"
    assert gsub.run() == 0 and not master.submissions[1].spec.notices


def test_a_file_of_notices_that_cannot_be_read_is_not_passed_over(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "true")

    def fetch(path: str | None) -> tuple[bytes, int | None]:
        raise PermissionError(13, "Permission denied", path)

    gsub._fetch = fetch
    assert gsub.run() == 255 and not master.submissions
    assert gsub.err == f"{NOTIFY}: cannot be read: Permission denied. Job not submitted.\n"


def test_start_and_end_are_said_in_the_callers_time(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "-b", "2099:1:2:20:00", "-t", "2099:1:3:8:30", "true", TZ="Asia/Seoul")
    assert gsub.run() == 0
    assert gsub.out == (
        "Job will be scheduled after Fri Jan  2 20:00:00 2099\n"
        "Job will be terminated by Sat Jan  3 08:30:00 2099\n"
        "Job <220> is submitted to default queue <normal>.\n"
    )
    assert master.submissions[0].spec.begin_at == datetime(2099, 1, 2, 11, 0, tzinfo=UTC).timestamp()


def test_the_clusters_unit_counts_for_sizes(master: FakeMaster, call: NewCall, folder: Path) -> None:
    (folder / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=GB\n")
    assert call("gsub", "-M", "2", "true").run() == 0
    assert call("gsub", "-M", "2", "true", LSF_UNIT_FOR_LIMITS="MB").run() == 0
    (folder / "lsf.conf").write_text("")
    assert call("gsub", "-M", "2", "true").run() == 0
    assert [each.spec.limits["MEMLIMIT"] for each in master.submissions] == [2048.0, 2.0, 2.0]


def test_requirements_are_sent_with_their_unit(master: FakeMaster, call: NewCall, folder: Path) -> None:
    (folder / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=KB\n")
    assert call("gsub", "-M", "200000", "-R", "rusage[mem=200000]", "-gpu", "num=1:gmem=9", "true").run() == 0
    spec = master.submissions[0].spec
    assert (spec.limits, spec.res_req) == ({"MEMLIMIT": 195.3125}, "rusage[mem=200000KB]")
    assert spec.gpu_req == "num=1:gmem=9KB"
    (folder / "lsf.conf").write_text("LSF_UNIT_FOR_LIMITS=pages\n")
    refused = call("gsub", "-M", "2", "true")
    assert refused.run() == 255 and "LSF_UNIT_FOR_LIMITS=pages: this is none of KB, MB" in refused.err


def test_environment_and_script_travel_as_bytes(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", NAME="k\udcff", EMPTY="")
    gsub.stdin = b"#!/bin/sh\n#BSUB -J fromscript\necho a\necho b\n"
    assert gsub.run() == 0
    sent = master.submissions[0]
    pieces = sent.environment.split(b"\0")
    assert pieces[-1] == b""
    assert {b"NAME=k\xff", b"EMPTY=", b"HOME=/home/test"} <= set(pieces)
    assert sent.script == gsub.stdin
    assert (sent.spec.name, sent.spec.command) == ("fromscript", "echo a;echo b")


def test_a_script_file_alone_is_copied(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "job.sh")
    gsub.files["job.sh"] = b"#BSUB -q night\nhostname\n"
    assert gsub.run() == 0
    assert (master.submissions[0].script, master.submissions[0].spec.queue) == (gsub.files["job.sh"], "night")


def test_no_command(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub")
    assert (gsub.run(), gsub.out, gsub.err) == (255, "", "No command is specified. Job not submitted.\n")


@pytest.mark.parametrize("name", ["gsub", "bsub"])
def test_at_a_terminal_a_command_is_asked_for(master: FakeMaster, call: NewCall, name: str) -> None:
    gsub = call(name)
    gsub.stdin_is_tty = True
    gsub.stdin = b"sleep 10\n"
    assert gsub.run() == 0
    assert gsub.out.startswith(f"{name}> ")
    assert master.submissions[0].spec.command == "sleep 10"


def test_a_script_that_is_no_program_is_copied(master: FakeMaster, call: NewCall, tmp_path: Path) -> None:
    for name, mode in (("plain.sh", 0o600), ("program.sh", 0o700)):
        (tmp_path / name).write_text("hostname\n")
        (tmp_path / name).chmod(mode)
        gsub = call("gsub", str(tmp_path / name))
        gsub.files[str(tmp_path / name)] = b"hostname\n"
        assert gsub.run() == 0
    assert [each.script for each in master.submissions] == [b"hostname\n", b""]


def test_an_input_file_is_copied(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "-is", "in", "cat")
    gsub.files["in"] = b"a\0\xff"
    assert gsub.run() == 0
    assert (master.submissions[0].input, master.submissions[0].spec.input_file) == (b"a\0\xff", "in")


PACK = b"# jobs\n-J one -q night sleep 1\n\n-J 'two words' \"echo a; echo b\"\r\n"


def test_a_file_of_submissions(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "-pack", "jobs")
    gsub.files["jobs"] = PACK
    assert gsub.run() == 0
    assert gsub.out == (
        "Job <220> is submitted to queue <night>.\n"
        "Job <221> is submitted to default queue <normal>.\n"
        "2 lines parsed, 2 jobs submitted, 0 errors found.\n"
    )
    assert [(each.spec.name, each.spec.command) for each in master.submissions] == [
        ("one", "sleep 1"),
        ("two words", "echo a; echo b"),
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_person_sees_how_far_a_long_file_is(master: FakeMaster, call: NewCall, is_terminal: bool) -> None:
    gsub = call("gsub", "-pack", "jobs")
    gsub.files["jobs"] = b"true\n" * 750
    gsub.stderr_is_tty = is_terminal
    assert gsub.run() == 0
    assert gsub.out.count("\n") == 751
    bar = "[####################..........] 500/750 jobs"
    assert (bar in gsub.err, gsub.err.endswith("\r")) == (is_terminal, is_terminal)


@pytest.mark.parametrize(("skip", "submitted"), [("", 0), ("Y", 2)])
def test_a_line_that_cannot_be_read_holds_up_the_others(
    master: FakeMaster, call: NewCall, skip: str, submitted: int
) -> None:
    gsub = call("gsub", "-pack", "jobs", LSB_PACK_SKIP_ERROR=skip)
    gsub.files["jobs"] = PACK + b"-zap true\n"
    assert gsub.run() == 255
    assert "jobs, line 5: unknown option -zap" in gsub.err and "Job not submitted." in gsub.err
    assert gsub.out.endswith(f"3 lines parsed, {submitted} jobs submitted, 1 errors found.\n")
    assert len(master.submissions) == submitted


@pytest.mark.parametrize(("skip", "submitted"), [("", 1), ("Y", 2)])
def test_a_line_that_is_refused_ends_the_file(master: FakeMaster, call: NewCall, skip: str, submitted: int) -> None:
    gsub = call("gsub", "-pack", "jobs", LSB_PACK_SKIP_ERROR=skip)
    gsub.files["jobs"] = b"true\n-q nosuch true\ntrue\n"
    master.no_queues = ("nosuch",)
    assert gsub.run() == 255
    assert "jobs, line 2: nosuch: No such queue. Job not submitted.\n" in gsub.err
    assert gsub.out.endswith(f"3 lines parsed, {submitted} jobs submitted, 1 errors found.\n")
    assert len(master.submissions) == submitted


def test_what_many_lines_name_is_asked_for_once(
    master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    fetch = FakeCall._fetch

    def noted(self: FakeCall, path: str | None) -> tuple[bytes, int | None]:
        asked.append(path)
        return fetch(self, path)

    monkeypatch.setattr(FakeCall, "_fetch", noted)
    gsub = call("gsub", "-pack", "jobs")
    gsub.files |= {"jobs": b"-is in -env 'all,N=1' ./job.sh 1\n-is in ./job.sh 2\n-is gone true\n" * 3, "in": b"a"}
    assert gsub.run() == 255
    assert len(asked) == len(set(asked))
    assert gsub.err.count("-is: gone cannot be read: No such file or directory. Job not submitted.\n") == 3
    gsub = call("gsub", "-pack", "jobs", N="0")
    gsub.files |= {"jobs": b"-is in -env 'all,N=1' ./job.sh 1\n-is in ./job.sh 2\n" * 3, "in": b"a"}
    assert (gsub.run(), gsub.err) == (0, "")
    assert [each.input for each in master.submissions] == [b"a"] * 6
    assert [b"N=1\0" in each.environment for each in master.submissions] == [True, False] * 3


def test_a_line_that_stands_there_again_is_read_once(
    master: FakeMaster, call: NewCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    split = gsub_module.split_words

    def noted(line: str) -> list[str]:
        read.append(split(line))
        return read[-1]

    monkeypatch.setattr(gsub_module, "split_words", noted)
    gsub = call("gsub", "-pack", "jobs")
    gsub.files["jobs"] = b"-J a true\r\n-J b true\n-J a true\n  -zap\n-J a true\n  -zap\n"
    assert gsub.run() == 255
    assert read == [["-J", "a", "true"], ["-J", "b", "true"], ["-zap"], ["-zap"]]
    assert "jobs, line 4: " in gsub.err and "jobs, line 6: " in gsub.err, "each wrong line is told of"
    gsub = call("gsub", "-pack", "jobs")
    gsub.files["jobs"] = b"-J a true\n-J b true\n-J a true\n"
    assert gsub.run() == 0
    assert [each.spec.name for each in master.submissions] == ["a", "b", "a"]


def esub(folder: Path, name: str, text: str) -> None:
    (folder / "lsf.conf").write_text(f"LSF_SERVERDIR={folder}\n")
    (folder / name).write_text("#!/bin/sh\n" + text)
    (folder / name).chmod(0o700)


@pytest.fixture
def here(call: NewCall, tmp_path: Path) -> NewCall:
    """Calls from a folder that exists."""

    def make(*words: str, **env: str) -> FakeCall:
        made = call(*words, PATH="/usr/bin:/bin", **env)
        made.cwd = str(tmp_path)
        return made

    return make


def test_an_esub_changes_what_is_submitted(master: FakeMaster, here: NewCall, folder: Path) -> None:
    esub(
        folder,
        "esub",
        '. "$LSB_SUB_PARM_FILE"; echo "saw $LSB_SUB_JOB_NAME: $LSB_SUB_COMMAND_LINE"\n'
        'echo "LSB_SUB_QUEUE=\\"night\\"" > "$LSB_SUB_MODIFY_FILE"\n'
        'echo "LSB_SUB_RLIMIT_RUN=90" >> "$LSB_SUB_MODIFY_FILE"\n'
        'echo "LSB_SUB_PROJECT_NAME=SUB_RESET" >> "$LSB_SUB_MODIFY_FILE"\n'
        'echo "EXTRA=\\"a b\\"" > "$LSB_SUB_MODIFY_ENVFILE"\n',
    )
    gsub = here("gsub", "-J", "it's $HOME", "-P", "p", "-q", "normal", "echo", "a b")
    assert gsub.run() == 0
    sent = master.submissions[0]
    assert gsub.err == 'saw it\'s $HOME: echo "a b"\n'
    assert (sent.spec.queue, sent.spec.run_limit_s, sent.spec.project) == ("night", 120, "")
    assert b"EXTRA=a b" in sent.environment.split(b"\0")


def test_an_esub_sees_each_line_of_a_file_of_submissions(master: FakeMaster, here: NewCall, folder: Path) -> None:
    count = 'echo x >> count; echo "LSB_SUB_JOB_NAME=\\"$(grep -c x count)\\"" > "$LSB_SUB_MODIFY_FILE"\n'
    esub(folder, "esub.count", count)
    gsub = here("gsub", "-pack", "jobs")
    gsub.files["jobs"] = b"true\n-a count true\ntrue\n" * 2
    assert gsub.run() == 0
    assert [each.spec.name for each in master.submissions] == ["", "1", "", "", "2", ""]


def test_esubs_are_named_with_a_and_see_what_the_one_before_did(
    master: FakeMaster, here: NewCall, folder: Path
) -> None:
    esub(folder, "esub.one", 'echo "LSB_SUB_NUM_PROCESSORS=3" > "$LSB_SUB_MODIFY_FILE"\n')
    twice = 'echo "LSB_SUB_MAX_NUM_PROCESSORS=$((LSB_SUB_NUM_PROCESSORS * $1))" >> "$LSB_SUB_MODIFY_FILE"\n'
    esub(folder, "esub.two", '. "$LSB_SUB_PARM_FILE"; cp /dev/null "$LSB_SUB_MODIFY_FILE"\n' + twice)
    assert here("gsub", "-a", "one two(2)", "true").run() == 0
    assert (master.submissions[0].spec.slots, master.submissions[0].spec.max_slots) == (3, 6)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit $LSB_SUB_ABORT_VALUE\n", "Request aborted by esub"),
        ("exit 3\n", "esub failed with exit code 3"),
        ('echo "LSB_SUB_FOO=1" > "$LSB_SUB_MODIFY_FILE"\n', "an esub sets LSB_SUB_FOO, which is not supported"),
        ("echo nonsense > $LSB_SUB_MODIFY_FILE\n", "LSB_SUB_MODIFY_FILE of esub of an esub: 'nonsense'"),
    ],
)
def test_an_esub_may_refuse(master: FakeMaster, here: NewCall, folder: Path, text: str, reason: str) -> None:
    esub(folder, "esub", text)
    gsub = here("gsub", "true")
    assert gsub.run() == 255
    assert gsub.err.startswith(reason) and gsub.err.endswith(". Job not submitted.\n")
    assert not master.submissions


def test_an_esub_that_is_not_there_is_named(master: FakeMaster, here: NewCall, folder: Path) -> None:
    esub(folder, "esub.one", "")
    gsub = here("gsub", "-a", "other", "true")
    assert gsub.run() == 255
    assert gsub.err == f"esub.other: there is no such esub in {folder}. Job not submitted.\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-q", "nosuch", "true"], "nosuch: No such queue. Job not submitted.\n"),
        (["-zap", "true"], "unknown option -zap; did you mean -app?. Job not submitted.\n"),
        (["-R", "select[", "true"], "Bad resource requirement syntax"),
    ],
)
def test_refusals_end_as_lsf_says(master: FakeMaster, call: NewCall, argv: list[str], words: str) -> None:
    master.refusal = "nosuch: No such queue"
    gsub = call("gsub", *argv)
    assert (gsub.run(), gsub.out) == (255, "")
    assert words in gsub.err
    assert gsub.err.endswith(". Job not submitted.\n")
    assert gsub.err.count("\n") == 1


def test_warnings_of_the_master_go_to_stderr(master: FakeMaster, call: NewCall) -> None:
    master.warnings = ("no host has a GPU now",)
    gsub = call("gsub", "true")
    assert gsub.run() == 0
    assert gsub.err == "Warning: no host has a GPU now\n"


def test_where_the_line_goes_can_be_chosen(master: FakeMaster, call: NewCall) -> None:
    line = "Job <220> is submitted to default queue <normal>.\n"
    gsub = call("gsub", "true", BSUB_STDERR="y")
    assert (gsub.run(), gsub.out, gsub.err) == (0, "", line)
    gsub = call("gsub", "true", BSUB_QUIET="y")
    assert (gsub.run(), gsub.out, gsub.err) == (0, "", "")


def test_when_a_job_could_start_is_told_and_none_is_submitted(master: FakeMaster, call: NewCall) -> None:
    master.forecast = StartForecast(starts_now=True, hosts=("gpu01", "gpu02"), queue="normal", slots=2)
    now = call("gsub", "--test-only", "-q", "normal", "./train.sh")
    assert (now.run(), now.err) == (0, "")
    assert now.out == "Job could start now on host(s) <gpu01> <gpu02> in queue <normal>.\nJob not submitted.\n"
    assert master.forecast_spec is not None and master.forecast_spec.queue == "normal"
    assert not master.submissions


def test_a_later_start_is_told_in_the_callers_time_with_what_comes_first(master: FakeMaster, call: NewCall) -> None:
    reasons = (PendingReason(coded("pending.host_slots"), hosts=2, candidate=True),)
    planned = PlannedStart(at=0.0, hosts=("gpu01",))
    master.forecast = StartForecast(planned=planned, reasons=reasons, is_alone=True, waits_for="condition", queue="q")
    later = call("gsub", "--test-only", "-w", "done(1)", "true", env={"TZ": "UTC"})
    assert later.run() == 0
    lines = later.out.splitlines()
    assert lines[0] == "It would wait for its condition (-w); this is as if that held."
    assert "as if it were the only one" in lines[1]
    assert lines[2] == "Job could start at Thu Jan  1 00:00:00 1970 in queue <q>, on host(s) <gpu01>; until then:"
    assert lines[3].endswith(": 2 hosts;") and lines[4:] == ["Job not submitted."]


def test_what_is_not_known_of_a_start_is_said(master: FakeMaster, call: NewCall) -> None:
    master.forecast = StartForecast(reasons=(PendingReason(coded("dependency.not_satisfied")),))
    unknown = call("gsub", "--test-only", "true")
    assert unknown.run() == 0 and unknown.out.startswith("No start of the job is planned:\n ")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["-K", "true"], "-K cannot wait for a job that --test-only does not submit"), (["-pack", "f"], "-pack")],
)
def test_a_question_is_no_submission(master: FakeMaster, call: NewCall, words: list[str], said: str) -> None:
    refused = call("gsub", "--test-only", *words)
    assert refused.run() == 255 and said in refused.err and refused.err.count("\n") == 1


def test_a_refused_question_names_the_option(master: FakeMaster, call: NewCall) -> None:
    master.refusal = "no host has 99 GPUs"
    refused = call("gsub", "--test-only", "-gpu", "num=99", "true")
    assert refused.run() == 255 and refused.err.endswith("no host has 99 GPUs. Job not submitted.\n")


def test_help_teaches_and_version_is_one_line(call: NewCall) -> None:
    gsub = call("gsub", "-h")
    assert gsub.run() == 0
    assert "rusage[ngpus_excl_p=1]" in gsub.out
    gsub = call("gsub", "-V")
    assert gsub.run() == 0
    assert gsub.out.startswith("gsched ")


def live(master: FakeMaster, *happened: events.AnyEvent) -> None:
    for seq, event in enumerate(happened, 2):
        master.live.put(record(seq, event))


def finished(**result: object) -> events.JobFinished:
    return events.JobFinished(at=3.0, job_id=220, attempt=1, result=AttemptResult(**result))  # type: ignore[arg-type]


DISPATCHED = events.JobDispatched(at=1.0, job_id=220, attempt=1, allocation=allocation(), effective_req="")
STARTED = events.JobStarted(at=1.0, job_id=220, attempt=1, pid=7)


@pytest.mark.parametrize(("result", "code"), [({"exit_code": 3}, 3), ({"signal": 9}, 137), ({}, 255)])
def test_waiting_exits_with_the_jobs_code(master: FakeMaster, call: NewCall, result: dict[str, int], code: int) -> None:
    live(master, DISPATCHED, STARTED, finished(**result))
    gsub = call("gsub", "-K", "false")
    assert gsub.run() == code
    assert gsub.out == "Job <220> is submitted to default queue <normal>.\n"
    assert gsub.err == "<<Waiting for dispatch ...>>\n<<Starting on ubuntu02>>\n<<Job is finished>>\n"


def test_a_job_that_ends_before_the_wait_begins_is_not_missed(master: FakeMaster, call: NewCall) -> None:
    submitted = events.JobSubmitted(at=0.0, job_id=220, spec=spec())
    happened = (submitted, DISPATCHED, STARTED, finished(exit_code=0))
    master.histories[220] = tuple(record(seq, event) for seq, event in enumerate(happened, 1))
    gsub = call("gsub", "-K", "true")
    assert gsub.run() == 0
    assert gsub.err.endswith("<<Job is finished>>\n")


def test_killed_while_pending(master: FakeMaster, call: NewCall) -> None:
    requeued = events.JobRequeued(at=2.0, job_id=220, attempt=1, reason="host lost")
    live(master, DISPATCHED, STARTED, requeued, finished(started=False, term_reason="TERM_OWNER"))
    gsub = call("gsub", "-K", "true")
    assert gsub.run() == 126
    assert gsub.err.endswith("<<Job has been requeued, waiting for dispatch......>>\n<<Terminated while pending>>\n")


def element(index: int, started_at: float | None, **result: object) -> JobView:
    return JobView(
        job_id=element_id(220, index),
        spec=spec(),
        state="EXIT",
        submitted_at=1.0,
        started_at=started_at,
        result=AttemptResult(**result),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("last", "failed", "code", "said"),
    [
        ({"DONE": 3}, [], 0, "<<Job is finished>>\n"),
        (
            {"DONE": 1, "EXIT": 2},
            [element(3, 2.0, exit_code=5), element(2, 2.0, exit_code=4)],
            4,
            "<<Job is finished>>\n",
        ),
        ({"EXIT": 1}, [element(1, None, started=False)], 126, "<<Terminated while pending>>\n"),
    ],
)
def test_waiting_for_an_array_waits_for_all_of_it(
    master: FakeMaster, call: NewCall, last: dict[str, int], failed: list[JobView], code: int, said: str
) -> None:
    master.views = failed
    master.ends.put(JobEnd(job_id=220, state="EXIT" if "EXIT" in last else "DONE", counts=last))
    gsub = call("gsub", "-K", "-J", "a[1-3]", "true")
    assert gsub.run() == code
    assert gsub.out == "Job <220> is submitted to default queue <normal>.\n"
    assert gsub.err == "<<Waiting for dispatch ...>>\n" + said
    assert master.waited_for == [220]


def test_ctrl_c_while_waiting_leaves_the_job(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub", "-K", "true")
    waiting = threading.Event()
    put = gsub._put

    def watch(stream: int, data: bytes) -> None:
        put(stream, data)
        if b"Waiting" in data:
            waiting.set()

    gsub._put = watch  # type: ignore[method-assign]
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(gsub.run()))
    thread.start()
    assert waiting.wait(60)
    gsub.cancel()
    thread.join(60)
    assert codes == [130]
    assert gsub.err == ("<<Waiting for dispatch ...>>\nNo longer waiting; job <220> stays in the cluster (gkill 220)\n")
    assert not master.controls


def test_a_requirement_is_checked_and_nothing_submitted(master: FakeMaster, call: NewCall) -> None:
    checked = call("gsub", "-R", "select[mem>100] order[mem]", "true", BSUB_CHK_RESREQ="1")
    assert (checked.run(), checked.out, checked.err) == (0, "Resource requirement string is valid.\n", "")
    wrong = call("gsub", "-R", "select[mem>100] select[", "true", BSUB_CHK_RESREQ="1")
    assert (wrong.run(), wrong.out) == (255, "") and wrong.err.endswith("Job not submitted.\n")
    packed = call("gsub", "-pack", "jobs", BSUB_CHK_RESREQ="1")
    assert packed.run() == 255 and "no file of -pack" in packed.err
    assert not master.submissions
    assert call("gsub", "-R", "select[mem>100]", "true", BSUB_CHK_RESREQ="N").run() == 0
    assert len(master.submissions) == 1
