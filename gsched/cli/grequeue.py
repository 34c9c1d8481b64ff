"""`grequeue` (brequeue): end jobs and have them wait again, under the same number."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.cli.call import Call
from gsched.cli.command import FILTERS, GENERAL, GROUP, read_options
from gsched.cli.control import Said, do_to_jobs
from gsched.cli.session import Session
from gsched.dialect.options import Option, OptionTable, unsupported
from gsched.model.view import Control, JobFilter

TABLE = OptionTable(
    summary="end jobs and have them wait again, under the same number; without -d, -e, -r, -a: jobs that are running",
    operands="JOB ...   (0: all of yours that the options admit; options alone: the newest of those)",
    options=(
        Option("d", help="jobs that are done"),
        Option("e", help="jobs that exited"),
        Option("r", help="jobs that are running"),
        Option("a", help="all of these"),
        Option("H", help="hold them (PSUSP) until they are resumed"),
        *FILTERS,
        GROUP,
        *GENERAL,
        *unsupported("p"),
    ),
    interspersed=True,
    examples=("PROGRAM 1153", "PROGRAM -e '1160[2,5]'", "PROGRAM -H -u all -q night 0"),
)

_STARTED = ("RUN", "USUSP", "SSUSP")
_STATES = {"d": ("DONE",), "e": ("EXIT",), "r": _STARTED, "a": (*_STARTED, "DONE", "EXIT")}
SAID = Said("Job <{job}> is being requeued ", "Job <{job}> : {error}", "No matching job found")


def main(call: Call) -> int:
    """Run `grequeue`."""
    options = read_options(call, TABLE)
    chosen = [state for name in _STATES if options.has(name) for state in _STATES[name]]
    states = tuple(dict.fromkeys(chosen)) or _STARTED

    def act(session: Session, job_ids: Sequence[int], wanted: JobFilter | None) -> Sequence[Control]:
        hold = options.has("H")
        return session.client.control("requeue", job_ids, wanted=wanted, hold=hold, states=states)

    return do_to_jobs(call, options, options.rest, act, SAID, states=states, finished=True)
