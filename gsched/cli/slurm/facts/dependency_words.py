"""What a job waits for, in the words of sbatch --dependency: `afterok:62(unfulfilled),afterany:63(unfulfilled)`.

A condition for which Slurm has no words (exit codes, negations, elements of arrays) stays as gsub -w has it. Source:
squeue(1) of Slurm 22.05, %E.
"""

from __future__ import annotations

import re

from gsched.base.coded_text import order_of
from gsched.cli.slurm.facts.job_facts import SlurmJob

_KINDS = {"started": "after", "ended": "afterany", "done": "afterok", "exit": "afternotok"}
_TERM = re.compile(r"(started|ended|done|exit)\(([0-9]{1,10})\)", re.ASCII)
_OF_DEPENDENCIES = "dependency."
_NEVER = "dependency.invalid"


def waits_for(job: SlurmJob) -> str:
    """Empty where it waits for no other job, or not any more."""
    text = job.spec.conditions or job.spec.dependency
    if not text or not job.is_pending:
        return ""
    codes = [order_of(reason.text)[0] for reason in job.view.pending_reasons]
    is_known = any(code.startswith(_OF_DEPENDENCIES) for code in codes)
    if not is_known and job.view.state == "PEND" and not set(codes) <= {"pending.new"}:
        return ""  # it waits for something else: its dependency holds
    return in_slurms_words(text, "failed" if _NEVER in codes else "unfulfilled")


def in_slurms_words(condition: str, state: str) -> str:
    """The condition, each of its jobs with the state behind it; as it is where Slurm has no words for it."""
    for sign, mark in ((" && ", ","), (" || ", "?")):
        terms = [_TERM.fullmatch(term.strip()) for term in condition.split(sign)]
        if all(terms):
            return mark.join(f"{_KINDS[each[1]]}:{each[2]}({state})" for each in terms if each is not None)
    return condition
