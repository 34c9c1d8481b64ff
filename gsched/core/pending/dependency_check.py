"""Do a job's dependency conditions hold? Names are resolved when the job comes in, conditions judged as others change.

Three answers: it holds, it does not yet, it never can; the last with the condition that decides. Nothing here changes
the state. Source of the rules: bsub(1), option -w.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from gsched.base.coded_text import AnyText, coded, listed
from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, element_id, index_of, show_job
from gsched.core.records.array import JobArray, indices_of
from gsched.core.records.dependency_condition import (
    COUNTS,
    EXTERNAL,
    MOST_CONDITIONS,
    AllConditions,
    AnyCondition,
    Condition,
    Dependency,
    JobName,
    JobNumber,
    NotCondition,
    parents_of,
    parse,
    parse_resolved,
    resolved_text,
    show_target,
)
from gsched.core.records.job import JobRecord
from gsched.core.records.job_names import MOST_LOOKED_AT, Search
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.wait_index import item_id
from gsched.model.config import Params
from gsched.model.jobs.job import FINISHED, PENDING, JobSpec, JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.views.view import ConditionView

INVALID = coded("dependency.invalid")
NOT_SATISFIED = coded("dependency.not_satisfied")

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


class ConditionVerdict(NamedTuple):
    """`holds` as of now; `is_final`: it stays so. `explain` makes a text that names the condition that decides: it is
    wanted of a few of thousands, and before anything has changed.
    """

    holds: bool
    is_final: bool
    explain: Callable[[], AnyText]

    @property
    def text(self) -> AnyText:
        return self.explain()


# -- names ------------------------------------------------------------------------------------------------------------


def resolve(text: str, user: str, state: ClusterState, *, newest_only: bool, indices: str = "", is_admin: bool) -> str:
    """The condition with names replaced by numbers. Raises BadRequest for a job that is not known.

    `indices`: those of the job that is submitted, for element-wise conditions. `newest_only`: JOB_DEP_LAST_SUB.
    """
    names = state.names.search(None if is_admin else user)
    return resolved_text(_Resolver(state, user, newest_only, indices, is_admin, names).resolved(parse(text)))


@dataclass(slots=True)
class _Resolver:
    """Resolves one expression, each name in it once."""

    state: ClusterState
    user: str
    newest_only: bool
    indices: str
    is_admin: bool
    names: Search
    found: dict[str, list[int]] = field(default_factory=dict)
    """Name -> numbers of the jobs that it stands for."""
    count: int = 0
    """Conditions so far."""

    def resolved(self, dependency: Dependency) -> Dependency:
        match dependency:
            case NotCondition(operand):
                return NotCondition(self.resolved(operand))
            case AllConditions(terms):
                return self._together(AllConditions, terms)
            case AnyCondition(terms):
                return self._together(AnyCondition, terms)
        job = dependency.job
        numbers = [job] if isinstance(job, JobNumber) else self._named(job, dependency)
        self.count += len(numbers)
        if self.count > MOST_CONDITIONS:
            at = f"(position {dependency.position + 1})"
            raise BadRequest(f"{INVALID}: what is named stands for more than {MOST_CONDITIONS} jobs {at}")
        kind, relation, amount = dependency.kind, dependency.relation, dependency.number
        conditions = [
            Condition(kind, self._checked(number, dependency), relation, amount, word=dependency.word)
            for number in numbers
        ]
        return conditions[0] if len(conditions) == 1 else AllConditions(tuple(conditions))

    def _together(self, kind: type[AllConditions | AnyCondition], terms: tuple[Dependency, ...]) -> Dependency:
        """What is said twice counts once."""
        once = tuple(dict.fromkeys(self.resolved(term) for term in dict.fromkeys(terms)))
        return once[0] if len(once) == 1 else kind(once)

    def _named(self, wanted: JobName, condition: Condition) -> list[JobNumber]:
        chosen = self.found.get(wanted.name)
        if chosen is None:
            try:
                chosen = self.found[wanted.name] = self._find(wanted.name)
            except BadRequest as error:
                raise BadRequest(f"{INVALID}: {error.text} (position {condition.position + 1})") from None
        if not chosen:
            raise BadRequest(f"{INVALID}: no job is called {wanted.name} (position {condition.position + 1})")
        if wanted.index == "*":
            return [JobNumber(number, each=True) for number in chosen]
        return [JobNumber(element_id(number, int(wanted.index or 0))) for number in chosen]

    def _find(self, name: str) -> list[int]:
        if not name.strip("*"):
            return self._all()
        if not self.newest_only:
            return self.names.numbers(name, MOST_CONDITIONS)
        newest = self.names.newest(name)
        return [] if newest is None else [newest]

    def _all(self) -> list[int]:
        """All jobs of the user, those without a name too. Raises BadRequest where there are too many to look at."""
        state = self.state
        if len(state.jobs) + len(state.arrays) > MOST_LOOKED_AT:
            raise BadRequest(f"* stands for any of more than {MOST_LOOKED_AT} jobs")
        items: list[JobRecord | JobArray] = [*state.arrays.values()]
        items += [job for job in state.jobs.values() if not index_of(job.job_id)]
        numbers = sorted(item_id(item) for item in items if self.is_admin or item.spec.user == self.user)
        return numbers[-1:] if self.newest_only else numbers

    def _checked(self, number: JobNumber, condition: Condition) -> JobNumber:
        at = f"(position {condition.position + 1})"
        base = array_of(number.job_id)
        array = self.state.arrays.get(base)
        if array is None and base not in self.state.jobs:
            raise BadRequest(f"{INVALID}: job {base} is not known {at}")
        index = index_of(number.job_id)
        if index and (array is None or index not in array.indices):
            raise BadRequest(f"{INVALID}: there is no element {show_job(number.job_id)} {at}")
        if condition.kind.startswith("num") and (array is None or index or number.each):
            raise BadRequest(f"{INVALID}: {condition.kind}() wants an array, job {base} is none {at}")
        if condition.kind == EXTERNAL and array is not None and not index and not number.each:
            raise BadRequest(f"{INVALID}: external() wants a job or one element, {base} is an array {at}")
        if number.each:
            if array is None:
                raise BadRequest(f"{INVALID}: job {base} is not a job array {at}")
            if not self.indices or array.spec.indices != self.indices:
                raise BadRequest(f"Dependent arrays do not have the same size: {base} has {array.spec.indices} {at}")
        return number


def find_cycle(state: ClusterState, job_id: int, conditions: str) -> list[int]:
    """The chain of jobs that leads from the conditions of `job_id` back to it; empty when there is none."""
    trail: dict[int, int] = dict.fromkeys((array_of(parent) for parent in parents_of(conditions)), array_of(job_id))
    open_ids = list(trail)
    while open_ids:
        current = open_ids.pop()
        if current == array_of(job_id):
            chain = [current]
            while trail[chain[-1]] != array_of(job_id) and len(chain) <= len(trail):
                chain.append(trail[chain[-1]])
            return [array_of(job_id), *reversed(chain)]
        item = state.arrays.get(current) or state.jobs.get(current)
        if item is None or not item.spec.conditions or item.released:
            continue
        for parent in {array_of(each) for each in parents_of(item.spec.conditions)} - set(trail):
            trail[parent] = current
            open_ids.append(parent)
    return []


# -- judging ----------------------------------------------------------------------------------------------------------


def judge(state: ClusterState, conditions: str, index: int = 0) -> ConditionVerdict:
    """Whether resolved conditions hold; `index`: of the element that waits, for element-wise conditions."""
    return _judge(state, parse_resolved(conditions), index)


def answer(state: ClusterState, text: str, user: str, params: Params, *, is_admin: bool) -> ConditionView:
    """Whether a condition as people write it holds now. Raises BadRequest for a job that is not known."""
    conditions = resolve(text, user, state, newest_only=params.dependency_last_only, is_admin=is_admin)
    found = judge(state, conditions)
    return ConditionView(
        holds=found.holds, is_final=found.is_final, text=found.text, job_ids=tuple(sorted(parents_of(conditions)))
    )


def refuse_impossible(state: ClusterState, spec: JobSpec, old: JobSpec | None, params: Params) -> None:
    """Raises BadRequest for new conditions that never can hold, where a job that has them would end anyway.

    A job that wants to be ended then (-ti) is taken, as LSF takes it: whoever submits it counts on its number.
    """
    is_new = spec.conditions and (old is None or old.conditions != spec.conditions)
    ends = params.end_on_invalid_dependency and not spec.end_orphan
    if is_new and "[*]" not in spec.conditions and ends:
        found = judge(state, spec.conditions)
        if found.is_final and not found.holds:
            raise BadRequest(f"{INVALID}: {found.text}")


def is_elementwise(conditions: str) -> bool:
    """Whether each element of the waiting array has a condition of its own."""
    return "[*]" in conditions


def element_reason(conditions: str, index: int, *, is_final: bool = False) -> PendingReason:
    """Why the waiting element of that index waits for elementwise conditions: they do not hold yet, or never can."""
    own = conditions.replace("[*]", f"[{index}]")
    detail = coded("dependency.never" if is_final else "dependency.not_yet", own)
    return PendingReason(INVALID if is_final else NOT_SATISFIED, detail=detail)


def _judge(state: ClusterState, dependency: Dependency, index: int) -> ConditionVerdict:
    match dependency:
        case Condition():
            return _judge_condition(state, dependency, index)
        case NotCondition(operand):
            inner = _judge(state, operand, index)
            return ConditionVerdict(not inner.holds, inner.is_final, lambda: coded("dependency.not", inner.text))
        case AllConditions(terms):
            answers = [_judge(state, term, index) for term in terms]
            return _combine(answers, decisive=False)
        case AnyCondition(terms):
            return _combine([_judge(state, term, index) for term in terms], decisive=True)


def _combine(answers: list[ConditionVerdict], *, decisive: bool) -> ConditionVerdict:
    """One final answer that is decisive settles it; otherwise it is final when all are."""
    for answer in answers:
        if answer.is_final and answer.holds is decisive:
            return answer
    is_final = all(answer.is_final for answer in answers)
    holds = any(a.holds for a in answers) if decisive else all(a.holds for a in answers)
    return ConditionVerdict(holds, is_final, lambda: _combined_text(answers, decisive=decisive))


def _combined_text(answers: list[ConditionVerdict], *, decisive: bool) -> AnyText:
    if decisive:
        return listed([answer.text for answer in answers[:3]], "list.semicolon")
    told = [answer for answer in answers if answer.holds is decisive] or [a for a in answers if not a.is_final]
    return (told or answers)[0].text


def _judge_condition(state: ClusterState, condition: Condition, index: int) -> ConditionVerdict:
    job = condition.job
    assert isinstance(job, JobNumber)
    number = element_id(job.job_id, index) if job.each else job.job_id
    if state.quarantined and (number in state.quarantined or array_of(number) in state.quarantined):
        return ConditionVerdict(False, False, lambda: coded("dependency.set_aside", condition.kind, _shown(number)))
    if condition.kind in COUNTS:
        return _judge_count(state, condition, number)
    array = state.arrays.get(number)
    if array is not None:
        return _judge_array(state, condition, array)
    return _judge_element(condition, _known(state, number), number)


def _shown(number: int) -> str:
    return show_target(JobNumber(number))


class _Known(NamedTuple):
    """What a condition looks at: `code` is the exit code, 128 + n for signal n; state None: the job is gone."""

    state: JobState | None
    code: int = 0
    has_started: bool = False
    is_post_processed: bool = False
    post_failed: bool = False
    words: frozenset[str] = frozenset()
    """What its messages begin with."""


_GONE = _Known(None)
_UNFINISHED = {state: _Known(state, has_started=state not in PENDING) for state in JobState if state not in FINISHED}
_WAITING = _UNFINISHED[JobState.PEND]


def _of_job(job: JobRecord) -> _Known:
    if job.state not in FINISHED and not job.messages:
        return _UNFINISHED[job.state]
    result = job.result
    code = 0
    if result is not None and job.state in FINISHED:
        code = result.exit_code if result.exit_code is not None else 128 + result.signal if result.signal else 0
    started = job.state not in PENDING and (job.state not in FINISHED or (result is not None and result.started))
    post_failed = job.state is JobState.EXIT
    if result is not None and result.post_code is not None:
        post_failed = result.post_code != 0
    words = frozenset(message.text.split(maxsplit=1)[0] for message in job.messages if message.text.strip())
    return _Known(job.state, code, started, job.post_processed, post_failed, words)


def _known(state: ClusterState, number: int) -> _Known:
    job = state.jobs.get(number)
    if job is not None:
        return _of_job(job)
    array = state.arrays.get(array_of(number))
    if array is None:
        return _GONE
    if array.has_waiting(index_of(number)):
        return _WAITING
    return _Known(JobState.EXIT, 0, is_post_processed=True, post_failed=True)


def _judge_array(state: ClusterState, condition: Condition, array: JobArray) -> ConditionVerdict:
    """All elements must satisfy it. By counts: an array may have 100,000 elements, and each end asks again."""
    counts, total = counts_of(array), array.indices.count

    def text() -> AnyText:
        told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        return coded("dependency.array", condition.kind, _shown(array.array_id), told)

    done, ended_badly = counts.get("DONE", 0), counts.get("EXIT", 0)
    match condition.kind:
        case "done":
            return ConditionVerdict(done == total, done == total or ended_badly > 0, text)
        case "ended":
            return ConditionVerdict(array.is_over(), array.is_over(), text)
        case "started":
            never = sum(indices_of(each.indices).count for each in array.unstarted)
            waiting = counts.get("PEND", 0) + counts.get("PSUSP", 0)
            return ConditionVerdict(not waiting and not never, not waiting or never > 0, text)
    # What an element's post-execution command says need not be what the element itself came to.
    if (condition.kind == "exit" and done) or (condition.kind == "post_done" and array.unstarted):
        return ConditionVerdict(False, True, text)
    if not array.is_over():
        return ConditionVerdict(False, False, text)
    members = (_known(state, element_id(array.array_id, index)) for index in array.indices)
    return _combine([_judge_element(condition, each, array.array_id) for each in members], decisive=False)


def _judge_element(condition: Condition, known: _Known, number: int) -> ConditionVerdict:
    """`number`: of the job, or of the array that it is an element of, for the text."""
    if known.state is None:
        return ConditionVerdict(False, True, lambda: coded("dependency.job_gone", _shown(number)))
    over = known.state in FINISHED
    ok, final = False, over
    match condition.kind:
        case "done":
            ok = known.state is JobState.DONE
        case "ended":
            ok = over
        case "exit":
            relation = _RELATIONS[condition.relation or "=="]
            ok = known.state is JobState.EXIT
            ok = ok and (condition.number is None or relation(known.code, condition.number))
        case "started":
            ok = known.has_started
            final = over or ok
        case "post_done" | "post_err":
            ok = over and known.is_post_processed and known.post_failed is (condition.kind == "post_err")
            final = over and known.is_post_processed
        case "external":  # also a job that is over may be sent a message
            ok, final = condition.word in known.words, False
    return ConditionVerdict(ok, final, lambda: _element_text(condition, known, number, ok=ok))


def _element_text(condition: Condition, known: _Known, number: int, *, ok: bool) -> AnyText:
    name = _shown(number)
    if condition.kind == EXTERNAL:
        return coded("dependency.message" if ok else "dependency.no_message", name, condition.word)
    status = str(known.state.value if known.state is not None else "")
    if known.state in FINISHED and known.code:
        return coded("dependency.job_exited", condition.kind, name, status, known.code)
    return coded("dependency.job_is", condition.kind, name, status)


def _judge_count(state: ClusterState, condition: Condition, number: int) -> ConditionVerdict:
    array = state.arrays.get(number)
    if array is None:
        return ConditionVerdict(False, True, lambda: coded("dependency.array_gone", _shown(number)))
    counts = counts_of(array)
    total = array.indices.count
    done, ended_badly = counts.get("DONE", 0), counts.get("EXIT", 0)
    value = {
        "numdone": done,
        "numexit": ended_badly,
        "numended": done + ended_badly,
        "numhold": counts.get("PSUSP", 0),
        "numpend": counts.get("PEND", 0),
        "numrun": counts.get("RUN", 0),
        "numstart": total - counts.get("PEND", 0) - counts.get("PSUSP", 0),
    }[condition.kind]
    wanted = total if condition.number is not None and condition.number < 0 else condition.number or 0
    ok = _RELATIONS[condition.relation or "=="](value, wanted)

    def text() -> AnyText:
        return coded("dependency.count", condition.kind, _shown(number), condition.relation, wanted, value)

    return ConditionVerdict(ok, array.is_over(), text)


def counts_of(array: JobArray) -> dict[str, int]:
    """Job state -> elements of the array in it."""
    counts = {state: count for state, count in array.counts.items() if count}
    if array.count:
        state = "PSUSP" if array.stopped_by else "PEND"
        counts[state] = counts.get(state, 0) + array.count
    return counts
