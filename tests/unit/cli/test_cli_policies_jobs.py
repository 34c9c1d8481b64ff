"""What people ask of jobs and arrays, and what they are shown: LSF's sentences, streams and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, allocation, spec
from test_cli_gjobs import done, pending, running

from gsched.base.coded_text import coded
from gsched.base.ids import element_id
from gsched.model.jobs.reason import NEVER, UNKNOWN, PendingReason, PlannedStart
from gsched.model.views.room_view import PendingSummary, ReasonCount
from gsched.model.views.view import ArrayView, JobFilter, JobView

NewCall = Callable[..., FakeCall]
ELEMENT = element_id(12, 3)


def element(index: int, **changes: object) -> JobView:
    array = spec("sweep.sh", name="sweep", indices="1-10")
    return pending(element_id(12, index), **({"spec": array} | changes))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["gkill", "12[3]"], "Job <12[3]> is being terminated\n"),
        (["bstop", "12[3]"], "Job <12[3]> is being stopped\n"),
        (["gtop", "12[3]"], "Job <12[3]> has been moved to position 1 from top.\n"),
        (["bbot", "12[3]", "4"], "Job <12[3]> has been moved to position 4 from bottom.\n"),
        (["grun", "-m", "one two", "12[3]"], "Job <12[3]> is being forced to run.\n"),
        (["brequeue", "12[3]"], "Job <12[3]> is being requeued \n"),
        (["gswitch", "night", "12[3]"], "Job <12[3]> is switched to queue <night>\n"),
        (["bswitch", "{odd}", "12[3]"], "Job <12[3]> is switched to queue <{odd}>\n"),
    ],
)
def test_an_element_is_called_by_its_index(master: FakeMaster, call: NewCall, argv: list[str], said: str) -> None:
    command = call(*argv)
    assert (command.run(), command.out, command.err) == (0, said, "")
    assert list(master.requests[-1].job_ids) == [ELEMENT]


def test_grun_takes_lsf_s_word_that_a_job_starts_over(master: FakeMaster, call: NewCall) -> None:
    brun = call("brun", "-b", "-m", "one", "7")
    assert (brun.run(), brun.out) == (0, "Job <7> is being forced to run.\n")


def test_grun_says_what_a_forced_job_still_waits_for(master: FakeMaster, call: NewCall) -> None:
    reason = PendingReason(coded("dependency.not_satisfied"), detail="done(3): job 3 is RUN")
    plain = spec()
    master.views = [JobView(job_id=7, spec=plain, state="PEND", submitted_at=1.0, pending_reasons=(reason,))]
    command = call("grun", "-m", "one", "7")
    assert (command.run(), command.out) == (0, "Job <7> is being forced to run.\n")
    assert command.err == "Job <7> starts when its condition holds: done(3): job 3 is RUN\n"


def test_what_is_asked_of_the_master(master: FakeMaster, call: NewCall) -> None:
    call("gbot", "7", "4").run()
    call("grun", "-m", "one two", "7").run()
    call("grequeue", "-H", "-e", "-d", "7").run()
    bottom, run, requeue = master.requests
    assert (bottom.action, bottom.position) == ("bottom", 4)
    assert (run.action, list(run.hosts)) == ("run", ["one", "two"])
    assert (requeue.action, requeue.hold, list(requeue.states)) == ("requeue", True, ["DONE", "EXIT"])
    call("gswitch", "night", "7").run()
    switch = master.requests[-1]
    assert (list(switch.fields), switch.spec.queue) == (["queue"], "night")


def test_requeue_without_options_means_what_runs(master: FakeMaster, call: NewCall) -> None:
    call("grequeue", "7").run()
    assert list(master.requests[-1].states) == ["RUN", "USUSP", "SSUSP"]
    call("grequeue", "-a", "7").run()
    assert list(master.requests[-1].states) == ["RUN", "USUSP", "SSUSP", "DONE", "EXIT"]
    master.control_errors = {7: "Job has not started yet"}
    failed = call("grequeue", "7")
    assert (failed.run(), failed.err) == (255, "Job <7> : Job has not started yet\n")


def test_requeue_of_all_finds_finished_jobs_by_itself(master: FakeMaster, call: NewCall) -> None:
    master.views = [done(7, 3), done(8, 0), running(9)]
    call("grequeue", "-e", "-u", "all", "0").run()
    assert master.filters[-1].finished and master.filters[-1].states == ("EXIT",)
    none = call("grequeue", "-q", "empty", "0")
    assert (none.run(), none.err) == (255, "No matching job found\n")


def test_a_group_narrows_down_and_elements_are_found_by_name(master: FakeMaster, call: NewCall) -> None:
    master.views = [element(3), element(5)]
    assert call("gkill", "-g", "/night", "0").run() == 0
    assert master.controls[-1] == ("kill", (), JobFilter(user="test", group="/night"), 0)
    assert call("gkill", "-J", "sweep[3,5]", "0").run() == 0
    assert master.controls[-1][1] == (element_id(12, 3), element_id(12, 5))
    assert call("gkill", "-g", "/night").run() == 0
    assert master.controls[-1][1] == (12,)  # the newest submission, whole


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["gtop"], "gtop: name one job, and perhaps a position (-h shows how)\n"),
        (["gtop", "0"], "gtop: name one job\n"),
        (["gtop", "1", "0"], "0: Position value must be a positive integer\n"),
        (["gbot", "1", "x"], "x: Position value must be a positive integer\n"),
        (["gbot", "1[1-2]"], "gbot: name one job\n"),
        (["grun", "1"], "grun: -m HOST says where the job is to run\n"),
        (["grun", "-m", "a", "1", "2"], "grun: name one job\n"),
        (
            ["grun", "-f", "1"],
            "grun: option -f is not supported: -m names the hosts, and all else is as for any job "
            "(-h lists the options)\n",
        ),
        (["gswitch"], "gswitch: Queue name must be specified (-h shows how)\n"),
        (["gswitch", "night"], "gswitch: name a job, or 0 for all of yours (-h lists the options)\n"),
        (["gbgadd"], "gbgadd: name a job group, as in /night (-h shows how)\n"),
        (["gbgadd", "-L", "-1", "/n"], "-L -1: the job limit is a number from 0 to 2147483646\n"),
        (["gbgmod", "/n"], "gbgmod: say either -L JOBS or -Ln\n"),
        (["gbgmod", "-L", "1", "-Ln", "/n"], "gbgmod: say either -L JOBS or -Ln\n"),
        (["grsvadd", "-n", "1", "-b", "1:00"], "grsvadd: -e TIME says when it ends\n"),
        (
            ["grsvadd", "-unit", "host", "-n", "1"],
            "grsvadd: option -unit takes slot, not 'host' (-h lists the options)\n",
        ),
        (["grsvadd", "-b", "1:00", "-e", "2:00"], "grsvadd: -n SLOTS or -gpu GPUS says how much is reserved\n"),
        (["grsvadd", "-n", "0", "-b", "1:00", "-e", "2:00"], "grsvadd: -n 0: not a number from 1 to 1000000\n"),
        (["grsvadd", "demo"], "grsvadd: 'demo' belongs to no option (a name is given with -N)\n"),
        (["grsvmod", "demo"], "grsvmod: nothing is to be changed (-h lists the options)\n"),
        (["grsvmod", "-m", "a", "demo"], "grsvmod: -m and -R say where; -n SLOTS or -gpu GPUS says how much\n"),
        (["grsvdel"], "grsvdel: name a reservation (grsvs lists them)\n"),
    ],
)
def test_what_cannot_be_done_is_one_line(master: FakeMaster, call: NewCall, argv: list[str], text: str) -> None:
    command = call(*argv)
    assert (command.run(), command.out, command.err) == (255, "", text)
    assert master.requests == []


def test_elements_show_their_array_and_their_index(master: FakeMaster, call: NewCall) -> None:
    master.views = [element(3), element(7, state="RUN", pending_reasons=())]
    gjobs = call("gjobs", "-noheader", "12[3,7]")
    assert gjobs.run() == 0
    assert [line.split()[0] for line in gjobs.out.splitlines()] == ["12", "12"]
    assert "sweep[3]" in gjobs.out and "sweep[7]" in gjobs.out
    long = call("gjobs", "-UF", "12[3]")
    assert long.run() == 0
    assert "Job <12[3]>, Job Name <sweep[3]>, User <test>" in long.out
    fields = call("gjobs", "-noheader", "-o", "jobid jobindex job_name", "12[3]")
    assert (fields.run(), fields.out) == (0, "12 3 sweep[3]\n")
    gone = call("gjobs", "12[3]", "12[9]")
    assert (gone.run(), gone.err) == (255, "Job <12[9]> is not found\n")


def test_an_index_of_a_job_that_is_no_array(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(12)]
    gjobs = call("gjobs", "12[3]")
    assert (gjobs.run(), gjobs.out, gjobs.err) == (255, "", "Job <12> is not a job array\n")
    arrays = call("gjobs", "-A", "12")
    assert (arrays.run(), arrays.err) == (255, "Job <12> is not a job array\n")


def test_arrays_are_summed_up(master: FakeMaster, call: NewCall) -> None:
    master.array_views = [
        ArrayView(job_id=12, name="sweep[1-100]", user="test", counts={"PEND": 90, "RUN": 3, "UNKWN": 1, "DONE": 6}),
        ArrayView(job_id=13, name="over[1-2]", user="test", counts={"EXIT": 2}),
    ]
    gjobs = call("gjobs", "-A")
    assert gjobs.run() == 0
    header, row = gjobs.out.splitlines()
    assert header == "JOBID    ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP"
    assert row == "12       sweep[1-     test     100   90    6    4    0     0     0     0"
    wide = call("gjobs", "-A", "-w", "-noheader", "12[5]")
    assert (wide.run(), wide.out.split()[:2]) == (0, ["12", "sweep[1-100]"])
    every = call("gjobs", "-A", "-a", "-noheader")
    assert (every.run(), len(every.out.splitlines())) == (0, 2)


def test_what_all_jobs_wait_for(master: FakeMaster, call: NewCall) -> None:
    at = datetime(2017, 7, 5, 11, 34, 11, tzinfo=UTC).timestamp()
    counts = (
        ReasonCount(text="Individual host based reasons", count=2),
        ReasonCount(text="Job dependency condition not satisfied", count=1),
        ReasonCount(text="Job slot limit reached", count=40, is_host_based=True),
    )
    master.pending = PendingSummary(jobs=3, published_at=at, reasons=counts)
    gjobs = call("gjobs", "-psum")
    assert gjobs.run() == 0
    assert gjobs.out.splitlines() == [
        "Pending reason summary: published Wed Jul  5 11:34:11 2017",
        "Summarizing 3 pending jobs in cluster (firestone):",
        "  Individual host based reasons:           2 jobs",
        "  Job dependency condition not satisfied:  1 job",
        "",
        "Individual host based reasons",
        "  Job slot limit reached:  40 occurrences",
    ]


def test_everything_that_was_asked_for_is_told(master: FakeMaster, call: NewCall) -> None:
    noon = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()
    asked = spec(
        "t.sh",
        slots=2,
        max_slots=6,
        gpu_req="num=2:mode=shared",
        combined_gpu_req="num=2:mode=shared:j_exclusive=no",
        dependency='done("prepare")',
        hosts=("one", "two"),
        host_levels=(2, 0),
        first_hosts=("two",),
        other_hosts=True,
        exclusive=True,
        rerunnable=True,
        priority=7,
        begin_at=noon,
        terminate_at=noon + 60,
        group="/night",
        user_group="red",
        description="nightly run",
        reservation="ann#0",
        requeue_exit_values="30",
        application="care",
        mail_user="ann@site",
        notify_begin=True,
        notify_error=True,
        file_copies=("in > /tmp/in",),
        login_shell="/bin/bash",
        pre_exec="./check",
        post_exec="./clean",
        output_dir="/out",
        output_file="log",
        warning_signal="URG",
        warning_s=120,
        run_limit_s=600,
        estimate_s=300,
        limits={"MEMLIMIT": 2048.0, "CORELIMIT": 0.0, "CPULIMIT": 3600.0, "PROCESSLIMIT": 20.0},
    )
    planned = PlannedStart(at=noon, hosts=("one",), text="it waits for the end of job <7>")
    master.views = [pending(1271, spec=asked, planned=planned)]
    gjobs = call("gjobs", "-UF", "1271")
    assert gjobs.run() == 0
    for text in (
        "Project <default>, Application <care>, User Group <red>, Mail <ann@site>, Status <PEND>, Queue <normal>, "
        "Job Priority <7>, Command <",
        ", Job Description <nightly run>, Job Group </night>",
        ', Output File <log>, Output Directory </out>, Copy Files "in > /tmp/in", Notify when job begins/ends, '
        "Exclusive Execution, Re-runnable, 2-6 Task(s), Requested GPU <num=2:mode=shared>, "
        'Dependency Condition <done("prepare")>, Login Shell </bin/bash>, Pre-execute Command <./check>, '
        "Post-execute Command <./clean>, Specified Hosts <one+2>, <two!>, <others>, User Priority <7>, "
        "Specified Start Time <Sat Nov 21 12:00:00>, Specified Termination Time <Sat Nov 21 12:01:00>, "
        "Reservation <ann#0>, Requeue Exit Values <30>, "
        "Warning Action <URG>, Warning Time <2 min>;",
        "Sat Nov 21 12:00:00: Job will start no sooner than indicated time stamp on host(s) <one>, it waits for the "
        "end of job <7>;",
        " GPU REQUIREMENT DETAILS:\n Combined: num=2:mode=shared:j_exclusive=no\n",
        f" {'CPULIMIT':<24} {'RUNLIMIT':<24} {'ESTIMATED_RUNTIME':<24}\n"
        " 60.0 min                 10.0 min                 5.0 min\n",
        " CORELIMIT MEMLIMIT PROCESSLIMIT\n       0 K      2 G           20\n",
    ):
        assert text in gjobs.out, text
    master.views = [pending(1271, spec=msgspec.structs.replace(asked, warning_s=40))]
    gjobs = call("gjobs", "-UF", "1271")
    assert gjobs.run() == 0
    assert ", Warning Time <40 sec>;" in gjobs.out
    for why, tail in (
        (coded("planned.estimate_of_history", "<7>"), "judging by earlier jobs like job <7>, which has no run limit;"),
        ("", "and by then at the latest, if run limits are kept;"),
    ):
        master.views = [pending(1271, spec=asked, planned=PlannedStart(at=noon, hosts=("one",), text=why))]
        again = call("gjobs", "-UF", "1271")
        assert again.run() == 0
        assert f"12:00:00: Job will start no sooner than indicated time stamp on host(s) <one>, {tail}\n" in again.out
    master.views = [pending(1271, spec=asked, planned=planned)]
    names = "job_group user_group job_priority dependency gpu_mode exclusive estimated_start_time memlimit max_req_proc"
    fields = call("gjobs", "-noheader", "-o", f"{names} pendstate rsvid delimiter='|'")
    assert fields.run() == 0
    assert fields.out == '/night|red|7|done("prepare")|shared|Y|Nov 21 12:00|2 Gbytes|6|EPEND|ann#0\n'


def test_a_start_that_nobody_can_foretell_says_why(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(1271, planned=PlannedStart(text=coded(UNKNOWN, "no run limit on job 7")))]
    gjobs = call("gjobs", "-UF", "1271")
    assert gjobs.run() == 0
    assert " Job will start at an unknown time: no run limit on job 7;" in gjobs.out
    master.views = [pending(1271, planned=PlannedStart(text=coded(NEVER, "Not enough job slot(s) (9 wanted)")))]
    gjobs = call("gjobs", "-UF", "1271")
    assert gjobs.run() == 0
    assert " Job will never start as the hosts are now: Not enough job slot(s) (9 wanted);" in gjobs.out


def test_suspended_jobs_say_why(master: FakeMaster, call: NewCall) -> None:
    by_system = running(8, state="SSUSP", suspending_reason="The run windows of the queue are closed")
    master.views = [by_system, running(9, state="USUSP")]
    gjobs = call("gjobs", "-s", "-noheader")
    assert gjobs.run() == 0
    assert " The run windows of the queue are closed;\n" in gjobs.out
    assert " The job was suspended by user;\n" in gjobs.out


@pytest.mark.parametrize("state, held", [("SSUSP", 2), ("USUSP", 1), ("SSUSP", 0), ("RUN", 2)])
def test_a_suspended_job_says_that_it_keeps_its_gpus(master: FakeMaster, call: NewCall, state: str, held: int) -> None:
    master.views = [running(8, state=state, allocation=allocation(*range(held)))]
    gjobs = call("gjobs", "-l", "-UF", "8")
    assert gjobs.run() == 0
    gpus = "2 GPUs" if held == 2 else "1 GPU"
    told = f"\n KEPT WHILE SUSPENDED:\n {gpus} and what the job has in their memory: no other job gets them;\n"
    assert (told in gjobs.out) is (state != "RUN" and held > 0)
    assert ("KEPT WHILE SUSPENDED" in gjobs.out) is (state != "RUN" and held > 0)


def test_a_job_that_cannot_start_yet_is_not_eligible(master: FakeMaster, call: NewCall) -> None:
    waits = PendingReason(coded("dependency.not_satisfied"), detail="done(1): 1 PEND")
    master.views = [pending(5, pending_reasons=(waits,)), running(4)]
    gjobs = call("gjobs", "-noheader", "-o", "jobid pendstate")
    assert (gjobs.run(), gjobs.out) == (0, "5 IPEND\n4 NOTPEND\n")


def test_a_thousand_jobs_come_out_as_one_listing(master: FakeMaster, call: NewCall) -> None:
    master.views = [element(index) for index in range(1, 1202)]
    for argv in (["gjobs"], ["gjobs", "-w"], ["gjobs", "-o", "jobid jobindex"]):
        gjobs = call(*argv)
        assert gjobs.run() == 0
        lines = gjobs.out.splitlines()
        assert (len(lines), sum(line.startswith("JOBID") for line in lines)) == (1202, 1)
    long = call("gjobs", "-l")
    assert long.run() == 0
    assert long.out.count("-" * 78 + "\n\nJob <12[") == 1200
