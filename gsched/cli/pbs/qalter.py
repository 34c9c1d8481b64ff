"""`qalter`: change what jobs were submitted with, as PBS's command of that name does.

Source: qalter(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from gsched.base.coded_text import sentence
from gsched.base.errors import BadRequest
from gsched.cli.pbs.pbs_call import NO_CHANGE, PbsRefusal, fails_as_pbs, read_jobs, server_of
from gsched.cli.pbs.pbs_job_actions import do_to_all
from gsched.cli.pbs.qsub import reading_of
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain
from gsched.cli.session.session import Session, connected
from gsched.dialect.pbs.job_attributes import read_attributes
from gsched.dialect.pbs.letter_options import LetterOptions, letter, refused_letters
from gsched.dialect.pbs.pbs_values import split_attributes
from gsched.dialect.pbs.qalter_fields import changed_fields
from gsched.dialect.pbs.qsub_fields import QsubReading
from gsched.dialect.pbs.resource_lists import LIMIT_NAMES, read_resources
from gsched.dialect.slurm.gnu_options import GivenOption, GnuWords
from gsched.dialect.spec_values import SpecValues, ValueContext
from gsched.model.jobs.changed_while_running import WHILE_RUNNING
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobSpec
from gsched.model.views.view import Control, JobView
from gsched.wire.messages.control_action import ControlAction

TABLE = LetterOptions(
    summary="change what jobs were submitted with, as PBS's qalter does",
    operands="JOB ...",
    options=(
        letter("N", "NAME", "name of the job"),
        letter("l", "RESOURCES", "walltime=, select=, nodes=, mem= ...: of a running job walltime= alone"),
        letter("o", "[HOST:]PATH", "output file"),
        letter("e", "[HOST:]PATH", "error file"),
        letter("j", "oe|eo|n", "output and errors in one file"),
        letter("k", "o|e|oe|n|d", "files stay in the home directory"),
        letter("R", "o|e|oe", "these files are not kept"),
        letter("A", "NAME", "project the job belongs to"),
        letter("P", "NAME", "the same"),
        letter("a", "[[[[CC]YY]MM]DD]hhmm[.SS]", "start no sooner"),
        letter("p", "NUMBER", "order among your own jobs, from -1024 to 1023"),
        letter("h", "u|o|s|n", "hold it; n: release it"),
        letter("r", "y|n", "whether it runs again when its host is lost"),
        letter("m", "n|[a][b][e][j]", "mail when it is aborted, begins, ends"),
        letter("M", "ADDRESS", "whom mail goes to"),
        letter("W", "NAME=VALUE,...", "depend=, stagein=, stageout=, max_run_subjobs="),
        letter("c", "n|u", "taken: there are no checkpoints"),
        letter("u", "USER[@HOST]", "taken for whoever submitted"),
        letter("q", "", "taken: nothing is said (Torque)"),
        *refused_letters("S", "the script was read when the job was submitted", value="SHELL"),
        *refused_letters("v", "the environment was read when the job was submitted", value="VARIABLES"),
        *refused_letters("n", "nodes of its own are asked for when it is submitted", value="y|n"),
        *refused_letters("t", "the elements of an array are those that were submitted", value="LIST"),
        *refused_letters("L", "NUMA nodes are asked for with gsub -R 'affinity[...]'", value="RESOURCES"),
        *refused_letters("x", "the command was read when the job was submitted", value="COMMAND"),
    ),
    examples=("PROGRAM -l walltime=2:00:00 12", "PROGRAM -W depend=afterok:11 12"),
)
_ATTRIBUTES = {
    "N": "Job_Name",
    "o": "Output_Path",
    "e": "Error_Path",
    "j": "Join_Path",
    "k": "Keep_Files",
    "R": "Remove_Files",
    "A": "Account_Name",
    "P": "project",
    "a": "Execution_Time",
    "p": "Priority",
    "m": "Mail_Points",
    "M": "Mail_Users",
}
"""Option -> what qstat -f calls what it sets. Source: pbs_job_attributes(7B) of OpenPBS 23."""
_OF_ATTRIBUTES = ("dependency", "end_orphan", "file_copies", "array_limit")


@fails_as_pbs
def main(call: Call) -> int:
    """Run `qalter`."""
    words = read_jobs(call, TABLE)
    if not words.given:
        raise BadRequest("nothing to change: give an option (--help lists them)")
    hold = words.value("h")
    if hold and not re.fullmatch("n|[uospd]{1,4}", hold):
        raise BadRequest(f"illegal -h value: '{hold[:40]}' is neither n nor some of u, o and s")
    with connected(call) as session:
        reading = reading_of(call, session, server_of(session))
        attributes = _attributes(words, reading)

        def alter(session: Session, ids: Sequence[int], jobs: Sequence[JobView]) -> Sequence[Control]:
            here = _as_of(reading, jobs[0].spec)
            if all(job.state in STARTED or job.state in FINISHED for job in jobs):
                _check_running(words, jobs[0].spec, here, bool(hold))
            values = changed_fields(words, jobs[0].spec, here) | attributes
            for note in values.pop("warnings", ()):
                complain(call, f"warning: {sentence(note)}")
            results = _modified(session, ids, values) if values else []
            if any(each.error for each in results) or not hold:
                return results
            return _held(session, jobs, release=hold == "n")

        return do_to_all(call, session, words.rest, alter)


def _check_running(words: GnuWords, spec: JobSpec, reading: QsubReading, holds: bool) -> None:
    """Raises PbsRefusal that names the attributes that cannot be changed of a job that runs."""
    named: list[str] = ["Hold_Types"] if holds else []
    for each in words.given:
        if each.name == "W":
            named += [name for name, _ in split_attributes(each.value)]
        elif changed_fields(GnuWords((each,)), spec, reading).keys() - WHILE_RUNNING - {"warnings"}:
            named += _resources(each) if each.name == "l" else [_ATTRIBUTES[each.name]]
    if named:
        raise PbsRefusal(f"Cannot modify attribute while job running  {', '.join(dict.fromkeys(named))}", NO_CHANGE)


def _resources(given: GivenOption) -> list[str]:
    names = [word.partition("=")[0] for word in read_resources([given]).said]
    return [f"Resource_List.{name}" for name in names if name not in LIMIT_NAMES]


def _attributes(words: GnuWords, reading: QsubReading) -> SpecValues:
    """Raises BadRequest for an attribute that cannot be changed."""
    given: list[GivenOption] = [each for each in words.given if each.name == "W"]
    found = read_attributes(given, reading.element_of, reading.is_here)
    others = [name for name in found.values if name not in _OF_ATTRIBUTES]
    if others or found.waits or found.is_interactive or found.umask is not None:
        raise BadRequest("illegal -W value: depend=, stagein=, stageout= and max_run_subjobs= can be changed")
    return found.values


def _as_of(reading: QsubReading, spec: JobSpec) -> QsubReading:
    """Paths are relative to where the job was submitted."""
    around: ValueContext = reading.around
    here = ValueContext(cwd=spec.cwd, now=around.now, zone=around.zone, home=spec.home)
    return QsubReading(here, spec.user, reading.host, reading.server, reading.element_of, reading.max_priority)


def _modified(session: Session, ids: Sequence[int], values: SpecValues) -> list[Control]:
    spec = msgspec.structs.replace(JobSpec(command="", user="", queue=""), **values)
    return session.client.modify(ids, spec, tuple(values))


def _held(session: Session, jobs: Sequence[JobView], *, release: bool) -> list[Control]:
    states = {"PSUSP"} if release else PENDING
    meant = [job.job_id for job in jobs if job.state in states]
    action = ControlAction(action="resume" if release else "stop")
    return session.client.control(action, meant) if meant else []
