"""Job groups, reservations, limits, shares and queues: what is asked of the master, and LSF's layouts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from fake_master import FakeCall, FakeMaster

from gsched.model.views.room_view import LimitSection, LimitView, ReservationPolicyView, ReservationView
from gsched.model.views.view import JobGroupView, QueueView, ShareView

NewCall = Callable[..., FakeCall]


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


def test_empty_groups_of_others_and_those_below_a_group_are_removed_on_request(
    master: FakeMaster, call: NewCall
) -> None:
    master.group_views = [
        JobGroupView(name="/a", owner="test"),
        JobGroupView(name="/a/b", owner="ann"),
        JobGroupView(name="/a/full", owner="ann", counts={"RUN": 1}),
        JobGroupView(name="/ab", owner="ann"),
    ]
    for words, removed in (
        (("-u", "ann", "0"), ["/a/b", "/ab"]),
        (("-u", "all", "0"), ["/a/b", "/a", "/ab"]),
        (("-c", "/a"), ["/a/b", "/a"]),
    ):
        assert call("bgdel", *words).run() == 0
        assert list(master.requests[-1].groups) == removed


def test_the_limit_of_a_group_that_somebody_else_owns_stays(master: FakeMaster, call: NewCall) -> None:
    master.group_views = [JobGroupView(name="/a", owner="bob"), JobGroupView(name="/b", owner="ann")]
    some = call("bgmod", "-u", "ann", "-L", "3", "/a", "/b")
    assert (some.run(), some.out) == (255, "Job group /b is modify.\n")
    assert some.err == "Job group /a: bob owns it, not ann\n"
    assert list(master.requests[-1].groups) == ["/b"]
    assert call("bgmod", "-u", "all", "-L", "3", "/a", "/b").run() == 0


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
    assert (
        call("grsvadd", "-o", "-nosusp", "-unit", "slot", "-n", "1", "-b", "2040:1:2:10:00", "-e", "11:00").run() == 0
    )
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
    master.reservation_views = [
        ReservationView(name="demo", users=("bob",), start=0.0, end=1.0, slots={"a": 2, "b": 2}, gpus={"a": 3})
    ]
    for words, amounts in ((("-n", "5"), (5, 3)), (("-gpu", "1"), (4, 1)), (("-n", "5", "-gpu", "0"), (5, 0))):
        assert call("grsvmod", *words, "demo").run() == 0
        assert (master.requests[-1].slots, master.requests[-1].gpus) == amounts, "what is not named stays"
    nothing = call("grsvmod", "-n", "0", "-gpu", "0", "demo")
    assert (nothing.run(), nothing.err) == (
        255,
        "grsvmod: nothing would be left of demo; grsvdel demo removes it\n",
    )
    master.answer_errors = {"gone": "gone: there is no such advance reservation"}
    deleted = call("brsvdel", "gone", "demo")
    assert deleted.run() == 255
    assert (deleted.out, deleted.err) == (
        "Reservation demo is remove\n",
        "gone: there is no such advance reservation\n",
    )


def test_policies_of_reservations(master: FakeMaster, call: NewCall) -> None:
    empty = call("brsvs", "-c", "all")
    assert (empty.run(), empty.out, empty.err) == (0, "", "No reservation policy found\n")
    master.reservation_policies = [
        ReservationPolicyView(name="lab", users="red ~eve", hosts="a b", time_window="8:00-13:00"),
        ReservationPolicyView(name="night"),
    ]
    lab = "Policy Name: lab\nUsers: red ~eve\nHosts: a b\nTime Window: 8:00-13:00\n"
    night = "Policy Name: night\nUsers: all\nHosts: all\nTime Window: all\n"
    for names, out in (("all", f"{lab}\n{night}"), ("night lab", f"{lab}\n{night}"), ("lab", lab)):
        shown = call("brsvs", "-c", names)
        assert (shown.run(), shown.out, shown.err) == (0, out, "")
    unknown = call("brsvs", "-c", "lab day")
    assert (unknown.run(), unknown.out, unknown.err) == (255, lab, "day: there is no such policy of reservations\n")
    for words in (("demo",), ("-l",)):
        both = call("brsvs", "-c", "all", *words)
        assert both.run() == 255
        assert both.err == "brsvs: -c shows policies, and goes with no reservation or other option\n"


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


def test_limits_are_chosen_by_those_for_whom_they_are(master: FakeMaster, call: NewCall) -> None:
    master.limit_views = [
        LimitView(name="together", user="ann bob", queue="all ~night", resource="slots", used=3, allowed=8),
        LimitView(name="many", user="a b c d e f", resource="slots", used=3, allowed=8),
        LimitView(name="one", user="ann", resource="slots", used=3, allowed=8),
    ]
    for words, names in (
        (("-u", "bob"), ["together"]),
        (("-u", "ann"), ["together", "one"]),
        (("-u", "f"), ["many"]),
        (("-q", "night"), ["many", "one"]),
        (("-q", "normal"), ["together", "many", "one"]),
    ):
        glimits = call("glimits", *words)
        assert glimits.run() == 0
        assert [line.split()[0] for line in glimits.out.splitlines()[4:]] == names
    shown = call("glimits")
    assert shown.run() == 0 and "a b c d ...  " in shown.out


def test_limits_of_application_profiles_have_a_column_of_their_own(master: FakeMaster, call: NewCall) -> None:
    master.limit_views = [
        LimitView(name="few", application="cfd", resource="slots", used=2, allowed=2),
        LimitView(name="all", resource="slots", used=3, allowed=8),
    ]
    glimits = call("blimits", "-A", "cfd")
    assert glimits.run() == 0
    rows = [line.split()[:7] for line in glimits.out.splitlines()[3:]]
    assert rows == [
        ["NAME", "USERS", "QUEUES", "HOSTS", "PROJECTS", "APPS", "SLOTS"],
        ["few", "-", "-", "-", "-", "cfd", "2/2"],
        ["all", "-", "-", "-", "-", "-", "3/8"],
    ]
    other = call("glimits", "-A", "fem")
    assert other.run() == 0 and "few" not in other.out


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
    shared = {"FAIRSHARE_QUEUES": "fair quick", "DISPATCH_ORDER": "QUEUE", "USER_SHARES": "[red, 3]"}
    rows = (ShareView(path="fair/", name="red", shares=3, priority=1.0),)
    master.queue_views += [QueueView(name="quick", priority=5, policies=("FAIRSHARE",), facts=shared, shares=rows)]
    long = call("gqueues", "-l", "quick")
    assert long.run() == 0
    lines = "FAIRSHARE_QUEUES:  fair quick\nDISPATCH_ORDER:  QUEUE\nUSER_SHARES:  [red, 3]\n\nSHARE_INFO_FOR: fair/\n"
    assert f"SCHEDULING POLICIES:  FAIRSHARE\n{lines}" in long.out
    assert any(line.split()[:2] == ["red", "3"] for line in long.out.splitlines())
    master.queue_views.pop()
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
                "HIST_HOURS": "5",
            },
            defaulted=("HIST_HOURS",),
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
        "CPU_TIME_FACTOR:  0.2\nRUN_JOB_FACTOR:  5\nHIST_HOURS:  5 (default)\n",
        "RERUNNABLE:  yes\nGPU_HOURS week:  5 in 168 hours\n",
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
