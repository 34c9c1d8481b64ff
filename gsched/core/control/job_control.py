"""What is done to jobs on request: which jobs, by whom, and who does it; moving, forcing and posting here.

Each action is one small function on a job; an array's waiting elements are acted on as one.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Generator, Iterable, Sequence

import msgspec

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id, index_of
from gsched.core.authorization import cluster_denied, job_denied
from gsched.core.command import ControlJobs
from gsched.core.command_turns import MOVE, MOVE_LINE, Turn, Work, weight
from gsched.core.control import queue_order
from gsched.core.control.control_context import FINISHED_TEXT, STARTED_TEXT, UNREACHABLE, ControlContext
from gsched.core.control.job_filter import admits, name_weight
from gsched.core.control.job_targets import Target, admitted, find, own_indices, waiting_or_started
from gsched.core.control.requeue import has_ended_unstarted, requeue, requeue_ended, requeue_waiting
from gsched.core.control.suspension import resume, resume_waiting, stop, stop_waiting
from gsched.core.control.termination import kill, kill_waiting, remove, send_signal, signal_waiting
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.core.resources.observed_hosts import Observation
from gsched.core.state.cluster_state import ClusterState
from gsched.model.config import ClusterConfig
from gsched.model.event import (
    JobForced,
    JobMessagePosted,
    JobMoved,
)
from gsched.model.job import FINISHED, STARTED, JobSpec, JobState
from gsched.model.view import Control, JobFilter

MOST_BOX = 128
"""MAX_JOB_MSG_NUM of LSF's lsb.params."""
MOST_TEXT = 512
MOST_ATTACHED = 16 * 1024 * 1024
"""Bytes of all attachments of a job: they stay in the store, where nothing is ever replaced."""


def control_jobs(
    state: ClusterState,
    configured: Callable[[], ClusterConfig],
    command: ControlJobs,
    observed: Callable[[str], Observation],
    turn: Turn,
) -> Work:
    """Reply: a Control for each job, in order."""
    desk = ControlContext(state, configured, command, observed, turn)
    _check(desk)
    chosen: Sequence[int] = command.job_ids
    if not chosen:
        chosen = yield from admitted(state, desk.caller, command.wanted or JobFilter(), turn)
    places: Iterable[int] = range(len(chosen))
    if command.action in ENDING_WAITS_FIRST:
        places = yield from _waiting_first(desk, chosen)
    answers: dict[int, Control] = {}
    listed = frozenset(chosen)
    for place in places:  # each is looked up when its turn has come: what is done to one may change another
        turn.spend()
        if turn.is_over:
            yield
        target = find(state, chosen[place]) if command.job_ids else _still_meant(state, chosen[place])
        if target is not None:
            answers[place] = yield from _carry_out(desk, target, listed)
            turn.decision.parts.append((place, answers[place]))
    return [answers[place] for place in sorted(answers)]


ENDING_WAITS_FIRST = ("kill", "signal", "stop")
"""What is done to jobs that wait before it is done to others: these make room, where those would be started."""


def _check(desk: ControlContext) -> None:
    """Raise BadRequest, before anything is recorded: a refusal must leave all as it was."""
    command = desk.command
    if command.action not in _ACTIONS:
        raise BadRequest(f"'{command.action}' is not something that can be done to a job")
    if command.action == "signal" and not 1 <= command.signal <= signal.SIGRTMAX:
        raise BadRequest(f"{command.signal}: Signal not supported")
    for host in command.hosts:
        if host not in desk.config.hosts:
            raise BadRequest(f"{host}: Bad host name, host group name or cluster name")
    if command.action == "run" and not command.hosts:
        raise BadRequest("Bad argument: -m HOST says where the job is to run")
    if command.action == "post" and not 0 <= command.box <= MOST_BOX:
        raise BadRequest(f"Bad argument: message boxes are 0 to {MOST_BOX}")
    if len(command.text) > MOST_TEXT:
        raise BadRequest(
            f"Bad argument: a message has at most {MOST_TEXT} characters, this one has {len(command.text)}"
        )
    if command.action in ("top", "bottom") and command.position < 1:
        raise BadRequest("Bad argument: positions count from 1")


def _waiting_first(desk: ControlContext, chosen: Sequence[int]) -> Generator[None, None, list[int]]:
    """Places in the list, those of jobs that have started last."""
    waiting: list[int] = []
    started: list[int] = []
    for place, number in enumerate(chosen):
        desk.turn.spend()
        if desk.turn.is_over:
            yield
        (started if number in desk.state.running else waiting).append(place)
    return waiting + started


def _still_meant(state: ClusterState, number: int) -> Target | None:
    """A job, or the waiting elements of an array, that a filter has admitted, unless it has ended meanwhile."""
    array = state.arrays.get(number)
    if array is not None:
        return Target(number, array=array)
    job = waiting_or_started(state, number)
    return Target(number, job) if job is not None else None


def _carry_out(desk: ControlContext, target: Target, listed: Collection[int]) -> Generator[None, None, Control]:
    """An array succeeds when something could be done to one of its elements. `listed`: all that the command means."""
    if target.ended_in is not None and desk.command.action == "requeue":
        return Control(job_id=target.job_id, error=requeue_ended(desk, target.ended_in, [index_of(target.job_id)]))
    if target.error:
        return Control(job_id=target.job_id, error=target.error)
    act, act_on_waiting = _ACTIONS[desk.command.action]
    desk.moved.clear()
    if target.array is None:
        assert target.job is not None
        desk.turn.spend(weight(target.job.spec.conditions))
        may = desk.caller.may_touch(target.job.spec, desk.config)
        error = _act(desk, act, target.job) if may else _denied(desk, target.job.spec)
        return Control(job_id=target.job_id, error=error)
    answers: dict[str, None] = {}
    if target.array.count or has_ended_unstarted(desk, target.array):
        may = desk.caller.may_touch(target.array.spec, desk.config)
        answers[act_on_waiting(desk, target.array) if may else _denied(desk, target.array.spec)] = None
    for number in _members(desk, target):
        desk.turn.spend()
        if desk.turn.is_over:
            yield
        job = desk.state.jobs.get(number)
        chosen = target.has_members or (number not in listed and job is not None and _is_admitted(desk, job))
        if job is not None and chosen and _is_meant(desk, job):
            may = desk.caller.may_touch(job.spec, desk.config)
            answers[_act(desk, act, job) if may else _denied(desk, job.spec)] = None
    error = "" if "" in answers else next(iter(answers), FINISHED_TEXT)
    return Control(job_id=target.job_id, error=error)


def _denied(desk: ControlContext, spec: JobSpec) -> str:
    return job_denied(spec, desk.config)


def _members(desk: ControlContext, target: Target) -> Iterable[int]:
    """Elements of the target's array that are jobs of their own. Those that a filter had chosen are meant already; some
    may have become so in the turns since.
    """
    array = target.array
    assert array is not None
    if not target.has_members and desk.turn.count == 1:
        return ()
    numbers = (element_id(array.array_id, index) for index in own_indices(array))
    return reversed(list(numbers)) if desk.command.action == "top" else numbers  # elements keep their order


def _is_admitted(desk: ControlContext, job: JobRecord) -> bool:
    """The filter means it as it meant its array."""
    wanted = msgspec.structs.replace(desk.command.wanted or JobFilter(), ids=())
    desk.turn.spend(name_weight(wanted, job.spec))
    return job.state not in FINISHED and admits(wanted, job, any_user=True)


def _is_meant(desk: ControlContext, job: JobRecord) -> bool:
    """Of an array only those elements that the action is for; a single job is told why it is not."""
    if desk.command.action == "post":
        return True
    return job.state not in FINISHED or (desk.command.action == "requeue" and job.state.value in desk.command.states)


def _act(desk: ControlContext, act: Callable[[ControlContext, JobRecord], str], job: JobRecord) -> str:
    if job.state in FINISHED and desk.command.action not in ("requeue", "post"):
        return FINISHED_TEXT
    if job.state in UNREACHABLE and desk.command.action == "signal" and desk.command.signal == signal.SIGKILL:
        remove(desk, job)
        return ""
    return act(desk, job)


def _move(desk: ControlContext, job: JobRecord) -> str:
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    _record_move(desk, job, job.job_id)
    return ""


def _move_waiting(desk: ControlContext, array: JobArray) -> str:
    if array.stopped_by:
        return "Job is suspended"
    _record_move(desk, array.template(), array.array_id, whole=True)
    return ""


def _record_move(desk: ControlContext, job: JobRecord, number: int, *, whole: bool = False) -> None:
    command = desk.command
    place = desk.moved.get(job.array_id)
    if place is None:
        desk.turn.spend(MOVE + MOVE_LINE * desk.state.pending.kinds + desk.state.waits.aside)
        everybody = desk.caller.rules_queue(job.spec.queue, desk.config)
        to_top = command.action == "top"
        place = queue_order.place_at(desk.state, job, command.position, to_top=to_top, everybody=everybody, whole=whole)
        if whole:
            desk.moved[number] = place
    desk.decision.record(
        JobMoved(
            at=desk.now,
            job_id=number,
            by=command.user,
            order=place.order,
            position=command.position,
            to_top=command.action == "top",
            ages_from=place.ages_from or None,
        )
    )


def _run(desk: ControlContext, job: JobRecord) -> str:
    """grun: administrators only, on named hosts, now."""
    if not desk.command.is_admin:
        return cluster_denied(desk.config)
    if job.state is not JobState.PEND:
        return STARTED_TEXT if job.state in STARTED else "Job is suspended"
    desk.decision.record(JobForced(at=desk.now, job_id=job.job_id, by=desk.command.user, hosts=desk.command.hosts))
    return ""


def _post(desk: ControlContext, job: JobRecord) -> str:
    command = desk.command
    if command.attachment:
        if any(each.box == command.box and each.attachment for each in job.messages):
            return f"Message box {command.box} has an attachment already, which stays there"
        if sum(each.attached_bytes for each in job.messages) + command.attached_bytes > MOST_ATTACHED:
            return f"The attachments of a job hold {MOST_ATTACHED >> 20} MiB at most"
    desk.decision.record(
        JobMessagePosted(
            at=desk.now,
            job_id=job.job_id,
            user=command.user,
            box=command.box,
            text=command.text,
            attachment=command.attachment,
            attached_bytes=command.attached_bytes,
        )
    )
    return ""


def _whole_array(desk: ControlContext, array: JobArray) -> str:
    return "Cannot operate on a whole array: name an element"


_Act = tuple[Callable[[ControlContext, JobRecord], str], Callable[[ControlContext, JobArray], str]]
_ACTIONS: dict[str, _Act] = {
    "kill": (kill, kill_waiting),
    "signal": (send_signal, signal_waiting),
    "stop": (stop, stop_waiting),
    "resume": (resume, resume_waiting),
    "requeue": (requeue, requeue_waiting),
    "top": (_move, _move_waiting),
    "bottom": (_move, _move_waiting),
    "run": (_run, _whole_array),
    "post": (_post, _whole_array),
}
