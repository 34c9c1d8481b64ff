"""What is done to jobs on request: which jobs, by whom, and who does it; moving, forcing and posting here.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import msgspec

from gsched.base.errors import BadRequest, PermissionDenied
from gsched.base.ids import element_id, index_of
from gsched.core.authorization import Denial, box_denied, cluster_denied, job_denied, queue_denied
from gsched.core.command import (
    ExchangeJobs,
    JobCommand,
    KillJobs,
    MoveJobsToBottom,
    MoveJobsToTop,
    PostToJobs,
    ReleaseSlots,
    RequestSlots,
    RequeueJobs,
    ResumeJobs,
    RunJobs,
    SignalJobs,
    StopJobs,
)
from gsched.core.command_turns import MOVE, MOVE_LINE, Turn, Work, weight
from gsched.core.control import queue_order, slot_resizing
from gsched.core.control.control_context import FINISHED_TEXT, STARTED_TEXT, AnyJobCommand, ControlContext
from gsched.core.control.job_filter import admits, name_weight
from gsched.core.control.job_targets import Target, admitted, find, own_indices, waiting_or_started
from gsched.core.control.requeue import has_ended_unstarted, requeue, requeue_ended, requeue_waiting
from gsched.core.control.suspension import resume, resume_waiting, stop, stop_waiting
from gsched.core.control.termination import kill, kill_waiting, send_signal, signal_waiting
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observation
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import JobForced, JobMessagePosted, JobMoved
from gsched.model.jobs.job import FINISHED, STARTED, JobSpec, JobState
from gsched.model.jobs.job_signal import SignalEffect, effect_of, is_signal
from gsched.model.views.message_boxes import MOST_BOX, OWN_BOXES
from gsched.model.views.view import Control, JobFilter

SIGNAL_TARGETS = ("", "main", "steps")
"""Whom of a job of Slurm's commands a signal may be for."""
MOST_TEXT = 512
MOST_KILL_DELAY_S = 86_400
MOST_ATTACHED = 16 * 1024 * 1024
"""Bytes of all attachments of a job."""


def control_jobs(
    state: ClusterState,
    configured: Callable[[], ClusterConfig],
    command: JobCommand,
    observed: Callable[[str], Observation],
    turn: Turn,
) -> Work:
    """Reply: a Control for each job, in order."""
    command = _as_meant(command)
    action = _ACTIONS[type(command)]
    action.check(command, configured())
    context = ControlContext(state, configured, command, observed, turn)
    chosen: Sequence[int] = command.job_ids
    if not chosen:
        chosen = yield from admitted(state, context.caller, command.wanted or JobFilter(), turn)
    places: Iterable[int] = range(len(chosen))
    if action.waiting_first:
        places = yield from _waiting_first(context, chosen)
    answers: dict[int, Control] = {}
    listed = frozenset(chosen)
    for place in places:  # each is looked up when its turn has come: what is done to one may change another
        turn.spend()
        if turn.is_over:
            yield
        target = find(state, chosen[place]) if command.job_ids else _still_meant(state, chosen[place])
        if target is not None:
            answers[place] = yield from _carry_out(context, action, target, listed)
            turn.decision.parts.append((place, answers[place]))
    return [answers[place] for place in sorted(answers)]


def _as_meant(command: JobCommand) -> JobCommand:
    """Stopping and continuing change a job's state, so their signals are not merely passed on. Raises BadRequest."""
    if not isinstance(command, SignalJobs):
        return command
    if command.target not in SIGNAL_TARGETS:
        raise BadRequest(
            f"a signal is for {', '.join(filter(None, SIGNAL_TARGETS))} or all, not for {command.target[:40]}"
        )
    if command.step is not None and (command.signal == 0 or is_signal(command.signal)):
        return command
    if not is_signal(command.signal):
        raise BadRequest(f"{command.signal}: Signal not supported")
    meant = {SignalEffect.STOP: StopJobs, SignalEffect.RESUME: ResumeJobs}.get(effect_of(command.signal))
    return command if meant is None else meant(command.user, command.is_admin, command.job_ids, command.wanted)


def _waiting_first(context: ControlContext[JobCommand], chosen: Sequence[int]) -> Generator[None, None, list[int]]:
    """Places in the list, those of jobs that have started last."""
    waiting: list[int] = []
    started: list[int] = []
    for place, number in enumerate(chosen):
        context.turn.spend()
        if context.turn.is_over:
            yield
        (started if number in context.state.running else waiting).append(place)
    return waiting + started


def _still_meant(state: ClusterState, number: int) -> Target | None:
    """A job, or the waiting elements of an array, that a filter has admitted, unless it has ended meanwhile."""
    array = state.arrays.get(number)
    if array is not None:
        return Target(number, array=array)
    job = waiting_or_started(state, number)
    return Target(number, job) if job is not None else None


def _carry_out(
    context: ControlContext[JobCommand], action: JobAction[Any], target: Target, listed: Collection[int]
) -> Generator[None, None, Control]:
    """An array succeeds when something could be done to one of its elements. `listed`: all that the command means."""
    if target.ended_in is not None and action.on_ended_element is not None:
        error = action.on_ended_element(context, target.ended_in, [index_of(target.job_id)])
        return _answer(target, error)
    if target.error:
        return Control(job_id=target.job_id, error=target.error)
    context.moved.clear()
    if target.array is None:
        assert target.job is not None
        context.turn.spend(weight(target.job.spec.conditions))
        may = context.caller.may_touch(target.job.spec, context.config)
        error = _act(context, action, target.job) if may else _denied(context, target.job.spec)
        return _answer(target, error)
    answers: dict[str, None] = {}
    if target.array.count or has_ended_unstarted(context, target.array):
        may = context.caller.may_touch(target.array.spec, context.config)
        answers[action.on_waiting(context, target.array) if may else _denied(context, target.array.spec)] = None
    for number in _members(context, target):
        context.turn.spend()
        if context.turn.is_over:
            yield
        job = context.state.jobs.get(number)
        chosen = target.has_members or (number not in listed and job is not None and _is_admitted(context, job))
        if job is not None and chosen and _is_meant(context, job):
            may = context.caller.may_touch(job.spec, context.config)
            answers[_act(context, action, job) if may else _denied(context, job.spec)] = None
    return _answer(target, "" if "" in answers else next(iter(answers), FINISHED_TEXT))


def _answer(target: Target, error: str) -> Control:
    refused_as = PermissionDenied.status if isinstance(error, Denial) else ""
    return Control(job_id=target.job_id, error=error, refused_as=refused_as)


def _denied(context: ControlContext[JobCommand], spec: JobSpec) -> str:
    return job_denied(spec, context.config)


def _members(context: ControlContext[JobCommand], target: Target) -> Iterable[int]:
    """Elements of the target's array that are jobs of their own. Those that a filter had chosen are meant already; some
    may have become so in the turns since.
    """
    array = target.array
    assert array is not None
    if not target.has_members and context.turn.count == 1:
        return ()
    numbers = (element_id(array.array_id, index) for index in own_indices(array))
    return (
        reversed(list(numbers)) if isinstance(context.command, MoveJobsToTop) else numbers
    )  # elements keep their order


def _is_admitted(context: ControlContext[JobCommand], job: JobRecord) -> bool:
    """The filter means it as it meant its array."""
    wanted = msgspec.structs.replace(context.command.wanted or JobFilter(), ids=())
    context.turn.spend(name_weight(wanted, job.spec))
    return job.state not in FINISHED and admits(wanted, job, any_user=True)


def _is_meant(context: ControlContext[JobCommand], job: JobRecord) -> bool:
    """Of an array only those elements that the command is for; a single job is told why it is not."""
    command = context.command
    if isinstance(command, PostToJobs) or job.state not in FINISHED:
        return True
    return isinstance(command, RequeueJobs) and job.state.value in command.states


def _act(context: ControlContext[JobCommand], action: JobAction[Any], job: JobRecord) -> str:
    return FINISHED_TEXT if job.state in FINISHED and not action.finished_too else action.on_job(context, job)


_Move = ControlContext[MoveJobsToTop | MoveJobsToBottom]


def _move_denied(context: ControlContext[Any], spec: JobSpec) -> str:
    """JOB_POSITION_CONTROL_BY_ADMIN."""
    config = context.config
    is_denied = config.params.only_admins_move and not context.caller.rules_queue(spec.queue, config)
    return queue_denied(spec.queue, config) if is_denied else ""


def _move(context: _Move, job: JobRecord) -> str:
    if denied := _move_denied(context, job.spec):
        return denied
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    _record_move(context, job, job.job_id)
    return ""


def _move_waiting(context: _Move, array: JobArray) -> str:
    if denied := _move_denied(context, array.spec):
        return denied
    if array.stopped_by:
        return "Job is suspended"
    _record_move(context, array.template(), array.array_id, whole=True)
    return ""


def _record_move(context: _Move, job: JobRecord, number: int, *, whole: bool = False) -> None:
    command, to_top = context.command, isinstance(context.command, MoveJobsToTop)
    place = context.moved.get(job.array_id)
    if place is None:
        context.turn.spend(MOVE + MOVE_LINE * context.state.pending.kinds + context.state.waits.aside)
        everybody = not command.among_own and context.caller.rules_queue(job.spec.queue, context.config)
        place = queue_order.place_at(
            context.state, job, command.position, to_top=to_top, everybody=everybody, whole=whole
        )
        if whole:
            context.moved[number] = place
    context.decision.record(
        JobMoved(
            at=context.now,
            job_id=number,
            by=command.user,
            order=place.order,
            position=command.position,
            to_top=to_top,
            ages_from=place.ages_from or None,
        )
    )


def _exchange(context: ControlContext[ExchangeJobs], job: JobRecord) -> str:
    if denied := _move_denied(context, job.spec):
        return denied
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    return _exchanged(context, job.job_id)


def _exchange_waiting(context: ControlContext[ExchangeJobs], array: JobArray) -> str:
    if denied := _move_denied(context, array.spec):
        return denied
    return "Job is suspended" if array.stopped_by else _exchanged(context, array.array_id)


def _exchanged(context: ControlContext[ExchangeJobs], number: int) -> str:
    """Both of them, when it is the turn of the first. What speaks against it is the answer for either."""
    first, second = context.command.job_ids
    other = find(context.state, second if number == first else first)
    there = other.array.template() if other.array is not None else other.job
    if there is None:
        return other.error
    job = context.state.item(number)
    if there.state in FINISHED:
        return FINISHED_TEXT
    if there.state is not JobState.PEND or (other.array is not None and other.array.stopped_by):
        return STARTED_TEXT if there.state in STARTED else "Job is suspended"
    if not context.caller.may_touch(there.spec, context.config):
        return _denied(context, there.spec)
    if job.spec.queue != there.spec.queue or job.spec.priority != there.spec.priority:
        return "Jobs of different queues or priorities do not change places"
    if number != first:
        return ""
    context.turn.spend(2 * MOVE)
    places = {number: queue_order.place_of(context.state, number) for number in (first, second)}
    for moved, place in ((first, places[second]), (second, places[first])):
        context.decision.record(
            JobMoved(
                at=context.now,
                job_id=moved,
                by=context.command.user,
                order=place.order,
                position=0,
                to_top=True,
                ages_from=place.ages_from or None,
                exchanged_with=second if moved == first else first,
            )
        )
    return ""


def _run(context: ControlContext[RunJobs], job: JobRecord) -> str:
    """grun and qrun: administrators only, on named hosts or wherever there is room, now."""
    if not context.command.is_admin:
        return cluster_denied(context.config)
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    named = tuple(dict.fromkeys(context.command.hosts))
    hosts = named[: job.bucket().requirement.slots]  # on more it does not run
    context.decision.record(JobForced(at=context.now, job_id=job.job_id, by=context.command.user, hosts=hosts))
    return ""


def _post(context: ControlContext[PostToJobs], job: JobRecord) -> str:
    command = context.command
    is_own = command.box in OWN_BOXES
    if is_own and command.user != job.spec.user:
        return box_denied(command.box, job.spec, context.config)
    most = context.config.params.max_messages
    if most is not None and command.box >= most and not is_own:
        return f"Message box {command.box} is none: a job has {most} of them, from 0 on (MAX_JOB_MSG_NUM)"
    before = next((each.attachment for each in job.messages if each.box == command.box), "")
    if command.attachment:
        refusal = _attachment_refusal(command, job, before, context.config.params.max_attached_kib)
        if refusal:
            return refusal
    context.decision.record(
        JobMessagePosted(
            at=context.now,
            job_id=job.job_id,
            user=command.user,
            box=command.box,
            text=command.text,
            attachment=command.attachment,
            attached_bytes=command.attached_bytes,
        )
    )
    if is_own and command.attachment and before not in ("", command.attachment):
        context.decision.dropped.append(before)
    return ""


def _attachment_refusal(command: PostToJobs, job: JobRecord, before: str, most_kib: int | None) -> str:
    """Why the attachment cannot be put into the job's message box, which has the one of `before`; empty: it can."""
    is_own = command.box in OWN_BOXES
    if before and not is_own:
        return f"Message box {command.box} has an attachment already, which stays there"
    if is_own and command.attached_bytes and command.job_ids != (job.job_id,):
        return f"Message box {command.box} takes what is attached to one job alone"
    if most_kib is not None and not is_own and command.attached_bytes > most_kib * 1024:
        return f"What is attached to a message has {most_kib} KB at most (MAX_JOB_ATTA_SIZE)"
    others = sum(each.attached_bytes for each in job.messages if not (is_own and each.box == command.box))
    if others + command.attached_bytes > MOST_ATTACHED:
        return f"The attachments of a job hold {MOST_ATTACHED >> 20} MiB at most"
    return ""


def _whole_array(context: ControlContext[JobCommand], array: JobArray) -> str:
    return "Cannot operate on a whole array: name an element"


# -- what may be asked for: it raises BadRequest before anything is recorded, so that a refusal leaves all as it was --


def _check_position(command: MoveJobsToTop | MoveJobsToBottom, config: ClusterConfig) -> None:
    if command.position < 1:
        raise BadRequest("Bad argument: positions count from 1")


def _check_two(command: ExchangeJobs, config: ClusterConfig) -> None:
    if len(set(command.job_ids)) != 2 or len(command.job_ids) != 2:
        raise BadRequest("Bad argument: two jobs change places")


def _check_hosts(command: RunJobs, config: ClusterConfig) -> None:
    if refused := config.params.too_many_hosts(command.hosts):
        raise BadRequest(refused)
    for host in command.hosts:
        if host not in config.hosts:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")


def _check_message(command: PostToJobs, config: ClusterConfig) -> None:
    if not 0 <= command.box <= MOST_BOX:
        raise BadRequest(f"Bad argument: message boxes are 0 to {MOST_BOX}")
    _check_text(command, config)


def _check_kill(command: KillJobs, config: ClusterConfig) -> None:
    if command.kill_delay_s is not None and not 0 <= command.kill_delay_s <= MOST_KILL_DELAY_S:
        raise BadRequest(f"Bad argument: SIGKILL comes after 0 to {MOST_KILL_DELAY_S} seconds")
    _check_text(command, config)


def _check_text(command: KillJobs | StopJobs | ResumeJobs | PostToJobs, config: ClusterConfig) -> None:
    length = len(command.text)
    if length > MOST_TEXT:
        raise BadRequest(f"Bad argument: a message has at most {MOST_TEXT} characters, this one has {length}")


def _check_nothing(command: JobCommand, config: ClusterConfig) -> None:
    pass


@dataclass(frozen=True, slots=True)
class JobAction(Generic[AnyJobCommand]):
    """How a command is carried out on one job, and at once on all elements of an array that wait. Both give an error,
    or an empty text.
    """

    on_job: Callable[[ControlContext[AnyJobCommand], JobRecord], str]
    on_waiting: Callable[[ControlContext[AnyJobCommand], JobArray], str]
    check: Callable[[Any, ClusterConfig], None] = _check_nothing
    waiting_first: bool = False
    """Jobs that wait before others: these make room, where those would be started."""
    finished_too: bool = False
    """Jobs that have ended are not refused."""
    on_ended_element: Callable[[ControlContext[AnyJobCommand], JobArray, list[int]], str] | None = None
    """On elements that ended without having been started."""


_MOVE = JobAction(_move, _move_waiting, _check_position)
_ACTIONS: dict[type[JobCommand], JobAction[Any]] = {
    KillJobs: JobAction(kill, kill_waiting, _check_kill, waiting_first=True),
    SignalJobs: JobAction(send_signal, signal_waiting, waiting_first=True),
    StopJobs: JobAction(stop, stop_waiting, _check_text, waiting_first=True),
    ResumeJobs: JobAction(resume, resume_waiting, _check_text),
    ReleaseSlots: JobAction(slot_resizing.release, slot_resizing.of_waiting, slot_resizing.check_release),
    RequestSlots: JobAction(slot_resizing.request, slot_resizing.of_waiting, slot_resizing.check_request),
    RequeueJobs: JobAction(requeue, requeue_waiting, finished_too=True, on_ended_element=requeue_ended),
    MoveJobsToTop: _MOVE,
    MoveJobsToBottom: _MOVE,
    ExchangeJobs: JobAction(_exchange, _exchange_waiting, _check_two),
    RunJobs: JobAction(_run, _whole_array, _check_hosts),
    PostToJobs: JobAction(_post, _whole_array, _check_message, finished_too=True),
}
JOB_COMMANDS: tuple[type[JobCommand], ...] = tuple(_ACTIONS)
