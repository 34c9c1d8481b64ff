"""What an administrator could do so that a waiting job starts now: each measure tried by the scheduler that would start
it, on a copy of what it sees.

All that wait are there in each try: a job that comes before this one takes the place first, and the measure is not
told. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from gsched.core.command_turns import UNLIMITED
from gsched.core.explaining.change_search import MOST_TOLD, ChangeSearch, FoundChange, StartHosts
from gsched.core.explaining.cluster_changes import ClusterStep, cluster_ways
from gsched.core.explaining.limit_changes import limit_ways
from gsched.core.explaining.moved_jobs import moved_jobs
from gsched.core.explaining.start_suggestions import Check
from gsched.core.explaining.start_trial import TrialContext, plan_changed, start_hosts
from gsched.core.records.job import JobRecord
from gsched.model.scheduling.snapshot import Snapshot
from gsched.model.views.explanation import AdminMeasure

MOST_TRIES = 160
"""Plans that are made for one job, on clusters of so many hosts and with so many kinds of jobs that wait at the most;
fewer on larger ones.
"""
MOST_MOVES = 1_200
"""The same for finding out which jobs to move."""
FEW_HOSTS = 400
FEW_KINDS = 200
LEAST_TRIES = 12


@dataclass(frozen=True, slots=True)
class FoundMeasures:
    """What was found; `is_cut`: not everything was tried."""

    measures: tuple[AdminMeasure, ...] = ()
    is_cut: bool = False


def admin_measures(context: TrialContext, job: JobRecord, check: Check) -> Generator[None, None, FoundMeasures]:
    """Cheapest first; for a job that does not start as it is. Raises what `check` does between two turns."""
    in_turns = context.turn.left < UNLIMITED // 2

    def attempt(steps: tuple[ClusterStep, ...]) -> Generator[None, None, StartHosts | None]:
        if in_turns:
            yield
            check()
        return (yield from _start_with(context, job, steps))

    decision, bucket = context.turn.decision, job.bucket()
    seen = context.cycles.snapshot(decision.config, decision.now)
    ways = [*cluster_ways(decision, bucket), *limit_ways(decision, seen, bucket)]
    search = ChangeSearch(ways, attempt, most_tries(context, MOST_TRIES), is_growing=True)
    found = (yield from search.run()) if ways else []
    told: dict[tuple[str, ...], AdminMeasure] = {}
    for each in found:
        hosts = (yield from attempt(each.steps)) if in_turns else each.hosts
        if hosts is not None:
            measure = _measure(replace(each, hosts=hosts))
            told.setdefault(measure.commands, measure)
    moves = yield from moved_jobs(context, job, check, most_tries(context, MOST_MOVES))
    of_jobs = () if moves.measure is None else (moves.measure,)
    measures = (*tuple(told.values())[: MOST_TOLD - len(of_jobs)], *of_jobs)
    return FoundMeasures(measures, search.is_cut or moves.is_cut)


def most_tries(context: TrialContext, most: int) -> int:
    """How many plans may be made for one answer."""
    hosts = max(1.0, len(context.turn.decision.config.hosts) / FEW_HOSTS)
    kinds = max(1.0, context.state.pending.kinds / FEW_KINDS)
    return max(LEAST_TRIES, int(most / hosts / kinds))


def _start_with(
    context: TrialContext, job: JobRecord, steps: Sequence[ClusterStep]
) -> Generator[None, None, StartHosts | None]:
    def change(seen: Snapshot) -> Snapshot:
        return reduce(lambda before, step: step.alter(before), steps, seen)

    plan = yield from plan_changed(context, job.spec.combined_req, change)
    return None if plan.truncated else start_hosts(plan, job.job_id)


def _measure(found: FoundChange[ClusterStep]) -> AdminMeasure:
    return AdminMeasure(
        changes=tuple(step.told for step in found.steps),
        commands=tuple(dict.fromkeys(step.command for step in found.steps)),
        hosts=found.hosts,
    )
