"""`qdel`: end jobs, as PBS's command of that name does.

Source: qdel(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from gsched.base.errors import BadRequest
from gsched.cli.pbs.pbs_call import fails_as_pbs, read_jobs
from gsched.cli.pbs.pbs_job_actions import controlled, do_to_all
from gsched.cli.session.call import Call
from gsched.cli.session.session import connected
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.wire.messages.control_action import ControlAction

TABLE = LetterOptions(
    summary="end jobs, as PBS's qdel does",
    operands="JOB ...",
    options=(
        letter("W", "force|suppress_email=N", "force: KILL at once; no mail is sent of this anyway"),
        letter("x", "", "jobs that have ended are no mistake; what is known of them stays"),
        letter("m", "TEXT", "why they are ended (Torque)"),
        letter("t", "LIST", "only these elements of an array (Torque)"),
        letter("p", "", "KILL at once (Torque)"),
        *refused_letters("ac", "name the jobs: qdel $(qselect ...)"),
        *refused_letters("b", "the command waits for its server as long as GSCHED_COMMAND_WAIT says", value="SECONDS"),
    ),
    examples=("PROGRAM 12", "PROGRAM 12[3] '13[]'", "PROGRAM -W force 12"),
)
_NO_DELAY = "-W: the time between signals is the cluster's JOB_TERMINATE_INTERVAL; -W force kills at once"


@fails_as_pbs
def main(call: Call) -> int:
    """Run `qdel`."""
    words = read_jobs(call, TABLE)
    what = _action(words)
    with connected(call) as session:
        jobs = elements_named(words.rest, words.value("t"))
        return do_to_all(call, session, jobs, controlled(what), ended_too=words.has("x"))


def elements_named(words: Sequence[str], indices: str) -> Sequence[str]:
    """The jobs, of arrays only the elements of -t. Raises BadRequest."""
    if not indices:
        return words
    found: list[str] = []
    for word in words:
        number, dot, server = word.partition(".")
        found.append(f"{number.partition('[')[0]}[{indices}]{dot}{server}")
    return found


def _action(words: GnuWords) -> ControlAction:
    forced = words.has("p")
    for each in words.given:
        if each.name == "W":
            name, _, value = each.value.partition("=")
            if name == "suppress_email" and value.lstrip("-").isdigit():
                continue
            if each.value.isdigit():
                raise BadRequest(_NO_DELAY)
            if each.value != "force":
                raise BadRequest("illegal -W value: force and suppress_email=N are taken")
            forced = True
    if forced:
        return ControlAction(action="signal", signal=signal.SIGKILL)
    return ControlAction(action="kill", text=words.value("m"))
