"""What Slurm's commands say of dependencies, priorities, array mail, and of jobs in several parts."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, spec
from test_cli_gjobs import pending, running

from gsched.base.coded_text import coded
from gsched.model.jobs.job import JobSpec
from gsched.model.jobs.notice import NoticeWish
from gsched.model.jobs.notice_targets import NoticeTarget, read_targets
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import Parameter

NewCall = Callable[..., FakeCall]
WAITS = (PendingReason(coded("dependency.not_satisfied")),)
NEVER = (PendingReason(coded("dependency.invalid")),)
ELSE = (PendingReason(coded("pending.no_host")),)


def lines(call: NewCall, *words: str) -> list[str]:
    asked = call(*words)
    assert asked.run() == 0, asked.err
    return asked.out.splitlines()


@pytest.mark.parametrize(
    ("condition", "reasons", "shown"),
    [
        ("done(62)", WAITS, "afterok:62(unfulfilled)"),
        (
            "done(6) && ended(7) && exit(8) && started(9)",
            WAITS,
            "afterok:6(unfulfilled),afterany:7(unfulfilled),afternotok:8(unfulfilled),after:9(unfulfilled)",
        ),
        ("done(6) || ended(7)", WAITS, "afterok:6(unfulfilled)?afterany:7(unfulfilled)"),
        ("done(6) && (ended(7) || done(8))", WAITS, "done(6) && (ended(7) || done(8))"),
        ("exit(6, >2)", WAITS, "exit(6, >2)"),
        ("done(62)", NEVER, "afterok:62(failed)"),
        ("done(62)", ELSE, "(null)"),
        ("", WAITS, "(null)"),
    ],
)
def test_dependencies(
    master: FakeMaster, call: NewCall, condition: str, reasons: tuple[PendingReason, ...], shown: str
) -> None:
    """Whatever command has submitted the job: its names are resolved."""
    asked = spec("x", dependency='done("train")' if condition else "", conditions=condition)
    master.views = [pending(9, spec=asked, pending_reasons=reasons)]
    assert lines(call, "squeue", "-h", "-o", "%E") == [shown]
    assert lines(call, "squeue", "-h", "-O", "Dependency:200") == [shown]
    (job,) = lines(call, "scontrol", "-o", "show", "job", "9")
    assert f"Dependency={shown} " in job
    told = json.loads("".join(lines(call, "squeue", "--json")))
    assert told["jobs"][0]["dependency"] == shown.replace("(null)", "")


def test_a_job_that_runs_waits_for_none(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(9, spec=spec("x", conditions="done(6)"))]
    assert lines(call, "squeue", "-h", "-o", "%E") == ["(null)"]


def test_priority_is_0_of_held_jobs_alone(master: FakeMaster, call: NewCall) -> None:
    master.views = [
        pending(7, spec=spec("x"), queue_priority=0),
        pending(8, spec=spec("x", priority=70), queue_priority=30),
        msgspec.structs.replace(pending(9, spec=spec("x", priority=70), queue_priority=30), state="PSUSP"),
        pending(10, spec=spec("x", priority=5), queue_priority=1 << 30),
    ]
    found = dict(row.split() for row in lines(call, "squeue", "-h", "-o", "%i %Q"))
    assert found == {"7": "1", "8": "30070", "9": "0", "10": "4294967294"}
    assert lines(call, "squeue", "-h", "-j", "10", "-o", "%p") == ["1.00000000000000"]
    for number, priority in found.items():
        (job,) = lines(call, "scontrol", "-o", "show", "job", number)
        assert f" Priority={priority} " in job


def submitted(master: FakeMaster) -> JobSpec:
    return master.submissions[-1].spec


@pytest.mark.parametrize(("most", "kept"), [("", None), ("100", 7)])
def test_priority_where_the_cluster_has_none(master: FakeMaster, call: NewCall, most: str, kept: int | None) -> None:
    if most:
        parameters = (Parameter(name="MAX_USER_PRIORITY", value=most),)
        master.cluster_view = msgspec.structs.replace(master.cluster_view, parameters=parameters)
    asked = call("sbatch", "--priority=7", "--wrap", "true")
    assert asked.run() == 0 and submitted(master).priority == kept
    assert asked.err.startswith("sbatch: warning: --priority: taken, and does nothing: ") == (kept is None)


def test_priority_in_words_of_slurm(master: FakeMaster, call: NewCall) -> None:
    assert call("sbatch", "--priority=0", "--wrap", "true").run() == 0
    assert submitted(master).hold and submitted(master).priority is None
    top = call("sbatch", "--priority=TOP", "--wrap", "true")
    assert top.run() == 0 and not submitted(master).hold and "--priority: taken" in top.err
    wrong = call("sbatch", "--priority=much", "--wrap", "true")
    assert wrong.run() == 1 and wrong.err == "sbatch: error: --priority: Invalid numeric value 'much'\n"


@pytest.mark.parametrize(
    ("types", "events"),
    [("END", ("end",)), ("BEGIN,FAIL", ("start", "fail")), ("ALL", ("start", "end")), ("NONE", ())],
)
def test_of_an_array_there_is_one_mail(master: FakeMaster, call: NewCall, types: str, events: tuple[str, ...]) -> None:
    words = ("sbatch", f"--mail-type={types}", "--mail-user=ann@example.org", "--array=1-3", "--wrap", "true")
    assert call(*words).run() == 0
    job, targets = submitted(master), read_targets(master.submissions[-1].notice_targets)
    assert job.notices == ((NoticeWish(way="mail", events=events),) if events else ())
    assert targets == ((NoticeTarget(way="mail", to="ann@example.org"),) if events else ())
    assert not (job.notify_begin or job.notify_end or job.notify_error)


SLURM_MAIL = b"#!/bin/sh\n#SBATCH --mail-type=END --mail-user=a@b --array=1-3\ntrue\n"
PBS_MAIL = b"#!/bin/sh\n#PBS -m e -M a@b -J 1-3\ntrue\n"
OF_ARRAY, OF_EACH = (("end",), False), ((), True)


@pytest.mark.parametrize(
    ("words", "script", "expected"),
    [
        (("gsub", "f"), SLURM_MAIL, OF_ARRAY),
        (("gsub", "-Zs", "f"), SLURM_MAIL, OF_ARRAY),
        (("gsub", "-N", "f"), SLURM_MAIL, OF_EACH),
        (("gsub", "f"), SLURM_MAIL.replace(b"END", b"END,ARRAY_TASKS"), OF_EACH),
        (("gsub", "f"), SLURM_MAIL.replace(b" --array=1-3", b""), OF_EACH),
        (("gsub", "-J", "x[1-2]", "f"), SLURM_MAIL.replace(b" --array=1-3", b""), OF_ARRAY),
        (("gsub", "f"), PBS_MAIL, OF_ARRAY),
        (("gsub", "-N", "f"), PBS_MAIL, OF_EACH),
        (("gsub", "f"), PBS_MAIL.replace(b"-m e", b"-m ej"), OF_EACH),
        (("qsub", "f"), PBS_MAIL, OF_ARRAY),
        (("qsub", "-m", "je", "f"), PBS_MAIL, OF_EACH),
        (("qsub", "f"), PBS_MAIL.replace(b" -J 1-3", b""), OF_EACH),
    ],
)
def test_of_an_array_of_slurms_or_pbss_there_is_one_mail_whoever_submits_the_script(
    master: FakeMaster, call: NewCall, words: tuple[str, ...], script: bytes, expected: tuple[tuple[str, ...], bool]
) -> None:
    asked = call(*words)
    asked.files["f"] = script
    assert asked.run() == 0, asked.err
    job, targets = submitted(master), read_targets(master.submissions[-1].notice_targets)
    events, of_each = expected
    assert job.notices == ((NoticeWish(way="mail", events=events),) if events else ())
    assert targets == ((NoticeTarget(way="mail", to="a@b"),) if events else ())
    assert (job.notify_end, job.mail_user) == (of_each, "a@b")


def test_mail_of_a_scripts_array_stands_beside_what_gsub_asks_for(master: FakeMaster, call: NewCall) -> None:
    asked = call("gsub", "--notify", "mail,fail", "f")
    asked.files["f"] = SLURM_MAIL
    assert asked.run() == 0, asked.err
    assert [wish.events for wish in submitted(master).notices] == [("fail",), ("end",)]
    assert [each.to for each in read_targets(master.submissions[-1].notice_targets)] == ["", "a@b"]


def test_mail_of_each_element_and_of_a_job(master: FakeMaster, call: NewCall) -> None:
    assert call("sbatch", "--mail-type=END,ARRAY_TASKS", "--array=1-3", "--wrap", "true").run() == 0
    assert submitted(master).notify_end and submitted(master).notices == ()
    assert call("sbatch", "--mail-type=END", "--wrap", "true").run() == 0
    assert submitted(master).notify_end and submitted(master).notices == ()


@pytest.mark.parametrize(
    "words",
    [
        ("sbatch", "-n1", ":", "-n2", "job.sh"),
        ("srun", "-n1", "a.out", ":", "-n2", "b.out"),
        ("salloc", "-n1", ":", "-n2"),
    ],
)
def test_a_job_in_several_parts_is_refused(master: FakeMaster, call: NewCall, words: tuple[str, ...]) -> None:
    asked = call(*words)
    assert asked.run() == 1 and master.submissions == []
    assert asked.err == (
        f"{words[0]}: error: heterogeneous jobs are not supported: submit a job for each part, with --dependency where "
        "one follows\n"
    )


def test_a_script_of_several_parts_is_refused(master: FakeMaster, call: NewCall) -> None:
    asked = call("sbatch")
    asked.stdin = b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\ntrue\n"
    assert asked.run() == 1 and master.submissions == []
    assert asked.err.startswith("sbatch: error: line 3 of the script: heterogeneous jobs are not supported: ")
