"""`qdel`: end jobs, as PBS's command of that name does.

Source: qdel(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import re
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
        letter("W", "force|delay=N|N|suppress_email=N", "force: KILL at once; delay=N, N: KILL N seconds after TERM"),
        letter("x", "", "jobs that have ended are no mistake; what is known of them stays"),
        letter("m", "TEXT", "why they are ended (Torque)"),
        letter("t", "LIST", "only these elements of an array (Torque)"),
        letter("p", "", "KILL at once (Torque)"),
        *refused_letters("ac", "name the jobs: qdel $(qselect ...)"),
        *refused_letters("b", "the command waits for its server as long as GSCHED_COMMAND_WAIT says", value="SECONDS"),
    ),
    examples=("PROGRAM 12", "PROGRAM 12[3] '13[]'", "PROGRAM -W force 12"),
)
_LONGEST_DELAY_S = 86_400


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
    """-W of Torque is a number of seconds, or `delay=N`; -p of it purges: what a lost host holds is given up, too."""
    forced, delay = words.has("p"), None
    for each in words.given:
        if each.name != "W":
            continue
        name, equals, value = each.value.partition("=")
        if not (equals and name == "suppress_email" and value.lstrip("-").isdigit()):
            forced = forced or each.value == "force"
            if each.value != "force":
                delay = _delay(value if name == "delay" and equals else each.value)
    if forced:
        return ControlAction(action="signal", signal=signal.SIGKILL)
    return ControlAction(action="kill", text=words.value("m"), kill_delay_s=delay)


def _delay(text: str) -> int:
    """Raises BadRequest."""
    if not re.fullmatch("[0-9]{1,5}", text, re.ASCII) or int(text) > _LONGEST_DELAY_S:
        raise BadRequest(
            f"illegal -W value: '{text[:40]}': force, delay=N (N up to {_LONGEST_DELAY_S}) and suppress_email=N "
            "are taken"
        )
    return int(text)
