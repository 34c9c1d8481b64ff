"""Share trees and LSF's dynamic user priority, against numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.queues.fairshare_factors import FairshareFactors
from gsched.model.queues.queue import Queue
from gsched.model.queues.user import Share
from gsched.model.scheduling.snapshot import FairshareUse
from gsched.policy.order.fairshare import ShareTree, load_of, member_name

LSF = FairshareFactors()
HOUR = 3600.0
GROUPS = {"lab": ("ann", "bob"), "ops": ("cat",)}


def tree(
    *shares: Share,
    use: dict[str, FairshareUse] | None = None,
    factors: FairshareFactors = LSF,
    inner: dict[str, tuple[Share, ...]] | None = None,
) -> ShareTree:
    return ShareTree(Queue(name="q", fairshare=shares), use or {}, factors, GROUPS, inner)


def test_the_formula_with_lsfs_factors() -> None:
    use = FairshareUse(cpu_s=2 * HOUR, run_s=4 * HOUR, hist_run_s=100 * HOUR, slots=3, gpu_s=HOUR)
    # 10 / (2 x 0.7 + 4 x 0.7 + (1 + 3) x 3); past run time and GPU time do not count as shipped
    assert tree(Share("ann", 10), use={"ann": use}).leaf("ann").priority == pytest.approx(10 / 16.2)


def test_each_factor_counts_what_it_says() -> None:
    use = FairshareUse(
        cpu_s=HOUR, run_s=2 * HOUR, hist_run_s=4 * HOUR, committed_s=10 * HOUR, gpu_s=HOUR, hist_gpu_s=2 * HOUR
    )
    every = FairshareFactors(
        cpu_time=1, run_time=10, run_job=0, committed_run_time=100, gpu_run_time=1000, hist_run_time=True
    )
    assert load_of(use, every) == pytest.approx(1 + 60 + 800 + 1000)
    with_gpu_history = FairshareFactors(cpu_time=0, run_time=0, gpu_run_time=1, gpu_hist_run_time=True)
    assert load_of(use, with_gpu_history) == pytest.approx(3)


def test_factors_that_are_all_zero_leave_the_shares() -> None:
    nothing = FairshareFactors(cpu_time=0, run_time=0, run_job=0)
    shares = tree(Share("ann", 1), Share("bob", 3), factors=nothing)
    assert shares.leaf("bob").priority == pytest.approx(3 * shares.leaf("ann").priority)


def test_a_start_lowers_the_user_and_all_groups_above_him() -> None:
    shares = tree(Share("lab", 6), Share("ops", 6))
    ann, lab = shares.leaf("ann"), shares.root.children["lab"]
    assert (ann.priority, lab.priority) == pytest.approx((1 / 3, 2.0))
    shares.placed(ann, slots=2, gpus=1)
    assert (ann.priority, lab.priority) == pytest.approx((1 / 9, 6 / 9))
    assert shares.leaf("bob").priority == pytest.approx(1 / 3)
    assert shares.root.children["ops"].priority == pytest.approx(2.0)


def test_a_user_stands_where_he_is_named_first() -> None:
    shares = tree(Share("ann", 5), Share("lab", 7), Share("ops@", 3), Share("default", 2))
    assert shares.leaf("ann").parent is shares.root and shares.leaf("ann").shares == 5
    bob = shares.leaf("bob")
    assert bob.parent is not None and bob.parent.name == "lab"
    assert shares.leaf("cat").shares == 3 and shares.leaf("cat").parent is shares.root
    assert shares.leaf("eve").shares == 2 and shares.leaf("zoe") is not shares.leaf("eve")


def test_others_share_one_portion() -> None:
    shares = tree(Share("ann", 1), Share("others", 4), use={"eve": FairshareUse(slots=1)})
    eve, zoe = shares.leaf("eve"), shares.leaf("zoe")
    assert eve.parent is zoe.parent is shares.root.children["others"]
    assert shares.root.children["others"].priority == pytest.approx(4 / 6)
    assert zoe.priority > eve.priority


def test_without_a_share_the_priority_is_zero() -> None:
    assert tree(Share("ann", 1)).leaf("eve").priority == 0


def test_a_groups_own_shares_divide_what_it_has() -> None:
    shares = tree(Share("lab", 1), inner={"lab": (Share("ann", 3), Share("default", 1))})
    assert shares.leaf("ann").priority == pytest.approx(3 * shares.leaf("bob").priority)


def test_groups_that_contain_each_other_come_to_an_end() -> None:
    shares = tree(Share("lab", 1), inner={"lab": (Share("ops", 1), Share("ann", 1)), "ops": (Share("lab", 1),)})
    assert shares.leaf("ann").priority > 0
    assert shares.leaf("cat").shares >= 0


def test_jobs_are_charged_to_the_group_that_is_named() -> None:
    use = {member_name("ann", "lab"): FairshareUse(slots=4), "ann": FairshareUse(slots=1)}
    shares = tree(Share("ann", 1), Share("lab", 1), use=use)
    assert shares.leaf("ann", "lab").slots == shares.root.children["lab"].slots == 4
    assert shares.leaf("ann").slots == 1
    assert shares.leaf("ann", "nowhere") is not shares.leaf("ann", "lab")


def test_a_user_called_like_a_group_is_somebody_else() -> None:
    shares = tree(Share("lab", 1), Share("default", 1))
    assert not shares.leaf("lab").is_group


def test_the_table_shows_every_level_best_first() -> None:
    use = {"ann": FairshareUse(cpu_s=HOUR, run_s=10.0, slots=2, gpu_s=5.0), "cat": FairshareUse(slots=1)}
    queue = Queue(name="q", fairshare=(Share("lab", 5), Share("default", 1)))
    rows = ShareTree(queue, use, LSF, GROUPS, {"lab": (Share("ann", 2),)}).rows()
    assert [(row.path, row.name, row.shares, row.started) for row in rows] == [
        ("q/", "lab", 5, 2),
        ("q/", "cat", 1, 1),
        ("q/lab/", "ann", 2, 2),
    ]
    assert rows[0].cpu_s == HOUR and rows[0].run_s == 10.0 and rows[0].gpu_s == 5.0
    assert rows[1].priority == pytest.approx(1 / 6)


def test_the_place_of_a_user_is_shown_as_a_path() -> None:
    shares = tree(Share("lab", 5), Share("default", 1))
    assert (shares.path("ann"), shares.path("zoe"), shares.path("ann", "lab")) == ("/lab/ann", "/zoe", "/lab/ann")


def test_what_is_kept_for_a_user_shows_and_does_not_count() -> None:
    shares = tree(Share("lab", 5), Share("default", 1))
    before = shares.leaf("ann").priority
    shares.keep(shares.leaf("ann"), 3)
    assert [(row.name, row.reserved) for row in shares.rows()] == [("lab", 3), ("ann", 3)]
    assert shares.leaf("ann").priority == before


uses = st.builds(
    FairshareUse,
    cpu_s=st.floats(0, 1e7),
    run_s=st.floats(0, 1e7),
    hist_run_s=st.floats(0, 1e7),
    slots=st.integers(0, 1000),
    gpu_s=st.floats(0, 1e7),
)


@given(use=st.dictionaries(st.sampled_from(["ann", "bob", "cat", "eve", "lab/ann"]), uses))
def test_a_group_has_used_what_its_members_have(use: dict[str, FairshareUse]) -> None:
    shares = tree(Share("lab", 3), Share("others", 1), use=use)
    for node in (shares.root, *shares.root.children.values()):
        if node.is_group:
            assert node.slots == sum(child.slots for child in node.children.values())
            assert node.load == pytest.approx(sum(child.load for child in node.children.values()))
    assert shares.root.slots == sum(each.slots for each in use.values())


@given(more=uses, less=uses, shares=st.integers(1, 100))
def test_using_more_never_helps(more: FairshareUse, less: FairshareUse, shares: int) -> None:
    if load_of(more, LSF) >= load_of(less, LSF) and more.slots >= less.slots:
        both = tree(Share("ann", shares), Share("bob", shares), use={"ann": more, "bob": less})
        assert both.leaf("ann").priority <= both.leaf("bob").priority


def test_with_a_count_of_jobs_a_large_job_counts_like_a_small_one() -> None:
    jobs = FairshareFactors(cpu_time=0, run_time=0, run_job=1, job_count=True)
    use = {"ann": FairshareUse(slots=8, jobs=1), "bob": FairshareUse(slots=2, jobs=2)}
    shares = tree(Share("lab", 6), factors=jobs, use=use, inner={"lab": (Share("ann", 6), Share("bob", 6))})
    assert (shares.leaf("ann").priority, shares.leaf("bob").priority) == pytest.approx((6 / 2, 6 / 3))
    assert shares.root.children["lab"].priority == pytest.approx(6 / 4)
    shares.placed(shares.leaf("ann"), slots=16)
    assert shares.leaf("ann").priority == pytest.approx(6 / 3)
