"""What gbgadd, gbgmod and gbgdel share: one answer for each job group. Source of the texts: bgadd, bgmod, bgdel."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.session.call import Call
from gsched.cli.session.command_line import program
from gsched.cli.session.session import Session
from gsched.model.views.view import Answer

NO_LIMIT = -1
EVERYBODY = "all"
"""-u: whoever owns the group."""
MOST_JOBS = 2_147_483_646


def named_groups(call: Call, words: Sequence[str]) -> tuple[str, ...]:
    """The groups of the command line. Raises BadRequest when there is none."""
    if not words:
        raise BadRequest(f"{program(call)}: name a job group, as in /night (-h shows how)")
    return tuple(dict.fromkeys(words))


def limit_of(text: str) -> int:
    """-L: most jobs of the group that are started at a time. Raises BadRequest."""
    if text.isascii() and text.isdigit() and int(text[:12]) <= MOST_JOBS:
        return int(text)
    raise BadRequest(f"-L {text}: the job limit is a number from 0 to {MOST_JOBS}")


def not_owned(session: Session, groups: Sequence[str], owner: str) -> list[Answer]:
    """-u: a refusal for each of the groups that somebody else owns; none for EVERYBODY."""
    if owner == EVERYBODY:
        return []
    owners = {group.name: group.owner for group in session.client.groups()}
    refused = []
    for name in groups:
        found = owners.get(name.rstrip("/"), owner)  # of one that is not there the master will say so
        if found != owner:
            refused.append(Answer(name=name, error=f"{found or 'nobody'} owns it, not {owner}"))
    return refused


def report_groups(call: Call, answers: Sequence[Answer]) -> int:
    """A line for each group; its exit code."""
    for answer in answers:
        if answer.error:
            call.error(f"Job group {answer.name}: {answer.error}\n")
        else:
            call.write(f"{answer.text}\n")
    return LSF_FAILURE if any(answer.error for answer in answers) else 0
