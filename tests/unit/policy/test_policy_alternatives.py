"""Compound requirements and alternatives: parts in order, one of several, and why none can be had."""

from __future__ import annotations

from placing_cluster import Cluster, host, hosts, kind, spreads, told


def test_a_compound_places_its_parts_in_order_and_merges_them_by_host() -> None:
    cluster = hosts("a", "b", slots=4).devices("a")
    text = "1*{rusage[ngpus_excl_p=1,mem=100]} + 3*{rusage[mem=50/task]}"
    cluster.add(kind(text, slots=4))
    cluster.add(kind("2*{rusage[mem=1]} + {span[hosts=1]}", slots=5))
    plan = cluster.plan()
    assert spreads(plan) == {1: {"a": 4}}
    part = plan.placements[0].allocation.hosts[0]
    assert (part.amounts, [gpu.index for gpu in part.gpus]) == ({"mem": 250.0}, [0])
    assert told(plan)[0][0].startswith("Not enough job slot(s)")


def test_a_part_of_a_compound_does_not_take_the_only_host_of_another() -> None:
    cluster = Cluster(
        host("a", values={"big": True}), host("b", values={"r15s": 1.0}), host("c", values={"r15s": 2.0}), slots=2
    )
    parts = "2*{order[r15s]} + 2*{rusage[mem=9.00/task]} + 2*{select[big] order[r15s]}"
    (job,) = cluster.add(kind(parts, slots=6))
    (placed,) = cluster.plan().placements
    assert placed.job_id == job
    assert [(part.host, part.amounts) for part in placed.allocation.hosts] == [("b", {}), ("c", {"mem": 18}), ("a", {})]


def test_a_compound_on_hosts_that_agree() -> None:
    models = {"a": "X", "b": "Y", "c": "Y"}
    cluster = Cluster(*[host(name, values={"model": model}) for name, model in models.items()], slots=2)
    cluster.add(kind("{2*{select[mem>1]} + 2*{select[mem>2]}} same[model]", slots=4))
    assert spreads(cluster.plan()) == {1: {"b": 2, "c": 2}}


def test_alternatives_in_order_and_by_delay() -> None:
    text = "{rusage[mem=2000]} || {rusage[mem=500]} || {rusage[mem=1]}@60"
    cluster = Cluster(host("a", values={"mem": 1100.0}))
    cluster.add(kind(text), 3)
    cluster.add(kind(text, waited_s=60.0))
    plan = cluster.plan()
    assert [(each.job_id, each.effective) for each in plan.placements] == [
        (1, "rusage[mem=500.00]"),
        (2, "rusage[mem=500.00]"),
        (4, "rusage[mem=1.00]"),
    ]
    usages = hosts("a")
    usages.add(kind("rusage[mem=800 || mem=300]"), 2)
    assert [each.effective for each in usages.plan().placements] == ["rusage[mem=800.00]"]


def test_every_alternative_says_why_it_cannot_be_had() -> None:
    cluster = hosts("a", "b").hold("b", slots=4)
    text = "{rusage[mem=2000]} || {2*{rusage[mem=3]} + 3*{mem>5000}} || {rusage[mem=4000 || mem=5000]}@20 || {ut<1}@60"
    cluster.add(kind(text, slots=5, waited_s=20.0))
    cluster.add(kind("rusage[mem=1500 || swp=1]"))
    reserving = "Job's requirements for reserving resource (mem) not satisfied"
    assert told(cluster.plan()) == [
        (
            "Not enough job slot(s) (5 slots wanted, 0 on 0 hosts could be had)",
            "Job slot limit reached: 1 host (1 wanted, 0 of 4 free on b)",
            f"{reserving}: 1 host (2000 wanted, 1000 free on a)",
            "Alternative 2: Job's resource requirements not satisfied: 2 hosts (mem>5000: mem is 1000 on a)",
            "Alternative 3 with rusage 1: Not enough job slot(s) (5 slots wanted, 0 on 0 hosts could be had)",
            "Alternative 3 with rusage 1: Job slot limit reached: 1 host (1 wanted, 0 of 4 free on b)",
            f"Alternative 3 with rusage 1: {reserving}: 1 host (4000 wanted, 1000 free on a)",
            "Alternative 3 with rusage 2: Not enough job slot(s) (5 slots wanted, 0 on 0 hosts could be had)",
            "Alternative 3 with rusage 2: Job slot limit reached: 1 host (1 wanted, 0 of 4 free on b)",
            f"Alternative 3 with rusage 2: {reserving}: 1 host (5000 wanted, 1000 free on a)",
            "Alternative 4 will be tried 60 seconds after submission",
        ),
        (
            "Job slot limit reached: 1 host (1 wanted, 0 of 4 free on b)",
            f"{reserving}: 1 host (1500 wanted, 1000 free on a)",
            "Alternative 2 of rusage: Job slot limit reached: 1 host (1 wanted, 0 of 4 free on b)",
            f"Alternative 2 of rusage: {reserving.replace('mem', 'swp')}: 1 host (1 wanted, a has no swp)",
        ),
    ]
