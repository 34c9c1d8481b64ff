"""A submission: all of its jobs or none, by one event, and the same answer when it comes again under its token.

It does not judge what may enter: `admit`, which it is given, completes each specification or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from msgspec import structs

from gsched.base.errors import BadRequest, Conflict
from gsched.core.command import Submit
from gsched.core.command_turns import ALIKE, JUDGEMENT, SUBMISSION, Turn, Work, reading, weight
from gsched.core.pending.pending_reasons import check_pending, number_of
from gsched.core.records.accepted_submissions import encoded
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.alike_jobs import AlikeJobs
from gsched.model.config import ClusterConfig
from gsched.model.event import JobSubmitted, SubmissionAccepted
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import Submitted

Keep = Callable[[int, Sequence[JobSpec], ClusterConfig], None]
"""(first number, specifications, what judged them) of a submission that is accepted now."""
SUMS_IN_A_STEP = 8
"""Jobs whose slots are added up in one step."""
MOST_TOKEN = 256
"""Characters; it is kept with each job of the submission."""


def submit(
    state: ClusterState,
    configured: Callable[[], ClusterConfig],
    command: Submit,
    admit: Callable[[JobSpec], JobSpec],
    keep: Keep,
    turn: Turn,
) -> Work:
    """Reply: a Submitted for each job. What was submitted before is answered as it was then, and nothing happens.

    Judging them may take several turns. Those that fit into a turn are made in one; more of them are accepted together
    by one event (accepted_submissions), and made in the turns that follow, for which the reply waits. Raises
    BadRequest, Conflict (the token is that of another submission), ResourceExhausted, and what `admit` raises.
    """
    if not command.specs:
        raise BadRequest("an empty submission")
    if len(command.token) > MOST_TOKEN:
        raise BadRequest(f"a token of {len(command.token)} characters: {MOST_TOKEN} are the most")
    config = None
    while config is not configured():  # judged anew where it was changed meanwhile
        config = configured()
        if (known := (yield from _known(state, command))) is not None:
            return answered_before(state, command, known, config.params.default_queues)
        _check_numbers(state, config, command)
        specs = yield from each_once(command.specs, admit, state.specs.shared, turn)
        jobs, slots = yield from wanted_in_all(specs, turn)
        if not turn.has_room(SUBMISSION * len(specs)):
            yield
    if (known := (yield from _known(state, command))) is not None:  # the same again has been faster
        return answered_before(state, command, known, config.params.default_queues)
    _check_numbers(state, config, command)
    check_pending(state, config, command.user, jobs, slots)
    first_id = state.next_job_id
    if not turn.has_room(SUBMISSION * len(specs)):
        keep(first_id, specs, config)
        turn.decision.record(_accepted(command, first_id, specs, turn.now, jobs, slots))
        while first_id in state.accepted:
            yield
    else:
        delays = {name: config.queues[name].new_job_delay_s for name in {spec.queue for spec in specs}}
        for place, spec in enumerate(specs):
            delay_s = delays[spec.queue]
            not_before = turn.now + delay_s if delay_s else 0.0
            turn.decision.record(
                JobSubmitted(
                    at=turn.now,
                    job_id=first_id + place,
                    spec=spec,
                    token=command.token,
                    place=place,
                    not_before=not_before,
                )
            )
    return [submitted(spec, job_id) for job_id, spec in enumerate(specs, first_id)]


def _check_numbers(state: ClusterState, config: ClusterConfig, command: Submit) -> None:
    last = state.next_job_id + len(command.specs) - 1
    if last > config.params.max_job_id:
        raise BadRequest(f"job id {last} would exceed MAX_JOBID {config.params.max_job_id}")


def _accepted(
    command: Submit, first_id: int, specs: Sequence[JobSpec], now: float, jobs: int, slots: int
) -> SubmissionAccepted:
    different: dict[int, int] = {}
    places = tuple(different.setdefault(id(spec), len(different)) for spec in specs)
    by_id = {id(spec): spec for spec in specs}
    return SubmissionAccepted(
        at=now,
        first_id=first_id,
        user=command.user,
        token=command.token,
        specs=tuple(encoded(by_id[each]) for each in different),
        places=() if len(different) == len(specs) else places,
        jobs=jobs,
        slots=slots,
    )


def _known(state: ClusterState, command: Submit) -> Generator[None, None, dict[int, int] | None]:
    """Place in the submission -> job, if its token is known; one whose jobs are being made is waited for."""
    if not command.token:
        return None
    while any(each.event.token == command.token for each in state.accepted.values()):
        yield
    return state.tokens.get(command.token) or None


def wanted_in_all(specs: Sequence[JobSpec], turn: Turn) -> Generator[None, None, tuple[int, int]]:
    """Jobs, each element of an array counted, and the slots that they want at the least."""
    jobs = slots = 0
    for place, spec in enumerate(specs):
        if place % SUMS_IN_A_STEP == 0:
            turn.spend()
            if turn.is_over:
                yield
        number = number_of(spec)
        jobs += number
        slots += number * spec.slots
    return jobs, slots


def each_once(
    specs: Sequence[JobSpec], admit: Callable[[JobSpec], JobSpec], share: Callable[[JobSpec], JobSpec], turn: Turn
) -> Generator[None, None, list[JobSpec]]:
    """Each completed; equal ones are looked at once, and alike ones judged once."""
    alike = AlikeJobs(admit)
    by_object: dict[int, JobSpec] = {}
    read: set[tuple[str, str]] = set()
    for spec in specs:
        if id(spec) in by_object:
            continue
        if turn.is_over:
            yield
        found, is_first = alike.admitted(spec)
        if is_first:
            asked = (found.combined_req, found.combined_gpu_req)
            if asked not in read:
                read.add(asked)
                turn.spend(reading("".join(asked)))
            turn.spend(JUDGEMENT + weight(found.conditions))
        else:
            turn.spend(ALIKE)
        by_object[id(spec)] = share(found)
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
    if first + len(command.specs) > state.next_job_id:  # numbers that nobody was given yet
        raise _is_another(command)
    replies = []
    for place, spec in enumerate(command.specs):
        item = state.arrays.get(first + place) or state.jobs.get(first + place)
        if item is not None and (item.token, item.place, item.spec.user) != (command.token, place, command.user):
            raise _is_another(command)
        answer = submitted(item.spec if item is not None else spec, first + place)
        # Which one of several took a job that is forgotten nobody knows any more.
        queues = answer.queue.split() or default_queues
        replies.append(structs.replace(answer, queue=queues[0]))
    return replies


def _is_another(command: Submit) -> Conflict:
    return Conflict(f"submission {command.token} is already known, and it is another one")
