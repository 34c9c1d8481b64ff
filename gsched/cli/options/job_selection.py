"""Which jobs a command line means: job ids as LSF's commands take them, and the texts when there are none.

Source of the texts: LSF's commands, whose clients search for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gsched.base.errors import BadRequest
from gsched.base.ids import element_id, show_job
from gsched.base.indices import BAD_INDEX, TooManyIndices, parse_indices

MAX_JOB_ID = 2_147_483_646
MAX_INDEX = 2**31 - 1
MAX_ELEMENTS = 100_000
"""Jobs and elements that one command may name one by one, as many as the master takes in one request; the number of an
array alone means all of it, however many. What is more is refused before it is spread out: doors serve many."""
_WORD = re.compile(r"(?:\[[^\[\]]*\]|\S)+")


def parse_job_ids(words: Iterable[str]) -> tuple[int, ...]:
    """Numbers in the order given, without repeats: `12`, `12[3]`, `12[1-5,7]`; 0 is kept (it means "all").

    An array's elements are told by their own numbers (gsched.base.ids). Raises BadRequest in LSF's words.
    """
    named: dict[int, None] = {}
    left = MAX_ELEMENTS
    for part in (part for word in words for part in (_WORD.findall(word) or [word])):
        if not left:
            raise BadRequest(f"{part[:60]}: more than {MAX_ELEMENTS} jobs are too many to name")
        job_ids = tuple(_parse(part, left))
        named.update(dict.fromkeys(job_ids))
        left -= len(job_ids)
    return tuple(named)


def _parse(word: str, most: int) -> Iterator[int]:
    """The numbers of one word. Raises BadRequest, also for more than `most`, before the first of them."""
    base, bracket, rest = word.partition("[")
    if not (base.isascii() and base.isdigit()) or (bracket and not rest.endswith("]")):
        raise BadRequest(f"{word[:60]}: Illegal job ID.")
    number = int(base[:12])
    if number > MAX_JOB_ID:
        raise BadRequest(f"{word[:60]}: Job ID out of valid range.")
    if not bracket:
        yield number
        return
    try:
        indices = parse_indices(rest[:-1], MAX_INDEX, most=most)
    except TooManyIndices as many:
        text = f"{word[:60]}: {BAD_INDEX}: {many.count} elements are too many to name; <{number}> is all"
        raise BadRequest(text) from None
    if not number:
        raise BadRequest(f"{word[:60]}: {BAD_INDEX}: 0 is no array")
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
