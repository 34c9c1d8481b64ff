"""Which jobs a command line means: job ids as LSF's commands take them, and the texts when there are none.

Source of the texts: LSF's commands, whose clients search for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.errors import BadRequest

MAX_JOB_ID = 2_147_483_646


def parse_job_ids(words: Iterable[str]) -> tuple[int, ...]:
    """Ids in the order given, without repeats; 0 is kept (it means "all"). Raises BadRequest in LSF's words."""
    return tuple(dict.fromkeys(_parse(part) for word in words for part in (word.split() or [word])))


def _parse(word: str) -> int:
    base, bracket, _ = word.partition("[")
    if not (base.isascii() and base.isdigit()):
        raise BadRequest(f"{word}: Illegal job ID.")
    number = int(base[:12])
    if number > MAX_JOB_ID:
        raise BadRequest(f"{word}: Job ID out of valid range.")
    if bracket:
        raise BadRequest(f"Job <{number}> is not a job array")
    return number


def not_found(job_ids: Iterable[int]) -> str:
    """A line per job that does not exist."""
    return "".join(f"Job <{job_id}> is not found\n" for job_id in job_ids)


def nothing_found(kind: str, queue: str = "", host: str = "", project: str = "") -> str:
    """`No unfinished job found in queue <q>`: `kind` is "unfinished", "pending" … or empty for any."""
    text = f"No {kind} job found" if kind else "No job found"
    if project:
        text += f" in project {project}"
    parts = [f" in queue <{queue}>" if queue else "", f" on host/group <{host}>" if host else ""]
    return text + " and".join(part for part in parts if part) + "\n"
