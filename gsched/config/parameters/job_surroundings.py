"""What is done around jobs and given to them, as files say it: JOB_CONTROLS of queues, and SUSPEND_CONTROL and its kin
of application profiles.

Source: lsb.queues(5), JOB_CONTROLS; lsb.applications(5), SUSPEND_CONTROL.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import command_line
from gsched.model.queues.job_controls import ACTIONS, JobControls, signal_of

_CHECKPOINT = "CHKPNT"


def control_action(text: str) -> str:
    """One action: the name of a signal, or a command. Raises BadRequest."""
    action = text.strip()
    if not action:
        raise BadRequest("the action is empty: the name of a signal or a command is wanted")
    if action == _CHECKPOINT:
        raise BadRequest("CHKPNT is not supported yet: CHKPNT_SIGNAL asks jobs to save their state")
    if action.isalnum() and action.startswith("SIG") and not signal_of(action):
        raise BadRequest(f"there is no signal {show(action)}")
    return command_line(action)


def job_controls(text: str) -> JobControls:
    """`SUSPEND[action] RESUME[action] TERMINATE[action]`, each at most once. Raises BadRequest."""
    found: dict[str, str] = {}
    for name, action in _pieces(text):
        word = name.upper()
        if word not in ACTIONS:
            raise BadRequest(f"'{show(name)}' is none of {', '.join(ACTIONS)} with an action in brackets behind it")
        if word in found:
            raise BadRequest(f"{word} is given twice")
        try:
            found[word] = control_action(action)
        except BadRequest as error:
            raise BadRequest(f"{word}: {error.text}") from error
    suspend, resume, terminate = (found.get(name, "") for name in ACTIONS)
    return JobControls(suspend=suspend, resume=resume, terminate=terminate)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """(name, what stands in its brackets). Brackets within count, as those of `[ -e FILE ]` do."""
    rest = text.strip()
    while rest:
        name, bracket, behind = rest.partition("[")
        if not bracket:
            raise BadRequest(f"'{show(rest)}' is not of the form NAME[ACTION]")
        depth, end = 1, 0
        while depth and end < len(behind):
            depth += (behind[end] == "[") - (behind[end] == "]")
            end += 1
        if depth:
            raise BadRequest(f"the bracket behind {show(name.strip())} is not closed")
        yield name.strip(), behind[: end - 1]
        rest = behind[end:].strip()
