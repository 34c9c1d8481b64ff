"""--dependency of sbatch as a condition of gsched: `afterok:1:2,afterany:3` is `done(1) && done(2) && ended(3)`.

Source: sbatch(1) of Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gsched.base.errors import BadRequest
from gsched.dialect.slurm.slurm_values import parse_job

CONDITIONS = {"after": "started", "afterany": "ended", "afterok": "done", "afternotok": "exit"}
"""Kind of dependency -> gsched's condition; PBS has the same kinds."""
_MOST_CHARACTERS = 1 << 20
_REFUSED = {
    "singleton": "say afterany:JOB of the job before",
    "aftercorr": "gsub -w 'done(JOB[*])' makes elements wait for those of another array",
    "afterburstbuffer": "there are no burst buffers",
    "expand": "a job that runs cannot be made larger",
}

_CONDITION = re.compile(r"(started|ended|done|exit)\(\s*([0-9]+)\s*(?:\[([^\]]*)\])?\s*\)", re.ASCII)
_KINDS = {condition: kind for kind, condition in CONDITIONS.items()}

ElementOf = Callable[[int, str], str]
"""(number of an array, list of Slurm's indices) -> the list of gsched's."""


def condition_of(text: str, element_of: ElementOf) -> str:
    """Raises BadRequest."""
    if "," in text and "?" in text:
        raise BadRequest(f"Invalid dependency '{text[:60]}': either , or ? stands between all of them")
    joined = " || " if "?" in text else " && "
    parts, length = list[str](), 0
    for part in re.split("[,?]", text):
        terms: list[str] = []
        for term in _terms(part, element_of):
            terms.append(term)
            length += len(term)
            if length > _MOST_CHARACTERS:  # an array's few characters may stand for many elements
                raise BadRequest(f"Invalid dependency '{text[:60]}': it names too many jobs")
        parts.append(" && ".join(terms))
    return joined.join(parts)


def depend_list(text: str, shown: Callable[[int, str], str]) -> str:
    """`afterok:1:2,afterany:3` of the condition `done(1) && done(2) && ended(3)`; empty where Slurm and PBS have no
    word for it. `shown`: how a job, and elements of an array (else empty), are named there.
    """
    lists: list[tuple[str, list[str]]] = []
    for part in text.split("&&"):
        found = _CONDITION.fullmatch(part.strip())
        if found is None:
            return ""
        kind, job = _KINDS[found[1]], shown(int(found[2]), found[3] or "")
        if not lists or lists[-1][0] != kind:
            lists.append((kind, []))
        lists[-1][1].append(job)
    return ",".join(":".join([kind, *jobs]) for kind, jobs in lists)


def _terms(text: str, element_of: ElementOf) -> Iterator[str]:
    kind, *jobs = text.split(":")
    if kind[:1].isdigit() and not jobs:
        kind, jobs = "afterany", [kind]
    if kind in _REFUSED:
        raise BadRequest(f"dependency {kind} is not supported: {_REFUSED[kind]}")
    if kind not in CONDITIONS or not jobs:
        raise BadRequest(f"Invalid dependency '{text[:60]}': {', '.join(CONDITIONS)} take :JOB behind them")
    for job in jobs:
        yield f"{CONDITIONS[kind]}({_job(job, element_of)})"


def _job(text: str, element_of: ElementOf) -> str:
    if "+" in text:
        raise BadRequest(f"Invalid dependency '{text[:60]}': a time behind the start of a job is not supported")
    number, indices = parse_job(text)
    return str(number) if indices is None else f"{number}[{element_of(number, indices)}]"
