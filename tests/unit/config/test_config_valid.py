"""Random files: those that follow the rules load and mean what they say; no text at all brings a traceback."""

from __future__ import annotations

import re

from config_texts import BASE
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.config.configuration import check_texts
from gsched.config.template import _LSB_RESOURCES, NewConfiguration, private_texts
from gsched.model.config import Locations
from tests.support.property_examples import examples

_USERS = ("ann", "bob", "eve")
_HOSTS = ("h1", "h2", "h3")
_YES_NO = st.sampled_from(["Y", "N", "yes", "no"])
_COUNT = st.integers(0, 10**6).map(str)
_MINUTES = st.integers(1, 10**5)


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    return st.integers(low, high).map(str)


def _ascending(count: int) -> st.SearchStrategy[str]:
    numbers = st.lists(st.integers(1, 10**5), min_size=1, max_size=count)
    return numbers.map(lambda found: " ".join(str(number) for number in sorted(found)))


_TIMES = st.tuples(st.integers(0, 23), st.integers(0, 59))
_WINDOW = (
    st.tuples(_TIMES, _TIMES)
    .filter(lambda both: both[0] != both[1])
    .map(lambda both: f"{both[0][0]}:{both[0][1]:02}-{both[1][0]}:{both[1][1]:02}")
)
_WINDOWS = st.lists(_WINDOW, min_size=1, max_size=4).map(" ".join)
_CHOICE = st.sampled_from(["all", "all ~eve", "ann bob", "staff", "staff ~ann", "staff tom"])
_PREFERRED = st.tuples(st.sampled_from([*_HOSTS, "front", "h[1-2]"]), st.sampled_from(["", "+", "+3"])).map("".join)
_HOST_LIST = st.one_of(
    st.sampled_from(["all", "none", "all ~h1", "all ~front"]),
    st.lists(_PREFERRED, min_size=1, max_size=3).map(" ".join),
    _PREFERRED.map(lambda word: f"{word} others+1"),
)
_SHARES = st.lists(
    st.sampled_from([*_USERS, "staff", "staff@", "default", "others"]), min_size=1, max_size=4, unique=True
).flatmap(
    lambda names: st.lists(st.integers(1, 99), min_size=len(names), max_size=len(names)).map(
        lambda shares: " ".join(f"[{name}, {share}]" for name, share in zip(names, shares, strict=True))
    )
)

_QUEUE = st.fixed_dictionaries(
    {},
    optional={
        "PRIORITY": _numbers(1, 1000),
        "HOSTS": _HOST_LIST,
        "USERS": _CHOICE,
        "ADMINISTRATORS": st.sampled_from(["ann", "staff bob"]),
        "QJOB_LIMIT": _COUNT,
        "UJOB_LIMIT": _COUNT,
        "PJOB_LIMIT": st.sampled_from(["0", "1", "0.5"]),
        "TASKLIMIT": _ascending(3),
        "RUNLIMIT": _ascending(2),
        "DEFAULT_RUNLIMIT": st.sampled_from(["1", "0:01"]),
        "CPULIMIT": _ascending(2),
        "MEMLIMIT": _ascending(2),
        "CORELIMIT": _COUNT,
        "RUN_WINDOW": _WINDOWS,
        "DISPATCH_WINDOW": _WINDOWS,
        "r1m": st.sampled_from(["1/2", "0.5", "/3"]),
        "mem": st.sampled_from(["500/100", "1G", "/5"]),
        "scratch": st.sampled_from(["50/10", "5"]),
        "STOP_COND": st.sampled_from(["select[ut>0.9]", "mem<100 && scratch<5"]),
        "EXCLUSIVE": _YES_NO,
        "RERUNNABLE": _YES_NO,
        "BACKFILL": _YES_NO,
        "REQUEUE_EXIT_VALUES": st.sampled_from(["1 2 255", "all", "all ~0 EXCLUDE(5)", "EXCLUDE(all ~1)"]),
        "MAX_JOB_REQUEUE": _COUNT,
        "RETRY": st.sampled_from(["gpu_busy:2", "xid:3@other_host nccl_timeout:1"]),
        "GPU_IDLE": st.sampled_from(["action=notify", "window=1h util<2% exempt=user:ann,interactive ok=yes"]),
        "FAIRSHARE": _SHARES.map(lambda shares: f"USER_SHARES[{shares}]"),
        "PREEMPTION": st.sampled_from(["PREEMPTIVE", "PREEMPTIVE[other+2]", "PREEMPTABLE[other] PREEMPTIVE[other]"]),
        "SLOT_RESERVE": _numbers(1, 999).map(lambda times: f"MAX_RESERVE_TIME[{times}]"),
        "NEW_JOB_SCHED_DELAY": _COUNT,
        "JOB_ACCEPT_INTERVAL": _numbers(0, 9),
        "GPU_REQ": st.sampled_from(["num=2", "num=1/task:mode=exclusive_process", "share=0.25"]),
        "RES_REQ": st.sampled_from(["mem>5", "select[mem>1] rusage[scratch=2]", "{mem>1} || {ut<0.5}@60"]),
    },
)
_CONSUMERS = {
    "USERS": _CHOICE,
    "QUEUES": st.sampled_from(["all", "normal", "all ~other"]),
    "HOSTS": st.sampled_from(["all", "h1 front", "all ~front", "h*"]),
    "PROJECTS": st.sampled_from(["all", "p1 p2", "all ~p1"]),
}
_LIMIT = st.tuples(
    st.fixed_dictionaries({}, optional=_CONSUMERS),
    st.sets(st.sampled_from(sorted(_CONSUMERS))),
    st.fixed_dictionaries(
        {"SLOTS": _COUNT | st.tuples(_COUNT, _WINDOWS).map(lambda both: f"[{both[0]} {both[1]}]")},
        optional={
            "JOBS": _COUNT,
            "MEM": st.sampled_from(["16G", "500"]),
            "ngpus": _COUNT,
            "RESOURCE": st.just("[lic,2] [scratch,5]"),
        },
    ),
)
_PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "MAX_JOB_ARRAY_SIZE": _numbers(1, 10**9),
        "MAX_USER_PRIORITY": _numbers(1, 1000),
        "JOB_PRIORITY_OVER_TIME": st.just("3/20"),
        "GPU_REQ_MERGE": _YES_NO,
        "GPU_PLACEMENT": st.sampled_from(["pack", "scarce"]),
        "PREEMPT_ACTION": st.sampled_from(["suspend", "requeue"]),
        "HIST_HOURS": _COUNT,
        "RUN_TIME_FACTOR": _COUNT,
        "MIN_RUN_BEFORE_PREEMPT": _COUNT,
        "GPU_GROW_INTERVAL": _COUNT,
    },
)


def _section(name: str, values: dict[str, str], *first: str) -> str:
    return "\n".join([f"Begin {name}", *first, *(f"{key} = {value}" for key, value in values.items()), f"End {name}\n"])


def _limit_lines(each: tuple[dict[str, str], set[str], dict[str, str]]) -> dict[str, str]:
    """One Limit's lines; the kinds in the set are counted for each member (PER_USER instead of USERS)."""
    consumers, per, amounts = each
    return {(f"PER_{kind[:-1]}" if kind in per else kind): text for kind, text in consumers.items()} | amounts


@settings(max_examples=examples(50), deadline=None)
@given(_QUEUE, st.lists(_LIMIT, max_size=3), _PARAMS)
def test_files_that_follow_the_rules_load(queue, limits, params):
    texts = {
        **BASE,
        "lsb.params": _section("Parameters", params, "DEFAULT_QUEUE = normal"),
        "lsb.queues": _section("Queue", queue, "QUEUE_NAME = normal")
        + "Begin Queue\nQUEUE_NAME = other\nPRIORITY = 7\nEnd Queue\n",
        "lsb.users": "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nstaff (ann bob)\nEnd UserGroup\n",
        "lsb.hosts": BASE["lsb.hosts"] + "Begin HostGroup\nGROUP_NAME GROUP_MEMBER\nfront (h1 h2)\nEnd HostGroup\n",
        "lsb.resources": "".join(
            _section("Limit", _limit_lines(each), f"NAME = l{number}") for number, each in enumerate(limits)
        ),
    }
    loaded = check_texts("/conf", texts)
    assert [str(problem) for problem in loaded.problems if problem.severity == "error"] == []
    config = loaded.required()
    read = config.queues["normal"]
    assert len(config.limits) == len(limits)
    assert set(read.hosts or ()) <= set(_HOSTS)
    assert set(read.host_levels) <= set(read.hosts or ())
    assert bool(read.run_window) == ("RUN_WINDOW" in queue)
    assert len(read.fairshare or ()) == queue.get("FAIRSHARE", "").count(",")
    for limit in config.limits:
        assert set(limit.hosts.names if limit.hosts else ()) <= set(_HOSTS)


_WORDS = """
    Begin End Queue Limit User UserGroup Host HostGroup ComputeUnit ReservationUsage Parameters = ( ) () [ ] @ ~ ! - + %
    NAME MEMBER TYPE GROUP_NAME GROUP_MEMBER USER_SHARES GROUP_ADMIN USER_NAME MAX_JOBS JL/P MAX_PEND_JOBS HOST_NAME MXJ
    QUEUE_NAME HOSTS USERS FAIRSHARE PREEMPTION RUN_WINDOW SLOT_RESERVE TASKLIMIT MEMLIMIT REQUEUE_EXIT_VALUES GPU_REQ
    STOP_COND mem r1m ut scratch PER_USER SLOTS JOBS RESOURCE GPU_HOURS WINDOW METHOD RESERVE PER_JOB ngpus_physical
    all none others default h1 h[1-2] h* a b g g@ a+1 others+2 ~a ~all [a,1] USER_SHARES[[a,1]] PREEMPTIVE[low+1]
    8:00-17:00 6:23:59-0:0:00 [5 MAX_RESERVE_TIME[3] 10/5 7d 24h 1 -1 999999999999999999999 num=1:mode=shared EXCLUDE(
"""
_TEXT = st.lists(st.sampled_from([*_WORDS.split(), *"\n" * 20]), max_size=60).map(" ".join) | st.text(max_size=80)
_FILES = ("lsb.queues", "lsb.users", "lsb.hosts", "lsb.resources", "lsb.params")
_OPENINGS = {
    "lsb.queues": "Begin Queue\nQUEUE_NAME = q\n",
    "lsb.users": "Begin UserGroup\nGROUP_NAME GROUP_MEMBER USER_SHARES\n",
    "lsb.hosts": "Begin HostGroup\nGROUP_NAME GROUP_MEMBER\n",
    "lsb.resources": "Begin Limit\nNAME = l\n",
    "lsb.params": "Begin Parameters\n",
}


@settings(max_examples=examples(100), deadline=None)
@given(st.dictionaries(st.sampled_from(_FILES), st.tuples(st.booleans(), _TEXT), min_size=1))
def test_no_text_brings_a_traceback(changes):
    texts = {name: (_OPENINGS[name] if opened else "") + text for name, (opened, text) in changes.items()}
    loaded = check_texts("/conf", {**BASE, **texts})
    assert (loaded.config is None) == any(problem.severity == "error" for problem in loaded.problems)
    for problem in loaded.problems:
        assert problem.text
        assert "\n" not in str(problem)


_VALUE = _TEXT.map(
    lambda text: "".join(each for each in text if each not in "\n\0#\\" and not "\ud800" <= each < "\ue000")
)
_KEYS = "HOSTS USERS FAIRSHARE PREEMPTION RUN_WINDOW TASKLIMIT MEMLIMIT REQUEUE_EXIT_VALUES STOP_COND mem"


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from(sorted(_KEYS.split())), _VALUE)
def test_what_is_wrong_with_a_value_is_said_at_its_line_and_name(key, value):
    text = f"Begin Queue\nQUEUE_NAME = normal\n{key} = {value}\nEnd Queue\n"
    loaded = check_texts("/conf", {**BASE, "lsb.queues": text})
    assert {(problem.line, problem.text.split(":")[0]) for problem in loaded.problems} <= {(3, key)}


def test_the_examples_in_a_private_lsb_resources_work_once_uncommented():
    folders = Locations(conf_dir="/conf", state_dir="/s", log_dir="/l", server_dir="/e", run_dir="/r", spool_dir="/p")
    texts = private_texts(NewConfiguration(cluster="c", hosts=["h1"], slots=4, folders=folders, gpu_provider="none"))
    assert check_texts("/conf", texts).required().limits == ()
    texts["lsb.resources"] = re.sub(r"(?m)^#(?=\S)", "", _LSB_RESOURCES)
    limits = check_texts("/conf", texts).required().limits
    assert [(limit.name, limit.gpu_hours) for limit in limits] == [("gpus_of_one_user", None), ("budget", 100)]
