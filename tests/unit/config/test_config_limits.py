"""lsb.resources: limits, budgets of GPU hours, and how resources are reserved."""

from __future__ import annotations

import pytest
from config_texts import BASE, check

from gsched.model.queues.limit import Amount, Consumers, Limit
from gsched.model.queues.window import Window, windows_text

HOST_BY_HOST = "SLOTS_PER_PROCESSOR is counted host by host: PER_HOST is missing"
OTHERS = {
    "lsb.applications": "Begin Application\nNAME = fluent\nEnd Application\n",
    "lsb.users": "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (ann bob)\nEnd UserGroup\n",
    "lsb.hosts": BASE["lsb.hosts"] + "Begin HostGroup\nGROUP_NAME GROUP_MEMBER\nfront (h1 h2)\nEnd HostGroup\n",
}


def resources(text: str):
    return check({**OTHERS, "lsb.resources": text})


def limit(*lines: str) -> Limit:
    checked = resources("\n".join(["Begin Limit", "NAME = x", *lines, "End Limit"]))
    assert (checked.errors, checked.notes) == ([], [])
    (found,) = checked.config.limits
    return found


def test_a_limit_with_everything():
    found = limit(
        "PER_USER = all ~staff",
        "QUEUES = normal",
        "PER_HOST = front ~h2",
        "PROJECTS = p1 p2",
        "SLOTS = [20 09:00-17:00] [10 17:00-09:00]",
        "JOBS = 3",
        "MEM = 16G",
        "SWP = 100",
        "TMP = 1G",
        "ngpus = 4",
        "RESOURCE = [scratch, 5] [lic,2.5]",
    )
    assert found == Limit(
        name="x",
        users=Consumers((), ("ann", "bob"), True),
        queues=Consumers(("normal",)),
        hosts=Consumers(("h1",), (), True),
        projects=Consumers(("p1", "p2")),
        amounts={
            "slots": (Amount(20, (Window(540, 1020),)), Amount(10, (Window(1020, 540),))),
            "jobs": (Amount(3),),
            "mem": (Amount(16384),),
            "swp": (Amount(100),),
            "tmp": (Amount(1024),),
            "ngpus": (Amount(4),),
            "scratch": (Amount(5),),
            "lic": (Amount(2.5),),
        },
        source="/conf/lsb.resources:1",
    )


@pytest.mark.parametrize("line", ["ngpus_physical = 2", "RESOURCE = [ngpus_physical,2]", "RESOURCE = [ngpus,2]"])
def test_gpus_are_counted_under_one_name(line):
    assert limit(line).amounts == {"ngpus": (Amount(2),)}


@pytest.mark.parametrize(
    ("line", "users"),
    [
        ("USERS = staff", Consumers(("ann", "bob"))),
        ("PER_USER = all", Consumers((), (), True)),
        ("USERS = staff ~ann tom", Consumers(("bob", "tom"))),
    ],
)
def test_users_of_a_limit(line, users):
    assert limit(line, "SLOTS = 1").users == users


@pytest.mark.parametrize(("text", "window"), [("7d", 604800), ("24h", 86400), ("90m", 5400), ("2W", 1209600)])
def test_a_budget_of_gpu_hours(text, window):
    found = limit("PER_PROJECT = all", "GPU_HOURS = 100.5", f"WINDOW = {text}")
    assert (found.gpu_hours, found.budget_window_s, found.amounts) == (100.5, window, {})
    assert found.projects == Consumers((), (), True)


def test_a_table_of_limits():
    text = "\n".join(
        [
            "Begin Limit",
            "NAME USERS PER_QUEUE HOSTS SLOTS ngpus RESOURCE",
            "one (ann tom) - (all ~h1) 4 - ()",
            "() staff normal () () (2) ([lic,1])",
            "End Limit",
        ]
    )
    checked = resources(text)
    assert (checked.errors, checked.notes) == ([], [])
    one, two = checked.config.limits
    assert (one.name, one.users, one.queues) == ("one", Consumers(("ann", "tom")), None)
    assert one.hosts == Consumers((), ("h1",))
    assert one.amounts == {"slots": (Amount(4),)}
    assert (two.name, two.users, two.hosts) == ("NONAME001", Consumers(("ann", "bob")), None)
    assert two.queues == Consumers(("normal",), (), True)
    assert two.amounts == {"ngpus": (Amount(2),), "lic": (Amount(1),)}
    assert two.source == "/conf/lsb.resources:4"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("USERS = all bob", "USERS: 'all bob': beside all only ~NAME may stand"),
        ("PER_USER = staff ~staff", "PER_USER: 'staff ~staff' leaves nothing"),
        ("QUEUES = norml", "QUEUES: queue norml is not defined in lsb.queues; did you mean normal?"),
        (
            "HOSTS = fron",
            "HOSTS: host fron is not defined in lsf.cluster, nor a group of lsb.hosts; did you mean front?",
        ),
        ("HOSTS = all ~h1 ~h2 ~h3", "HOSTS: 'all ~h1 ~h2 ~h3' leaves no host"),
        ("JOBS = -1", "JOBS: '-1' is not a whole number from 0"),
        ("JOBS = 1.5", "JOBS: '1.5' is not a whole number from 0"),
        ("MEM = 50%", "MEM: a part of what a host has is counted host by host: PER_HOST is missing"),
        ("TMP = 101%", "TMP: '101' is not a number from 0 to 100"),
        ("RESOURCE = [mem, 5%]", "RESOURCE: '5%': a part of what a host has is written MEM = 50%"),
        ("ngpus = -2", "ngpus: '-2' is not a number from 0"),
        ("JOBS = [5]", "JOBS: a time window is missing"),
        ("JOBS = [5 9-17] 3", "JOBS: '3' is not of the form [AMOUNT START-END ...]"),
        ("JOBS = [5 9-33]", "JOBS: '9-33': 33 is no hour"),
        ("RESOURCE = lic", "RESOURCE: 'lic' is not of the form [RESOURCE, AMOUNT]"),
        ("RESOURCE = [licc,1]", "RESOURCE: resource licc is not defined in lsf.shared; did you mean lic?"),
        ("RESOURCE = [tokens,1]", "RESOURCE: resource tokens is not consumable: jobs cannot hold it"),
        ("RESOURCE = [ngpus_excl_p,1]", "RESOURCE: ngpus_excl_p: limit ngpus instead"),
        ("RESOURCE = [mem,1] [mem,2]", "mem is limited twice"),
        ("GPU_HOURS = 5", "GPU_HOURS needs the time over which they count: WINDOW = 7d, say"),
        ("WINDOW = 5d", "WINDOW belongs to GPU_HOURS, which is not set"),
        ("JOBS_PER_SCHED_CYCLE = 1", "JOBS_PER_SCHED_CYCLE is not supported yet: a cycle looks at jobs that are alike"),
        (
            "PER_APP = fluen",
            "PER_APP: application profile fluen is not defined in lsb.applications; did you mean fluent?",
        ),
        ("LICENSE = [a,1]", "LICENSE is not supported yet: use RESOURCE = [NAME, AMOUNT]"),
        ("SLOT = 3", "unknown parameter SLOT in section Limit; did you mean SLOTS?"),
        ("NAME = y", "NAME is set twice (first at line 2)"),
    ],
)
def test_a_line_of_a_limit_that_is_refused(line, error):
    errors = resources("\n".join(["Begin Limit", "NAME = x", line, "SLOTS = 1", "End Limit"])).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.resources:3: {error}"), errors[0]


def test_limits_that_contradict_themselves():
    text = "\n".join(
        [
            "Begin Limit",
            "SLOTS = 1",
            "USERS = a",
            "PER_USER = b",
            "End Limit",
            "Begin Limit",
            "NAME = x",
            "End Limit",
            "Begin Limit",
            "NAME = x",
            "GPU_HOURS = 1",
            "WINDOW = forever",
            "HOSTS = h1",
            "End Limit",
        ]
    )
    assert resources(text).errors == [
        "lsb.resources:1: the limit has no NAME",
        "lsb.resources:4: USERS and PER_USER cannot both be set in one limit",
        "lsb.resources:6: limit x limits nothing; SLOTS, JOBS, ngpus, MEM, RESOURCE … are missing",
        "lsb.resources:9: GPU_HOURS are counted for users, projects and queues, not for hosts",
        "lsb.resources:9: limit x is defined twice (first at lsb.resources:6)",
        "lsb.resources:12: WINDOW: 'forever' is not a length of time such as 90m, 24h or 7d",
    ]


def test_how_resources_are_reserved():
    rows = "lic PER_JOB Y\nscratch PER_HOST ()\nmem per_slot -\nngpus_physical PER_TASK Y"
    checked = resources(f"Begin ReservationUsage\nRESOURCE METHOD RESERVE\n{rows}\nEnd ReservationUsage\n")
    assert (checked.errors, checked.notes) == ([], [])
    assert checked.config.reservation_method == {
        "lic": "job",
        "scratch": "host",
        "mem": "task",
        "ngpus_physical": "task",
    }


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("licc PER_JOB Y", "RESOURCE: resource licc is not defined in lsf.shared; did you mean lic?"),
        ("tokens PER_JOB Y", "RESOURCE: resource tokens is not consumable"),
        ("lic PER_CPU Y", "METHOD: 'PER_CPU' is none of PER_JOB, PER_TASK and PER_HOST"),
        ("lic () Y", "METHOD: PER_JOB, PER_TASK or PER_HOST is missing"),
        ("lic PER_JOB N", "RESERVE: N is not supported yet"),
        ("lic PER_JOB 3", "RESERVE: '3' is neither Y nor N"),
        ("ngpus_physical PER_JOB Y", "METHOD: ngpus_physical is counted PER_HOST or PER_TASK"),
        ("scratch PER_JOB Y", "RESOURCE: scratch is given twice"),
    ],
)
def test_a_reservation_that_is_refused(row, error):
    table = f"Begin ReservationUsage\nRESOURCE METHOD RESERVE\nscratch PER_HOST ()\n{row}\nEnd ReservationUsage\n"
    errors = resources(table).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.resources:4: {error}"), errors[0]


def test_other_sections_of_lsb_resources():
    text = "Begin PowerPolicy\nNAME = x\nEnd PowerPolicy\nBegin Limits\nEnd Limits\nBegin HostExport\nEnd HostExport\n"
    assert resources(text).errors == [
        "lsb.resources:1: section PowerPolicy is not supported yet; it must be empty: "
        "hosts are not switched off to save power",
        "lsb.resources:4: unknown section Limits in lsb.resources; it holds Limit, ReservationUsage, "
        "ResourceReservation and GuaranteedResourcePool",
    ]


def test_a_changed_limit_changes_the_digest():
    one, other = (resources(f"Begin Limit\nNAME = x\nSLOTS = {slots}\nEnd Limit\n") for slots in (1, 2))
    assert one.config.digest != other.config.digest != check(OTHERS).config.digest


def test_slots_for_each_cpu_of_a_host():
    found = limit("PER_HOST = front", "USERS = ann", "SLOTS_PER_PROCESSOR = 0.5")
    assert found.amounts == {"slots_per_processor": (Amount(0.5),)}


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (
            ("HOSTS = front", "SLOTS_PER_PROCESSOR = 1"),
            "SLOTS_PER_PROCESSOR is counted host by host: PER_HOST is missing",
        ),
        (
            ("USERS = ann", "SLOTS_PER_PROCESSOR = 1"),
            "SLOTS_PER_PROCESSOR is counted host by host: PER_HOST is missing",
        ),
        (
            ("PER_HOST = all", "SLOTS_PER_PROCESSOR = 1", "SLOTS = 3"),
            "SLOTS and SLOTS_PER_PROCESSOR cannot both be set in one limit",
        ),
    ],
)
def test_slots_for_each_cpu_need_hosts_that_are_told_apart(lines, error):
    (said,) = resources("\n".join(["Begin Limit", "NAME = x", *lines, "End Limit"])).errors
    assert said == f"lsb.resources:4: {error}"


def test_parts_of_what_a_host_has_and_application_profiles():
    found = limit("PER_HOST = front", "PER_APP = all ~fluent", "MEM = [50% 9:00-17:00] [8G 17:00-9:00]", "SWP = 2.5%")
    assert found.applications == Consumers((), ("fluent",), True)
    assert found.amounts == {
        "mem": (Amount(8192, (Window(1020, 540),)),),
        "mem%": (Amount(50, (Window(540, 1020),)),),
        "swp%": (Amount(2.5),),
    }
    (said,) = resources("Begin Limit\nNAME = x\nAPPS = fluent\nGPU_HOURS = 3\nWINDOW = 7d\nEnd Limit\n").errors
    assert said.endswith("GPU_HOURS are counted for users, projects and queues, not for application profiles")


def test_sections_are_kept_as_they_were_written():
    text = "Begin Limit\nName = x\nPER_USER = all ~staff\nngpus = [2 8:00-9:00]\nEnd Limit\n"
    table = "Begin Limit\nUSERS SLOTS MEM\n(ann bob) 3 -\nEnd Limit\n"
    assert resources(text + table).config.limit_settings == {
        "x": ("Name = x", "PER_USER = all ~staff", "ngpus = [2 8:00-9:00]"),
        "NONAME001": ("USERS = ann bob", "SLOTS = 3"),
    }


def test_who_may_make_advance_reservations_where_and_when():
    section = (
        "Begin ResourceReservation\nNAME = lab\nUSERS = ann eve\nHOSTS = h1 h2\nTIME_WINDOW = 5:18:00-1:8:00 20-6\n"
        "End ResourceReservation\nBegin ResourceReservation\nNAME = most\nUSERS = all ~bob\nEnd ResourceReservation\n"
    )
    lab, most = check({"lsb.resources": section}).config.reservation_policies
    assert (lab.users, lab.hosts) == (("ann", "eve"), ("h1", "h2"))
    assert windows_text(lab.windows) == "5:18:00-1:8:00 20:00-6:00"
    assert (most.users, most.excluded_users, most.hosts, most.windows) == (None, ("bob",), None, ())
    assert (lab.users_text, lab.hosts_text, lab.times_text) == ("ann eve", "h1 h2", "5:18:00-1:8:00 20-6")
    assert (most.users_text, most.hosts_text, most.times_text) == ("all ~bob", "", "")
    assert lab.is_for("ann") and not lab.is_for("joe") and most.is_for("joe") and not most.is_for("bob")
    assert lab.has_hosts(["h1"]) and not lab.has_hosts(["h1", "h3"]) and most.has_hosts(["h3"])


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("USERS = ann\n", "lsb.resources:1: the policy of reservations has no NAME"),
        ("NAME = a\nHOSTS = nosuch\n", "lsb.resources:3: HOSTS: host nosuch is not defined in lsf.cluster"),
        ("NAME = a\nWHEN = never\n", "lsb.resources:3: unknown parameter WHEN in section ResourceReservation"),
    ],
)
def test_a_policy_of_reservations_that_is_wrong_is_refused(lines, error):
    errors = check({"lsb.resources": f"Begin ResourceReservation\n{lines}End ResourceReservation\n"}).errors
    assert len(errors) == 1 and errors[0].startswith(error)
