"""`gwait` (bwait): wait until a condition on jobs holds, as -w of gsub has them."""

from __future__ import annotations

import threading

from gsched.base.coded_text import sentence
from gsched.base.errors import LSF_FAILURE, BadRequest, GschedError
from gsched.cli.session.call import Call, Cancelled
from gsched.cli.session.command_line import GENERAL, program, read_options
from gsched.cli.session.session import Session, connected
from gsched.cli.submit.progress_shown import progress_shown
from gsched.dialect.options import Option, OptionTable
from gsched.model.views.view import ConditionView

TABLE = OptionTable(
    summary="wait until a condition on jobs holds",
    operands="",
    options=(
        Option("w", "CONDITION", "as -w of gsub", "-w 'done(17) && ended(\"prep*\")'"),
        Option("t", "MINUTES", "give up after so long", "-t 90"),
        Option("r", "MINUTES", "taken for LSF's sake: the condition is looked at whenever something happens anyway"),
        *GENERAL,
    ),
    examples=("PROGRAM -w 'done(1153)'", "PROGRAM -t 60 -w 'numdone(1160, *)'"),
)

_PAUSE_S = 0.05
"""Between two questions at least: each takes a turn of the engine, and an array of short jobs has many events."""


def main(call: Call) -> int:
    """Run `gwait`: 0 when the condition holds, 255 when it never will or time is up."""
    options = read_options(call, TABLE)
    condition = options.last("w")
    if options.rest or not condition.strip():
        raise BadRequest(f"{program(call)}: -w CONDITION says what to wait for (-h shows how)")
    if options.has("r"):
        _minutes(program(call), "r", options.last("r"))
    limit_s = _minutes(program(call), "t", options.last("t")) * 60.0 if options.has("t") else None
    with connected(call) as session, _Alarm(call, limit_s) as alarm:
        try:
            answer = _wait(call, session, condition)
        except (Cancelled, GschedError):
            if not alarm.has_rung:
                raise
            call.error(f"Wait condition <{condition}> is not satisfied after {options.last('t')} minutes\n")
            return LSF_FAILURE
    if answer.holds:
        return 0
    call.error(f"Wait condition is never satisfied: {sentence(answer.text)}\n")
    return LSF_FAILURE


def _wait(call: Call, session: Session, condition: str) -> ConditionView:
    """The answer that is final."""
    answer = session.client.condition(condition)
    if answer.holds or answer.is_final:
        return answer
    with progress_shown(call, session.client, answer.job_ids):
        for event in session.follow(answer.seq, answer.job_ids, _PAUSE_S):
            if event.seq <= answer.seq:  # the answer knows of it already
                continue
            answer = session.client.condition(condition)
            if answer.holds or answer.is_final:
                break
    return answer


class _Alarm:
    """Breaks off what the call waits in, after a time; None: never."""

    def __init__(self, call: Call, after_s: float | None) -> None:
        self.has_rung = False
        self._call = call
        self._timer = None if after_s is None else threading.Timer(after_s, self._ring)

    def __enter__(self) -> _Alarm:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self.has_rung = True
        self._call.cancel()


def _minutes(name: str, option: str, text: str) -> float:
    """A number of minutes. Raises BadRequest."""
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 < minutes < 1e7:
        raise BadRequest(f"{name}: -{option} {text[:60]}: not a number of minutes")
    return minutes
