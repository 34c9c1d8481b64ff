"""Values some at a time: for lists in a query, which databases limit, and for what is done in bounded steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The same values in their order, so many at a time; the last may be fewer. No more is read ahead."""
    source = iter(values)
    while some := list(islice(source, size)):
        yield some


def first_within(sizes: Iterable[tuple[int, int]], most: int) -> list[int]:
    """Of pairs of a number and its size the first numbers that have no more than that together; one at the least."""
    found: list[int] = []
    left = most
    for number, size in sizes:
        left -= size
        if found and left < 0:
            break
        found.append(number)
    return found
