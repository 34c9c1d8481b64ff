"""A submission: all of its jobs or none, in one decision, and the same answer when it comes again under its token.

It does not judge what may enter: `admit`, which it is given, completes each specification or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from msgspec import structs

from gsched.base.errors import BadRequest, Conflict
from gsched.core.cluster import ClusterState
from gsched.core.command import Submit
from gsched.core.specs import fingerprint
from gsched.core.standing import check_pending
from gsched.core.turns import JUDGEMENT, Turn, Work, weight
from gsched.model.config import ClusterConfig
from gsched.model.event import JobSubmitted
from gsched.model.job import JobSpec
from gsched.model.view import Submitted

MOST_TOKEN = 256
"""Characters; it is kept with each job of the submission."""


def submit(
    state: ClusterState,
    configured: Callable[[], ClusterConfig],
    command: Submit,
    admit: Callable[[JobSpec], JobSpec],
    turn: Turn,
) -> Work:
    """Reply: a Submitted for each job. What was submitted before is answered as it was then, and nothing happens.

    Judging them may take several turns; all of them are made in one. Raises BadRequest, Conflict (the token is that of
    another submission), ResourceExhausted, and what `admit` raises.
    """
    if not command.specs:
        raise BadRequest("an empty submission")
    if len(command.token) > MOST_TOKEN:
        raise BadRequest(f"a token of {len(command.token)} characters: {MOST_TOKEN} are the most")
    config = None
    while config is not configured():  # judged anew where it was changed meanwhile
        config = configured()
        if (known := _known(state, command)) is not None:
            return answered_before(state, command, known, config.params.default_queues)
        last = state.next_job_id + len(command.specs) - 1
        if last > config.params.max_job_id:
            raise BadRequest(f"job id {last} would exceed MAX_JOBID {config.params.max_job_id}")
        specs = yield from each_once(command.specs, lambda spec: state.specs.shared(admit(spec)), turn)
        if turn.is_over:
            yield
    if (known := _known(state, command)) is not None:  # the same again has been faster
        return answered_before(state, command, known, config.params.default_queues)
    check_pending(state, config, command.user, specs)
    delays = {name: config.queues[name].new_job_delay_s for name in {spec.queue for spec in specs}}
    reply = []
    for place, spec in enumerate(specs):
        job_id, delay_s = state.next_job_id, delays[spec.queue]
        not_before = turn.now + delay_s if delay_s else 0.0
        turn.decision.record(
            JobSubmitted(at=turn.now, job_id=job_id, spec=spec, token=command.token, place=place, not_before=not_before)
        )
        reply.append(submitted(spec, job_id))
    return reply


def _known(state: ClusterState, command: Submit) -> dict[int, int] | None:
    """Place in the submission -> job, if its token is known."""
    return (state.tokens.get(command.token) or None) if command.token else None


def each_once(
    specs: Sequence[JobSpec], complete: Callable[[JobSpec], JobSpec], turn: Turn
) -> Generator[None, None, list[JobSpec]]:
    """Each completed; equal ones are looked at once."""
    by_content: dict[bytes, JobSpec] = {}
    by_object: dict[int, JobSpec] = {}
    for spec in specs:
        if id(spec) in by_object:
            continue
        if turn.is_over:
            yield
        key = fingerprint(spec)
        found = by_content.get(key)
        if found is None:
            found = by_content[key] = complete(spec)
            turn.spend(JUDGEMENT + weight(found.conditions))
        by_object[id(spec)] = found
    return [by_object[id(spec)] for spec in specs]


def submitted(spec: JobSpec, job_id: int) -> Submitted:
    """The answer for one job."""
    return Submitted(job_id=job_id, queue=spec.queue, default_queue=not spec.queue_named, warnings=spec.warnings)


def answered_before(
    state: ClusterState, command: Submit, known: dict[int, int], default_queues: Sequence[str]
) -> list[Submitted]:
    """The first answer again. A submission's jobs have numbers in a row, so those forgotten since are known too.

    `known`: place in the submission -> job, of those in memory. Raises Conflict if it was another submission.
    """
    first = min(job_id - place for place, job_id in known.items())
    replies = []
    for place, spec in enumerate(command.specs):
        item = state.arrays.get(first + place) or state.jobs.get(first + place)
        if item is not None and (item.token, item.place, item.spec.user) != (command.token, place, command.user):
            raise Conflict(f"submission {command.token} is already known, and it is another one")
        answer = submitted(item.spec if item is not None else spec, first + place)
        # Which one of several took a job that is forgotten nobody knows any more.
        queues = answer.queue.split() or default_queues
        replies.append(structs.replace(answer, queue=queues[0]))
    return replies
