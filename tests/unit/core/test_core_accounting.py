"""Accounts: use that decays, GPU hours within a window, and the same to the last bit after a replay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.core.records.usage_accounts import Meter, UsageAccounts, decay
from gsched.model.jobs.job import JobSpec
from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.queues.limit import Consumers, Limit
from gsched.model.scheduling.snapshot import FairshareUse
from tests.support.property_examples import examples

HOUR, DAY = 3600.0, 86400.0
T = 1_700_000_000.0
EACH = Consumers(per=True)


def spec(user: str = "ann", queue: str = "q", **changes: Any) -> JobSpec:
    return JobSpec(user=user, queue=queue, command="true", submit_host="a", cwd="/", **changes)


def holding(slots: int = 1, *claims: str, share: float = 1.0) -> Allocation:
    gpus = tuple(HeldGpu(uuid=f"g{n}", index=n, claim=claim, share=share) for n, claim in enumerate(claims))
    return Allocation(hosts=(HostAllocation(host="a", slots=slots, gpus=gpus),))


def budget(window_s: float, name: str = "B", **consumers: Consumers) -> Limit:
    return Limit(name=name, gpu_hours=1.0, budget_window_s=window_s, **consumers)


def test_a_running_job_counts_as_it_runs() -> None:
    accounts = UsageAccounts()
    accounts.started(1, spec(run_limit_s=7200), holding(4, "ngpus_excl_p", "gpu_excl", "gpu_shared"), T)
    accounts.started(2, spec(), holding(1), T + 100)
    assert accounts.shares("q", T + 200) == {
        "ann": FairshareUse(run_s=300, slots=5, jobs=2, gpu_s=400, gpus=2, committed_s=7200)
    }
    assert accounts.shares("other", T + 200) == {}


def test_a_finished_job_is_history_that_decays() -> None:
    accounts = UsageAccounts()
    accounts.started(1, spec(), holding(2, "ngpus_excl_p"), T)
    accounts.ended(1, T + 1000, 500.0)
    assert accounts.shares("q", T + 1000) == {"ann": FairshareUse(cpu_s=500, hist_run_s=1000, hist_gpu_s=1000)}
    later = accounts.shares("q", T + 1000 + 5 * HOUR)["ann"]
    assert (later.cpu_s, later.hist_run_s, later.hist_gpu_s) == pytest.approx((50, 100, 100))
    assert later.slots == later.gpus == 0


def test_past_use_is_decayed_before_new_use_is_added() -> None:
    accounts = UsageAccounts()
    for number, at in ((1, T), (2, T + 5 * HOUR)):
        accounts.started(number, spec(), holding(), at)
        accounts.ended(number, at, 100.0)
    assert accounts.shares("q", T + 5 * HOUR)["ann"].cpu_s == pytest.approx(110)


def test_groups_and_queues_have_accounts_of_their_own() -> None:
    accounts = UsageAccounts()
    accounts.started(1, spec(user_group="lab"), holding(), T)
    accounts.started(2, spec(queue="r"), holding(), T)
    assert accounts.shares("q", T).keys() == {"lab/ann"} and accounts.shares("r", T).keys() == {"ann"}


def test_a_switched_job_takes_its_run_time_along() -> None:
    accounts = UsageAccounts()
    accounts.started(1, spec(), holding(2, "ngpus"), T)
    accounts.switched(1, "r", T + 50)
    assert accounts.shares("q", T + 60)["ann"] == FairshareUse()
    assert accounts.shares("r", T + 60)["ann"] == FairshareUse(run_s=60, slots=2, jobs=1, gpu_s=60, gpus=1)
    accounts.ended(1, T + 60, 1.0)
    assert accounts.shares("r", T + 60)["ann"].hist_run_s == 60


def test_what_never_started_ends_without_a_trace() -> None:
    accounts = UsageAccounts()
    accounts.ended(9, T, 5.0)
    assert accounts.dump() == UsageAccounts().dump()


def test_hist_hours_changes_from_then_on() -> None:
    accounts = UsageAccounts(hist_hours=1.0)
    accounts.started(1, spec(), holding(), T)
    accounts.ended(1, T, 1000.0)
    accounts.configure(0.0, T + HOUR)
    assert accounts.shares("q", T + 100 * HOUR)["ann"].cpu_s == pytest.approx(100)


def test_gpu_seconds_within_a_window() -> None:
    accounts = UsageAccounts()
    accounts.started(1, spec(project="p"), holding(1, "gpu_excl", "gpu_excl"), T)
    accounts.ended(1, T + HOUR, 0.0)
    accounts.started(2, spec("bob"), holding(1, "gpu_shared", share=0.25), T + 2 * HOUR)
    limits = [
        budget(DAY),
        budget(DAY, "U", users=EACH),
        budget(DAY, "P", projects=Consumers(("p",), per=True), queues=EACH),
        budget(DAY, "none", users=Consumers(("eve",), per=True)),
        Limit(name="slots"),
    ]
    used = accounts.gpu_seconds(limits, T + 4 * HOUR)
    assert used == pytest.approx({"B": 2.5 * HOUR, "U/ann": 2 * HOUR, "U/bob": 0.5 * HOUR, "P/q/p": 2 * HOUR}, rel=1e-9)
    # a day and a half an hour after the start: half of ann's hour has left the window
    used = accounts.gpu_seconds(limits, T + DAY + HOUR / 2)
    assert used["U/ann"] == pytest.approx(HOUR)
    assert accounts.gpu_seconds(limits, T + 10 * DAY)["U/bob"] == pytest.approx(DAY / 4)


def test_reading_changes_nothing_and_a_checkpoint_holds_everything() -> None:
    accounts = UsageAccounts(hist_hours=2.0)
    accounts.started(1, spec(), holding(2, "ngpus_excl_p"), T)
    accounts.started(1 << 32 | 7, spec("bob", user_group="lab"), holding(1, "gpu_shared", share=0.1), T + 10)
    accounts.ended(1, T + 100, 7.5)
    stored = accounts.dump()
    accounts.shares("q", T + 500)
    accounts.gpu_seconds([budget(DAY)], T + 500)
    assert accounts.dump() == stored
    again = UsageAccounts.load(stored)
    assert again.dump() == stored and again.hist_hours == 2.0
    for each in (accounts, again):
        each.ended(1 << 32 | 7, T + 900, 1.0)
    assert again.dump() == accounts.dump()
    assert UsageAccounts.load(b"null").dump() == UsageAccounts().dump()
    with pytest.raises(msgspec.DecodeError):
        UsageAccounts.load(b"[1]")


def test_a_curve_stays_short_and_near_however_long_it_goes_back() -> None:
    """Sixty days; ten GPUs in the first half of each day, by jobs of seven minutes; one GPU in the second."""
    meter = Meter("ann", "q", "p")
    now, used, truth = T, 0.0, [(T, 0.0)]
    for step in range(60 * 24 * 60 // 7):
        rate = 10.0 if (step * 7 // 720) % 2 == 0 else 1.0
        meter.change(now, rate, 1)
        now, used = now + 7 * 60, used + rate * 7 * 60
        truth.append((now, used))
        meter.change(now, -rate, -1)
    assert len(meter.times) < 1000
    for back in range(1, len(truth), 37):
        at, before = truth[-1 - back]
        window = now - at
        assert abs(meter.used(now, window) - (used - before)) <= 10 * max(60.0, window / 30)


# -- properties -----------------------------------------------------------------------------------------------------

finite = st.floats(0, 1e9)


@given(value=finite, first=st.floats(0, 1e7), second=st.floats(0, 1e7), hist_hours=st.floats(0.1, 1000))
def test_decaying_twice_is_decaying_once(value: float, first: float, second: float, hist_hours: float) -> None:
    twice = decay(decay(value, first, hist_hours), second, hist_hours)
    assert twice == pytest.approx(decay(value, first + second, hist_hours), rel=1e-6, abs=1e-9)
    assert decay(value, first, 0) == value >= decay(value, first, hist_hours)


steps = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(["start", "end", "switch"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["", "lab"]),
        st.integers(0, 3),
        st.floats(0, 20 * HOUR),
    ),
    max_size=40,
)


@settings(max_examples=examples(50), deadline=None)
@given(steps=steps, stop=st.integers(0, 40))
def test_a_replay_and_a_plain_count_agree(steps: list[Any], stop: int) -> None:
    accounts, kept, at = UsageAccounts(), UsageAccounts(), T
    open_jobs: dict[int, tuple[str, str, int, float]] = {}
    spans: list[tuple[str, int, float, float]] = []
    for number, (job, what, user, group, gpus, wait) in enumerate(steps):
        at += wait
        if number == stop:
            kept = UsageAccounts.load(kept.dump())
        for each in (accounts, kept):
            if what == "start":
                each.started(job, spec(user, user_group=group), holding(gpus + 1, *["gpu_excl"] * gpus), at)
            elif what == "end":
                each.ended(job, at, 3.0)
            else:
                each.switched(job, "r", at)
            each.shares("q", at + 1)
        before = open_jobs.pop(job, None) if what != "switch" else None
        if before is not None:
            spans.append((before[0], before[2], before[3], at))
        if what == "start":
            open_jobs[job] = (user, group, gpus, at)
    assert kept.dump() == accounts.dump()
    now = at + 100
    spans += [(user, gpus, since, now) for user, _, gpus, since in open_jobs.values()]
    used = accounts.gpu_seconds([budget(10_000 * DAY, users=EACH)], now)
    for user in ("ann", "bob"):
        true = sum(gpus * (end - begin) for owner, gpus, begin, end in spans if owner == user)
        assert used.get(f"B/{user}", 0.0) == pytest.approx(true, abs=1e-3)
        both = [
            use for queue in ("q", "r") for member, use in accounts.shares(queue, now).items() if member.endswith(user)
        ]
        running = [(gpus, since) for owner, _, gpus, since in open_jobs.values() if owner == user]
        assert sum(use.slots for use in both) == sum(gpus + 1 for gpus, _ in running)
        assert sum(use.run_s for use in both) == pytest.approx(sum(now - since for _, since in running), abs=1e-3)
        assert sum(use.gpu_s for use in both) == pytest.approx(sum(g * (now - s) for g, s in running), abs=1e-3)


def test_a_queue_may_have_hist_hours_of_its_own() -> None:
    accounts = UsageAccounts(hist_hours=1.0)
    accounts.configure(1.0, T, {"slow": 10.0})
    for number, queue in enumerate(("q", "slow"), 1):
        accounts.started(number, spec(queue=queue), holding(), T)
        accounts.ended(number, T, 1000.0)
    again = UsageAccounts.load(accounts.dump())
    for each in (accounts, again):
        assert each.shares("q", T + HOUR)["ann"].cpu_s == pytest.approx(100)
        assert each.shares("slow", T + 10 * HOUR)["ann"].cpu_s == pytest.approx(100)
    again.configure(1.0, T + 10 * HOUR)
    assert again.shares("slow", T + 11 * HOUR)["ann"].cpu_s == pytest.approx(10)
