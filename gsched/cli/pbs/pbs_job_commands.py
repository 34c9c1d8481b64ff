"""`qhold`, `qrls`, `qsig`, `qrerun`, `qmove`, `qmsg`: what PBS's users do to single jobs.

Source: the manual pages of these commands of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence

from gsched.base.errors import BadRequest
from gsched.cli.pbs.pbs_call import (
    BAD_SIGNAL,
    BAD_STATE,
    NO_RERUN,
    UNKNOWN_QUEUE,
    PbsRefusal,
    fails_as_pbs,
    read_jobs,
    server_of,
)
from gsched.cli.pbs.pbs_job_actions import Action, controlled, do_to_all
from gsched.cli.pbs.qdel import elements_named
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program, read_words
from gsched.cli.session.session import Session, connected
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.model.jobs.job import PENDING, STARTED, JobSpec
from gsched.model.jobs.job_signal import SignalEffect, effect_of
from gsched.model.views.message_boxes import QMSG_BOX
from gsched.model.views.view import Control, JobView
from gsched.wire.messages.control_action import ControlAction

_HOLD = letter("h", "u|o|s|n", "whose hold: there is one, of whoever places it; n: none")
_ELEMENTS = letter("t", "LIST", "only these elements of an array (Torque)")
_ONE_SERVER = "there is one server"

QHOLD = LetterOptions(
    summary="hold jobs that wait, as PBS's qhold does",
    operands="JOB ...",
    options=(_HOLD, _ELEMENTS),
    examples=("PROGRAM 12", "PROGRAM '13[]'"),
)
QRLS = LetterOptions(
    summary="release jobs that are held, as PBS's qrls does",
    operands="JOB ...",
    options=(_HOLD, _ELEMENTS),
    examples=("PROGRAM 12",),
)
QSIG = LetterOptions(
    summary="send a signal to jobs that run, as PBS's qsig does",
    operands="JOB ...",
    options=(
        letter("s", "SIGNAL", "its name or number, suspend or resume; without it TERM"),
        *refused_letters("a", "the command waits for its server"),
    ),
    examples=("PROGRAM -s USR1 12", "PROGRAM -s suspend 12"),
)
QRERUN = LetterOptions(
    summary="run jobs again from the start, as PBS's qrerun does",
    operands="JOB ...",
    options=(
        letter("W", "force|TIMEOUT", "taken: the command waits for its server"),
        letter("f", "", "taken (Torque)"),
        *refused_letters("m", "gpost tells a job something", value="TEXT"),
    ),
    examples=("PROGRAM 12",),
)
QMOVE = LetterOptions(
    summary="move jobs to another queue, as PBS's qmove does",
    operands="QUEUE JOB ...",
    options=(),
    examples=("PROGRAM night 12",),
)
QMSG = LetterOptions(
    summary="post a message to jobs, as PBS's qmsg does: gread and gjobs -l show it",
    operands="TEXT JOB ...",
    options=(
        letter("E", "", "taken: output is the job's alone, and the message is kept beside it"),
        letter("O", "", "taken: the same"),
    ),
    examples=("PROGRAM 'disk is nearly full' 12",),
)


@fails_as_pbs
def main(call: Call) -> int:
    """Run whichever of the commands it is called by."""
    return _COMMANDS[program(call)](call)


def _qhold(call: Call) -> int:
    words = read_jobs(call, QHOLD)
    if _holds(words.value("h", "u")):
        return _act(call, words.rest, words.value("t"), _in_states(PENDING, "stop"))
    return 0


def _qrls(call: Call) -> int:
    words = read_jobs(call, QRLS)
    if not _holds(words.value("h", "u")):
        return 0
    return _act(call, words.rest, words.value("t"), _release)


def _qsig(call: Call) -> int:
    words = read_jobs(call, QSIG)
    return _act(call, words.rest, "", _signalled(words.value("s", "TERM")))


def _qrerun(call: Call) -> int:
    words = read_jobs(call, QRERUN)
    given = words.value("W", "force")
    if given != "force" and not given.isdigit():
        raise BadRequest("illegal -W value: force and a number of seconds are taken")
    return _act(call, words.rest, "", _rerun)


def _qmove(call: Call) -> int:
    words = read_words(call, QMOVE)
    if len(words.rest) < 2:
        raise BadRequest("usage: qmove QUEUE JOB ...")
    queue, at, server = words.rest[0].partition("@")
    with connected(call) as session:
        if at and server not in (server_of(session), ""):
            raise PbsRefusal(f"'@{server[:60]}': {_ONE_SERVER}", UNKNOWN_QUEUE)
        if all(each.name != queue for each in session.client.queues()):
            raise PbsRefusal(f"Unknown queue {queue[:60]}", UNKNOWN_QUEUE)
        spec = JobSpec(command="", user="", queue=queue)

        def move(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
            del jobs
            return session.client.modify(ids, spec, ("queue",))

        return do_to_all(call, session, words.rest[1:], move)


def _qmsg(call: Call) -> int:
    words = read_words(call, QMSG)
    if len(words.rest) < 2:
        raise BadRequest("usage: qmsg [-E] [-O] TEXT JOB ...")
    return _act(call, words.rest[1:], "", controlled(ControlAction(action="post", text=words.rest[0], box=QMSG_BOX)))


def _act(call: Call, words: Sequence[str], elements: str, action: Action) -> int:
    with connected(call) as session:
        return do_to_all(call, session, elements_named(words, elements), action)


def _holds(text: str) -> bool:
    """Whether -h names a hold. Raises BadRequest."""
    if text == "n":
        return False
    if not re.fullmatch("[uospd]{1,4}", text):
        raise BadRequest(f"illegal -h value: '{text[:40]}' is neither n nor some of u, o and s")
    return True


def _in_states(states: frozenset[str], action: str) -> Action:
    """Those of the jobs that are in these states; a refusal where none is."""

    def act(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
        del ids
        meant = [job.job_id for job in jobs if job.state in states]
        if not meant:
            raise PbsRefusal("Request invalid for state of job", BAD_STATE)
        return session.client.control(ControlAction(action=action), meant)

    return act


def _release(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
    del ids
    held = [job.job_id for job in jobs if job.state == "PSUSP"]
    return session.client.control(ControlAction(action="resume"), held) if held else []


def _signalled(text: str) -> Action:
    """Raises PbsRefusal for a signal that there is not."""
    if text.lower() in ("suspend", "admin-suspend"):
        return _in_states(frozenset({"RUN", "SSUSP"}), "stop")
    if text.lower() in ("resume", "admin-resume"):
        return _in_states(frozenset({"USUSP", "SSUSP"}), "resume")
    try:
        name = text.upper().removeprefix("SIG")
        number = signal.Signals(int(name)) if name.isdigit() and len(name) < 4 else signal.Signals[f"SIG{name}"]
    except (KeyError, ValueError):
        raise PbsRefusal(f"Unknown/illegal signal name {text[:40]}", BAD_SIGNAL) from None
    effect = effect_of(number)
    if effect is SignalEffect.STOP:
        return _in_states(frozenset({"RUN", "SSUSP"}), "stop")
    if effect is SignalEffect.RESUME:
        return _in_states(frozenset({"USUSP", "SSUSP"}), "resume")
    return _of_started(ControlAction(action="signal", signal=number))


def _of_started(what: ControlAction) -> Action:
    def act(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
        del ids
        started = [job.job_id for job in jobs if job.state in STARTED]
        if not started:
            raise PbsRefusal("Request invalid for state of job", BAD_STATE)
        return session.client.control(what, started)

    return act


def _rerun(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
    if any(job.spec.rerunnable is False and job.state in STARTED for job in jobs):
        raise PbsRefusal("job is not rerunnable", NO_RERUN)
    states = tuple(STARTED)
    return _of_started(ControlAction(action="requeue", states=states))(session, ids, jobs)


_COMMANDS: Mapping[str, Callable[[Call], int]] = {
    "qhold": _qhold,
    "qrls": _qrls,
    "qsig": _qsig,
    "qrerun": _qrerun,
    "qmove": _qmove,
    "qmsg": _qmsg,
}
