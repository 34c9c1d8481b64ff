"""lsb.serviceclasses and GuaranteedResourcePool sections of lsb.resources."""

from __future__ import annotations

import re

import pytest
from config_texts import Checked, check

from gsched.model.queues.guarantee import GuaranteePool, Portion, ServiceClass
from gsched.model.queues.limit import Consumers

CLASSES = "".join(
    f"Begin ServiceClass\nNAME = {name}\nGOALS = [GUARANTEE]\nEnd ServiceClass\n" for name in ("gold", "silver")
)
USERS = "Begin UserGroup\nGROUP_NAME GROUP_MEMBER\nphysics (ann bob)\nEnd UserGroup\n"


def pools(*lines: str, classes: str = CLASSES) -> Checked:
    text = "\n".join(["Begin GuaranteedResourcePool", *lines, "End GuaranteedResourcePool", ""])
    return check({"lsb.serviceclasses": classes, "lsb.resources": text})


def pool(*lines: str) -> GuaranteePool:
    checked = pools("NAME = p", *lines)
    assert checked.errors == [] and checked.config is not None
    (found,) = checked.config.pools
    return found


def wrong(*lines: str) -> str:
    (error,) = pools(*lines).errors
    return error


def service_class(*lines: str, users: str = USERS) -> Checked:
    text = "\n".join(["Begin ServiceClass", "NAME = gold", *lines, "End ServiceClass", ""])
    return check({"lsb.serviceclasses": text, "lsb.users": users})


def test_a_whole_section() -> None:
    found = pool(
        "TYPE = package[ slots=2 : mem=2G : ngpus_physical=1 ]",
        "HOSTS = h1 h2",
        "RES_SELECT = select[mem>100]",
        "DISTRIBUTION = ([gold, 25%] [silver,3])",
        "LOAN_POLICIES = QUEUES[!normal] DURATION[10] RETAIN[10%] IDLE_BUFFER[2] CLOSE_ON_DEMAND",
        "ADMINISTRATORS = adm",
        "DESCRIPTION = for the owners",
    )
    assert found.unit == {"slots": 2.0, "mem": 2048.0, "ngpus": 1.0}
    assert found.hosts == Consumers(("h1", "h2"))
    assert found.shares == {"gold": Portion(25.0, is_percent=True), "silver": Portion(3.0)}
    loans = found.loans
    assert loans is not None
    assert (loans.queues, loans.at_once, loans.duration_s) == (("normal",), ("normal",), 600.0)
    assert (
        loans.close_on_demand and loans.retain == Portion(10.0, is_percent=True) and loans.idle_buffer == Portion(2.0)
    )
    assert found.noun == "packages" and found.kind == "package[slots=2:mem=2G:ngpus_physical=1]"


@pytest.mark.parametrize(
    ("text", "unit", "noun"),
    [
        ("slots", {"slots": 1.0}, "slots"),
        ("HOSTS", {}, "hosts"),
        ("resource[ngpus_physical]", {"ngpus": 1.0}, "ngpus"),
        ("resource[lic]", {"lic": 1.0}, "lic"),
    ],
)
def test_types(text: str, unit: dict[str, float], noun: str) -> None:
    found = pool(f"TYPE = {text}", "DISTRIBUTION = [gold 1]")
    assert (dict(found.unit), found.noun) == (unit, noun)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("TYPE = cores", "TYPE: 'cores' is none of slots, hosts, package[slots=N:mem=SIZE...] and resource[NAME]"),
        ("TYPE = package[slots]", "TYPE: 'slots' is not of the form RESOURCE=AMOUNT"),
        ("TYPE = package[slots=1:slots=2]", "TYPE: slots is given twice"),
        ("TYPE = package[slots=0]", "TYPE: slots='0': a package has some of each of its resources"),
        ("TYPE = resource[nope]", "TYPE: resource nope is not defined in lsf.shared"),
        ("TYPE = resource[ut]", "TYPE: resource ut is not consumable: jobs cannot hold it"),
        ("TYPE = resource[ngpus_excl_p]", "TYPE: ngpus_excl_p: guarantee ngpus instead"),
    ],
)
def test_a_bad_type_is_told(line: str, said: str) -> None:
    assert said in wrong("NAME = p", line, "DISTRIBUTION = [gold, 1]").replace("slots=0:", "slots='0':")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("DISTRIBUTION = [goold, 1]", "service class goold is not defined in lsb.serviceclasses; did you mean gold?"),
        ("DISTRIBUTION = [gold, 1] [gold, 2]", "service class gold is given twice"),
        ("DISTRIBUTION = gold 1", "'gold 1' is not of the form [SERVICE_CLASS, AMOUNT[%]]"),
        ("DISTRIBUTION = [gold, 101%]", "'101%' is no amount, nor a part of up to 100%"),
        ("DISTRIBUTION = ()", "it guarantees nothing"),
        ("DISTRIBUTION = [gold, 1]\nLOAN_POLICIES = DURATION[5]", "QUEUES[QUEUE ...] is missing"),
        ("DISTRIBUTION = [gold, 1]\nLOAN_POLICIES = QUEUES[nope]", "queue nope is not defined in lsb.queues"),
        ("DISTRIBUTION = [gold, 1]\nLOAN_POLICIES = QUEUES[all] DURATON[5]", "did you mean DURATION?"),
        ("DISTRIBUTION = [gold, 1]\nLOAN_POLICIES = QUEUES[all] CLOSE_ON_DEMAND[1]", "stands without brackets"),
        ("DISTRIBUTION = [gold, 1]\nSLOTS_PER_HOST = 0", "'0' is not a whole number"),
        ("DISTRIBUTION = [gold, 1]\nRES_SELECT = mem >", "RES_SELECT: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(line: str, said: str) -> None:
    error = wrong("NAME = p", "TYPE = slots", *line.split("\n"))
    assert error.startswith("lsb.resources:") and said in error


def test_what_must_be_there() -> None:
    assert [error.partition(": ")[2] for error in pools("NAME = p").errors] == [
        "the guaranteed pool p has no TYPE",
        "the guaranteed pool p has no DISTRIBUTION",
    ]


def test_more_than_there_is_is_noted_with_its_place() -> None:
    percent = pools("NAME = p", "TYPE = slots", "DISTRIBUTION = ([gold, 60%] [silver, 50%])")
    assert percent.errors == []
    assert percent.notes == [
        "lsb.resources:4: note: DISTRIBUTION: 110% of the pool are guaranteed: owners get it as it becomes free"
    ]
    whole = pools("NAME = p", "TYPE = hosts", "HOSTS = h1 h2", "DISTRIBUTION = [gold, 3]")
    assert "3 hosts are guaranteed and the pool has 2 at the most" in whole.notes[0]


def test_two_pools_of_one_name() -> None:
    text = (
        "Begin GuaranteedResourcePool\nNAME = p\nTYPE = slots\nDISTRIBUTION = [gold, 1]\nEnd GuaranteedResourcePool\n"
    )
    checked = check({"lsb.serviceclasses": CLASSES, "lsb.resources": text * 2})
    (error,) = checked.errors
    assert error.startswith("lsb.resources:6: pool p is defined twice (first at ")


def test_a_service_class() -> None:
    checked = service_class(
        "GOALS = [GUARANTEE]",
        "ACCESS_CONTROL = QUEUES[normal] USERS[physics] FAIRSHARE_GROUPS[physics] PROJECTS[p1 p2]",
        "AUTO_ATTACH = y",
        "DESCRIPTION = paid",
    )
    assert checked.errors == [] and checked.config is not None
    found: ServiceClass = checked.config.service_classes["gold"]
    assert found.auto_attach and found.users == Consumers(("ann", "bob"))
    said = {"queue": "normal", "user": "ann", "share_group": "physics", "application": "", "project": "p1"}
    assert found.refused(**said) == ""
    assert found.refused(**{**said, "queue": "night"}) == "QUEUES"
    assert found.refused(**{**said, "user": "carl"}) == "USERS"
    assert found.refused(**{**said, "share_group": ""}) == "FAIRSHARE_GROUPS"
    assert found.refused(**{**said, "project": "p3"}) == "PROJECTS"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("GOALS = [VELOCITY 30 timeWindow (9:00-17:00)]",), "a goal of VELOCITY is not supported yet: a pool"),
        (("GOALS = [DEADLINE timeWindow (9:00-17:00)]",), "a goal of DEADLINE is not supported yet"),
        (("GOALS = [GARANTEE]",), "'[GARANTEE]' is not [GUARANTEE]"),
        ((), "the service class has no GOALS: [GUARANTEE] belongs here"),
        (("GOALS = [GUARANTEE]", "EGO_RES_REQ = select(a)"), "EGO_RES_REQ is not supported yet: there is no EGO"),
        (("GOALS = [GUARANTEE]", "ACCESS_CONTROL = QUEUE[normal]"), "unknown kind QUEUE; did you mean QUEUES?"),
        (("GOALS = [GUARANTEE]", "ACCESS_CONTROL = QUEUES[nope]"), "queue nope is not defined"),
        (("GOALS = [GUARANTEE]", "ACCESS_CONTROL = FAIRSHARE_GROUPS[phys]"), "user group phys is not defined"),
    ],
)
def test_a_bad_service_class_is_told(lines: tuple[str, ...], said: str) -> None:
    (error,) = service_class(*lines).errors
    assert error.startswith("lsb.serviceclasses:") and said in error


def test_parameters_of_ego_are_noted() -> None:
    checked = service_class("GOALS = [GUARANTEE]", "CONSUMER = c", "PRIORITY = 20")
    assert [note.partition("note: ")[2].partition(":")[0] for note in checked.notes] == [
        "CONSUMER has no effect",
        "PRIORITY has no effect",
    ]


def test_administrators_of_a_pool_are_noted_by_name() -> None:
    checked = pools("TYPE = slots", "DISTRIBUTION = [gold 1]", "ADMINISTRATORS = adm")
    (note,) = checked.notes
    assert re.match(r".*lsb\.resources:\d+: note: ADMINISTRATORS has no effect: .*bconf", note), note
