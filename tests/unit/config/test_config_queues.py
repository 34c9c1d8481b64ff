"""The policies of a queue, parameter by parameter: what each means, and what is wrong with a bad one."""

from __future__ import annotations

import pytest
from config_texts import BASE, check, with_lines

from gsched.config.files.queue_parameters import shown_parameters
from gsched.model.queues.fairshare_factors import FairshareFactors, factors_of
from gsched.model.queues.queue import Preemption, Queue, RunLimits, Threshold
from gsched.model.queues.user import Share
from gsched.model.queues.window import Window

GROUPS = {
    "lsb.hosts": BASE["lsb.hosts"]
    + "Begin HostGroup\nGROUP_NAME GROUP_MEMBER\nfront (h1 h2)\nrest (all ~front)\nEnd HostGroup\n",
    "lsb.users": "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nphysics (ann bob)\nstaff (physics eve)\nevery (all)\n"
    "End UserGroup\n",
}


def checked_queue(*lines: str, more: str = ""):
    """BASE with groups and one queue, normal; `lines` from line 3 on, other queues in `more`."""
    text = "\n".join(["Begin Queue", "QUEUE_NAME = normal", *lines, "End Queue", more])
    return check({**GROUPS, "lsb.queues": text})


def queue(*lines: str, more: str = "") -> Queue:
    checked = checked_queue(*lines, more=more)
    assert checked.errors == []
    assert checked.config is not None
    return checked.config.queues["normal"]


@pytest.mark.parametrize(
    ("text", "hosts", "levels"),
    [
        ("all", None, {}),
        ("none", (), {}),
        ("front", ("h1", "h2"), {}),
        ("h3 front", ("h3", "h1", "h2"), {}),
        ("front ~h1", ("h2",), {}),
        ("all ~front", ("h3",), {}),
        ("h2+ h1+3", ("h2", "h1"), {"h2": 1, "h1": 3}),
        ("front+2 h1+5", ("h1", "h2"), {"h1": 5, "h2": 2}),
        ("h1+5 front+2", ("h1", "h2"), {"h1": 5, "h2": 2}),
        ("h2+2 others", ("h2", "h1", "h3"), {"h2": 2}),
        ("h2 others+4 ~h3", ("h2", "h1"), {"h1": 4}),
        ("h[1-2]+1 h*", ("h1", "h2", "h3"), {"h1": 1, "h2": 1}),
        ("rest", ("h3",), {}),
    ],
)
def test_hosts_of_a_queue(text, hosts, levels):
    read = queue(f"HOSTS = {text}")
    assert (read.hosts, read.host_levels) == (hosts, levels)


UNITS = "Begin ComputeUnit\nNAME TYPE MEMBER\nr1 rack (h1)\nr2 rack (h2)\nw1 row (h1 h2)\nEnd ComputeUnit\n"


@pytest.mark.parametrize(("text", "expected"), [("yes", "YES"), ("no", "NO"), ("Only", "ONLY"), ("N", "NO")])
def test_interactive_jobs_of_a_queue(text, expected):
    assert queue(f"INTERACTIVE = {text}").interactive == expected


def test_which_jobs_a_queue_takes_is_one_of_three():
    (error,) = checked_queue("INTERACTIVE = maybe").errors
    assert error.endswith("INTERACTIVE: 'maybe' is none of YES, NO and ONLY")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Y", (True, "")),
        ("N", (False, "")),
        ("CU[row]", (True, "row")),
        ("cu[ rack ]", (True, "rack")),
        ("CU[]", (True, "rack")),
        ("CU", (True, "rack")),
    ],
)
def test_exclusive_jobs_of_a_queue(text, expected):
    queue_lines = f"Begin Queue\nQUEUE_NAME = normal\nEXCLUSIVE = {text}\nEnd Queue\n"
    checked = check({"lsb.hosts": BASE["lsb.hosts"] + UNITS, "lsb.queues": queue_lines})
    assert checked.errors == []
    read = checked.config.queues["normal"]
    assert (read.exclusive, read.exclusive_units) == expected


def test_exclusive_units_of_a_type_that_there_is_not():
    queue_lines = "Begin Queue\nQUEUE_NAME = normal\nEXCLUSIVE = CU[cage]\nEnd Queue\n"
    (error,) = check({"lsb.hosts": BASE["lsb.hosts"] + UNITS, "lsb.queues": queue_lines}).errors
    assert error.endswith("EXCLUSIVE: there are no compute units of type cage; types are rack, row")


def test_a_queue_without_hosts_is_noted():
    assert checked_queue("HOSTS = none").notes == [
        "lsb.queues:3: note: HOSTS: none: no job of this queue will ever start"
    ]


@pytest.mark.parametrize(
    ("text", "users", "excluded"),
    [
        ("all", None, ()),
        ("ann bob ann", ("ann", "bob"), ()),
        ("staff", ("ann", "bob", "eve"), ()),
        ("staff ~physics", ("eve",), ()),
        ("all ~physics ~tom", None, ("ann", "bob", "tom")),
        ("every", None, ()),
        ("every ~ann", None, ("ann",)),
    ],
)
def test_users_of_a_queue(text, users, excluded):
    read = queue(f"USERS = {text}")
    assert (read.users, read.excluded_users) == (users, excluded)


def test_a_queue_with_all_its_policies():
    read = queue(
        "ADMINISTRATORS = eve physics",
        "PJOB_LIMIT = 0.5",
        "TASKLIMIT = 2 4 8",
        "CPULIMIT = 10 1:00",
        "MEMLIMIT = 1G 4096",
        "SWAPLIMIT = 8G",
        "PROCESSLIMIT = 100",
        "THREADLIMIT = 200 300",
        "FILELIMIT = 2",
        "DATALIMIT = 1024KB",
        "STACKLIMIT = 8MB",
        "CORELIMIT = 0",
        "EXCLUSIVE = Y",
        "RERUNNABLE = yes",
        "REQUEUE_EXIT_VALUES = all  ~0 EXCLUDE(5 6)",
        "MAX_JOB_REQUEUE = 3",
        "RETRY = gpu_busy:2   xid:3@other_host",
        "RUN_WINDOW = 5:19:00-1:8:30 20:00-8:30",
        "DISPATCH_WINDOW = 9-17",
        "mem = 500/100",
        "UT = 90%/0.95",
        "scratch = 10/",
        "STOP_COND = select[ut>0.9]",
        "RESUME_COND = mem>100",
        "FAIRSHARE = USER_SHARES[[ann,3] [physics@, 2] [staff,5][default,1] [others, 1]]",
        "BACKFILL = Y",
        "RESOURCE_RESERVE = MAX_RESERVE_TIME[6]",
        "NEW_JOB_SCHED_DELAY = 2.5",
        "JOB_ACCEPT_INTERVAL = 2",
        "GPU_REQ = num=2:mode=shared:j_exclusive=yes",
        "RES_REQ = {select[mem>1] rusage[scratch=5]} || {2*{order[ut]} + 1*{span[hosts=1]}}@60",
    )
    assert read.administrators == ("eve", "ann", "bob")
    assert (read.processor_limit, read.task_limit) == (0.5, (2, 4, 8))
    assert read.limits == {
        "CPULIMIT": RunLimits(3600, 600),
        "MEMLIMIT": RunLimits(4096, 1024),
        "SWAPLIMIT": RunLimits(8192),
        "PROCESSLIMIT": RunLimits(100),
        "THREADLIMIT": RunLimits(300, 200),
        "FILELIMIT": RunLimits(2048),
        "DATALIMIT": RunLimits(1024),
        "STACKLIMIT": RunLimits(8192),
        "CORELIMIT": RunLimits(0),
    }
    assert (read.exclusive, read.rerunnable, read.max_requeue) == (True, True, 3)
    assert read.requeue_exit_values == "all ~0 EXCLUDE(5 6)" and read.retry == "gpu_busy:2 xid:3@other_host"
    week = 5 * 1440 + 19 * 60
    assert read.run_window == (Window(week, 1440 + 510, True), Window(1200, 510))
    assert read.dispatch_window == (Window(540, 1020),)
    assert read.thresholds == {"mem": Threshold(500, 100), "ut": Threshold(0.9, 0.95), "scratch": Threshold(10)}
    assert (read.stop_cond, read.resume_cond) == ("select[ut>0.9]", "mem>100")
    assert read.fairshare == (
        Share("ann", 3),
        Share("physics@", 2),
        Share("staff", 5),
        Share("default", 1),
        Share("others", 1),
    )
    assert (read.backfill, read.reserve_s, read.new_job_delay_s, read.accept_interval_s) == (True, 60.0, 2.5, 20.0)
    assert read.gpu_req == "num=2:mode=shared:j_exclusive=yes"
    assert read.res_req.startswith("{select[mem>1]")


def test_a_queue_that_says_nothing_has_no_policies():
    assert queue() == Queue(name="normal", source="/conf/lsb.queues:1")


@pytest.mark.parametrize(
    ("text", "limits"), [("8", (1, 1, 8)), ("2 8", (2, 2, 8)), ("2 4 8", (2, 4, 8)), ("3 3 3", (3, 3, 3))]
)
@pytest.mark.parametrize("name", ["TASKLIMIT", "PROCLIMIT"])
def test_slots_of_one_job(name, text, limits):
    assert queue(f"{name} = {text}").task_limit == limits


@pytest.mark.parametrize(
    ("line", "jobs"), [("", 1), ("LSB_TIME_RESERVE_NUMJOBS=0", 0), ("LSB_TIME_RESERVE_NUMJOBS=9", 9)]
)
def test_for_how_many_jobs_starts_are_planned_where_queues_do_not_say(line, jobs):
    text = "Begin Queue\nQUEUE_NAME = normal\nEnd Queue\nBegin Queue\nQUEUE_NAME = own\nRESERVATION = easy\nEnd Queue\n"
    queues = check({"lsb.queues": text, "lsf.conf": f"{BASE['lsf.conf']}{line}\n"}).config.queues
    assert (queues["normal"].reserved_jobs, queues["own"].reserved_jobs) == (jobs, 1)


def test_a_list_of_job_sizes_counts_in_place_of_the_task_limit():
    read = queue("JOB_SIZE_LIST = 4 2 8 2")
    assert (read.job_sizes, read.task_limit) == ((4, 2, 8), (2, 4, 8))
    checked = checked_queue("JOB_SIZE_LIST = 4 2", "TASKLIMIT = 1 9")
    assert checked.notes == ["lsb.queues:4: note: TASKLIMIT has no effect: JOB_SIZE_LIST is set"]
    (error,) = checked_queue("JOB_SIZE_LIST = 4 0").errors
    assert error == "lsb.queues:3: JOB_SIZE_LIST: '0' is not a whole number from 1 to 1000000"


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("0:00-24:00", (Window(0, 1440),)),
        ("24:00-8:00", (Window(0, 480),)),
        ("0:0:00-6:24:00", (Window(0, 10080, True),)),
        ("8-12 13:30-17", (Window(480, 720), Window(810, 1020))),
    ],
)
def test_time_windows(text, windows):
    assert queue(f"RUN_WINDOW = {text}").run_window == windows


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("r1m = 0.6/1.6", Threshold(0.6, 1.6)),
        ("r1m = /1.6", Threshold(None, 1.6)),
        ("r1m = -/2", Threshold(None, 2)),
        ("ut = 80/90", Threshold(0.8, 0.9)),
        ("tmp = 2G/500", Threshold(2048, 500)),
    ],
)
def test_thresholds(text, threshold):
    assert list(queue(text).thresholds.values()) == [threshold]


LOW = "Begin Queue\nQUEUE_NAME = low\nPRIORITY = 5\nEnd Queue\nBegin Queue\nQUEUE_NAME = high\nPRIORITY = 90\nEnd Queue"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("PREEMPTIVE", Preemption((), None)),
        ("PREEMPTIVE[]", Preemption((), None)),
        ("PREEMPTIVE[low+2]", Preemption((("low", 2),), None)),
        ("preemptive [low] PREEMPTABLE[high]", Preemption((("low", 0),), ("high",))),
        ("PREEMPTABLE", Preemption(None, ())),
    ],
)
def test_preemption(text, meaning):
    assert queue("PRIORITY = 30", f"PREEMPTION = {text}", more=LOW).preemption == meaning
    assert checked_queue("PRIORITY = 30", f"PREEMPTION = {text}", more=LOW).notes == []


def test_preemption_in_the_wrong_direction_is_noted():
    notes = checked_queue("PRIORITY = 30", "PREEMPTION = PREEMPTIVE[high] PREEMPTABLE[low]", more=LOW).notes
    assert notes == [
        "lsb.queues:4: note: PREEMPTION: normal (priority 30) may preempt high, which has the priority 90 and is not "
        "below it",
        "lsb.queues:4: note: PREEMPTION: normal (priority 30) may be preempted by low, which has the priority 5 and is "
        "not above it",
    ]


def test_of_two_reservations_the_one_of_all_resources_counts():
    checked = checked_queue("SLOT_RESERVE = MAX_RESERVE_TIME[2]", "RESOURCE_RESERVE = MAX_RESERVE_TIME[3]")
    assert checked.notes == ["lsb.queues:3: note: SLOT_RESERVE has no effect: RESOURCE_RESERVE is set"]
    assert checked.config.queues["normal"].reserve_s == 30
    assert queue("SLOT_RESERVE = MAX_RESERVE_TIME[2]").reserve_s == 20


@pytest.mark.parametrize(
    ("text", "jobs", "shown"),
    [
        ("none", 0, "none"),
        ("easy", 1, None),
        ("Conservative", 16, "conservative"),
        ("conservative[40]", 40, "conservative[40]"),
    ],
)
def test_for_how_many_jobs_something_is_reserved(text, jobs, shown):
    read = queue(f"RESERVATION = {text}")
    assert read.reserved_jobs == jobs
    assert dict(shown_parameters(read)).get("RESERVATION") == shown


def test_how_long_others_may_put_a_planned_start_off():
    assert [queue(line).max_plan_delay for line in ("RESERVATION = easy", "RESERVATION = conservative")] == [2, 0]
    stated = queue("RESERVATION = conservative", "MAX_PLAN_DELAY = 0.5")
    assert stated.max_plan_delay == 0.5
    assert dict(shown_parameters(stated)) == {"RESERVATION": "conservative", "MAX_PLAN_DELAY": "0.5"}
    assert queue("MAX_PLAN_DELAY = 0").max_plan_delay == 0


def test_how_long_they_may_does_not_matter_without_reservations():
    checked = checked_queue("RESERVATION = none", "MAX_PLAN_DELAY = 1")
    assert checked.notes == ["lsb.queues:4: note: MAX_PLAN_DELAY has no effect: RESERVATION is none"]


def test_a_reservation_time_without_reservations_is_noted():
    checked = checked_queue("RESERVATION = none", "SLOT_RESERVE = MAX_RESERVE_TIME[2]")
    assert checked.notes == ["lsb.queues:4: note: SLOT_RESERVE has no effect: RESERVATION is none"]


def test_the_unit_of_reservations_is_not_without_effect():
    params = with_lines("lsb.params", "Begin Parameters", "MBD_SLEEP_TIME = 5", "End Parameters")
    text = "Begin Queue\nQUEUE_NAME = normal\nSLOT_RESERVE = MAX_RESERVE_TIME[2]\nEnd Queue\n"
    checked = check({**params, "lsb.queues": text})
    assert (checked.errors, checked.notes) == ([], [])
    assert checked.config.queues["normal"].reserve_s == 10


def test_gpu_options_that_do_nothing_yet_are_refused():
    assert checked_queue("GPU_REQ = num=1:block=yes:aff=yes").errors == [
        "lsb.queues:3: GPU_REQ: 'num=1:block=yes:aff=yes': block=yes is not supported yet"
    ]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "HOSTS = frnt",
            "HOSTS: host frnt is not defined in lsf.cluster, nor a group of lsb.hosts; did you mean front",
        ),
        ("HOSTS = x*", "HOSTS: no server host of lsf.cluster matches 'x*'"),
        ("HOSTS = h[1", "HOSTS: 'h[1' is not a pattern such as gpu* or gpu[01-16,20]"),
        ("HOSTS = *a*b*", "HOSTS: '*a*b*' has more than 2 stars or 3 ranges"),
        ("HOSTS = ~h1", "HOSTS: '~h1' is neither a list of hosts nor of the form all ~HOST"),
        ("HOSTS = all h1+2", "HOSTS: 'all h1+2' is neither a list of hosts"),
        ("HOSTS = h1 none", "HOSTS: 'h1 none': beside none nothing may stand"),
        ("HOSTS = others", "HOSTS: 'others': others stands once, beside other hosts"),
        ("HOSTS = h1 others others", "HOSTS: 'h1 others others': others stands once, beside other hosts"),
        ("HOSTS = h1+x", "HOSTS: 'x' is not a whole number from 0"),
        ("HOSTS = allremote", "HOSTS: 'allremote': hosts of other clusters are not supported yet"),
        ("HOSTS = h1@far", "HOSTS: 'h1@far': hosts of other clusters are not supported yet"),
        ("HOSTS = front ~front", "HOSTS: 'front ~front' leaves no host"),
        ("USERS = ~ann", "USERS: '~ann' names nobody before '~'"),
        ("USERS = physics ~staff", "USERS: 'physics ~staff' leaves nothing"),
        ("USERS = all ~all", "USERS: 'all ~all' leaves nothing"),
        ("USERS = physics@", "USERS: 'physics@' cannot be the name of a user"),
        ("ADMINISTRATORS = all", "ADMINISTRATORS: 'all': all cannot stand here; name users or groups"),
        ("PJOB_LIMIT = -1", "PJOB_LIMIT: '-1' is not a number from 0 to 1000000"),
        ("TASKLIMIT = 4 2", "TASKLIMIT: '4 2': each number must be at least as large as the one before it"),
        ("TASKLIMIT = 0 2", "TASKLIMIT: '0' is not a whole number from 1 to 1000000"),
        ("TASKLIMIT = 1 2 3 4", "TASKLIMIT: '1 2 3 4' is not of the form [minimum [default]] maximum"),
        ("CPULIMIT = 20 10", "CPULIMIT: the default 20 exceeds the maximum 10"),
        ("CPULIMIT = 20/h1", "CPULIMIT: '20/h1': a limit normalized by a host is not supported yet"),
        ("MEMLIMIT = much", "MEMLIMIT: 'much' is not a size such as 500, 500MB or 16G"),
        ("MEMLIMIT = 0", "MEMLIMIT: '0': a limit of 0 lets nothing run"),
        ("PROCESSLIMIT = 0", "PROCESSLIMIT: '0' is not a whole number from 1"),
        ("CORELIMIT = -1", "CORELIMIT: '-1' is not a size"),
        ("EXCLUSIVE = CU[rack]", "EXCLUSIVE: no compute units are configured (ComputeUnit of lsb.hosts)"),
        ("EXCLUSIVE = CU[rack", "EXCLUSIVE: 'CU[rack' is neither Y nor N"),
        ("EXCLUSIVE = maybe", "EXCLUSIVE: 'maybe' is neither Y nor N"),
        ("RERUNNABLE = 2", "RERUNNABLE: '2' is neither Y nor N"),
        ("REQUEUE_EXIT_VALUES = 256", "REQUEUE_EXIT_VALUES: '256' is not an exit code from 0 to 255"),
        ("REQUEUE_EXIT_VALUES = all 3", "REQUEUE_EXIT_VALUES: '3': after all only ~CODE may stand"),
        ("REQUEUE_EXIT_VALUES = EXCLUDE()", "REQUEUE_EXIT_VALUES: 'EXCLUDE()' names no exit code"),
        ("REQUEUE_EXIT_VALUES = 1 EXCLUDE(2) EXCLUDE(3)", "REQUEUE_EXIT_VALUES: '1 EXCLUDE(2) EXCLUDE(3)': EXCLUDE()"),
        ("REQUEUE_EXIT_VALUES = ~3", "REQUEUE_EXIT_VALUES: '~3' is not an exit code"),
        ("RETRY = gpu_buzy:1", "RETRY: 'gpu_buzy:1': there is no class 'gpu_buzy'; there are not_started"),
        ("RETRY = gpu_busy", "RETRY: 'gpu_busy': CLASS:TIMES is wanted, with a number from 1 to 1000"),
        ("RETRY = killed:1", "RETRY: 'killed:1': a job of the class killed was ended on purpose"),
        ("RETRY = xid:1@other_gpu", "RETRY: 'xid:1@other_gpu': behind @ only other_host may stand"),
        ("MAX_JOB_REQUEUE = -1", "MAX_JOB_REQUEUE: '-1' is not a whole number from 0"),
        ("RUN_WINDOW = 8:00", "RUN_WINDOW: '8:00' is not of the form [day:]hour[:minute]-[day:]hour[:minute]"),
        ("RUN_WINDOW = 8:00-8:00", "RUN_WINDOW: '8:00-8:00' opens and closes at the same time"),
        ("RUN_WINDOW = 7:8:00-1:8:00", "RUN_WINDOW: '7:8:00-1:8:00': 7 is no day from 0 to 6"),
        ("RUN_WINDOW = 8:60-9", "RUN_WINDOW: '8:60-9': 60 is no minute from 0 to 59"),
        ("RUN_WINDOW = 8-24:01", "RUN_WINDOW: '8-24:01': the last minute of a day is 24:00"),
        ("DISPATCH_WINDOW = 8-25", "DISPATCH_WINDOW: '8-25': 25 is no hour from 0 to 24"),
        (
            "mem = 10/50",
            "mem: '10/50': running jobs would be stopped before new ones are held back; loadStop must be b",
        ),
        (
            "r1m = 2/1",
            "r1m: '2/1': running jobs would be stopped before new ones are held back; loadStop must be above",
        ),
        ("r1m = /", "r1m: '/' is not of the form loadSched/loadStop"),
        ("ut = 101", "ut: '101' is neither a fraction from 0 to 1 nor a percentage"),
        ("scratch = x", "scratch: 'x' is not a number"),
        ("tokens = 5", "unknown parameter tokens in section Queue"),
        ("scrach = 5", "unknown parameter scrach in section Queue; did you mean scratch?"),
        ("STOP_COND = select[nosuch>1]", "STOP_COND: Bad resource name: nosuch"),
        ("STOP_COND = mem>1 order[ut]", "STOP_COND: 'mem>1 order[ut]' is not one condition"),
        ("RESUME_COND = rusage[mem=1]", "RESUME_COND: 'rusage[mem=1]' is not one condition"),
        ("RESUME_COND = mem>", "RESUME_COND: Bad resource requirement syntax"),
        ("FAIRSHARE = SHARES[[a,1]]", "FAIRSHARE: 'SHARES[[a,1]]' is not of the form USER_SHARES[[NAME, SHARES] ...]"),
        ("FAIRSHARE = USER_SHARES[]", "FAIRSHARE: nobody has a share"),
        ("FAIRSHARE = USER_SHARES[[a,0]]", "FAIRSHARE: '0' is not a whole number from 1"),
        ("FAIRSHARE = USER_SHARES[[a,1] [a,2]]", "FAIRSHARE: a has two shares"),
        ("FAIRSHARE = USER_SHARES[[a,1] b]", "FAIRSHARE: 'b' is not of the form [NAME, SHARES]"),
        ("FAIRSHARE = USER_SHARES[[phsics@,1]]", "FAIRSHARE: phsics@: there is no user group phsics in lsb.users; did"),
        ("RESERVATION = strict", "RESERVATION: 'strict' is not none, easy, conservative or conservative[NUMBER]"),
        ("RESERVATION = easy[2]", "RESERVATION: 'easy[2]' is not none, easy, conservative or conservative[NUMBER]"),
        ("RESERVATION = conservative[1]", "RESERVATION: conservative[1]: the number must be from 2 to 1000"),
        ("MAX_PLAN_DELAY = -1", "MAX_PLAN_DELAY: '-1' is not a number from 0 to 1000"),
        ("MAX_PLAN_DELAY = long", "MAX_PLAN_DELAY: 'long' is not a number"),
        ("PREEMPTION = PREEMPTS[low]", "PREEMPTION: 'PREEMPTS[low]' is neither PREEMPTIVE[QUEUE ...] nor PREEMPTABLE"),
        ("PREEMPTION = PREEMPTIVE[a] PREEMPTIVE[b]", "PREEMPTION: PREEMPTIVE is given twice"),
        (
            "PREEMPTION = PREEMPTIVE[normla]",
            "PREEMPTION: queue normla is not defined in lsb.queues; did you mean norma",
        ),
        ("PREEMPTION = PREEMPTABLE[normal]", "PREEMPTION: queue normal names itself"),
        ("PREEMPTION = PREEMPTIVE[a+x]", "PREEMPTION: 'x' is not a whole number"),
        ("BACKFILL = perhaps", "BACKFILL: 'perhaps' is neither Y nor N"),
        ("DEFAULT_RUNLIMIT = 0", "DEFAULT_RUNLIMIT: '0': a run limit is at least one minute"),
        ("DEFAULT_RUNLIMIT = 0:00", "DEFAULT_RUNLIMIT: '0:00': a run limit is at least one minute"),
        ("DEFAULT_RUNLIMIT = 10 60", "DEFAULT_RUNLIMIT: '10 60' is not a run limit of the form [hours:]minutes"),
        ("DEFAULT_RUNLIMIT = -5", "DEFAULT_RUNLIMIT: '-5' is not a run limit of the form [hours:]minutes"),
        ("DEFAULT_RUNLIMIT = 5/h1", "DEFAULT_RUNLIMIT: '5/h1': a limit normalized by a host is not supported yet"),
        ("SLOT_RESERVE = 5", "SLOT_RESERVE: '5' is not of the form MAX_RESERVE_TIME[NUMBER]"),
        ("RESOURCE_RESERVE = MAX_RESERVE_TIME[0]", "RESOURCE_RESERVE: 'MAX_RESERVE_TIME[0]' is not of the form"),
        ("NEW_JOB_SCHED_DELAY = -1", "NEW_JOB_SCHED_DELAY: '-1' is not a number of seconds"),
        ("JOB_ACCEPT_INTERVAL = x", "JOB_ACCEPT_INTERVAL: 'x' is not a number"),
        ("GPU_REQ = num=0", "GPU_REQ: 'num=0' asks for no GPU and has no meaning here"),
        ("GPU_REQ = -", "GPU_REQ: '-' asks for what the levels below say"),
        ("GPU_REQ = num=2:mps=per_gpu", "GPU_REQ: 'num=2:mps=per_gpu': mps=per_gpu is not supported yet"),
        ("RES_REQ = 2*{select[nosuch]} + 1*{order[ut]}", "RES_REQ: Bad resource name: nosuch"),
        ("RES_REQ = {mem>1} || {rusage[tokens=1]}@5", "RES_REQ: Bad resource name: tokens is not consumable"),
        ("RES_REQ = rusage[mem=1 || tokens=1]", "RES_REQ: Bad resource name: tokens is not consumable"),
        ("RES_REQ = rusage[ngpuprohibited=1]", "RES_REQ: Bad resource name: ngpuprohibited"),
        ("RES_REQ = rusage[ngpus_physical=0.5]", "RES_REQ: Bad resource requirement syntax: ngpus_physical=0.5: GPUs"),
        ("RES_REQ = order[fabric]", "RES_REQ: Bad resource name: order[fabric]: fabric is not a number to sort by"),
        ("RES_REQ = cu[type=rack]", "RES_REQ: Bad resource name: cu[type=rack]: no compute units are configured"),
        (
            "RES_REQ = affinity[socket(1,same=core)]",
            "RES_REQ: Bad resource requirement syntax: Error in affinity section: same=core says nothing of sockets",
        ),
        ("JOB_IDLE = 1.5", "JOB_IDLE: '1.5' is not a number from 0 to 1"),
        ("JOB_OVERRUN = 0", "JOB_OVERRUN: '0' is not a whole number from 1 to"),
        ("JOB_UNDERRUN = 1:30", "JOB_UNDERRUN: '1:30' is not a whole number from 1 to"),
        ("WATCHDOG = 1", "WATCHDOG is not supported yet"),
        ("MAX_JOB_PREEMPT = 0", "MAX_JOB_PREEMPT: '0' is not a whole number from 1 to 2147483646"),
    ],
)
def test_a_line_that_is_refused(line, error):
    errors = checked_queue(line).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.queues:3: {error}"), errors[0]


def test_both_names_of_a_limit_and_a_threshold_twice():
    assert checked_queue("TASKLIMIT = 4", "PROCLIMIT = 4", "r1m = 1", "R1M = 2").errors == [
        "lsb.queues:4: PROCLIMIT is the older name of TASKLIMIT; only one of them may be set",
        "lsb.queues:6: r1m is set twice (first at line 5)",
    ]


def test_factors_of_fairshare_in_a_queue():
    read = queue(
        "FAIRSHARE = USER_SHARES[[default, 1]]",
        "RUN_TIME_FACTOR = 1.5",
        "GPU_RUN_TIME_FACTOR = 2",
        "HIST_HOURS = 0",
        "ENABLE_HIST_RUN_TIME = Y",
    )
    assert read.factors == {"run_time": 1.5, "gpu_run_time": 2, "hist_hours": 0, "hist_run_time": True}
    of_queue = factors_of({"cpu_time": 9, "run_time": 9}, read, ())
    assert (of_queue.cpu_time, of_queue.run_time, of_queue.hist_run_time) == (9, 1.5, True)
    assert factors_of({"cpu_time": 9}, Queue(name="plain"), ()) == FairshareFactors(cpu_time=9)


def test_an_estimate_for_jobs_without_a_run_limit():
    read = queue("DEFAULT_RUNLIMIT = 1:30")
    assert (read.estimate_s, read.run_limit_s, read.default_run_limit_s) == (5400, None, None)
    assert dict(shown_parameters(read)) == {"DEFAULT_RUNLIMIT": "90 min"}


@pytest.mark.parametrize("limit", ["2:00", "10 2:00"])
def test_an_estimate_where_every_job_has_a_run_limit(limit):
    assert checked_queue(f"RUNLIMIT = {limit}", "DEFAULT_RUNLIMIT = 2:00").notes == [
        "lsb.queues:4: note: DEFAULT_RUNLIMIT has no effect: RUNLIMIT gives every job of the queue a limit"
    ]
    assert checked_queue("DEFAULT_RUNLIMIT = 2:01", f"RUNLIMIT = {limit}").errors == [
        "lsb.queues:3: DEFAULT_RUNLIMIT: 121 min exceed the 120 min of RUNLIMIT"
    ]


def test_factors_without_fairshare_are_noted():
    assert checked_queue("RUN_JOB_FACTOR = 1").notes == [
        "lsb.queues:3: note: RUN_JOB_FACTOR has no effect: the queue has no FAIRSHARE"
    ]
