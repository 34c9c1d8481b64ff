"""gsub against a master over the wire: texts, streams, exit codes, and what travels."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, record, spec

from gsched.model import event as events
from gsched.model.job import AttemptResult

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


def test_at_a_terminal_no_command_does_not_wait_for_one(master: FakeMaster, call: NewCall) -> None:
    gsub = call("gsub")
    gsub.stdin_is_tty = True
    gsub.stdin = b"must not be read"
    assert gsub.run() == 255
    assert not master.submissions


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["-q", "nosuch", "true"], "nosuch: No such queue. Job not submitted.\n"),
        (["-zap", "true"], "unknown option -zap. Job not submitted.\n"),
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
    master.warnings = ("Warning: no host has a GPU now",)
    gsub = call("gsub", "true")
    assert gsub.run() == 0
    assert gsub.err == "Warning: no host has a GPU now\n"


def test_where_the_line_goes_can_be_chosen(master: FakeMaster, call: NewCall) -> None:
    line = "Job <220> is submitted to default queue <normal>.\n"
    gsub = call("gsub", "true", BSUB_STDERR="y")
    assert (gsub.run(), gsub.out, gsub.err) == (0, "", line)
    gsub = call("gsub", "true", BSUB_QUIET="y")
    assert (gsub.run(), gsub.out, gsub.err) == (0, "", "")


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
    assert waiting.wait(5)
    gsub.cancel()
    thread.join(5)
    assert codes == [130]
    assert gsub.err == ("<<Waiting for dispatch ...>>\nNo longer waiting; job <220> stays in the cluster (gkill 220)\n")
    assert not master.controls
