"""`gjobs -p4`: why each of the named jobs waits. LSF has levels 0 to 3 alone; this one is gsched's own."""

from __future__ import annotations

from gsched.base.errors import LSF_FAILURE, BadRequest, Conflict, NotFound
from gsched.cli.render.explaining.explanation_text import explanation_lines
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session
from gsched.cli.session.time_zone import zone_of
from gsched.dialect.options import Parsed

MOST_EXPLAINED = 20
"""Jobs of one command: each costs the master a plan of its own."""
_BESIDE = frozenset({"p4", "-watch", "u"})
"""Options that may stand beside it; -u changes nothing where jobs are named."""


def check_explaining(call: Call, options: Parsed, job_ids: tuple[int, ...]) -> None:
    """Raises BadRequest for -p4 without jobs, with too many, or beside an option that it would not heed."""
    if not options.has("p4"):
        return
    others = [name for name, _ in options.given if name not in _BESIDE]
    if others:
        raise BadRequest(f"{program(call)}: -p4 and -{others[0]} cannot be given together")
    if not job_ids or 0 in job_ids:
        raise BadRequest(f"{program(call)}: -p4 is given the jobs that are to be explained")
    if len(job_ids) > MOST_EXPLAINED:
        raise BadRequest(f"{program(call)}: -p4 explains {MOST_EXPLAINED} jobs at a time, not {len(job_ids)}")


def show_explanations(call: Call, session: Session, job_ids: tuple[int, ...]) -> int:
    """Those of all jobs that wait; a line for each other, and then the command fails."""
    failed = False
    for place, job_id in enumerate(job_ids):
        try:
            found = session.client.explain(job_id)
        except (NotFound, Conflict) as error:
            call.error(f"{error.text}\n")
            failed = True
            continue
        lines = "".join(f"{line}\n" for line in explanation_lines(found, zone_of(call.env)))
        call.write(f"\n{lines}" if place else lines)
    return LSF_FAILURE if failed else 0
