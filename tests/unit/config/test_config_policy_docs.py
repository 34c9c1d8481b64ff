"""The examples of docs/policies.md load together and mean what the text beside them says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from config_texts import BASE

from gsched.base.sentences import SENTENCES
from gsched.config.configuration import check_texts
from gsched.config.parameters.shares import FACTORS
from gsched.model.config import ClusterConfig
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.fairshare_factors import WHERE_GPUS, FairshareFactors, factors_of
from gsched.model.queues.window import DAY_MIN, is_open
from gsched.model.scheduling.snapshot import Bucket, FairshareUse, RequirementClass, Snapshot
from gsched.policy.limits.job_limits import LimitUse
from gsched.policy.order.fairshare import ShareTree

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENT = (DOCS / "policies.md").read_text()
EXAMPLES = re.findall(r"^```(ls[bf]\.\w+)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
SATURDAY = 6 * DAY_MIN


@pytest.fixture(scope="module")
def config() -> ClusterConfig:
    found = {"lsf.conf": BASE["lsf.conf"], "lsf.shared": BASE["lsf.shared"]}
    found["lsf.cluster.c1"] = (
        "Begin ClusterAdmins\nADMINISTRATORS = adm\nEnd ClusterAdmins\n"
        "Begin Host\nHOSTNAME model type server RESOURCES\ngpu01 ! ! 1 ()\ngpu02 ! ! 1 ()\nEnd Host\n"
        "Begin ResourceMap\nRESOURCENAME LOCATION\nscratch ([default])\nEnd ResourceMap\n"
    )
    found["lsb.queues"] = "Begin Queue\nQUEUE_NAME = normal\nEnd Queue\n"
    for name, text in EXAMPLES:
        found[name] = found.get(name, "") + text
    loaded = check_texts("/conf", found)
    assert [str(problem) for problem in loaded.problems if "note: the file is missing" not in str(problem)] == []
    return loaded.required()


def tree(config: ClusterConfig, use: dict[str, FairshareUse], gpu_hosts: tuple[str, ...] = ()) -> ShareTree:
    groups = {name: group.users for name, group in config.user_groups.items()}
    inner = {name: group.shares for name, group in config.user_groups.items() if group.shares}
    queue = config.queues["shared"]
    return ShareTree(queue, use, factors_of(config.params.factors, queue, gpu_hosts), groups, inner)


def test_everybody_stands_where_the_table_says(config: ClusterConfig) -> None:
    shares = tree(config, {})
    assert [shares.leaf(user).shares for user in ("eve", "cat", "dan", "zoe")] == [3, 2, 2, 1]
    ann, bob = shares.leaf("ann"), shares.leaf("bob")
    assert ann.parent is bob.parent is not None and (ann.parent.name, ann.parent.shares) == ("physics", 6)
    assert (ann.shares, bob.shares) == (3, 1)


def test_the_worked_priority(config: ClusterConfig) -> None:
    hour = 3600.0
    eve = FairshareUse(cpu_s=2 * hour, run_s=4 * hour, slots=3, hist_gpu_s=2 * hour, gpu_s=4 * hour)
    for gpu_hosts, priorities in (((), ("0.185", "0.667")), (("gpu01",), ("0.500", "2000"))):
        shares = tree(config, {"eve": eve}, gpu_hosts)
        for user, priority in zip(("eve", "cat"), priorities, strict=True):
            assert shares.leaf(user).priority == pytest.approx(float(priority), abs=0.0005)
            assert f"= {priority}" in DOCUMENT


@pytest.mark.parametrize(
    ("document", "heading"),
    [
        ("policies.md", "| factor | default, hosts with GPUs |"),
        ("configuration.md", "| parameter | default, hosts with"),
    ],
)
def test_both_sets_of_default_factors(document: str, heading: str) -> None:
    lines = (DOCS / document).read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(heading)) + 2
    rows = [[cell.strip("` ") for cell in line.split("|")[1:4]] for line in lines[first : first + len(FACTORS)]]
    assert [row[0] for row in rows] == list(FACTORS)
    for name, *told in rows:
        meant = [getattr(factors, FACTORS[name].field) for factors in (WHERE_GPUS, FairshareFactors())]
        assert told == [("N", "Y")[each] if isinstance(each, bool) else f"{each:g}" for each in meant], name


def test_lsfs_defaults_are_had_as_the_guide_says(config: ClusterConfig) -> None:
    guide = (DOCS / "from-lsf.md").read_text()
    (lines,) = re.findall(r"^  ```lsb.params\n(.*?)^  ```$", guide, re.MULTILINE | re.DOTALL)
    texts = {**BASE, "lsb.params": f"Begin Parameters\n{lines}End Parameters\n"}
    stated = check_texts("/conf", texts).required().params.factors
    assert factors_of(stated, None, ("gpu01",)) == FairshareFactors()


@pytest.mark.parametrize(("hour", "slots"), [(10, 4), (20, 16)])
def test_the_students(config: ClusterConfig, hour: int, slots: int) -> None:
    snapshot = Snapshot(
        queues=config.queues, hosts={}, ledger=Ledger(), pending={}, limits=config.limits, minute_of_week=hour * 60
    )
    use = LimitUse(snapshot)
    bob = Bucket("shared", "bob", RequirementClass(""), "p")
    assert use.slots_left(bob) == slots
    assert use.slots_left(bob._replace(user="ann")) == use.slots_left(bob._replace(queue="normal")) == float("inf")
    gpus = tuple(HeldGpu(uuid=str(index), index=index, claim="ngpus") for index in range(3))
    assert use.host_reason(bob, "gpu03", HostAllocation(host="gpu03", slots=1, gpus=gpus[:2])) is None
    assert use.host_reason(bob, "gpu03", HostAllocation(host="gpu03", slots=1, gpus=gpus)) is not None
    use.count(bob, Allocation(hosts=(HostAllocation(host="gpu03", slots=slots),)))
    denial = use.reason(bob)
    assert denial is not None
    if hour == 10:
        assert f"{denial.text} ({denial.detail})" in DOCUMENT


def test_memory_of_two_hosts(config: ClusterConfig) -> None:
    use = LimitUse(Snapshot(queues=config.queues, hosts={}, ledger=Ledger(), pending={}, limits=config.limits))
    job = Bucket("normal", "ann", RequirementClass(""), "p")
    there = HostAllocation(host="gpu01", slots=1, amounts={"mem": 300.0 * 1024})
    use.count(job, Allocation(hosts=(there,)))
    assert use.host_reason(job, "gpu02", HostAllocation(host="gpu02", slots=1, amounts=there.amounts)) is not None
    assert use.host_reason(job, "gpu03", HostAllocation(host="gpu03", slots=1, amounts=there.amounts)) is None


def test_the_budget_of_a_project(config: ClusterConfig) -> None:
    used = {"fair-week/p": 500 * 3600.0}
    use = LimitUse(
        Snapshot(queues=config.queues, hosts={}, ledger=Ledger(), pending={}, limits=config.limits, gpu_seconds=used)
    )
    job = Bucket("normal", "ann", RequirementClass("", gpu="num=1"), "p")
    assert use.reason(job) is not None
    assert use.reason(job._replace(project="other")) is None
    assert use.reason(job._replace(requirement=RequirementClass(""))) is None


def test_the_nights(config: ClusterConfig) -> None:
    night = config.queues["night"].dispatch_window
    assert [is_open(night, DAY_MIN * 3 + hour * 60) for hour in (6, 7, 18, 19)] == [True, False, False, True]
    assert is_open(night, SATURDAY + 12 * 60) and is_open(night, 12 * 60) and not is_open(night, 5 * DAY_MIN + 720)


def test_reasons_of_the_text_are_those_of_the_policy() -> None:
    table = re.findall(r"^\| .*`([A-Z][^`]*(?:reached|limit))` \|$", DOCUMENT, re.MULTILINE)
    assert len(table) >= 11
    assert [
        text
        for text in table
        if "..." not in text and text != "Job slot limit reached" and text not in SENTENCES.values()
    ] == []
