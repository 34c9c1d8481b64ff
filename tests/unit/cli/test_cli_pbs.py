"""PBS's commands against a master: what they ask, print, and exit with."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from test_cli_gjobs import pending, running

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.cli.pbs.pbs_job_facts import STATES, collected, exit_status, letter_of
from gsched.model.jobs.job import PBS, AttemptResult
from gsched.model.jobs.reason import PendingReason
from gsched.wire.v1 import scheduler_pb2

NewCall = Callable[..., FakeCall]


def test_qstat_lists_what_has_not_ended(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8, spec=spec("train.sh", name="a_name_of_20_letters")), pending(9)]
    listing = call("qstat")
    assert listing.run() == 0
    head, dashes, *lines = listing.out.splitlines()
    assert head == "Job id            Name             User              Time Use S Queue"
    assert dashes == "----------------  ---------------- ----------------  -------- - -----"
    assert [line.split()[0].partition(".")[0] for line in lines] == ["8", "9"]
    assert [line.split()[4] for line in lines] == ["R", "Q"]
    assert lines[0].split()[1] == "a_name_of_20_le*"


def test_an_array_is_one_line_and_its_elements_are_several(master: FakeMaster, call: NewCall) -> None:
    made = spec("x", indices="1-3", index_shift=1)
    master.views = [running(element_id(7, 1), spec=made), *(pending(element_id(7, i), spec=made) for i in (2, 3))]
    whole, parts = call("qstat"), call("qstat", "-t")
    assert whole.run() == parts.run() == 0
    assert [line.split()[0].partition(".")[0] for line in whole.out.splitlines()[2:]] == ["7[]"]
    assert whole.out.splitlines()[2].split()[4] == "B"
    assert [line.split()[0].partition(".")[0] for line in parts.out.splitlines()[2:]] == ["7[0]", "7[1]", "7[2]"]


def test_json(master: FakeMaster, call: NewCall) -> None:
    made = spec("x", front_end=PBS, front_end_words=("select=2:ncpus=3", "walltime=60"), slots=6, run_limit_s=60)
    master.views = [running(8, spec=made, allocation=allocation(slots=6))]
    listing = call("qstat", "-x", "-f", "-F", "json", "8")
    assert listing.run() == 0
    told = json.loads(listing.out)
    (job,) = told["Jobs"].values()
    assert {"timestamp", "pbs_version", "pbs_server", "Jobs"} == {*told}
    assert (job["job_state"], job["Resource_List"]["ncpus"], job["Resource_List"]["nodect"]) == ("R", 6, 2)
    assert job["Resource_List"]["select"] == "2:ncpus=3" and job["Resource_List"]["walltime"] == "00:01:00"


def test_a_job_of_gsub_is_shown_with_the_same_facts(master: FakeMaster, call: NewCall) -> None:
    made = spec("x", slots=4, res_req="span[ptile=2]", gpu_req="num=1:j_exclusive=yes")
    master.views = [pending(8, spec=made)]
    listing = call("qstat", "-f", "-w", "8")
    assert listing.run() == 0
    assert "    Resource_List.select = 2:ncpus=2:mpiprocs=2:ngpus=1\n" in listing.out


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("done(62) && ended( 63 )", "afterok:62.firestone,afterany:63.firestone"),
        ("done(62)&&done(7[1-3])", "afterok:62.firestone:7[0-2].firestone"),
        ("started(5) && exit(6)", "after:5.firestone,afternotok:6.firestone"),
        ("done(7[*])", "afterok:7[].firestone"),
        ("done(62) || done(63)", "done(62) || done(63)"),
        ('done("prepare")', 'done("prepare")'),
    ],
)
def test_depend_is_in_pbss_words(master: FakeMaster, call: NewCall, condition: str, told: str) -> None:
    array = spec("x", indices="1-3", index_shift=1)
    master.views = [pending(8, spec=spec("x", dependency=condition)), pending(element_id(7, 1), spec=array)]
    listing, as_json = call("qstat", "-f", "-w", "8"), call("qstat", "-f", "-F", "json", "8")
    assert listing.run() == as_json.run() == 0
    assert f"    depend = {told}\n" in listing.out
    assert next(iter(json.loads(as_json.out)["Jobs"].values()))["depend"] == told


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-Z",), 2, "qstat: invalid option -- 'Z'"),
        (("-W", "x"), 2, "qstat: -W: there are no displays"),
        (("-F", "xml", "-f"), 2, "qstat: -F xml: default, dsv, json are formats"),
        (("-F", "json"), 2, "qstat: -F json goes with -f"),
        (("-Q", "-n"), 2, "qstat: conflicting options"),
        (("99",), 153, "qstat: Unknown Job Id 99."),
        (("8.elsewhere",), 153, "qstat: Unknown Job Id 8.elsewhere"),
        (("8x",), 166, "qstat: illegally formed job identifier: 8x"),
        (("nowhere",), 170, "qstat: Unknown queue nowhere"),
    ],
)
def test_what_is_wrong_is_one_line_and_pbss_exit_code(
    master: FakeMaster, call: NewCall, words: tuple[str, ...], code: int, said: str
) -> None:
    master.views = []
    listing = call("qstat", *words)
    assert listing.run() == code
    assert listing.err.startswith(said) and listing.err.count("\n") == 1


def test_an_interactive_job_needs_a_terminal(master: FakeMaster, call: NewCall) -> None:
    asked = call("qsub", "-I")
    assert asked.run() == 1
    assert asked.err.endswith("standard input and output must be a terminal for interactive job submission\n")
    assert not any(isinstance(each, scheduler_pb2.SubmitRequest) for each in master.requests)


def test_a_job_that_has_ended_is_history(master: FakeMaster, call: NewCall) -> None:
    master.views = [running(8, state="DONE", result=AttemptResult(exit_code=0), finished_at=1.0)]
    listing, history = call("qstat", "8"), call("qstat", "-x", "8")
    assert listing.run() == 35 and "Job has finished, use -x or -H" in listing.err
    assert history.run() == 0 and history.out.splitlines()[2].split()[4] == "F"


@pytest.mark.parametrize(
    ("state", "result", "letter", "status"),
    [
        ("DONE", AttemptResult(exit_code=0), "F", 0),
        ("EXIT", AttemptResult(exit_code=3), "F", 3),
        ("EXIT", AttemptResult(signal=11), "F", 267),
        ("EXIT", AttemptResult(signal=9, term_reason="TERM_RUNLIMIT"), "F", -29),
        ("EXIT", AttemptResult(signal=9, term_reason="TERM_MEMLIMIT"), "F", -27),
        ("EXIT", AttemptResult(signal=2, term_reason="TERM_OWNER"), "F", 265),
        ("EXIT", AttemptResult(host_down=True), "F", -1),
        ("EXIT", None, "F", 265),
        ("SSUSP", None, "S", None),
        ("UNKWN", None, "R", None),
        ("PSUSP", None, "H", None),
    ],
)
def test_states(state: str, result: AttemptResult | None, letter: str, status: int | None) -> None:
    job = running(8, state=state, result=result)
    assert (letter_of(job), exit_status(job)) == (letter, status)
    assert letter in STATES


def test_what_waits_for_jobs_or_a_time() -> None:
    held = pending(8, spec=spec("x", dependency="done(7)"), pending_reasons=(reason("dependency.not_satisfied"),))
    later = pending(9, spec=spec("x", begin_at=5.0), pending_reasons=(reason("pending.start_time"),))
    assert (letter_of(held), letter_of(later)) == ("H", "W")
    assert [job.state for job in collected([later, held], one_by_one=True)] == ["H", "W"]


def reason(code: str) -> PendingReason:
    return PendingReason(coded(code))


def test_gsub_reads_a_script_of_pbs(master: FakeMaster, call: NewCall) -> None:
    options = b"#PBS -N theirs -q gpu -W umask=027\n#PBS -l select=1:ncpus=4:ngpus=1,walltime=1:00:00\n"
    script = b"#!/bin/sh\n" + options + b"hostname\n"
    gsub = call("gsub", "-W", "10", "job.sh", "an argument")
    gsub.files["job.sh"] = script
    assert gsub.run() == 0, gsub.err
    (sent,) = master.submissions
    assert (sent.spec.name, sent.spec.slots, sent.spec.run_limit_s, sent.spec.front_end) == ("theirs", 4, 600, "pbs")
    assert (sent.spec.script_words, sent.spec.umask, sent.script) == (("an argument",), 0o27, script)
    assert b"PBS_O_WORKDIR=/opt/DL/caffe-nv" in sent.environment and b"NCPUS=4" in sent.environment
    gsub = call("gsub", "-n", "2")
    gsub.stdin = script
    assert gsub.run() == 0, gsub.err
    assert (master.submissions[1].spec.slots, master.submissions[1].spec.front_end_words) == (2, ())
