"""Of a place that was found by planning or by preemption it is known which alternative of the requirement it is of."""

from __future__ import annotations

import pytest
from placing_cluster import host, kind

from gsched.model.ledgers.allocation import Allocation, HeldGpu, HostAllocation
from gsched.model.ledgers.ledger import Ledger
from gsched.policy.match.host_now import live_values
from gsched.policy.place.chosen_alternative import choice_of
from gsched.policy.requirement.demand_reader import demand_of

HOSTS = {"a": host("a", values={"big": True}), "b": host("b", values={"big": False, "mem": 500.0})}


def on(name: str, slots: int = 1, gpus: int = 0, **amounts: float) -> HostAllocation:
    held = tuple(HeldGpu(uuid=f"{name}{i}", index=i, claim="ngpus_excl_p") for i in range(gpus))
    return HostAllocation(host=name, slots=slots, gpus=held, amounts=amounts)


@pytest.mark.parametrize(
    ("text", "parts", "number"),
    [
        ("{select[big] rusage[mem=5.00]} || {select[mem>100] rusage[mem=5.00]}", [on("a", mem=5.0)], 1),
        ("{select[big] rusage[mem=5.00]} || {select[mem>100] rusage[mem=5.00]}", [on("b", mem=5.0)], 2),
        ("{rusage[mem=900.00]} || {rusage[mem=90.00]}", [on("a", mem=90.0)], 2),
        ("{rusage[mem=9.00,swp=1.00]} || {rusage[mem=9.00]}", [on("a", mem=9.0)], 2),
        ("{rusage[ngpus_excl_p=2.00]} || {rusage[ngpus_excl_p=1.00]}", [on("a", gpus=1)], 2),
        ("rusage[mem=9.00 || mem=8.00,swp=1.00]", [on("a", mem=8.0, swp=1.0)], 2),
        ("{span[hosts=1]} || {span[ptile=1]}", [on("a"), on("b")], 2),
        ("{rusage[mem=9.00/task]} || {rusage[mem=9.00/host]}", [on("a", 2, mem=9.0)], 2),
        ("{rusage[mem=9.00/job]} || {rusage[mem=9.00/host]}", [on("a", mem=9.0), on("b")], 1),
        (
            "{rusage[mem=9.00]} || {1*{rusage[mem=1.00]} + 1*{rusage[swp=1.00]}}",
            [on("a", mem=1.0), on("b", swp=1.0)],
            2,
        ),
        ("{1*{rusage[mem=1.00]} + 1*{rusage[swp=1.00]}} || {rusage[mem=1.00]}", [on("a", 2, mem=1.0)], 2),
    ],
)
def test_the_alternative_is_known_by_what_it_holds_and_where(
    text: str, parts: list[HostAllocation], number: int
) -> None:
    slots = sum(part.slots for part in parts)
    demand = demand_of(kind(text, slots=slots).requirement, "LINUX")
    ledger = Ledger()
    found = choice_of(demand, Allocation(hosts=tuple(parts)), lambda name: live_values(HOSTS[name], ledger.host(name)))
    assert demand.choices.index(found) == number - 1
