"""Why each single host does not take a job, with its own numbers: for whoever asks about one job, never for a cycle.

It asks the same conditions as the columns do, one host after the other; what planned starts, limits and reservations
keep is no matter of a host and is not told here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gsched.model.scheduling.snapshot import Bucket, Snapshot
from gsched.policy.match.fit_condition import refusal
from gsched.policy.match.host_conditions import AcceptInterval, host_conditions
from gsched.policy.match.host_fit import TaskFits
from gsched.policy.match.host_now import FitRules, HostNow
from gsched.policy.requirement.demand import tasks_of
from gsched.policy.requirement.demand_reader import demand_of
from gsched.policy.requirement.reasons import Reason


def host_refusals(
    snapshot: Snapshot, now: float, bucket: Bucket, hosts: Iterable[str]
) -> Iterator[tuple[str, Reason | None]]:
    """(host, why it takes no task of a job of the bucket now; None: it would take some), in the order of `hosts`.

    A job for one host is judged whole; of one that may spread, the least that a host can get. Only the first choice of
    a requirement with alternatives is looked at. Raises RequirementError.
    """
    queue = snapshot.queues[bucket.queue]
    demand = demand_of(bucket.requirement, snapshot.local_type)
    choice, rules = demand.choices[0], FitRules.of(snapshot, now)
    term = choice.terms[0]
    tasks = tasks_of(choice, demand.slots)[0] if term.one_host else term.block
    fit = TaskFits(rules).of(term, tasks)
    conditions = [*host_conditions(queue, demand, rules), *AcceptInterval.of(queue, demand, rules, on_first=True)]
    for name in hosts:
        host, ledger = snapshot.hosts[name], snapshot.ledger.host(name)
        found = refusal(conditions, HostNow(host, ledger))
        if found is None:
            part = fit.on(host, ledger)
            found = part if isinstance(part, Reason) else None
        yield name, found
