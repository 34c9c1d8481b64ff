"""cu[balance]: the tasks of a job evenly over compute units, the same number in each or one more, over as few as do.

It only counts; who fills hosts is asked. Source: the compute unit string of LSF's administration guide.
"""

from __future__ import annotations

from collections.abc import Mapping


def even_shares(room: Mapping[int, int], least: int, most: int, max_units: int | None) -> dict[int, int]:
    """Unit -> share of it, for as many as there can be of `most` and not fewer than `least`; empty: not even those.

    `room`: what each unit could take, the preferred ones first. Of as many units as few as possible are used.
    """
    best = (0, 0)
    largest = sorted((each for each in room.values() if each > 0), reverse=True)[:max_units]
    for number, smallest in enumerate(largest, 1):
        # With so many units each gets what the smallest can take, and those that can one more.
        more = sum(each > smallest for each in largest[:number])
        best = max(best, (min(most, number * smallest + more), -number))
    total, number = best[0], -best[1]
    if total < max(1, least):
        return {}
    share, one_more = divmod(total, number)
    large = [unit for unit, each in room.items() if each > share][:one_more]
    others = [unit for unit, each in room.items() if each >= max(1, share) and unit not in large]
    chosen = {*large, *others[: number - one_more]}
    return {unit: share + (unit in large) for unit in room if unit in chosen}
