"""What gbgadd, gbgmod and gbgdel share: one answer for each job group. Source of the texts: bgadd, bgmod, bgdel."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.base.errors import LSF_FAILURE, BadRequest
from gsched.cli.call import Call
from gsched.cli.command import program
from gsched.model.view import Answer

NO_LIMIT = -1
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


def report_groups(call: Call, answers: Sequence[Answer]) -> int:
    """A line for each group; its exit code."""
    for answer in answers:
        if answer.error:
            call.error(f"Job group {answer.name}: {answer.error}\n")
        else:
            call.write(f"{answer.text}\n")
    return LSF_FAILURE if any(answer.error for answer in answers) else 0
