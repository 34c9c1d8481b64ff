"""Sets of small numbers as people write them: "0-3,7". Bounded, so that no text can ask for a huge set."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.base.errors import BadRequest

MAX_MEMBERS = 100_000


def parse_idset(text: str, *, limit: int = MAX_MEMBERS) -> tuple[int, ...]:
    """Numbers of `text` in ascending order without repeats. Raises BadRequest naming the part that is wrong."""
    members: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isascii() or not first.isdigit() or (dash and not (last.isascii() and last.isdigit())):
            raise BadRequest(f"'{part.strip()}' in '{text}' is not a number or a range such as 0-3")
        low, high = int(first), int(last) if dash else int(first)
        if high < low:
            raise BadRequest(f"range '{part.strip()}' in '{text}' runs backwards")
        if high - low >= limit or len(members) + high - low >= limit:
            raise BadRequest(f"'{text}' names more than {limit} numbers")
        members.update(range(low, high + 1))
    return tuple(sorted(members))


def format_idset(members: Iterable[int]) -> str:
    """The shortest text that `parse_idset` reads back as the same set."""
    parts: list[str] = []
    run: list[int] = []
    for member in [*sorted(set(members)), None]:
        if run and member is not None and member == run[-1] + 1:
            run.append(member)
            continue
        if run:
            parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
        run = [member] if member is not None else []
    return ",".join(parts)
