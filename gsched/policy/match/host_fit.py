"""Can this host take some tasks of a job? Either what they would hold there, or the reason why not.

It asks the conditions one after the other, on any ledger; columns asks the same ones of all hosts at once, and a
property test holds the two together.
"""

from __future__ import annotations

from gsched.base.coded_text import AnyText, coded
from gsched.model.ledgers.allocation import Allocation, CpuBinding, HeldGpu, HostAllocation
from gsched.model.ledgers.host_ledger import AttemptKey, HostLedger
from gsched.model.ledgers.ledger import Ledger
from gsched.model.queues.queue import Queue
from gsched.model.scheduling.snapshot import HostSnapshot
from gsched.policy.match.fit_condition import refusal
from gsched.policy.match.host_conditions import AcceptInterval, host_conditions
from gsched.policy.match.host_now import FitRules, HostNow, binding_for, gpus_for
from gsched.policy.match.room_conditions import refusal_of, room_conditions
from gsched.policy.match.value_conditions import value_conditions
from gsched.policy.requirement.demand import Demand, DemandTerm, HostNeed
from gsched.policy.requirement.reasons import Reason, Shortage


class TaskFit:
    """Some tasks of a term, to be tried on one host after the other."""

    __slots__ = ("_conditions", "_need")

    def __init__(self, term: DemandTerm, need: HostNeed, rules: FitRules) -> None:
        self._need = need
        self._conditions = [*value_conditions(term, rules), *room_conditions(need, rules)]

    def on(self, host: HostSnapshot, host_ledger: HostLedger) -> HostAllocation | Reason:
        """What they would hold on the host if this were its ledger, or why they cannot run there."""
        now = HostNow(host, host_ledger)
        reason = refusal(self._conditions, now)
        return reason or _part(self._need, host_ledger.host, now.gpus(self._need), now.binding(self._need))


class TaskFits:
    """The same for all that one cycle tries, each made once."""

    def __init__(self, rules: FitRules) -> None:
        self._rules = rules
        self._known: dict[tuple[DemandTerm, int, bool, bool], TaskFit] = {}

    def of(self, term: DemandTerm, tasks: int, *, first: bool = True, beside: bool = False) -> TaskFit:
        """`first`: the host is the job's first; `beside`: other tasks of the job may be there already."""
        key = (term, tasks, first, beside)
        found = self._known.get(key)
        if found is None:
            need = term.need(tasks, first=first)
            need = need._replace(exclusive=False) if beside else need
            found = self._known[key] = TaskFit(term, need, self._rules)
        return found


def is_chosen(demand: Demand, host: HostSnapshot, host_ledger: HostLedger, queue: Queue, rules: FitRules) -> bool:
    """Whether a host that a start was planned on meets what is asked of its values, whatever is free there."""
    now = HostNow(host, host_ledger)
    if refusal([*host_conditions(queue, demand, rules), AcceptInterval(queue, rules)], now) is not None:
        return False
    terms = (term for choice in demand.choices for term in choice.terms)
    return any(refusal(value_conditions(term, rules), now) is None for term in terms)


def fill(need: HostNeed, host_ledger: HostLedger) -> HostAllocation | Reason:
    """The part that meets the need, of a host that has slots and amounts for it; or that devices or processor units
    are missing.
    """
    gpus = gpus_for(need, host_ledger)
    return _part(
        need, host_ledger.host, gpus, None if isinstance(gpus, Shortage) else binding_for(need, host_ledger, gpus)
    )


def _part(
    need: HostNeed, host: str, gpus: tuple[HeldGpu, ...] | Shortage, binding: CpuBinding | Reason | None
) -> HostAllocation | Reason:
    if isinstance(gpus, Shortage):
        return gpus.reason(host)
    if isinstance(binding, Reason):
        return binding
    return HostAllocation(
        host=host,
        slots=need.slots,
        gpus=gpus,
        amounts=dict(need.amounts),
        exclusive=need.exclusive,
        courses=need.courses,
        bindings=() if binding is None else (binding,),
    )


def misfit(ledger: Ledger, key: AttemptKey, allocation: Allocation) -> AnyText:
    """Why the attempt cannot be given the allocation now, by the ledger; empty when it can."""
    for part in allocation.parts:
        if ledger.holds(part.host, key):
            return coded("misfit.still_there", key[1], key[0], part.host)
        reason = refusal_of(part, ledger.host(part.host))
        if reason is not None:
            return coded("misfit.why", reason.text, reason.detail) if reason.detail else reason.text
    return ""
