"""Which jobs a command line means: job ids as LSF's commands take them, and the texts when there are none.

Source of the texts: LSF's commands, whose clients search for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id, show_job
from gsched.base.indices import BAD_INDEX, parse_indices

MAX_JOB_ID = 2_147_483_646
MAX_INDEX = 2**31 - 1
MAX_ELEMENTS = 1_000_000
"""Elements that one command may name one by one; the number of the array alone means all, however many."""
_WORD = re.compile(r"(?:\[[^\[\]]*\]|\S)+")


def parse_job_ids(words: Iterable[str]) -> tuple[int, ...]:
    """Numbers in the order given, without repeats: `12`, `12[3]`, `12[1-5,7]`; 0 is kept (it means "all").

    An array's elements are told by their own numbers (gsched.base.ids). Raises BadRequest in LSF's words.
    """
    parts = (part for word in words for part in (_WORD.findall(word) or [word]))
    return tuple(dict.fromkeys(job_id for part in parts for job_id in _parse(part)))


def _parse(word: str) -> Iterator[int]:
    base, bracket, rest = word.partition("[")
    if not (base.isascii() and base.isdigit()) or (bracket and not rest.endswith("]")):
        raise BadRequest(f"{word[:60]}: Illegal job ID.")
    number = int(base[:12])
    if number > MAX_JOB_ID:
        raise BadRequest(f"{word[:60]}: Job ID out of valid range.")
    if not bracket:
        yield number
        return
    indices = parse_indices(rest[:-1], MAX_INDEX)
    if not number:
        raise BadRequest(f"{word[:60]}: {BAD_INDEX}: 0 is no array")
    if indices.count > MAX_ELEMENTS:
        raise BadRequest(f"{word[:60]}: {BAD_INDEX}: {indices.count} elements are too many to name; <{number}> is all")
    yield from (element_id(number, index) for index in indices)


def not_found(job_ids: Iterable[int]) -> str:
    """A line per job that does not exist."""
    return "".join(f"Job <{show_job(job_id)}> is not found\n" for job_id in job_ids)


def nothing_found(kind: str, queue: str = "", host: str = "", project: str = "", group: str = "") -> str:
    """`No unfinished job found in queue <q>`: `kind` is "unfinished", "pending" … or empty for any."""
    text = f"No {kind} job found" if kind else "No job found"
    if project:
        text += f" in project {project}"
    if group:
        text += f" in job group {group}"
    parts = [f" in queue <{queue}>" if queue else "", f" on host/group <{host}>" if host else ""]
    return text + " and".join(part for part in parts if part) + "\n"
