"""What PBS's commands do alike: options, --help and --version, job ids, errors in their form, and their exit codes.

The code of a refusal is PBS's number of it less 15000, as its commands exit with the lowest eight bits of that number.
Source: pbs_error.h of OpenPBS 23.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

from gsched.base.errors import BadRequest, Conflict, GschedError, NotFound, PermissionDenied, ResourceExhausted
from gsched.base.ids import array_of, element_id, index_of
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import complain, program, read_words
from gsched.cli.session.session import Session
from gsched.cli.slurm.slurm_call import elements_of
from gsched.dialect.pbs.letter_options import LetterOptions
from gsched.dialect.pbs.pbs_values import PbsJobId, parse_job, show_job
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.model.jobs.job import JobSpec

USAGE = 2
UNKNOWN_JOB, BAD_VALUE, NOT_ALLOWED, BAD_STATE = 153, 166, 159, 168
UNKNOWN_QUEUE, TOO_MUCH, BAD_DEPENDENCY, FINISHED = 170, 188, 206, 35
NO_RERUN, UNKNOWN_NODE, BAD_SIGNAL, NO_CHANGE = 190, 214, 165, 167
"""Exit codes: PBSE_UNKJOBID, PBSE_BADATVAL, PBSE_PERM, PBSE_BADSTATE, PBSE_UNKQUE, PBSE_EXCQRESC, PBSE_BADDEPEND,
PBSE_HISTJOBID, PBSE_NORERUN, PBSE_UNKNODE, PBSE_UNKSIG, PBSE_MODATRRUN."""
_BY_KIND = (
    (NotFound, UNKNOWN_JOB),
    (PermissionDenied, NOT_ALLOWED),
    (Conflict, BAD_STATE),
    (ResourceExhausted, TOO_MUCH),
)
_BY_FIELD = {
    "queue": UNKNOWN_QUEUE,
    "dependency": BAD_DEPENDENCY,
    **dict.fromkeys(("res_req", "slots", "gpu_req", "run_limit_s", "array_limit", "indices"), TOO_MUCH),
}


class PbsRefusal(GschedError):
    """A refusal with PBS's exit code for it."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = code


def code_of(problem: GschedError) -> int:
    """The exit code of a command that meets it after its options have been read."""
    if isinstance(problem, PbsRefusal):
        return problem.exit_code
    by_kind = next((code for kind, code in _BY_KIND if isinstance(problem, kind)), BAD_VALUE)
    return code_about(problem.about, by_kind)


def code_about(fields: Sequence[str], otherwise: int = BAD_VALUE) -> int:
    """The exit code of a refusal that is about these fields."""
    return next((_BY_FIELD[field] for field in fields if field in _BY_FIELD), otherwise)


def fails_as_pbs(command: Callable[[Call], int]) -> Callable[[Call], int]:
    """The command, whose errors are told as `NAME: TEXT`, with PBS's exit code: 2 for a wrong command line."""

    @wraps(command)
    def main(call: Call) -> int:
        try:
            return command(call)
        except GschedError as problem:
            complain(call, problem.text)
            return USAGE if type(problem) is BadRequest else code_of(problem)

    return main


def read_jobs(call: Call, table: LetterOptions) -> GnuWords:
    """The same for a command that needs jobs behind its options."""
    words = read_words(call, table)
    if not words.rest:
        raise BadRequest(f"no job is named: usage: {program(call)} [options] {table.operands}")
    return words


def server_of(session: Session) -> str:
    """What stands behind the dot of job ids."""
    return session.client.cluster().cluster


def max_priority(session: Session) -> int | None:
    """The cluster's MAX_USER_PRIORITY; None where users give no priorities."""
    parameters = session.client.cluster(parameters=True).parameters
    text = next((each.value for each in parameters if each.name == "MAX_USER_PRIORITY"), "")
    return int(text) if text.isdigit() and int(text) else None


def shown_id(job_id: int, spec: JobSpec, server: str) -> str:
    """`12.server`, of an element `12[3].server` by PBS's index."""
    index = index_of(job_id)
    return show_job(array_of(job_id), index - spec.index_shift if index else None, server)


def check_server(named: PbsJobId, server: str) -> None:
    """Raises PbsRefusal for a job of another server."""
    if named.server and named.server not in (server, server.partition(".")[0]):
        raise PbsRefusal(f"Unknown Job Id {named.number}.{named.server[:60]}", UNKNOWN_JOB)


def ids_of(session: Session, text: str, server: str) -> Sequence[int]:
    """The numbers that a job id stands for: of an array `12[]` its own. Raises BadRequest, PbsRefusal."""
    named = parse_job(text)
    check_server(named, server)
    if not named.indices:
        return (named.number,)
    return [element_id(named.number, index) for index in elements_of(session, named.number, named.indices)]


def unknown_job(text: str, server: str) -> PbsRefusal:
    """PBS's words for a job that nobody knows."""
    named = parse_job(text)
    brackets = f"[{named.indices[:60]}]" if named.indices is not None else ""
    return PbsRefusal(f"Unknown Job Id {named.number}{brackets}.{named.server[:60] or server}", UNKNOWN_JOB)
