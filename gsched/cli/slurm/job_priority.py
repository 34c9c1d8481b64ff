"""--priority and --nice of sbatch, srun and salloc: an order among one's own jobs, where the cluster lets users say it.

Where it does not, or only administrators may in Slurm, they are taken with a note: in Slurm, too, the job is accepted.
Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gsched.cli.session.session import Session
from gsched.dialect.bsub import ParsedSubmission
from gsched.dialect.slurm.gnu_options import GnuWords
from gsched.dialect.slurm.job_fields import nice_of

_NOTHING = "taken, and does nothing"
_NO_PRIORITIES = "this cluster has no priorities of jobs (MAX_USER_PRIORITY)"


def settle_priority(session: Session, words: GnuWords, parsed: ParsedSubmission) -> tuple[ParsedSubmission, list[str]]:
    """The job with the priority that it may have, and what is to be noted. Raises BadRequest, Unavailable."""
    priority, nice = words.last("priority"), words.last("nice")
    notes = list[str]()
    less = nice_of(nice) if nice is not None else 0
    if nice is not None and priority is not None:
        notes.append(f"{nice.place}: {_NOTHING}: --priority says the order among your own jobs")
        nice = None
    if priority is not None and priority.value.upper() == "TOP":
        notes.append(f"{priority.place}: {_NOTHING}: gtop puts one of your jobs before your others")
    given = nice if nice is not None else priority if parsed.spec.priority is not None else None
    if given is None:
        return parsed, notes
    values = {each.name: each.value for each in session.client.cluster(parameters=True).parameters}
    most = values.get("MAX_USER_PRIORITY", "")
    if not most.isdigit():
        return _with(parsed, None), [*notes, f"{given.place}: {_NOTHING}: {_NO_PRIORITIES}"]
    if nice is None:
        return parsed, notes
    usual = max(1, int(most) // 2)
    return _with(parsed, max(1, usual - usual * less // 100)), notes


def _with(parsed: ParsedSubmission, priority: int | None) -> ParsedSubmission:
    return replace(parsed, spec=msgspec.structs.replace(parsed.spec, priority=priority))
