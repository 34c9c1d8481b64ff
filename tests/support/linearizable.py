"""Whether what clients were told of jobs can be true of one cluster, as Jepsen asks: a pure check of recorded calls.

Each call took effect at one moment between its begin and its end. A history is linearizable when such moments can be
found: every answer is then that of one master which does one thing after the other. Jobs do not depend on each other
here, so each is looked at by itself; and as a job only goes forward, it is enough to compare calls of which one had
ended before the other began. It knows no clock but that of the calls, and never guesses what a call without an answer
has done.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec

PENDING = ("PEND", "PSUSP")
FINISHED = ("DONE", "EXIT")
ABSENT = "absent"
"""The answer of a query that does not know the job."""
OVER = "over"
"""The answer of a kill that comes too late."""
_NOWHERE, _ENDED = -1.0, math.inf


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of one client. Times are seconds of one clock."""

    what: Literal["submit", "query", "kill"]
    begin: float
    end: float | None = None
    """None: it was never answered, and may still be carried out."""
    token: str = ""
    """Of a submission; the same one again is the same submission."""
    job: int = 0
    """Whom it is about; of a submission what was answered."""
    answer: str = ""
    """Of a query the state or ABSENT, of a kill "killed" or OVER."""
    attempt: int = 0
    """Of a query: which of the job's starts the state belongs to."""


class _Bounds(NamedTuple):
    """How far the job is when the call takes effect."""

    least: float
    most: float
    call: Call

    @property
    def end(self) -> float:
        return math.inf if self.call.end is None else self.call.end


def violations(calls: Iterable[Call], *, ends_well: bool = True) -> list[str]:
    """What cannot be true, a line each; none: the history is linearizable.

    `ends_well`: a job that nobody kills ends as DONE.
    """
    answered = [call for call in calls if call.end is not None]
    unanswered = [call for call in calls if call.end is None]
    submissions = [call for call in answered if call.what == "submit"]
    found = _one_job_a_token(submissions)
    begun: dict[str, float] = {}
    for call in (*submissions, *unanswered):
        if call.what == "submit":
            begun[call.token] = min(call.begin, begun.get(call.token, math.inf))
    of_job: dict[int, list[Call]] = {}
    for call in answered:
        of_job.setdefault(call.job, []).append(call)
    for call in unanswered:
        if call.what == "kill":
            of_job.setdefault(call.job, []).append(call)
    for job, its in of_job.items():
        found += _of_job(job, its, begun, ends_well)
    return found


def _one_job_a_token(submissions: Sequence[Call]) -> list[str]:
    jobs: dict[str, int] = {}
    tokens: dict[int, str] = {}
    found = []
    for call in submissions:
        if jobs.setdefault(call.token, call.job) != call.job:
            found.append(f"submission {call.token} has made two jobs: {jobs[call.token]} and {call.job}")
        elif tokens.setdefault(call.job, call.token) != call.token:
            found.append(f"job {call.job} was given to two submissions: {tokens[call.job]} and {call.token}")
    return found


def _of_job(job: int, calls: Sequence[Call], begun: dict[str, float], ends_well: bool) -> list[str]:
    bounds = [_bounds(call) for call in calls if call.end is not None]
    found = _backward(job, bounds)
    tokens = {call.token for call in calls if call.what == "submit"}
    for each in bounds:
        if each.least > _NOWHERE and tokens and each.end < min(begun[token] for token in tokens):
            found.append(f"job {job}: {_told(each.call)}, before it was submitted")
    ends = {call.answer for call in calls if call.what == "query" and call.answer in FINISHED}
    if len(ends) > 1:
        found.append(f"job {job} ended twice: as {' and as '.join(sorted(ends))}")
    first_kill = min((call.begin for call in calls if call.what == "kill"), default=math.inf)
    for each in bounds:
        if ends_well and each.call.answer == "EXIT" and each.end < first_kill:
            found.append(f"job {job}: {_told(each.call)}, and nobody had killed it")
    return found


def _backward(job: int, bounds: Sequence[_Bounds]) -> list[str]:
    """Calls of which the later one was told less than the earlier one.

    That is all there can be: with each call at the furthest that any call before it has seen, one order fits all.
    """
    ended = sorted(bounds, key=lambda each: each.end)
    ends = [each.end for each in ended]
    furthest: list[_Bounds] = []
    for each in ended:
        furthest.append(each if not furthest or each.least > furthest[-1].least else furthest[-1])
    found = []
    for each in bounds:
        before = bisect_left(ends, each.call.begin)
        if before and furthest[before - 1].least > each.most:
            earlier = furthest[before - 1].call
            found.append(f"job {job}: {_told(each.call)}, after {_told(earlier)}")
    return found


def _bounds(call: Call) -> _Bounds:
    if call.what == "submit":
        return _Bounds(0.0, _ENDED, call)
    if call.what == "kill":
        return _Bounds(_ENDED, _ENDED, call) if call.answer == OVER else _Bounds(0.0, _before_end(), call)
    if call.answer == ABSENT:
        return _Bounds(_NOWHERE, _NOWHERE, call)
    stage = _stage(call.answer, call.attempt)
    return _Bounds(stage, stage, call)


def _stage(state: str, attempt: int) -> float:
    """0 before the first start, 1 while it runs, 2 where it waits for the second one, and so on."""
    if state in FINISHED:
        return _ENDED
    return 2.0 * attempt - (0.0 if state in PENDING else 1.0)


def _before_end() -> float:
    return math.nextafter(_ENDED, 0.0)


def _told(call: Call) -> str:
    said = f" {call.answer}" if call.answer else ""
    return f"a {call.what} from {call.begin:.3f} to {call.end:.3f} s was answered{said}"
