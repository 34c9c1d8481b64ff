"""`-W depend=` of qsub as a condition of gsched: `afterok:1:2,afterany:3` is `done(1) && done(2) && ended(3)`.

Source: qsub(1B) of OpenPBS 23 and of Torque 6.
"""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.dialect.pbs.pbs_values import parse_job
from gsched.dialect.slurm.dependencies import CONDITIONS, ElementOf

_LATER = "name the earlier job where the later one is submitted: depend=after...:JOB"
_REFUSED = {
    **dict.fromkeys(("before", "beforeok", "beforenotok", "beforeany", "beforestart"), _LATER),
    **dict.fromkeys(("beforeokarray", "beforenotokarray", "beforeanyarray", "beforestartarray"), _LATER),
    "on": _LATER,
    "synccount": "a job of several hosts starts on all of them at once: -l select=",
    "syncwith": "a job of several hosts starts on all of them at once: -l select=",
    "runone": "qdel ends the others when one has started",
}


def condition_of(text: str, element_of: ElementOf) -> str:
    """Raises BadRequest."""
    return " && ".join(_one(part.strip(), element_of) for part in text.split(","))


def _one(text: str, element_of: ElementOf) -> str:
    kind, *jobs = text.split(":")
    if kind in _REFUSED:
        raise BadRequest(f"depend={kind} is not supported: {_REFUSED[kind]}")
    condition = CONDITIONS.get(kind) or CONDITIONS.get(kind.removesuffix("array"))  # Torque: afterokarray
    if kind == "afterstart":
        condition = CONDITIONS["after"]
    if condition is None or not jobs:
        raise BadRequest(f"depend='{text[:60]}': {', '.join(CONDITIONS)} take :JOB behind them")
    return " && ".join(f"{condition}({_job(job, element_of)})" for job in jobs)


def _job(text: str, element_of: ElementOf) -> str:
    named = parse_job(text)
    return f"{named.number}[{element_of(named.number, named.indices)}]" if named.indices else str(named.number)
