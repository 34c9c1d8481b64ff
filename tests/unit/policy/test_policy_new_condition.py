"""A condition is one class: added to its list, it is honoured by all that ask whether a job fits on a host.

Three are added here, one of each kind. All of them refuse the host `a`, which would otherwise be the first choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from placing_cluster import NOW, Cluster, host, kind, places

from gsched.model.ledgers.allocation import Allocation, HostAllocation
from gsched.model.ledgers.host_ledger import HostLedger
from gsched.model.queues.queue import Preemption, Queue
from gsched.model.scheduling.column_part import ColumnPart, Flags
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Bucket, Running
from gsched.policy.future.future_ledgers import Future
from gsched.policy.match.fit_condition import HostCondition, HostsView, RoomCondition, ValueCondition
from gsched.policy.match.host_conditions import HOST_CONDITIONS
from gsched.policy.match.host_fit import misfit
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.match.room_conditions import ROOM_CONDITIONS
from gsched.policy.match.value_conditions import VALUE_CONDITIONS
from gsched.policy.place import fast_path
from gsched.policy.requirement.demand import Demand, DemandTerm, HostNeed
from gsched.policy.requirement.reasons import Reason

MOST_JOBS = 3
TAKER = fast_path.taker


class NotA(HostCondition):
    """The host is another one."""

    @classmethod
    def of(cls, queue: Queue, demand: Demand, rules: FitRules, *, on_first: bool) -> Iterator[HostCondition]:
        yield cls()

    def refusal(self, now: HostNow) -> Reason | None:
        return Reason("It is a") if now.host.name == "a" else None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        return view.of(np.array([name == "a" for name in columns.names], dtype=np.bool_))


class Cool(ValueCondition):
    """The host is not hot."""

    @classmethod
    def of(cls, term: DemandTerm, rules: FitRules) -> Iterator[ValueCondition]:
        yield cls()

    def refusal(self, now: HostNow) -> Reason | None:
        heat = now.values["heat"]
        return Reason("It is hot") if isinstance(heat, float) and heat > 50.0 else None

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        heat = view.number("heat")
        assert heat is not None
        return heat > 50.0


class FewJobs(RoomCondition):
    """Not many jobs hold something there."""

    @classmethod
    def of(cls, need: HostNeed, rules: FitRules) -> Iterator[RoomCondition]:
        yield cls()

    @classmethod
    def refusal_of(cls, part: HostAllocation, host_ledger: HostLedger) -> Reason | None:
        return Reason("It has many jobs") if len(host_ledger.held) >= MOST_JOBS else None

    def refusal(self, now: HostNow) -> Reason | None:
        return self.refusal_of(HostAllocation(host=now.host.name, slots=0), now.host_ledger)

    def unmet(self, columns: HostColumns, view: HostsView) -> Flags:
        rows = view.rows.tolist() if isinstance(view, ColumnPart) else range(columns.size)
        return np.array([len(columns.host_ledger(row).held) >= MOST_JOBS for row in rows], dtype=np.bool_)


@pytest.fixture(params=[NotA, Cool, FewJobs])
def refuse_a(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Adds the condition; its reason."""

    def add() -> str:
        added = request.param
        lists = ((HostCondition, HOST_CONDITIONS), (ValueCondition, VALUE_CONDITIONS), (RoomCondition, ROOM_CONDITIONS))
        for base, conditions in lists:
            if issubclass(added, base):
                monkeypatch.setattr(f"gsched.policy.match.{_module(base)}", [*conditions, added])
        return {NotA: "It is a", Cool: "It is hot", FewJobs: "It has many jobs"}[added]

    return add


def _module(base: type) -> str:
    word = base.__name__.removesuffix("Condition").lower()
    return f"{word}_conditions.{word.upper()}_CONDITIONS"


def cluster_of(names: str = "abc", **options: object) -> Cluster:
    """On `a` there are as many jobs as FewJobs allows, which take nothing."""
    found = Cluster(*(host(name, values={"heat": 90.0 if name == "a" else 20.0}) for name in names), **options)
    for _ in range(MOST_JOBS if "a" in names else 0):
        found.hold("a", slots=0)
    return found


def hosts_of(cluster: Cluster) -> list[str]:
    return sorted(part.host for each in cluster.plan().placements for part in each.allocation.parts)


@pytest.mark.parametrize(
    ("bucket", "jobs", "before", "after"),
    [
        (kind(), 1, "a", "b"),
        (kind("rusage[mem=300]"), 4, "aaab", "bbbc"),
        (kind("span[ptile=1]", slots=2), 1, "ab", "bc"),
        (kind("1*{rusage[mem=600.00]} + 1*{rusage[mem=700.00]}", slots=2), 1, "ab", "bc"),
        (kind("{select[mem>9999]} || {rusage[mem=1.00]}"), 1, "a", "b"),
        (kind("order[slots]"), 2, "ab", "bc"),
    ],
)
def test_placing_honours_it(refuse_a: Callable[[], str], bucket: Bucket, jobs: int, before: str, after: str) -> None:
    cluster = cluster_of()
    cluster.add(bucket, jobs)
    assert hosts_of(cluster) == list(before)
    refuse_a()
    assert hosts_of(cluster) == list(after)


def test_a_mass_of_jobs_honours_it(refuse_a: Callable[[], str]) -> None:
    cluster = cluster_of()
    cluster.add(kind(), 24)
    assert hosts_of(cluster) == ["a"] * 8 + ["b"] * 8 + ["c"] * 8
    reason = refuse_a()
    each = MOST_JOBS if "many" in reason else 8
    assert hosts_of(cluster) == ["b"] * each + ["c"] * each


def test_it_says_why_a_job_waits(refuse_a: Callable[[], str]) -> None:
    cluster = cluster_of("a")
    cluster.add(kind())
    assert len(cluster.plan().placements) == 1
    text = refuse_a()
    (told,) = cluster.plan().reasons.values()
    assert [(each.text, each.hosts) for each in told] == [(text, 1)]


def test_planned_starts_honour_it(refuse_a: Callable[[], str]) -> None:
    """A job for a whole host is planned for the end of what runs on b, though a is empty sooner."""
    cluster = cluster_of("ab")
    for name, ends_at in (("a", NOW + 50.0), ("b", NOW + 100.0)):
        run(cluster, name, kind(slots=8, run_s=100.0), ends_at)
    cluster.add(kind(slots=8, run_s=10.0))
    (planned,) = cluster.plan().planned.values()
    assert (planned.hosts, planned.at) == (("a",), NOW + 50.0)
    refuse_a()
    (planned,) = cluster.plan().planned.values()
    assert (planned.hosts, planned.at) == (("b",), NOW + 100.0)


def test_preemption_honours_it(refuse_a: Callable[[], str]) -> None:
    """The job that has run for the shortest time would make room, were it not on a."""
    high, low = Queue(name="high", priority=9, preemption=Preemption(preemptive=())), Queue(name="low", priority=1)
    cluster = cluster_of("ab", queues=(high, low))
    on_a = run(cluster, "a", kind(queue="low", slots=8), NOW + 900.0, started_at=20.0)
    on_b = run(cluster, "b", kind(queue="low", slots=8), NOW + 900.0, started_at=10.0)
    cluster.add(kind(queue="high", slots=8))
    assert [each.job_id for each in cluster.plan().preempted] == [on_a]
    refuse_a()
    plan = cluster.plan()
    assert [each.job_id for each in plan.preempted] == [on_b] and list(places(plan).values()) == ["b"]


def test_the_check_of_what_is_carried_out_and_of_planned_parts_honours_room(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of("a")
    part = HostAllocation(host="a", slots=1)
    snapshot = cluster.snapshot()
    assert misfit(cluster.ledger, (1, 1), Allocation(hosts=(part,))) == ""
    assert Future(snapshot, NOW).refit(part, snapshot.ledger.host("a")) is part
    monkeypatch.setattr("gsched.policy.match.room_conditions.ROOM_CONDITIONS", [*ROOM_CONDITIONS, FewJobs])
    assert misfit(cluster.ledger, (1, 1), Allocation(hosts=(part,))) == "It has many jobs"
    assert Future(snapshot, NOW).refit(part, snapshot.ledger.host("a")) is None


def test_the_fast_path_is_taken_where_columns_say_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(fast_path, "taker", lambda *asked: made.append(asked) or TAKER(*asked))
    for conditions, added, fast_paths in (("value", Cool, 1), ("room", FewJobs, 0)):
        with monkeypatch.context() as patch:
            module = f"gsched.policy.match.{conditions}_conditions.{conditions.upper()}_CONDITIONS"
            patch.setattr(module, [*(VALUE_CONDITIONS if added is Cool else ROOM_CONDITIONS), added])
            cluster = cluster_of()
            cluster.add(kind(), 6)
            assert "a" not in hosts_of(cluster)
        assert len(made) == fast_paths
        made.clear()


def run(cluster: Cluster, name: str, bucket: Bucket, ends_at: float, started_at: float = 0.0) -> int:
    """A job of the bucket that runs on the host."""
    cluster.last += 1
    allocation = Allocation(hosts=(HostAllocation(host=name, slots=bucket.requirement.slots),))
    cluster.ledger.take((cluster.last, 1), allocation)
    cluster.running[cluster.last] = Running(cluster.last, 1, bucket, allocation, "RUN", started_at, ends_at)
    return cluster.last
