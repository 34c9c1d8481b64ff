"""The commands around the policies: what they ask of the master, and LSF's sentences, streams and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from fake_master import FakeCall, FakeMaster, record, spec
from test_cli_gjobs import done, pending, running

from gsched.base.ids import element_id
from gsched.cli.registry import ALIASES, COMMANDS, LOCAL_ONLY
from gsched.model import event as events
from gsched.model.job import AttemptResult
from gsched.model.reason import PendingReason, PlannedStart
from gsched.model.view import (
    ArrayView,
    JobFilter,
    JobGroupView,
    JobView,
    LimitSection,
    LimitView,
    PendingSummary,
    QueueView,
    ReasonCount,
    ReservationView,
    ShareView,
)

NewCall = Callable[..., FakeCall]
ELEMENT = element_id(12, 3)


def element(index: int, **changes: object) -> JobView:
    array = spec("sweep.sh", name="sweep", indices="1-10")
    return pending(element_id(12, index), **({"spec": array} | changes))


# -- jobs -------------------------------------------------------------------------------------------------------------


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


def test_grun_says_what_a_forced_job_still_waits_for(master: FakeMaster, call: NewCall) -> None:
    reason = PendingReason("Job dependency condition not satisfied", detail="done(3): job 3 is RUN")
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
        (["grun", "-b", "1"], "grun: option -b is not supported yet (-h lists the options)\n"),
        (["gswitch"], "gswitch: Queue name must be specified (-h shows how)\n"),
        (["gswitch", "night"], "gswitch: name a job, or 0 for all of yours (-h lists the options)\n"),
        (["gbgadd"], "gbgadd: name a job group, as in /night (-h shows how)\n"),
        (["gbgadd", "-L", "-1", "/n"], "-L -1: the job limit is a number from 0 to 2147483646\n"),
        (["gbgmod", "/n"], "gbgmod: say either -L JOBS or -Ln\n"),
        (["gbgmod", "-L", "1", "-Ln", "/n"], "gbgmod: say either -L JOBS or -Ln\n"),
        (["grsvadd", "-n", "1", "-b", "1:00"], "grsvadd: -e TIME says when it ends\n"),
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


# -- gjobs ------------------------------------------------------------------------------------------------------------


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
    names = "job_group user_group job_priority dependency gpu_mode exclusive estimated_start_time memlimit max_req_proc"
    fields = call("gjobs", "-noheader", "-o", f"{names} pendstate rsvid delimiter='|'")
    assert fields.run() == 0
    assert fields.out == '/night|red|7|done("prepare")|shared|Y|Nov 21 12:00|2 Gbytes|6|EPEND|ann#0\n'


def test_a_start_that_nobody_can_foretell_says_why(master: FakeMaster, call: NewCall) -> None:
    master.views = [pending(1271, planned=PlannedStart(text="unknown: no run limit on job 7"))]
    gjobs = call("gjobs", "-UF", "1271")
    assert gjobs.run() == 0
    assert " Job will start at an unknown time: no run limit on job 7;" in gjobs.out
    master.views = [pending(1271, planned=PlannedStart(text="never: Not enough job slot(s) (9 wanted)"))]
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


def test_a_job_that_cannot_start_yet_is_not_eligible(master: FakeMaster, call: NewCall) -> None:
    waits = PendingReason("Job dependency condition not satisfied", detail="done(1): 1 PEND")
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


# -- groups, reservations, limits, queues -----------------------------------------------------------------------------


def test_job_groups(master: FakeMaster, call: NewCall) -> None:
    added = call("gbgadd", "-L", "10", "/night", "/day")
    assert (added.run(), added.out) == (0, "Job group /night is add.\nJob group /day is add.\n")
    assert (master.requests[-1].action, master.requests[-1].job_limit) == ("add", 10)
    assert call("bgmod", "-Ln", "/night").run() == 0
    assert (master.requests[-1].action, master.requests[-1].job_limit) == ("modify", -1)
    master.answer_errors = {"/night": "The group has jobs or groups in it"}
    removed = call("bgdel", "/night")
    assert (removed.run(), removed.err) == (255, "Job group /night: The group has jobs or groups in it\n")


def test_zero_removes_the_callers_empty_groups_from_below(master: FakeMaster, call: NewCall) -> None:
    master.group_views = [
        JobGroupView(name="/a", owner="test"),
        JobGroupView(name="/a/b", owner="test"),
        JobGroupView(name="/full", owner="test", counts={"RUN": 1}),
        JobGroupView(name="/theirs", owner="ann"),
    ]
    assert call("gbgdel", "0").run() == 0
    assert list(master.requests[-1].groups) == ["/a/b", "/a"]
    master.group_views = []
    none = call("gbgdel", "0")
    assert (none.run(), none.err) == (255, "No job group found\n")


def test_groups_are_listed_with_their_limits(master: FakeMaster, call: NewCall) -> None:
    counts = {"PEND": 4, "PSUSP": 1, "RUN": 2, "UNKWN": 1, "SSUSP": 1, "DONE": 3}
    master.group_views = [JobGroupView(name="/night", counts=counts, job_limit=5, owner="ann"), JobGroupView(name="/x")]
    gjgroup = call("bjgroup")
    assert gjgroup.run() == 0
    header, night, other = gjgroup.out.splitlines()
    assert header.split() == [
        "GROUP_NAME",
        "NJOBS",
        "PEND",
        "RUN",
        "SSUSP",
        "USUSP",
        "FINISH",
        "SLA",
        "JLIMIT",
        "OWNER",
    ]
    assert night.split() == ["/night", "12", "5", "3", "1", "0", "3", "()", "4/5", "ann"]
    assert other.split() == ["/x", "0", "0", "0", "0", "0", "0", "()", "0/-", "-"]
    names = ("/x/y", "/night/ann", "/night", "/x", "/night-2")
    slots = {"PEND": 8, "PSUSP": 1, "RUN": 4, "SSUSP": 2}
    master.group_views = [JobGroupView(name=name, slots=slots, rsv=3, owner="ann") for name in names]
    for words, order in (
        ((), ["/night", "/night-2", "/x", "/night/ann", "/x/y"]),
        (("-s",), ["/night", "/night/ann", "/night-2", "/x", "/x/y"]),
        (("-s", "/night"), ["/night", "/night/ann"]),
        (("/night/", "/x"), ["/night", "/x", "/x/y"]),
    ):
        listed = call("gjgroup", "-noheader", *words)
        assert listed.run() == 0
        assert [line.split()[0] for line in listed.out.splitlines()] == order
    in_slots = call("bjgroup", "-N", "/night/")
    assert in_slots.run() == 0
    header, night = in_slots.out.splitlines()
    assert header.split() == ["GROUP_NAME", "NSLOTS", "PEND", "RUN", "SSUSP", "USUSP", "RSV", "SLA", "OWNER"]
    assert night.split() == ["/night", "15", "9", "4", "2", "0", "3", "()", "ann"]
    gone = call("gjgroup", "/zz")
    assert (gone.run(), gone.err) == (255, "No job group /zz found\n")


def test_a_reservation_is_made_as_it_is_described(master: FakeMaster, call: NewCall) -> None:
    words = ["-N", "demo", "-n", "8", "-gpu", "4", "-m", "a b", "-R", "select[mem>1]", "-u", "ann bob", "-g", "red"]
    made = call("grsvadd", *words, "-b", "2040:1:2:10:00", "-e", "2040:1:2:12:30")
    assert (made.run(), made.out) == (0, "Reservation demo is add\n")
    asked = master.requests[-1]
    assert (asked.slots, asked.gpus, list(asked.hosts), asked.requirement) == (8, 4, ["a", "b"], "select[mem>1]")
    assert list(asked.reservation.users) == ["ann", "bob", "red"]
    assert asked.reservation.start == datetime(2040, 1, 2, 10, tzinfo=UTC).timestamp()
    assert asked.reservation.end - asked.reservation.start == 2.5 * 3600
    assert call("grsvadd", "-n", "1", "-b", "2040:1:2:10:00", "-e", "11:00").run() == 0
    asked = master.requests[-1]
    assert list(asked.reservation.users) == ["test"]
    assert asked.reservation.end - asked.reservation.start == 3600  # an end without a day is on the day of the begin


@pytest.mark.parametrize("command", [["grsvadd", "-n", "1"], ["grsvmod", "demo"]])
def test_an_end_before_the_begin_needs_its_day(master: FakeMaster, call: NewCall, command: list[str]) -> None:
    wrong = call(*command, "-b", "2040:1:2:11:26", "-e", "11:24")
    assert wrong.run() == 255
    assert wrong.err == (
        "Start time is later than termination time: -b 2040:1:2:11:26, -e 11:24; "
        "the end of another day is written with it, as -e 3:11:24\n"
    )
    assert not master.requests
    assert call(*command, "-b", "2040:1:2:11:26", "-e", "3:11:24").run() == 0
    asked = master.requests[-1].reservation
    assert asked.end - asked.start == 24 * 3600 - 120


def test_reservations_are_changed_and_deleted_by_name(master: FakeMaster, call: NewCall) -> None:
    assert call("brsvmod", "-u", "bob", "demo").run() == 0
    asked = master.requests[-1]
    assert (asked.action, asked.reservation.name, asked.reservation.start, asked.slots) == ("modify", "demo", 0.0, 0)
    master.answer_errors = {"gone": "gone: there is no such advance reservation"}
    deleted = call("brsvdel", "gone", "demo")
    assert deleted.run() == 255
    assert (deleted.out, deleted.err) == (
        "Reservation demo is remove\n",
        "gone: there is no such advance reservation\n",
    )


def test_reservations_are_listed_host_by_host(master: FakeMaster, call: NewCall) -> None:
    start = datetime(2026, 11, 12, 18, tzinfo=UTC).timestamp()
    master.reservation_views = [
        ReservationView(
            name="ann#0",
            users=("ann", "bob"),
            start=start,
            end=start + 5400,
            slots={"a": 4, "b": 2},
            gpus={"b": 1},
            used={"a": 3},
            active=True,
        )
    ]
    grsvs = call("brsvs")
    assert grsvs.run() == 0
    header, first, second = (line.split() for line in grsvs.out.splitlines())
    assert header == ["RSVID", "TYPE", "USER", "NCPUS", "RSV_HOSTS", "TIME_WINDOW", "GPUS"]
    assert first == ["ann#0", "user", "ann,bob", "3/6", "a:3/4", "11/12/18/0-11/12/19/30", "0"]
    assert second == ["b:0/2", "1"]
    long = call("grsvs", "-l")
    assert long.run() == 0 and "Reservation Status: Active\n" in long.out
    master.reservation_views = []
    none = call("grsvs")
    assert (none.run(), none.out, none.err) == (0, "", "No reservation found\n")


def test_limits_are_laid_out_by_resource(master: FakeMaster, call: NewCall) -> None:
    master.limit_views = [
        LimitView(name="few", user="ann", resource="ngpus", used=2, allowed=2),
        LimitView(name="few", user="ann", resource="slots", used=3, allowed=8),
        LimitView(name="few", user="bob", resource="ngpus", used=1, allowed=2),
        LimitView(name="week", resource="gpu_hours", used=1.25, allowed=100),
        LimitView(name="year", resource="gpu_hours", used=0.00123, allowed=0.5),
        LimitView(name="licences", queue="normal", resource="matlab", used=1, allowed=4),
    ]
    glimits = call("blimits")
    assert glimits.run() == 0
    internal, external = glimits.out.split("EXTERNAL RESOURCE LIMITS:\n")
    assert internal.startswith("\nINTERNAL RESOURCE LIMITS:\n\n")
    rows = [line.split() for line in internal.splitlines()[3:] if line]
    assert rows == [
        ["NAME", "USERS", "QUEUES", "HOSTS", "PROJECTS", "SLOTS", "MEM", "TMP", "SWP", "JOBS", "NGPUS", "GPU_HOURS"],
        ["few", "ann", "-", "-", "-", "3/8", "-", "-", "-", "-", "2/2", "-"],
        ["few", "bob", "-", "-", "-", "-", "-", "-", "-", "-", "1/2", "-"],
        ["week", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "1.25/100"],
        ["year", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-", "0.001/0.5"],
    ]
    assert [line.split() for line in external.splitlines() if line][1] == ["licences", "-", "normal", "-", "-", "1/4"]
    of_ann = call("glimits", "-u", "ann")
    assert of_ann.run() == 0 and "bob" not in of_ann.out and "week" in of_ann.out
    idle = LimitView(name="unused", resource="slots", allowed=3, idle=True)
    master.limit_views.append(idle)
    without, everything = call("glimits"), call("glimits", "-a")
    assert without.run() == everything.run() == 0
    assert "unused" not in without.out
    (row,) = [line for line in everything.out.splitlines() if line.startswith("unused")]
    assert row.split()[5] == "0/3"
    nothing = call("glimits", "-n", "zz")
    assert (nothing.run(), nothing.out) == (0, "No resource usage found.\n")


def test_a_share_table_stands_there_before_anybody_has_used_anything(master: FakeMaster, call: NewCall) -> None:
    master.queue_views = [QueueView(name="fair", priority=5, pend=8, pjobs=2, rsv=3, facts={"USER_SHARES": "[red, 3]"})]
    long = call("gqueues", "-l", "fair")
    assert long.run() == 0
    assert "\nSHARE_INFO_FOR: fair/\n USER/GROUP   SHARES  PRIORITY  STARTED  RESERVED" in long.out
    wide = call("bqueues", "-w")
    assert wide.run() == 0
    header, row = wide.out.splitlines()
    assert header.split()[-2:] == ["RSV", "PJOBS"] and row.split()[-2:] == ["3", "2"]


def test_limits_as_they_are_configured(master: FakeMaster, call: NewCall) -> None:
    master.limit_sections = [
        LimitSection(name="few", settings=("NAME = few", "PER_USER = all ~ann", "ngpus = 2")),
        LimitSection(name="NONAME001", settings=("HOSTS = a b", "MEM = 16G")),
    ]
    shown = call("blimits", "-c")
    assert (shown.run(), shown.out) == (
        0,
        "Begin Limit\nNAME     = few\nPER_USER = all ~ann\nngpus    = 2\nEnd Limit\n\n"
        "Begin Limit\nNAME  = NONAME001\nHOSTS = a b\nMEM   = 16G\nEnd Limit\n",
    )
    one = call("glimits", "-c", "-n", "few")
    assert one.run() == 0 and "NONAME001" not in one.out
    both = call("glimits", "-c", "-u", "ann")
    assert (both.run(), both.err) == (255, "glimits: -c shows limits as they are written; only -n chooses among them\n")
    master.limit_sections = []
    assert call("glimits", "-c").run() == 0


def test_a_queue_tells_of_its_policies(master: FakeMaster, call: NewCall) -> None:
    shares = (
        ShareView(path="fair/", name="red", shares=3, priority=1.5, started=2, cpu_s=12.34, run_s=99.6, gpu_s=40.0),
        ShareView(path="fair/red/", name="ann", shares=1, priority=0.333),
    )
    master.queue_views = [
        QueueView(
            name="fair",
            priority=50,
            status="Closed:Inact_Adm",
            processor_limit=2.0,
            policies=("FAIRSHARE", "BACKFILL"),
            shares=shares,
            administrators=("root",),
            thresholds={"mem": "100/-"},
            gpu_req="num=1",
            facts={
                "USER_SHARES": "[red, 3]",
                "PREEMPTION": "PREEMPTIVE[low]",
                "RUN_WINDOWS": "8:00-18:00",
                "MEMLIMIT": "1024 2048",
                "CPULIMIT": "- 3600",
                "TASKLIMIT": "1 2 8",
                "NEW_JOB_SCHED_DELAY": "3",
                "SLOT_RESERVE": "60",
                "EXCLUDED_USERS": "eve",
                "RUN_JOB_FACTOR": "5",  # in the order in which they may come out of a message's map
                "GPU_HOURS week": "5 in 168 hours",
                "RERUNNABLE": "yes",
                "CPU_TIME_FACTOR": "0.2",
            },
        )
    ]
    long = call("gqueues", "-l", "fair")
    assert long.run() == 0
    header = " USER/GROUP   SHARES  PRIORITY  STARTED  RESERVED  CPU_TIME  RUN_TIME   ADJUST  GPU_RUN_TIME\n"
    for text in (
        "  50    0 Closed:Inact_Adm",
        "Schedule delay for a new job is 3 seconds\n",
        "DEFAULT LIMITS:\n MEMLIMIT\n      1 G\n",
        "MAXIMUM LIMITS:\n CPULIMIT                \n 60.0 min\n\n MEMLIMIT\n      2 G\n\n TASKLIMIT\n 1 2 8\n",
        "SCHEDULING POLICIES:  FAIRSHARE  BACKFILL\nUSER_SHARES:  [red, 3]\n",
        "\nSHARE_INFO_FOR: fair/\n" + header,
        "PREEMPTION:  PREEMPTIVE[low]\nRUN_WINDOWS:  8:00-18:00\nUSERS: all users ~eve\nHOSTS: all\n",
        "ADMINISTRATORS:  root\n",
        "GPU_REQ:  num=1\n",
        "CPU_TIME_FACTOR:  0.2\nRUN_JOB_FACTOR:  5\nRERUNNABLE:  yes\nGPU_HOURS week:  5 in 168 hours\n",
        "Maximum slot reservation time: 60 seconds\n",
    ):
        assert text in long.out, text
    row = next(line for line in long.out.splitlines() if line.startswith(" red "))
    assert row.split() == ["red", "3", "1.500", "2", "0", "12.3", "100", "0.000", "40"]
    assert "fair/red/" not in long.out
    assert " loadSched   -     -     -     -       -     -    -     -     -      -    100M \n" in long.out
    whole = call("gqueues", "-r", "fair")
    assert whole.run() == 0 and "\nSHARE_INFO_FOR: fair/red/\n" in whole.out
    short = call("gqueues", "-noheader")
    assert short.run() == 0 and "Closed:Inact " in short.out and "_Adm" not in short.out


# -- ghist ------------------------------------------------------------------------------------------------------------


def told(master: FakeMaster, call: NewCall, job_id: int, *happened: events.AnyEvent) -> str:
    master.histories = {job_id: tuple(record(seq, event) for seq, event in enumerate(happened, 1))}
    ghist = call("ghist", "-UF", f"12[{job_id >> 32}]" if job_id >> 32 else str(job_id))
    assert (ghist.run(), ghist.err) == (0, "")
    return ghist.out


def test_history_tells_what_people_did(master: FakeMaster, call: NewCall) -> None:
    at, job = 1499222051.0, spec("t.sh", name="train")
    moved = msgspec.structs.replace(job, queue="night")
    text = told(
        master,
        call,
        9,
        events.JobSubmitted(at=at, job_id=9, spec=job),
        events.JobSwitched(at=at + 1, job_id=9, by="ann", spec=moved),
        events.JobMoved(at=at + 2, job_id=9, by="ann", order=1.0, position=3, to_top=False),
        events.JobModified(at=at + 3, job_id=9, by="ann", spec=moved, changes=("Job name changes to : b", "x")),
        events.JobForced(at=at + 4, job_id=9, by="root", hosts=("one",)),
        events.JobSuspended(at=at + 5, job_id=9, by="_system_", by_system=True, reason="The run windows are closed"),
        events.JobResumed(at=at + 6, job_id=9, by="_system_", by_system=True),
        events.JobRequeueRequested(at=at + 7, job_id=9, by="ann"),
        events.JobRequeueRequested(at=at + 8, job_id=9, by="", preempted_by=element_id(12, 3)),
    )
    for line in (
        "to Queue <normal>",
        ": Switched to Queue <night> by user or administrator <ann>;",
        ": Job moved to position 3 relative to <bottom> by user or administrator <ann>;",
        ": Parameters of Job are changed by user or administrator <ann>: Job name changes to : b; x;",
        ": Job is forced to run by user or administrator <root>;",
        ": Suspended: The run windows are closed;",
        ": Requeue requested by user or administrator <ann>;",
        ": Requeue requested: preempted by job <12[3]>;",
    ):
        assert line in text, line


def test_times_go_on_after_a_requeue(master: FakeMaster, call: NewCall) -> None:
    at, job = 1499222000.0, spec("t.sh")
    held = running(9).allocation
    assert held is not None
    result = AttemptResult(exit_code=30, ended_at=at + 30)
    text = told(
        master,
        call,
        9,
        events.JobSubmitted(at=at, job_id=9, spec=job),
        events.JobDispatched(at=at + 10, job_id=9, attempt=1, allocation=held, effective_req=""),
        events.JobRequeued(
            at=at + 30, job_id=9, attempt=1, reason="exit value 30", failed_start=False, result=result, hold=True
        ),
        events.JobResumed(at=at + 35, job_id=9, by="ann"),
        events.JobDispatched(at=at + 37, job_id=9, attempt=2, allocation=held, effective_req=""),
        events.JobFinished(at=at + 40, job_id=9, attempt=2, result=AttemptResult(exit_code=0, ended_at=at + 40)),
        # Finished, and 60 seconds later sent to wait again: the time between counts for nothing.
        events.JobRequeued(at=at + 100, job_id=9, attempt=2, reason="Job has been requeued", failed_start=False),
        events.JobDispatched(at=at + 101, job_id=9, attempt=3, allocation=held, effective_req=""),
        events.JobFinished(at=at + 103, job_id=9, attempt=3, result=AttemptResult(exit_code=0, ended_at=at + 103)),
    )
    assert ": Exited with exit code 30; job will be requeued and rerun;" in text
    assert text.count(": Pending: Job has been requeued;") == 2 and ": Pending: exit value 30;" in text
    # PEND 10+2+1, PSUSP 5, RUN 20+3+2
    assert text.splitlines()[-1].split() == ["13", "5", "25", "0", "0", "0", "43"]


def test_history_of_an_element_and_of_what_never_started(master: FakeMaster, call: NewCall) -> None:
    at = 1499222000.0
    array = spec("t.sh", name="sweep", indices="1-5", array_limit=2)
    killed = AttemptResult(started=False, term_reason="TERM_OWNER", ended_at=at + 9)
    submitted = events.JobSubmitted(at=at, job_id=12, spec=array)
    ended = events.ArrayElementsFinished(at=at + 9, job_id=12, indices="3-5", result=killed)
    text = told(master, call, element_id(12, 3), submitted, ended)
    assert "Job <12[3]>, Job Name <sweep[3]>," in text
    assert "Completed <exit>; TERM_OWNER: job killed by owner;" in text
    assert text.splitlines()[-1].split() == ["9", "0", "0", "0", "0", "0", "9"]
    whole = told(master, call, 12, submitted)
    assert "Job <12>, Job Name <sweep[1-5]%2>," in whole


# -- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - LOCAL_ONLY))
def test_every_command_teaches_itself_under_both_its_names(call: NewCall, name: str) -> None:
    for called in (name, *(alias for alias, target in ALIASES.items() if target == name)):
        shown, version, wrong = call(called, "-h"), call(called, "-V"), call(called, "-nosuchoption")
        assert (shown.run(), version.run(), wrong.run()) == (0, 0, 255)
        assert shown.out.startswith(f"{called}: ") and "Usage:" in shown.out and "Examples:" in shown.out
        assert version.out.startswith("gsched ")
        assert wrong.out == "" and wrong.err.count("\n") == 1
