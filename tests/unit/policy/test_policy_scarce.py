"""GPU_PLACEMENT = scarce: hosts and devices by what a job takes from the kinds that are expected."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from placing_cluster import NOW, SHARED, Cluster, devices, host, kind, places

from gsched.model.hosts.host import ComputeMode
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import JobKind, Plan, RequirementClass
from gsched.policy.cycle import schedule
from gsched.policy.devices.scarce_placement import kind_of_class
from tests.support.property_examples import examples

SMALL = JobKind(1, 0.0, 1, 1.0, "gpu_shared")


def gpus(number: int, claim: str = "gpu_shared", *, slots: int = 1) -> JobKind:
    return JobKind(slots, 0.0, number, 1.0, claim)


def part(share: float) -> JobKind:
    return JobKind(1, 0.0, 1, share, "gpu_shared")


def lean_and_rich(**options) -> Cluster:
    """Host `lean` has GPUs and few slots, `rich` as many GPUs and slots for a big job; `lean` has more idle GPUs."""
    cluster = Cluster(host("lean"), host("rich"), **options)
    cluster.ledger.host("lean").max_slots = 4
    cluster.ledger.host("rich").max_slots = 16
    return cluster.devices("lean", 5, mode=SHARED).devices("rich", 4, mode=SHARED)


def small_then_big(cluster: Cluster) -> tuple[dict[int, str], list[int]]:
    small = cluster.add(kind(gpu="num=1:mode=shared"))
    big = cluster.add(kind("span[hosts=1]", slots=16, gpu="num=4:mode=shared"))
    return places(cluster.plan()), [*small, *big]


def test_packing_strands_a_big_job_that_scarce_placing_keeps_room_for() -> None:
    packed, (small, big) = small_then_big(lean_and_rich())
    assert packed == {small: "rich"}, "the fewest idle devices are left there"
    expected = ((gpus(4, slots=16), 5.0), (SMALL, 5.0))
    assert small_then_big(lean_and_rich(mix=expected))[0] == {small: "lean", big: "rich"}


def test_a_share_goes_on_the_device_whose_rest_others_can_use() -> None:
    def run(**options) -> list[int]:
        cluster = Cluster(host("a"), **options).devices("a", 2, mode=SHARED)
        ids = cluster.add(kind(gpu="num=1:mode=shared:share=0.5"))
        ids += cluster.add(kind(gpu="num=1:mode=shared:share=0.6"))
        ids += cluster.add(kind(gpu="num=1:mode=shared:share=0.1"))
        found = devices(cluster.plan())
        return [found[job_id][0] for job_id in ids]

    assert run() == [0, 1, 1], "the GPU that is shared most"
    assert run(mix=((part(0.4), 9.0), (part(0.5), 1.0))) == [0, 1, 0], "0.4 still fits on both"
    assert run(mix=((part(0.4), 1.0), (part(0.5), 9.0))) == [0, 1, 1], "0.5 still fits on one"


def test_jobs_without_gpus_keep_off_the_hosts_of_gpus() -> None:
    cluster = Cluster(host("a"), host("b", values={"r15s": 5.0}), host("c", values={"r15s": 3.0}), mix=((SMALL, 1.0),))
    cluster.devices("a", 4, mode=SHARED).gpus("b").gpus("c")
    jobs = cluster.add(kind(slots=8), 3)
    assert places(cluster.plan()) == dict(zip(jobs, ["c", "b", "a"], strict=True)), "bare hosts first, by load"


def test_what_a_user_prefers_stands_above() -> None:
    expected = ((gpus(4, slots=16), 5.0), (SMALL, 5.0))
    cases = {
        "lean": {},
        "rich": {"asked_hosts": ("lean", "rich"), "host_levels": (0, 1)},
    }
    for wanted, asked in cases.items():
        cluster = lean_and_rich(mix=expected)
        (job,) = cluster.add(kind(gpu="num=1:mode=shared", **asked))
        assert places(cluster.plan()) == {job: wanted}
    for text, asked in (("order[slots]", {}), ("", {"avoid_host": "lean"})):
        cluster = lean_and_rich(mix=expected)
        (job,) = cluster.add(kind(text, gpu="num=1:mode=shared", **asked))
        assert places(cluster.plan()) == {job: "rich"}


def test_a_kind_that_no_host_could_ever_take_does_not_matter() -> None:
    real = ((gpus(4, slots=16), 5.0), (SMALL, 5.0))
    dreamt = (*real, (gpus(64), 1000.0), (JobKind(1, 0.0, 1, 1.0, "gpu_shared", "Cray"), 1000.0))
    assert small_then_big(lean_and_rich(mix=dreamt)) == small_then_big(lean_and_rich(mix=real))


def test_devices_of_another_mode_are_no_room() -> None:
    """Jobs for shared GPUs take nothing from those for GPUs in exclusive mode."""
    cluster = Cluster(host("a"), host("b"), mix=((gpus(2, "gpu_excl"), 9.0), (SMALL, 1.0)))
    cluster.devices("a", 4, mode=SHARED).devices("b", 2, mode=ComputeMode.EXCLUSIVE_PROCESS)
    exclusive = cluster.add(kind(gpu="num=2:mode=exclusive_process"))
    shared = cluster.add(kind(gpu="num=1:mode=shared"))
    assert places(cluster.plan()) == {exclusive[0]: "b", shared[0]: "a"}


def test_the_kind_of_a_class() -> None:
    def of(text: str = "", **asked) -> JobKind | None:
        return kind_of_class(RequirementClass(text, **asked), "LINUX")

    assert of("rusage[mem=100]", slots=2, gpu="num=1:mode=shared:share=0.25") == JobKind(2, 100, 1, 0.25, "gpu_shared")
    assert of("rusage[ngpus_excl_p=2]") == JobKind(1, 0.0, 2, 1.0, "ngpus_excl_p")
    assert of(gpu="num=1:mode=shared:gmodel=V100") == JobKind(1, 0.0, 1, 1.0, "gpu_shared", "V100")
    assert of("rusage[mem=100]") is None, "no GPUs"
    assert of("1*{rusage[ngpus=1]} + 1*{rusage[mem=1]}", slots=2) is None, "several hosts"
    assert of(gpu="num=1", exclusive=True) is None
    assert of("rusage[", slots=2) is None, "unreadable"


# -- properties -------------------------------------------------------------------------------------------------------

_SHARES = (0.2, 0.3, 0.5, 0.8)
_ASKED = st.one_of(
    st.sampled_from(_SHARES).map(lambda share: {"gpu": f"num=1:mode=shared:share={share}"}),
    st.integers(1, 4).map(lambda number: {"gpu": f"num={number}:mode=shared"}),
    st.integers(1, 4).map(lambda slots: {"slots": slots, "text": "span[hosts=1]"}),
    st.just({"text": "rusage[mem=400]", "gpu": "num=1:mode=shared"}),
)
_KINDS = st.one_of(
    st.integers(1, 4).map(gpus), st.sampled_from(_SHARES).map(part), st.integers(1, 8).map(lambda n: gpus(1, slots=n))
)
_MIX = st.dictionaries(_KINDS, st.integers(1, 50).map(float), max_size=5).map(lambda often: tuple(often.items()))
_HOSTS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), min_size=1, max_size=5)
_TRACE = st.lists(st.lists(_ASKED, min_size=1, max_size=6), min_size=1, max_size=4)


class Steps:
    """Cycles one after the other over columns that are kept."""

    def __init__(self, hosts: list[tuple[int, int]], mix: tuple[tuple[JobKind, float], ...]) -> None:
        names = [f"h{number}" for number in range(len(hosts))]
        self.cluster = Cluster(*map(host, names), mix=mix)
        for name, (count, slots) in zip(names, hosts, strict=True):
            self.cluster.ledger.host(name).max_slots = slots
            self.cluster.devices(name, count, mode=SHARED)
        self.columns: HostColumns | None = None

    def step(self, asked: list[dict], *, kept: bool = True) -> Plan:
        for each in asked:
            self.cluster.add(kind(each.get("text", ""), **{name: it for name, it in each.items() if name != "text"}))
        snapshot = self.cluster.snapshot()
        if kept:
            if self.columns is None:
                self.columns = HostColumns(snapshot.hosts, snapshot.ledger)
            else:
                self.columns.show(snapshot.ledger, self.cluster.ledger.changed)
            self.cluster.ledger.changed.clear()
            snapshot = replace(snapshot, columns=self.columns)
        plan = schedule(snapshot, NOW, 10_000)
        self.cluster.carry_out(plan)  # says so if something does not fit
        return plan


@given(_HOSTS, _MIX, _TRACE)
@settings(max_examples=examples(20), deadline=None)
def test_nothing_is_placed_that_does_not_fit_and_equal_cycles_place_equally(hosts, mix, trace) -> None:
    kept, again = Steps(hosts, mix), Steps(hosts, mix)
    for asked in trace:
        assert kept.step(asked).placements == again.step(asked).placements


@given(_HOSTS, _MIX, st.lists(_ASKED, min_size=1, max_size=8))
@settings(max_examples=examples(20), deadline=None)
def test_a_first_job_that_fits_somewhere_is_placed_whatever_is_expected(hosts, mix, asked) -> None:
    for each in asked:
        with_mix = Steps(hosts, mix).step([each])
        assert len(with_mix.placements) == len(Steps(hosts, ()).step([each]).placements)


@given(_HOSTS, _TRACE)
@settings(max_examples=examples(13), deadline=None)
def test_where_nothing_is_expected_that_hosts_could_take_it_is_best_fit(hosts, trace) -> None:
    scarce, packed = Steps(hosts, ((gpus(5), 7.0),)), Steps(hosts, ())
    for asked in trace:
        assert scarce.step(asked).placements == packed.step(asked).placements
