"""`scontrol`: show and change jobs, nodes and partitions, as Slurm's command of that name does.

Source: scontrol(1) of Slurm 22.05. Each of its commands is done, or refused by name with what to say instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsched.base.errors import BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program, read_words, version_line
from gsched.cli.session.session import connected
from gsched.cli.slurm.control.job_commands import JOB_COMMANDS
from gsched.cli.slurm.control.scontrol_call import ScontrolCall
from gsched.cli.slurm.control.shown_entities import SHOWN
from gsched.cli.slurm.control.updates import update
from gsched.cli.slurm.slurm_call import fails_as_slurm
from gsched.dialect.slurm.gnu_options import VERBOSE, GnuOption, GnuOptions, general, refused

TABLE = GnuOptions(
    summary="show and change jobs, nodes and partitions, as Slurm's scontrol does",
    operands="COMMAND [WORD ...]",
    options=(
        GnuOption("oneliner", "o", help="a line for each record"),
        GnuOption("details", "d", help="show job: where its CPUs and GPUs are"),
        GnuOption("json", help="show job: JSON"),
        GnuOption("quiet", "Q", help="say nothing of what goes wrong"),
        GnuOption("all", "a", help="taken: nothing is hidden"),
        GnuOption("hide", help="taken: nothing is hidden"),
        GnuOption("clusters", "M", "NAMES", "taken: there is one cluster", also=("cluster",)),
        GnuOption("local", help="taken: there is one cluster"),
        GnuOption("federation", help="taken: there is one cluster"),
        GnuOption("sibling", help="taken: there is one cluster"),
        GnuOption("future", "F", help="taken: every host is there"),
        VERBOSE,
        *general(),
        *refused("uid/u", because="what is done is done by whoever asks for it"),
        *refused("yaml", because="--json is there"),
    ),
    interspersed=True,
    examples=(
        "PROGRAM show job 12",
        "PROGRAM show hostnames 'n[1-3,7]'",
        "PROGRAM update JobId=12 TimeLimit=4:00:00",
        "PROGRAM requeue 12",
        "PROGRAM update NodeName=n3 State=DRAIN Reason='fan'",
    ),
)
_ADMIN = "gadmin does this (gadmin -h)"
NOT_DONE: Mapping[str, str] = {
    "abort": _ADMIN,
    "cancel_reboot": "hosts are not rebooted from here",
    "cluster": "there is one cluster",
    "completing": "sinfo and squeue -t CG show what is about to end",
    "create": "grsvadd makes reservations; hosts and queues are in the configuration files",
    "delete": "grsvdel removes reservations; hosts and queues are in the configuration files",
    "errnumstr": "errors have no numbers",
    "fsdampeningfactor": "fairshare has no such factor",
    "notify": "gpost sends a message to a job",
    "pidinfo": "scontrol listpids shows the processes of jobs",
    "reboot": "hosts are not rebooted from here",
    "reboot_nodes": "hosts are not rebooted from here",
    "reconfigure": "gadmin reconfig does this",
    "schedloglevel": _ADMIN,
    "setdebug": _ADMIN,
    "setdebugflags": _ADMIN,
    "shutdown": _ADMIN,
    "takeover": "there is one master",
    "token": "there are no tokens",
    "exit": "commands are given one by one",
    "quit": "commands are given one by one",
    "!!": "commands are given one by one",
}
"""What is refused, and what to say instead."""


def _show(asked: ScontrolCall) -> int:
    if not asked.words:
        raise BadRequest("show: say what: " + ", ".join(sorted(SHOWN)))
    entity, equals, value = asked.words[0].partition("=")
    name = _named(entity.lower(), SHOWN, "show")
    operands = ((value, *asked.words[1:]) if equals else asked.words[1:]) if value or not equals else asked.words[1:]
    return SHOWN[name](asked.with_words(operands))


def _version(asked: ScontrolCall) -> int:
    asked.call.write(version_line())
    return 0


def _help(asked: ScontrolCall) -> int:
    asked.call.write(TABLE.help(program(asked.call)))
    return 0


DONE: Mapping[str, Callable[[ScontrolCall], int]] = {
    **JOB_COMMANDS,
    "show": _show,
    "update": update,
    "version": _version,
    "help": _help,
}
"""The commands that are done."""


@fails_as_slurm
def main(call: Call) -> int:
    """Run `scontrol`."""
    words = read_words(call, TABLE)
    if not words.rest:
        raise BadRequest(f"give a command: {', '.join(sorted(DONE))}")
    name = _named(words.rest[0].lower(), {**DONE, **NOT_DONE}, "")
    if name in NOT_DONE:
        raise BadRequest(f"{name}: {NOT_DONE[name]}")
    asked = ScontrolCall(call, words, words.rest[1:])
    if name in ("version", "help") or (name == "show" and asked.is_of_names):
        if name == "show":  # lists of the caller's own are no work for everybody's door
            call.take_over()
        return DONE[name](asked)
    with connected(call) as session:
        return DONE[name](asked.with_session(session))


def _named(word: str, known: Mapping[str, object], before: str) -> str:
    """A command or entity, which may be cut short. Raises BadRequest."""
    if word in known:
        return word
    found = [name for name in known if name.startswith(word)] if len(word) > 2 else []
    if len(found) == 1 or (found and all(name.startswith(found[0]) for name in found)):
        return found[0]
    place = f"{before} " if before else ""
    raise BadRequest(f"invalid keyword: {place}{word[:40]}")
