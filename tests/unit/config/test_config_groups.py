"""Groups of hosts and users, compute units, rows for groups, and what lsb.users limits."""

from __future__ import annotations

import pytest
from config_texts import BASE, check
from hypothesis import given
from hypothesis import strategies as st

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import Findings, SourcePlace
from gsched.config.names.grouping import Definition, matching, resolve
from gsched.model.queues.queue import Threshold
from gsched.model.queues.user import Share, UserLimits
from gsched.model.queues.window import Window

HOSTS = "Begin Host\nHOST_NAME MXJ\ndefault !\nEnd Host\n"


def table(section: str, *rows: str) -> str:
    return "\n".join([f"Begin {section}", *rows, f"End {section}", ""])


def host_groups(*rows: str):
    """BASE with these groups; the first row is line 3 of lsb.hosts."""
    return check({"lsb.hosts": table("HostGroup", "GROUP_NAME GROUP_MEMBER", *rows) + HOSTS})


def user_groups(*rows: str):
    return check({"lsb.users": table("UserGroup", "GROUP_NAME GROUP_MEMBER USER_SHARES GROUP_ADMIN", *rows)})


def test_host_groups_hold_groups_in_any_order():
    checked = host_groups("both (left right)", "left (h1)", "right h2", "rest (all ~both)", "named (h*)", "nums h[2-3]")
    assert checked.errors == []
    assert checked.config.host_groups == {
        "both": ("h1", "h2"),
        "left": ("h1",),
        "right": ("h2",),
        "rest": ("h3",),
        "named": ("h1", "h2", "h3"),
        "nums": ("h2", "h3"),
    }


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (["g (h1 h9)"], "3: host group g: host h9 is not defined in lsf.cluster, nor a group of lsb.hosts"),
        (["g (client)"], "3: host group g: host client is a client (server 0) and runs no jobs"),
        (["g (g)"], "3: host group g holds itself: g > g"),
        (["a (b)", "b (h1 c)", "c (a)"], "3: host group a holds itself: a > b > c > a"),
        (["g ()"], "3: GROUP_MEMBER: no host is named"),
        (["g (h1 !)"], "3: group g: '!' stands alone: (!) has the program egroup list the members"),
        (["h1 (h2)"], "3: GROUP_NAME: h1 is the name of a host already"),
        (["all (h2)"], "3: GROUP_NAME: 'all' cannot be the name of a group"),
        (["g (h1)", "g (h2)"], "4: GROUP_NAME: g is defined twice (first at lsb.hosts:3)"),
        (["g (h1 ~h1)"], "3: host group g: it has no members"),
    ],
)
def test_a_host_group_that_is_refused(rows, error):
    errors = host_groups(*rows).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.hosts:{error}")


def test_two_cycles_are_both_named():
    errors = host_groups("a (b)", "b (a h1)", "c (c h2)").errors
    assert [error.split(": ", 1)[1] for error in errors] == [
        "host group a holds itself: a > b > a",
        "host group c holds itself: c > c",
    ]


def test_condensing_is_noted():
    text = table("HostGroup", "GROUP_NAME CONDENSE GROUP_MEMBER", "g Y (h1)", "k N (h2)") + HOSTS
    assert check({"lsb.hosts": text}).notes == [
        "lsb.hosts:3: note: CONDENSE has no effect: hosts are always listed one by one"
    ]


def units(*rows: str, types: str = ""):
    params = BASE["lsb.params"].replace("End", f"COMPUTE_UNIT_TYPES = {types}\nEnd") if types else BASE["lsb.params"]
    text = table("ComputeUnit", "NAME MEMBER TYPE", *rows) + table("HostGroup", "GROUP_NAME GROUP_MEMBER", "g (h2 h3)")
    return check({"lsb.hosts": HOSTS + text, "lsb.params": params})


def test_compute_units_of_several_types():
    rows = ["r1 (e1 e2) rack", "e1 (h1) enclosure", "e2 (g) enclosure"]
    assert units(*rows).config.compute_units == {
        "rack": {"r1": ("h1", "h2", "h3")},
        "enclosure": {"e1": ("h1",), "e2": ("h2", "h3")},
    }
    ordered = units(*rows, types="rack enclosure! cabinet").config.compute_units
    assert list(ordered) == ["enclosure", "rack"]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (["e1 (h1) rak"], "TYPE: rak is not one of COMPUTE_UNIT_TYPES in lsb.params; did you mean rack?"),
        (["e1 (h1) rack", "e2 (h1 h2) rack"], "host h1 is in two compute units of type rack: e1 and e2"),
        (["e1 (e1) rack"], "compute unit e1 holds itself: e1 > e1"),
        (["g (h1) rack"], "NAME: g is the name of a host group already"),
        (["e1 (h9) rack"], "compute unit e1: host h9 is not defined"),
        (["e1 (h1) ()"], "TYPE: a name is missing"),
    ],
)
def test_a_compute_unit_that_is_refused(rows, error):
    errors = units(*rows, types="rack").errors
    assert len(errors) == 1, errors
    assert errors[0].split(": ", 1)[1].startswith(error)


def test_types_of_compute_units_have_one_default():
    assert units("e1 (h1) a", types="a! b!").errors[0].endswith("'a! b!': one type at most is the default (TYPE!)")
    assert units("e1 (h1) a", types="a a").errors[0].endswith("'a a' names a type twice")


def test_rows_of_hosts_groups_and_the_default():
    text = table("HostGroup", "GROUP_NAME GROUP_MEMBER", "front (h1 h2)") + table(
        "Host",
        "HOST_NAME MXJ r1m mem scratch DISPATCH_WINDOW",
        "front 4 1.5/3 () () (8-18)",
        "h1 8 () 100/50 (10/5) ()",
        "default 2 () () () -",
    )
    checked = check({"lsb.hosts": text})
    assert checked.errors == []
    hosts = checked.config.hosts
    assert [hosts[name].max_slots for name in ("h1", "h2", "h3")] == [8, 4, 2]
    assert hosts["h1"].thresholds == {"mem": Threshold(100, 50), "scratch": Threshold(10, 5)}
    assert hosts["h2"].thresholds == {"r1m": Threshold(1.5, 3)}
    assert hosts["h2"].dispatch_window == (Window(480, 1080),)
    assert hosts["h3"].dispatch_window == ()


def test_two_groups_cannot_speak_for_one_host():
    text = table("HostGroup", "GROUP_NAME GROUP_MEMBER", "a (h1 h2)", "b (h2)") + table(
        "Host", "HOST_NAME MXJ", "a 1", "b 2"
    )
    assert check({"lsb.hosts": text}).errors == ["lsb.hosts:9: host h2 has two rows of groups (first at lsb.hosts:8)"]


def test_only_a_flag_keeps_a_host_for_itself():
    text = BASE["lsf.cluster.c1"].replace("(gpu fabric=ib)", "(!gpu fabric=ib)")
    checked = check({"lsf.cluster.c1": text})
    assert checked.errors == []
    host = checked.config.hosts["h1"]
    assert (host.resources, host.exclusive_resources) == (("gpu",), ("gpu",))


def test_user_groups():
    checked = user_groups(
        "all_of_us (staff guests) ([staff,4] [guests@,2] [others,1]) ann",
        "staff (ann bob) ([ann,3] [default,1]) (ann eve)",
        "guests (tom bob) () ()",
        "anybody (all) () ()",
        "some (staff ~bob) () -",
    )
    assert (checked.errors, checked.notes) == ([], [])
    groups = checked.config.user_groups
    assert {name: group.users for name, group in groups.items()} == {
        "all_of_us": ("ann", "bob", "tom"),
        "staff": ("ann", "bob"),
        "guests": ("tom", "bob"),
        "anybody": ("all",),
        "some": ("ann",),
    }
    assert groups["all_of_us"].members == ("staff", "guests")
    assert groups["all_of_us"].shares == (Share("staff", 4), Share("guests@", 2), Share("others", 1))
    assert groups["staff"].admins == ("ann", "eve")


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (["g () () ()"], "3: GROUP_MEMBER: nobody is named"),
        (["g (a !) () ()"], "3: group g: '!' stands alone: (!) has the program egroup list the members"),
        (["g (a/) () ()"], "3: user group g: 'a/' cannot be the name of a user"),
        (["g (a k) () ()", "k (g) () ()"], "3: user group g holds itself: g > k > g"),
        (["g (all ~a) () ()"], "3: user group g: everybody but some (all ~NAME) is not supported yet in a group"),
        (["g (a) ([b,1]) ()"], "3: USER_SHARES: b is not a member of the group"),
        (["g (anne) ([ann,1]) ()"], "3: USER_SHARES: ann is not a member of the group; did you mean anne?"),
        (["g (a) ([k@,1]) ()"], "3: USER_SHARES: k@: there is no user group k in lsb.users"),
        (["g (a) () (a[half])"], "3: GROUP_ADMIN: 'a[half]' cannot be the name of a user"),
        (["g (a) () ()", "g (b) () ()"], "4: user group g is defined twice (first at lsb.users:3)"),
        (["others (a) () ()"], "3: GROUP_NAME: 'others' cannot be the name of a user"),
    ],
)
def test_a_user_group_that_is_refused(rows, error):
    errors = user_groups(*rows).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.users:{error}")


def test_limits_of_users():
    text = table(
        "User",
        "USER_NAME MAX_JOBS JL/P MAX_PEND_JOBS MAX_PEND_SLOTS",
        "ann 4 0.5 100 7",
        "g@ 2 - - -",
        "g 8 - - -",
        "default () - () ()",
    ) + table("UserGroup", "GROUP_NAME GROUP_MEMBER", "g (tom)")
    checked = check({"lsb.users": text})
    assert checked.errors == []
    assert checked.config.users == {
        "ann": UserLimits(name="ann", max_jobs=4, max_jobs_per_processor=0.5, max_pending=100, max_pending_slots=7),
        "g@": UserLimits(name="g@", max_jobs=2),
        "g": UserLimits(name="g", max_jobs=8),
        "default": UserLimits(name="default"),
    }


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("ann -1 - -", "MAX_JOBS: '-1' is not a whole number from 0"),
        ("ann - x -", "JL/P: 'x' is not a number"),
        ("ann - - 1.5", "MAX_PEND_JOBS: '1.5' is not a whole number"),
        ("grp@ 1 - -", "USER_NAME: grp@: there is no user group grp; did you mean gr?"),
        ("all 1 - -", "USER_NAME: 'all' cannot be the name of a user"),
        ("tom 1 - -", "user tom has two rows (first at line 7)"),
    ],
)
def test_a_limit_of_a_user_that_is_refused(row, error):
    text = table("UserGroup", "GROUP_NAME GROUP_MEMBER", "gr (tom)")
    text += table("User", "USER_NAME MAX_JOBS JL/P MAX_PEND_JOBS", "tom 1 - -", row)
    errors = check({"lsb.users": text}).errors
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"lsb.users:8: {error}")


def test_what_is_not_supported_in_lsb_users():
    text = "Begin User\nUSER_NAME PRIORITY\nann 4\nEnd User\nBegin UserMap\nLOCAL REMOTE\na b\nEnd UserMap\n"
    assert check({"lsb.users": text}).errors == [
        "lsb.users:3: PRIORITY is not supported yet (found '4'): the order is that of queue, fairshare and -sp",
        "lsb.users:5: section UserMap is not supported yet; it must be empty: "
        "there is one cluster, in which users have one name",
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("gpu*", ["gpu01", "gpu2", "gpu10"]),
        ("gpu[01-02]", ["gpu01"]),
        ("gpu[1-2]", ["gpu2"]),
        ("gpu1[0-3]", ["gpu10"]),
        ("*[2,10]", ["gpu2", "gpu10", "cpu2"]),
        ("g.u*", []),
    ],
)
def test_patterns(pattern, found):
    assert list(matching(pattern, ["gpu01", "gpu2", "gpu10", "cpu2"])) == found


def test_a_pattern_takes_no_time_on_a_long_name():
    assert matching("*a*b", ["a" * 253]) == ()
    with pytest.raises(BadRequest):
        matching("*a*a*a*a*b", ["a" * 253])


_NAMES = st.sampled_from("abcdef")


@given(st.dictionaries(_NAMES, st.lists(_NAMES | st.sampled_from(["~a", "~x", "x", "y", "all"]), max_size=4)))
def test_any_groups_are_resolved_or_refused(groups):
    findings = Findings()
    definitions = {
        name: Definition(SourcePlace("f", line), tuple(words)) for line, (name, words) in enumerate(groups.items(), 1)
    }
    resolved = resolve("group", definitions, lambda word: (word,), findings)
    assert list(resolved) == list(groups)
    if not findings.has_errors:
        for name, members in resolved.items():
            assert members
            assert not set(members) & set(groups)
            taken_out = {f"~{word}" for word in "xy"} | {"~a"}  # ~a: the members of that group
            assert taken_out & set(groups[name]) or all(word in members for word in groups[name] if word in "xy")


def test_administrators_of_host_groups_and_compute_units_are_named():
    text = (
        "Begin HostGroup\nGROUP_NAME GROUP_MEMBER GROUP_ADMIN\n"
        "front (h1 h2) (ann bob[full])\nrest (h3) ()\nEnd HostGroup\n"
        "Begin ComputeUnit\nNAME MEMBER TYPE ADMIN\nrack1 (h3) rack (eve)\nEnd ComputeUnit\n"
    )
    checked = check({"lsb.hosts": text})
    assert checked.errors == []
    assert checked.config.host_group_admins == {"front": ("ann", "bob"), "rack1": ("eve",)}
    (error,) = check({"lsb.hosts": text.replace("(ann bob[full])", "(ann all)")}).errors
    assert "GROUP_ADMIN: 'ann all': beside all only ~NAME may stand" in error
    (error,) = check({"lsb.hosts": text.replace("(ann bob[full])", "(all)")}).errors
    assert "GROUP_ADMIN: 'all': all cannot stand here; name users or groups" in error


def test_a_user_group_may_be_the_administrator():
    """Source: bugroup(1), which shows the members of a group that is the configured administrator."""
    users = table(
        "UserGroup",
        "GROUP_NAME GROUP_MEMBER USER_SHARES GROUP_ADMIN",
        "lab (ann bob) () (heads[full] tom)",
        "heads (eve joe) () ()",
    )
    hosts = (
        "Begin HostGroup\nGROUP_NAME GROUP_MEMBER GROUP_ADMIN\nfront (h1 h2) (heads ann)\nEnd HostGroup\n"
        "Begin ComputeUnit\nNAME MEMBER TYPE ADMIN\nrack1 (h3) rack (heads)\nEnd ComputeUnit\n"
    )
    checked = check({"lsb.users": users, "lsb.hosts": hosts})
    assert checked.errors == []
    assert checked.config.user_groups["lab"].admins == ("eve", "joe", "tom")
    assert checked.config.host_group_admins == {"front": ("eve", "joe", "ann"), "rack1": ("eve", "joe")}
