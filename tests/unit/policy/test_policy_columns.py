"""All hosts at once say what each host says: the vector rule, its ranks and reasons against the scalar one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from affinity_hosts import topology
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from placing_cluster import NOW, Cluster, host, kind, places

from gsched.base.coded_text import coded
from gsched.model.hosts.host import ComputeMode, Gpu, GpuReport, MigDevice
from gsched.model.hosts.resource import GPU_COUNTERS
from gsched.model.hosts.topology import offered
from gsched.model.jobs.reason import PendingReason
from gsched.model.ledgers.allocation import CpuBinding, HostAllocation
from gsched.model.ledgers.devices import SETTABLE_MODES, held_of
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.columns import HostColumns
from gsched.model.scheduling.snapshot import Bucket, HostSnapshot, Snapshot
from gsched.policy.match.columns import FITS
from gsched.policy.match.columns_cycle import CycleColumns, PlacementWay
from gsched.policy.match.fit_condition import refusal
from gsched.policy.match.host_conditions import AcceptInterval, host_conditions
from gsched.policy.match.host_fit import TaskFit
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.match.room_conditions import refusal_of
from gsched.policy.requirement.demand import Demand
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.requirement.reasons import Reason
from tests.support.property_examples import examples

SELECTS = ("", "type == any", "mem>400", "ut<0.5 && mem>100", "slots>2", "ngpus>1", "hname==h1", "big", "!defined(lic)")
RUSAGES = ("", "mem=300", "lic=2", "mem=100/task", "mem=100/job", "ngpus_excl_p=1", "ngpus_excl_p=2", "ngpus=1",
           "ngpus_shared=1", "mem=200:threshold=500", "ngpus_excl_p=1,mem=50", "nothere=1")  # fmt: skip
ORDERS = ("", "order[mem]", "order[-slots]", "order[ut:-mem]", "order[mem/2]", "order[nothere]")
AFFINITIES = ("", "", "", "affinity[core(1)]", "affinity[thread(2,same=socket)]", "affinity[numa(1)]",
              "affinity[thread(1,exclusive=(core,injob)):distribute=pack(socket=1)]")  # fmt: skip
GPUS = ("", "num=1", "num=2:mode=exclusive_process", "share=0.5", "num=1:gmem=500M", "num=1:j_exclusive=yes",
        "num=1:gmodel=V100", "num=2:glink=yes", "num=1:gpack=yes", "num=2:gtile=1", "num=2:mig=1",
        "mig=3/1:gmem=300M", "num=1/task:mig=3:j_exclusive=yes")  # fmt: skip
LAYOUTS = ((), (), (), ("3g.20gb", "1g.5gb", "1g.5gb"), ("1c.3g.20gb",))


CLAIMS = ("ngpus", "ngpus_shared", "ngpus_excl_p", "gpu_shared", "gpu_jexcl", "gpu_excl", "mig_shared", "mig_jexcl")


@st.composite
def devices(draw: st.DrawFn, name: str) -> tuple[Gpu, ...]:
    links = draw(st.booleans())
    return tuple(
        Gpu(
            uuid=f"{name}-{index}",
            index=index,
            mode=mode,
            model=draw(st.sampled_from(["Tesla V100-PCIE", "A100"])),
            memory_mib=draw(st.sampled_from([None, 400, 1000])),
            problem=draw(st.sampled_from(["", "", "", "lost"])),
            numa=draw(st.sampled_from([None, 0, 1])),
            links=(f"{name}-{index ^ 1}",) if links else (),
            mode_settable=mode in SETTABLE_MODES and draw(st.booleans()),
            mig=bool(layout),
            mig_devices=tuple(
                MigDevice(uuid=f"{name}-{index}-{place}", profile=profile, memory_mib=400 * (place + 1))
                for place, profile in enumerate(layout)
            ),
        )
        for index in range(draw(st.integers(0, 4)))
        for layout in [draw(st.sampled_from(LAYOUTS))]
        for mode in [draw(st.sampled_from([*ComputeMode, None, *SETTABLE_MODES]))]
    )


@st.composite
def hosts(draw: st.DrawFn, name: str) -> HostSnapshot:
    values: dict[str, Any] = {
        "ut": draw(st.sampled_from([0.1, 0.7, None])),
        "mem": draw(st.sampled_from([250.0, 600.0, 1000.0, None])),
        "big": draw(st.booleans()),
        "maxslots": 8.0,
        "r15s": draw(st.sampled_from([0.0, 1.0, None])),
    }
    if draw(st.booleans()):
        values["lic"] = draw(st.sampled_from([1.0, 5.0, None]))
    found = host(
        name,
        values=values,
        closed=draw(st.sampled_from(["", "", "", "Closed by LSF administrator"])),
        busy=draw(st.sampled_from([{}, {}, {"": PendingReason(coded("load.pg"))}, {"r": PendingReason("busy")}])),
        exclusive_resources=draw(st.sampled_from([(), (), ("big",)])),
        last_dispatch=draw(st.sampled_from([-math.inf, NOW - 1.0])),
    )
    if draw(st.integers(0, 4)) == 0:
        return replace(found, values={key: each for key, each in found.values.items() if not key.startswith("ngpus")})
    return found


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    names = draw(st.permutations([f"h{number}" for number in range(draw(st.integers(0, 4)))]))
    queues = (Queue(name="q"), Queue(name="r", hosts=("h0", "h2"), host_levels={"h2": 3}, accept_interval_s=0.0))
    cluster = Cluster(
        *[draw(hosts(name)) for name in names],
        queues=queues,
        job_accept_interval_s=draw(st.sampled_from([0.0, 2.0])),
        reserve_cores_per_gpu=draw(st.sampled_from([0, 2])),
    )
    cluster.hosts = {name: each for name, each in cluster.hosts.items() if name in names}
    for name in names:
        host_ledger = cluster.ledger.host(name)
        host_ledger.max_slots = draw(st.sampled_from([0, 3, 8, None]))
        host_ledger.shared_jobs = draw(st.integers(1, 2))
        if draw(st.integers(0, 3)):
            host_ledger.observe_gpus(GpuReport(gpus=draw(devices(name))))
        sizes = [draw(st.integers(1, 2)) for _ in range(4)]
        host_ledger.observe_processors(offered(topology(*sizes), ()) if draw(st.booleans()) else ())
        draw(holdings(cluster, name))
    return cluster


@st.composite
def holdings(draw: st.DrawFn, cluster: Cluster, name: str) -> None:
    """Some of what fits."""
    host_ledger = cluster.ledger.host(name)
    for number in range(draw(st.integers(0, 3))):
        claim = draw(st.sampled_from(CLAIMS))
        share = draw(st.sampled_from([1.0, 0.5])) if claim == "gpu_shared" else 1.0
        free = host_ledger.claimable(claim, share)[: draw(st.integers(0, 2))]
        part = HostAllocation(
            host=name,
            slots=draw(st.integers(0, 2)),
            gpus=tuple(held_of(gpu, claim, share) for gpu in free),
            amounts=draw(st.sampled_from([{}, {"mem": 200.0}, {"lic": 1.0}])),
            exclusive=draw(st.integers(0, 6)) == 0,
        )
        if host_ledger.processors and draw(st.booleans()):
            cpus = tuple(each.cpu for each in host_ledger.processors[: draw(st.integers(1, 3))])
            part = structs.replace(part, bindings=(CpuBinding(affinity="affinity[thread(1)]", held=cpus, tasks=()),))
        if not refusal_of(part, host_ledger):
            host_ledger.take((9000 + number, 1), part)


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    select, rusage, order = (draw(st.sampled_from(each)) for each in (SELECTS, RUSAGES, ORDERS))
    sections = [f"select[{select}]" if select else "", f"rusage[{rusage}]" if rusage else "", order]
    text = " ".join([*sections, draw(st.sampled_from(AFFINITIES))]).strip()
    return kind(
        text,
        queue=draw(st.sampled_from(["q", "r"])),
        slots=draw(st.integers(1, 3)),
        gpu=draw(st.sampled_from(GPUS)) if draw(st.booleans()) else "",
        auto_gpu=draw(st.integers(0, 5)) == 0,
        exclusive=draw(st.integers(0, 5)) == 0,
        asked_hosts=draw(st.sampled_from([(), (), ("h0", "h1")])),
        other_hosts=draw(st.booleans()),
        excluded_hosts=draw(st.sampled_from([(), (), ("h1",)])),
    )


def scalar(snapshot: Snapshot, bucket: Bucket, demand: Demand, rules: FitRules) -> dict[str, HostAllocation | Reason]:
    """Host by host: what a job would hold there, or why it cannot run there."""
    found: dict[str, HostAllocation | Reason] = {}
    term, queue = demand.choices[0].terms[0], snapshot.queues[bucket.queue]
    of_host = [*host_conditions(queue, demand, rules), AcceptInterval(queue, rules)]
    fit = TaskFit(term, term.need(demand.slots), rules)
    for name, each in snapshot.hosts.items():
        host_ledger = snapshot.ledger.host(name)
        found[name] = refusal(of_host, HostNow(each, host_ledger)) or fit.on(each, host_ledger)
    return found


def way_of(demand: Demand) -> PlacementWay:
    return PlacementWay(0, 0, demand.choices[0].terms[0], demand.slots)


def is_exact(demand: Demand) -> bool:
    """Several kinds of devices at once are only bounded by the columns; which devices, is asked of the host."""
    return len(demand.choices[0].terms[0].need(demand.slots).devices) < 2


@settings(max_examples=examples(70), deadline=None)
@given(clusters(), buckets())
def test_all_at_once_say_what_each_host_says(cluster: Cluster, bucket: Bucket) -> None:
    snapshot = cluster.snapshot()
    rules = FitRules.of(snapshot, NOW)
    demand = demand_of(bucket.requirement, "LINUX")
    field = CycleColumns(snapshot, rules)
    match = field.match(snapshot.queues[bucket.queue], bucket.requirement, demand, way_of(demand))
    expected = scalar(snapshot, bucket, demand, rules)
    for row, name in enumerate(field.columns.names):
        fits = isinstance(expected[name], HostAllocation)
        if is_exact(demand):
            assert (match.codes[row] == FITS) == fits, (name, expected[name], int(match.codes[row]))
        else:
            assert fits <= (match.codes[row] == FITS)
    for part in expected.values():
        if isinstance(part, HostAllocation):
            assert refusal_of(part, cluster.ledger.host(part.host)) is None


@settings(max_examples=examples(50), deadline=None)
@given(clusters(), buckets())
def test_reasons_are_those_of_the_hosts_counted(cluster: Cluster, bucket: Bucket) -> None:
    snapshot = cluster.snapshot()
    rules = FitRules.of(snapshot, NOW)
    demand = demand_of(bucket.requirement, "LINUX")
    field = CycleColumns(snapshot, rules)
    queue = snapshot.queues[bucket.queue]
    told = field.reasons(queue, bucket.requirement, demand, way_of(demand), {})
    expected = [each for each in scalar(snapshot, bucket, demand, rules).values() if isinstance(each, Reason)]
    assert told and all(reason.text for reason in told)
    if is_exact(demand):
        counted: Counter[str] = Counter()
        for reason in told:
            counted[reason.text] += reason.hosts
        assert +counted == Counter(each.text for each in expected)
        details = {each.detail for each in expected}
        assert all(reason.detail in details for reason in told if reason.hosts)


def as_configured(new: HostSnapshot, before: HostSnapshot) -> HostSnapshot:
    """With what only a new configuration changes: which counters of GPUs are mapped, and whom the host is kept for."""
    values = {name: value for name, value in new.values.items() if name not in GPU_COUNTERS}
    values |= {name: value for name, value in before.values.items() if name in GPU_COUNTERS}
    return replace(new, values=values, exclusive_resources=before.exclusive_resources)


@settings(max_examples=examples(30), deadline=None)
@given(clusters(), st.lists(buckets(), min_size=1, max_size=4), st.data())
def test_columns_that_are_kept_say_what_new_ones_say(
    cluster: Cluster, kinds: list[Bucket], data: st.DataObject
) -> None:
    """Cycle after cycle, with ledgers and hosts that change in between, on the same columns."""
    columns: HostColumns | None = None
    for bucket in kinds:
        cluster.add(bucket, 2)
    for _ in range(3):
        plain, kept = cluster.snapshot(), cluster.snapshot()
        if columns is None:
            columns = HostColumns(cluster.hosts, kept.ledger)
        columns.show(kept.ledger, set(cluster.ledger.changed))
        cluster.ledger.changed.clear()
        object.__setattr__(kept, "columns", columns)
        plan = cluster.schedule(plain)
        assert cluster.schedule(kept) == plan
        cluster.carry_out(plan)
        for name in sorted(cluster.hosts):
            if data.draw(st.booleans()):
                cluster.hosts[name] = as_configured(data.draw(hosts(name)), cluster.hosts[name])
                columns.renew(cluster.hosts[name])
        for job_id in list(cluster.running):
            if data.draw(st.booleans()):
                ended = cluster.running.pop(job_id)
                cluster.ledger.give(ended.key, ended.allocation)


@settings(max_examples=examples(30), deadline=None)
@given(clusters(), st.lists(buckets(), max_size=4), st.randoms(use_true_random=False))
def test_the_order_in_which_hosts_were_added_does_not_matter(cluster: Cluster, kinds: list[Bucket], rng: Any) -> None:
    for bucket in kinds:
        cluster.add(bucket, 2)
    plan = cluster.plan()
    names = list(cluster.hosts)
    rng.shuffle(names)
    cluster.hosts = {name: cluster.hosts[name] for name in names}
    again = cluster.plan()
    assert (again.placements, again.reasons) == (plan.placements, plan.reasons)


def test_ranks_prefer_levels_then_pack_then_load_then_name() -> None:
    cluster = Cluster(host("c"), host("a", values={"r15s": 1.0}), host("b"), host("d"))
    for name in cluster.hosts:
        cluster.devices(name)
    cluster.hold("d", 0)
    cluster.add(kind(gpu="num=1:mode=exclusive_process"))
    cluster.add(kind(gpu="num=4:mode=exclusive_process"), 3)
    assert list(places(cluster.plan()).values()) == ["d", "b", "c", "a"]
    cluster.pending.clear()
    cluster.add(kind(asked_hosts=("a", "b"), host_levels=(2, 1), other_hosts=True))
    cluster.add(kind(asked_hosts=("a",), host_levels=(1,), avoid_host="a", other_hosts=True))
    assert list(places(cluster.plan()).values()) == ["a", "b"]
