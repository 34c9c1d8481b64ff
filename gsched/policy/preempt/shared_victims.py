"""Who is requeued for a job that lacks nothing on its host but a resource that hosts share, such as a licence.

Whoever holds some of it may make room, on whichever host it runs. It only chooses (preemption displaces).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gsched.model.ledgers.allocation import Allocation
from gsched.model.scheduling.snapshot import Running
from gsched.policy.limits.limit_claims import LimitCounter

Fits = Callable[[Sequence[Running]], Allocation | None]
"""What the job would hold on its host if these were gone, limits aside."""
_ROUNDING = 1e-6
MOST_PRUNED = 32


def choose(
    lacks: Mapping[LimitCounter, float], candidates: Sequence[Running], host: str, fits: Fits
) -> tuple[list[Running], Allocation] | None:
    """Victims among the candidates, first choice first, that free what lacks, and what the job holds instead of them;
    None if they do not do. Those who run on the host come in where it is too full as well.
    """
    chosen = _that_free(lacks, candidates)
    if chosen is None:
        return None
    found = fits(chosen)
    for victim in candidates:
        if found is not None:
            break
        if victim not in chosen and any(part.host == host for part in victim.allocation.parts):
            chosen.append(victim)
            found = fits(chosen)
    if found is None:
        return None
    for victim in list(reversed(chosen))[:MOST_PRUNED]:
        fewer = [each for each in chosen if each is not victim]
        without = fits(fewer) if fewer and _is_freed(lacks, fewer) else None
        if without is not None:
            chosen, found = fewer, without
    return chosen, found


def _that_free(lacks: Mapping[LimitCounter, float], candidates: Sequence[Running]) -> list[Running] | None:
    chosen: list[Running] = []
    for victim in candidates:
        if _is_freed(lacks, chosen):
            break
        if any(_gives(counter, victim) and not _is_freed({counter: lack}, chosen) for counter, lack in lacks.items()):
            chosen.append(victim)
    return chosen if _is_freed(lacks, chosen) else None


def _is_freed(lacks: Mapping[LimitCounter, float], victims: Sequence[Running]) -> bool:
    return all(
        sum(_gives(counter, victim) for victim in victims) >= lack - _ROUNDING for counter, lack in lacks.items()
    )


def _gives(counter: LimitCounter, victim: Running) -> float:
    return counter.amount_of(victim.bucket, victim.allocation.hosts)
