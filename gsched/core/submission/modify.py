"""gmod and gswitch: other values for jobs that wait, a few also for jobs that run. The result must be admissible anew.

Source of the rules: bmod(1), bswitch(1).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gsched.base.errors import BadRequest, Conflict, GschedError, PermissionDenied, about
from gsched.base.ids import array_of, element_id, index_of
from gsched.base.moments import shown_utc
from gsched.core.authorization import Caller, job_denied, owner_denied
from gsched.core.command import ModifyJobs
from gsched.core.command_turns import DEPENDENCY, JUDGEMENT, Turn, Work, reading, weight
from gsched.core.control.control_context import FINISHED_TEXT
from gsched.core.control.job_targets import Target, admitted, find, own_indices, waiting_or_started
from gsched.core.instruction import LimitAttempt
from gsched.core.pending.dependency_check import find_cycle
from gsched.core.records.job import JobRecord
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission.admission import first_that_accepts
from gsched.core.submission.reserved_amounts import ReservedAnew
from gsched.core.submission.spec_defaults import complete_started, queue_names, queue_of
from gsched.model.config import ClusterConfig
from gsched.model.event import JobModified, JobSwitched
from gsched.model.jobs.changed_while_running import LIMITING, WHILE_RUNNING
from gsched.model.jobs.job import FINISHED, PENDING, JobSpec, JobState
from gsched.model.jobs.job_plot import shown_plots
from gsched.model.jobs.notice import shown_wishes
from gsched.model.views.view import Control, JobFilter

FIXED = frozenset(
    {"user", "combined_req", "combined_gpu_req", "conditions", "auto_gpu", "aging_per_s", "warnings", "indices"}
    | {"defaulted", "interactive", "service", "front_end", "script_words", "index_shift"}
    | {"environment", "script", "spooled_input", "umask", "submit_host", "home", "cwd", "queue_named", "hold"}
)
"""What a modification never names."""
RESERVING = "res_req"
"""Of a started job the amounts in it can be changed. Source: bmod(1)."""
RUNNING_TEXT = (
    "Job has already started: only -W, -c, -M, -v, -p, -T, -r, -Q, -We, -Jd, -sla, --gpu-idle-ok, --notify, --plot, "
    '--service-users, --max-restarts, --restart-on, its queue and the amounts of -R "rusage[...]" can be changed'
)

Admit = Callable[[JobSpec, JobSpec], JobSpec]
"""(changed spec, spec before) -> the completed spec. Raises GschedError."""
ReserveAnew = Callable[[JobRecord, JobSpec], ReservedAnew]
"""(started job, its spec with another -R) -> what it is to be and to hold. Raises GschedError."""


def modify_jobs(
    state: ClusterState,
    configured: Callable[[], ClusterConfig],
    command: ModifyJobs,
    admit: Admit,
    reserve: ReserveAnew,
    turn: Turn,
) -> Work:
    """Reply: a Control for each job. Raises BadRequest for fields that nobody can change."""
    wrong = [name for name in command.fields if name in FIXED or name not in JobSpec.__struct_fields__]
    if wrong or not command.fields:
        raise BadRequest(f"{', '.join(wrong) or 'nothing'}: this cannot be changed")
    if "resize_to" in command.fields and command.spec.resize_to > 0:
        raise BadRequest("resize_to: more slots are asked for by gresize request alone, of a job that has started")
    caller = Caller(command.user, command.is_admin)
    changer = _Changer(state, configured, command, caller, admit, reserve, turn)
    chosen: Sequence[int] = command.job_ids
    if not chosen:
        chosen = yield from admitted(state, caller, command.wanted or JobFilter(), turn)
    reply: list[Control] = []
    for number in chosen:  # each is looked up when its turn has come: what is done to one may change another
        turn.spend()
        if turn.is_over:
            yield
        if command.job_ids:
            target = find(state, number)
        elif number in state.arrays:
            target = Target(number, array=state.arrays[number])
        elif (job := waiting_or_started(state, number)) is not None:
            target = Target(number, job)
        else:
            continue
        reply.append((yield from changer.change(target)))
        turn.decision.parts.append((len(reply) - 1, reply[-1]))
    return reply


class _Item(NamedTuple):
    """A job, or the elements that wait in an array's record, as it was when the change was judged."""

    number: int
    spec: JobSpec
    state: JobState


class _Judged(NamedTuple):
    """What is to become of an item, as its change was judged in that turn."""

    item: _Item
    spec: JobSpec
    held: ReservedAnew | None
    turn: int


class _Changer:
    def __init__(
        self,
        state: ClusterState,
        configured: Callable[[], ClusterConfig],
        command: ModifyJobs,
        caller: Caller,
        admit: Admit,
        reserve: ReserveAnew,
        turn: Turn,
    ) -> None:
        self._state, self._configured, self._command, self._caller = state, configured, command, caller
        self._admit, self._reserve, self._turn = admit, reserve, turn
        self._read: set[tuple[str, str]] = set()
        """Requirements that have been read for this command."""

    def change(self, target: Target) -> Generator[None, None, Control]:
        """All of the target that has not ended, or nothing of it.

        Of an array the elements that have started are meant too, where what is to change can be changed of them.
        """
        if target.error:
            return Control(job_id=target.job_id, error=target.error)
        items = yield from self._items(target)
        if not items:
            return Control(job_id=target.job_id, error=FINISHED_TEXT)
        changed = []
        alike: dict[tuple[int, JobState], JobSpec] = {}
        """By id: the elements of an array mostly share one."""
        try:
            for item in items:
                key = (id(item.spec), item.state)
                known = alike.get(key)
                new, held = (known, None) if known is not None else self._judged(item)
                if held is None:
                    alike[key] = new
                changed.append(_Judged(item, new, held, self._turn.count))
                if self._turn.is_over:
                    yield
        except GschedError as error:
            return _refused(target.job_id, error)
        refused: GschedError | None = None
        for judged in changed:
            if self._turn.is_over:
                yield
            refused = self._carry_out(judged) or refused
        # An element that has begun meanwhile is meant no longer; one job is all that was asked for.
        return _refused(target.job_id, refused) if refused and target.array is None else Control(job_id=target.job_id)

    def _items(self, target: Target) -> Generator[None, None, list[_Item]]:
        items: list[_Item] = []
        array = target.array
        if array is None:
            assert target.job is not None
            job = target.job
            return [_Item(job.job_id, job.spec, job.state)] if job.state not in FINISHED else []
        if not array.is_over():
            items.append(_Item(array.array_id, array.spec, JobState.PEND))
        also_started = WHILE_RUNNING.issuperset(self._command.fields)
        for index in own_indices(array) if target.has_members else ():
            self._turn.spend()
            if self._turn.is_over:
                yield
            member = self._state.jobs.get(element_id(array.array_id, index))
            if member is not None and member.state not in FINISHED and (also_started or member.is_pending()):
                items.append(_Item(member.job_id, member.spec, member.state))
        return items

    def _judged(self, item: _Item) -> tuple[JobSpec, ReservedAnew | None]:
        # What is refused may have had as many conditions as any.
        costs = DEPENDENCY if "dependency" in self._command.fields else JUDGEMENT
        try:
            new, held = self._changed(*item)
            costs = JUDGEMENT + weight(new.conditions)
            asked = (new.combined_req, new.combined_gpu_req)
            if asked not in self._read:
                self._read.add(asked)
                costs += reading("".join(asked))
        finally:
            self._turn.spend(costs)
        return new, held

    def _carry_out(self, judged: _Judged) -> GschedError | None:
        """Unless it has ended since it was judged; anew where it has become something else. What a started job is to
        hold is always of this turn: since one before it may have given slots back or begun anew elsewhere, and others
        may have taken what was left. Returns why it cannot be done any more.
        """
        item, new, held, turn = judged
        now = self._as_it_is(item)
        if now is None:
            return Conflict(FINISHED_TEXT)
        if now != item or (held is not None and turn != self._turn.count):
            try:
                new, held = self._judged(now)
            except GschedError as error:
                return error
        self._record(item.number, now.spec, new, held)
        return None

    def _as_it_is(self, item: _Item) -> _Item | None:
        """The same job now; None when it has ended."""
        job = self._state.jobs.get(item.number)
        if job is not None:
            return _Item(item.number, job.spec, job.state) if job.state not in FINISHED else None
        array, index = self._state.arrays.get(array_of(item.number)), index_of(item.number)
        if array is None or (index and not array.has_waiting(index)) or array.is_over():
            return None
        return _Item(item.number, array.spec, item.state)

    def _changed(self, number: int, spec: JobSpec, state: JobState) -> tuple[JobSpec, ReservedAnew | None]:
        """The spec, and what a started job is to hold if that changes."""
        fields = set(self._command.fields)
        if not self._caller.may_change(spec, fields, self._configured()):
            may_control = self._caller.may_touch(spec, self._configured())
            raise PermissionDenied((owner_denied if may_control else job_denied)(spec, self._configured()))
        if state not in PENDING and not fields <= WHILE_RUNNING | {RESERVING}:
            with about(*sorted(fields - WHILE_RUNNING)):
                raise Conflict(RUNNING_TEXT)
        wanted: dict[str, Any] = {name: getattr(self._command.spec, name) for name in fields}
        new = with_values(spec, wanted)
        if "slots" in wanted and "slots" in self._command.spec.defaulted:  # -nn: as the queue says
            new = msgspec.structs.replace(new, defaulted=(*new.defaulted, "slots"))
        if state not in PENDING:
            config = self._configured()
            new = first_that_accepts(
                queue_names(new, config),
                lambda name: complete_started(new, queue_of(name, spec.user, config, self._state, spec), spec, config),
            )
            held = self._reserve(self._state.jobs[number], new) if RESERVING in fields else None
            return (new if held is None else held.spec), held
        new = self._admit(new, spec)
        if new.conditions and new.conditions != spec.conditions:
            cycle = find_cycle(self._state, number, new.conditions)
            if cycle:
                with about("dependency"):
                    raise BadRequest("A cycle of dependencies: " + " -> ".join(str(each) for each in cycle))
        return new, None

    def _record(self, number: int, old: JobSpec, new: JobSpec, held: ReservedAnew | None) -> None:
        by, at, fields = self._command.user, self._turn.now, self._command.fields
        if fields == ("queue",):
            self._turn.decision.record(JobSwitched(at=at, job_id=number, by=by, spec=new))
            return
        changes = tuple(
            f"{_WORDS.get(name, name)} changes to : {_show(name, getattr(new, name))}"
            for name in fields
            if getattr(old, name) != getattr(new, name)
        )
        modified = JobModified(at=at, job_id=number, by=by, spec=new, changes=changes)
        if held is not None:
            modified = msgspec.structs.replace(modified, allocation=held.allocation, effective_req=held.effective_req)
        self._turn.decision.record(modified)
        job = self._state.jobs.get(number)
        if job is not None and job.relimited and job.allocation is not None and LIMITING.intersection(fields):
            for part in job.allocation.hosts:
                self._turn.decision.instruct(LimitAttempt(part.host, number, job.attempt))


def _refused(job_id: int, error: GschedError) -> Control:
    """The answer for a job that cannot be changed."""
    return Control(job_id=job_id, error=error.text, about=error.about, refused_as=error.status)


def with_values(spec: JobSpec, wanted: Mapping[str, Any]) -> JobSpec:
    """The spec with these values of its fields, before it is admitted anew."""
    return msgspec.structs.replace(spec, **wanted, defaulted=_still_defaulted(spec, wanted))


def _still_defaulted(old: JobSpec, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """Fields that queue and cluster still decide; of limits those that are as they were."""
    limits = wanted.get("limits", old.limits)
    kept = [name for name in old.limits if limits.get(name) == old.limits[name]]
    names = {*kept, *limits.keys() - old.limits.keys()}
    return tuple(
        name
        for name in old.defaulted
        if name not in wanted and (not name.startswith("limits.") or name.removeprefix("limits.") in names)
    )


_WORDS = {
    "application": "Application profile",
    "array_limit": "Job slot limit of the array",
    "begin_at": "Start time",
    "command": "Job command",
    "container": "Container image",
    "container_mounts": "Container mounts",
    "end_orphan": "Automatic end of an orphan",
    "file_copies": "Copy files",
    "front_end_words": "Resources as its front end says them",
    "login_shell": "Login shell",
    "mail_user": "Mail user",
    "notify_begin": "Mail at the start",
    "notify_end": "Mail at the end",
    "notify_error": "Mail at a failed end",
    "output_dir": "Output directory",
    "plots": "Plots",
    "post_exec": "Post-execute command",
    "pre_exec": "Pre-execute command",
    "warning_s": "Warning time period",
    "warns_main": "Warning of its first process alone",
    "warning_signal": "Warning action",
    "dependency": "Dependency condition",
    "description": "Job description",
    "error_file": "Error file",
    "error_overwrite": "Overwriting of the error file",
    "estimate_s": "Estimated run time",
    "exclusive": "Exclusive execution",
    "first_hosts": "First execution host",
    "gpu_idle_ok": "Why its GPUs may be idle",
    "resizable": "Whether its slots may change",
    "resize_to": "Slots that it is to have",
    "gpu_req": "GPU requirement",
    "group": "Job group",
    "host_levels": "Preference of hosts",
    "hosts": "Specified hosts",
    "input_file": "Input file",
    "limits": "Resource limits",
    "max_restarts": "Maximum number of restarts",
    "max_slots": "Maximum number of processors",
    "name": "Job name",
    "notices": "Notices",
    "notice_targets": "Where notices go",
    "other_hosts": "Use of other hosts",
    "output_file": "Output file",
    "output_overwrite": "Overwriting of the output file",
    "priority": "User priority",
    "project": "Project",
    "queue": "Job queue",
    "requeue_exit_values": "Requeue exit values",
    "rerunnable": "Rerunnable",
    "res_req": "Combined resource requirements",
    "reservation": "Advance reservation",
    "restart_on": "Causes of restarts",
    "run_limit_s": "Run limit",
    "saves_on_signal": "Saving its state by a signal",
    "service_users": "Who else may use its service",
    "service_class": "Service class",
    "slots": "Number of processors",
    "specified_cwd": "Specified CWD",
    "terminate_at": "Termination time",
    "user_group": "User group",
}
_TIMES, _SPANS = frozenset({"begin_at", "terminate_at"}), frozenset({"run_limit_s", "estimate_s", "warning_s"})


def _show(name: str, value: object) -> str:
    """A field's value for people: times in UTC, spans in minutes."""
    if value is True or value is False:
        return "yes" if value else "no"
    if value in (None, "", {}, ()) or (name in ("max_slots", "array_limit") and value == 0):
        return "(nothing)"
    if isinstance(value, float | int) and name in _TIMES:
        return shown_utc(value)
    if isinstance(value, float | int) and name in _SPANS:
        return f"{value / 60:.10g} min"
    if name == "notices" and isinstance(value, tuple):
        return shown_wishes(value)
    if name == "plots" and isinstance(value, tuple):
        return shown_plots(value)
    if name == "notice_targets":
        return "(not shown)"
    if isinstance(value, tuple):
        return " ".join(str(each) for each in value)
    if isinstance(value, dict):
        return " ".join(f"{each}={amount:.10g}" for each, amount in sorted(value.items()))
    return str(value)
