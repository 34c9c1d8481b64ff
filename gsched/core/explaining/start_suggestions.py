"""The smallest changes with which a waiting job would start now, each tried by the scheduler that would start it.

They are looked for in turns, between which the engine does what others want; what was found is tried once more at the
end. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from gsched.core.command_turns import UNLIMITED
from gsched.core.explaining.change_search import ChangeSearch, FoundChange, StartHosts
from gsched.core.explaining.job_changes import ChangedJob, ChangeStep, suggestion, ways_of
from gsched.core.explaining.start_trial import TrialContext, plan_with, try_start
from gsched.core.records.job import JobRecord
from gsched.core.submission.modify import with_values
from gsched.model.jobs.job import JobSpec
from gsched.model.views.explanation import StartSuggestion

MOST_TRIES = 160
"""Plans that are made for one job, on clusters of so many hosts at the most; fewer on larger ones."""
FEW_HOSTS = 400
LEAST_TRIES = 24

Check = Callable[[], object]
"""Raises GschedError where the job does not wait any more."""


def suggestions(
    context: TrialContext, job: JobRecord, check: Check, *, is_new: bool = False
) -> Generator[None, None, tuple[StartSuggestion, ...]]:
    """Cheapest first; none where the job starts as it is. `is_new`: it has not been submitted. Raises what `check` does
    between two turns.
    """
    in_turns = context.turn.left < UNLIMITED // 2
    own = job.spec

    def attempt(steps: tuple[ChangeStep, ...]) -> Generator[None, None, StartHosts | None]:
        if in_turns:
            yield
            check()
        spec = with_values(own, ChangedJob.of(own, steps).fields)
        return (yield from try_start(context, job, spec, is_new=is_new))

    if in_turns:
        yield
        check()
    plan = yield from plan_with(context, None if is_new else job, job)
    if plan.truncated or plan.starts(job.job_id):
        return ()
    ways = ways_of(own, _queues(context, own), _gaps(context))
    found = yield from ChangeSearch(ways, attempt, _most_tries(context)).run()
    if in_turns:
        found = yield from _still_there(found, attempt)
    number = 0 if is_new else job.job_id
    return tuple(suggestion(number, own, each.steps, each.hosts) for each in found)


def _still_there(
    found: list[FoundChange[ChangeStep]],
    attempt: Callable[[tuple[ChangeStep, ...]], Generator[None, None, StartHosts | None]],
) -> Generator[None, None, list[FoundChange[ChangeStep]]]:
    """Those that start the job at the end, too: others may have taken the place meanwhile."""
    kept = []
    for each in found:
        hosts = yield from attempt(each.steps)
        if hosts is not None:
            kept.append(FoundChange(each.steps, hosts))
    return kept


def _most_tries(context: TrialContext) -> int:
    hosts = max(FEW_HOSTS, len(context.turn.decision.config.hosts))
    return max(LEAST_TRIES, MOST_TRIES * FEW_HOSTS // hosts)


def _queues(context: TrialContext, spec: JobSpec) -> list[str]:
    """Other queues, the highest first; whether one takes the job is found by trying."""
    others = [queue for queue in context.turn.decision.config.queues.values() if queue.name != spec.queue]
    return [queue.name for queue in sorted(others, key=lambda each: (-each.priority, each.name))]


def _gaps(context: TrialContext) -> Iterator[float]:
    """Seconds until something that is planned begins."""
    now = context.turn.now
    starts = [each.at for each in context.cycles.planned.values() if each.at is not None]
    starts += [made.start for made in context.state.reservations.values()]
    return (at - now for at in starts if at > now)
