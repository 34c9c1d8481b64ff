"""`gkill` (bkill): end jobs, or send them a signal."""

from __future__ import annotations

import signal as signals

from gsched.base.errors import BadRequest
from gsched.cli.answers.job_actions import ALL_JOBS, carry_out, meant
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import APPLICATION, FILTERS, GENERAL, GROUP, SERVICE_CLASS, program, read_options
from gsched.cli.session.session import connected
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.jobs.job_signal import SignalEffect, effect_of
from gsched.model.views.view import Parameter
from gsched.wire.messages.control_action import ControlAction

TABLE = OptionTable(
    summary="end jobs, or send them a signal",
    operands="JOB ...   (0: all of yours that the options admit; options alone: the newest of those)",
    options=(
        Option("s", "SIGNAL", "send this signal instead, by name or number", "-s USR1"),
        Option("C", "TEXT", "why, for the jobs' histories", "-C 'wrong data'"),
        Option("d", help="a started job counts as DONE then"),
        Option("stat", "STATE", "only jobs that are run, pend or susp; without JOB all of yours", "-stat pend"),
        Option("b", help="taken for LSF's sake: many jobs are always ended at once"),
        Option("r", help="end at once: KILL, without the chance to clean up that INT and TERM give"),
        Option("l", help="list the names of the signals"),
        ALL_JOBS,
        *FILTERS,
        GROUP,
        APPLICATION,
        SERVICE_CLASS,
        *GENERAL,
        *unsupported("cname"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM '1160[3,5-7]'", "PROGRAM -s USR1 1153 1154", "PROGRAM -J 'test*' 0"),
)

_STATE_CHANGES = {
    SignalEffect.STOP: (ControlAction(action="stop"), "stopped"),
    SignalEffect.RESUME: (ControlAction(action="resume"), "resumed"),
}
"""Signals that change a job's state are not merely passed on: what is asked of the master, and what is said."""


def main(call: Call) -> int:
    """Run `gkill`."""
    options = read_options(call, TABLE)
    if options.has("l"):
        call.write(" ".join(each.name.removeprefix("SIG") for each in signals.Signals) + "\n")
        return 0
    for one, other in (("r", "s"), ("d", "s"), ("d", "r"), ("C", "s"), ("C", "r")):
        if options.has(one) and options.has(other):
            raise BadRequest(f"{program(call)}: -{one} and -{other} cannot be given together")
    states = _states(options.last("stat")) if options.has("stat") else ()
    if states and options.rest not in ([], ["0"], (), ("0",)):
        raise BadRequest(f"{program(call)}: -stat chooses among all of your jobs; name no job beside it")
    words = ["0"] if states else meant(call, options)
    if options.has("r") and _may_force(call):
        what = ControlAction(action="signal", signal=signals.SIGKILL)
        return carry_out(call, options, what, "terminated", states=states, words=words)
    if not options.has("s"):
        what = ControlAction(action="kill", text=options.last("C"), as_done=options.has("d"))
        return carry_out(call, options, what, "terminated", states=states, words=words)
    number = _signal(options.last("s"))
    effect = effect_of(number)
    if effect in _STATE_CHANGES:
        return carry_out(call, options, *_STATE_CHANGES[effect], states=states, words=words)
    being = "terminated" if effect is SignalEffect.END else "signaled"
    what = ControlAction(action="signal", signal=number)
    return carry_out(call, options, what, being, states=states, words=words)


def _may_force(call: Call) -> bool:
    """PRIVILEGED_USER_FORCE_BKILL: for others than administrators -r says nothing."""
    with connected(call) as session:
        cluster = session.client.cluster(parameters=True)
    return cluster.may_administer or Parameter("PRIVILEGED_USER_FORCE_BKILL", "Y") not in cluster.parameters


def _states(text: str) -> tuple[str, ...]:
    """The states that a word of -stat stands for. Raises BadRequest."""
    states = {"run": ("RUN", "UNKWN"), "pend": ("PEND", "PSUSP"), "susp": ("USUSP", "SSUSP", "PSUSP")}.get(text.lower())
    if states is None:
        raise BadRequest(f"{text[:60]}: -stat takes run, pend or susp")
    return states


def _signal(text: str) -> int:
    """Number of a signal given as `9`, `KILL` or `SIGKILL`. Raises BadRequest."""
    try:
        if text.isascii() and text.isdigit():
            return int(signals.Signals(int(text[:9])))
        return int(signals.Signals["SIG" + text.upper().removeprefix("SIG")])
    except (ValueError, KeyError):
        raise BadRequest(f"{text}: Signal not supported (-l lists the names)") from None
