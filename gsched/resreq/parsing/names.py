"""Which resources a requirement names, and whether the cluster knows them.

It must never know the cluster's own resources itself: the caller answers for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches

from gsched.resreq.ast import (
    AnyRequirement,
    Comparison,
    Defined,
    Expression,
    Name,
    Requirement,
    Reservation,
    SameKey,
    StringValue,
    children,
    compounds,
    simple_parts,
)
from gsched.resreq.parsing.expression import TEXT_NAMES
from gsched.resreq.parsing.lexer import BAD_NAME, BAD_SYNTAX, refuse

ALIASES: dict[str, str] = {"cpu": "r1m", "login": "ls", "swap": "swp", "idle": "it"}
"""Other names of load indices that a requirement may use."""

SIZES = frozenset({"mem", "swp", "tmp", "maxmem", "maxswp", "maxtmp"})
"""The resources that are sizes: what is compared with them, or reserved of them, may have a unit."""

LOAD_INDEX_NAMES = ("r15s", "r1m", "r15m", "ut", "pg", "io", "ls", "it", "tmp", "swp", "mem")
"""The built-in load indices in the order in which LSF prints them."""

INCREASING_INDICES = frozenset({"r15s", "r1m", "r15m", "ut", "pg", "io", "ls"})
"""The built-in load indices of which more is worse."""

IsName = Callable[[str], bool]
"""Answers a question about the resource of a name."""


def canonical(name: str) -> str:
    """The name under which a host's value of `name` is found."""
    return ALIASES.get(name, name)


def walk(expression: Expression) -> Iterator[Expression]:
    """`expression` and all its parts, left to right."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def select_names(expression: Expression, is_text: IsName | None = None) -> Iterator[tuple[str, int]]:
    """(canonical name, position) of every resource in `expression`, repeats included.

    The right side of a comparison with a resource for which `is_text` holds is a value and not yielded.
    """
    match expression:
        case Name(name, position) | Defined(name, position):
            yield canonical(name), position
        case Comparison(_, Name(left, position), Name()) if is_text is not None and is_text(canonical(left)):
            yield canonical(left), position
        case _:
            for child in children(expression):
                yield from select_names(child, is_text)


def _part_names(part: Requirement, is_text: IsName | None) -> Iterator[tuple[str, int]]:
    if part.select is not None:
        yield from select_names(part.select, is_text)
    for key in part.order:
        yield from select_names(key.expression) if key.expression is not None else [(canonical(key.name), key.position)]
    items: list[Reservation | SameKey] = [*(item for usage in part.every_rusage for item in usage), *part.same]
    yield from ((canonical(item.name), item.position) for item in items)


def names_in(requirement: AnyRequirement, is_text: IsName | None = None) -> dict[str, int]:
    """Canonical name of every resource -> 0-based position in `requirement.source` where it first stands.

    `is_text` tells which resources have text values; a bare word compared with one of these is a value, not a name.
    Types of compute units, host types and GPU models are no resources and not in it.
    """
    names: dict[str, int] = {}
    for part in simple_parts(requirement):
        for name, position in _part_names(part, is_text):
            names.setdefault(name, position)
    for compound in compounds(requirement):
        for key in compound.same:
            names.setdefault(canonical(key.name), key.position)
    return names


def check_names(
    requirement: AnyRequirement, is_known: IsName, known_names: Iterable[str], *, is_text: IsName | None = None
) -> None:
    """Raises RequirementError for the first resource that is not known, with the nearest of `known_names`.

    With `is_text` it also refuses a number that is compared with text. Positions refer to `requirement.source`.
    """
    for name, position in sorted(names_in(requirement, is_text).items(), key=lambda pair: pair[1]):
        if not is_known(name):
            near = get_close_matches(name, [*known_names, *ALIASES], n=1, cutoff=0.6)
            hint = f" (did you mean {near[0]}?)" if near else ""
            refuse(name + hint, requirement.source, position, BAD_NAME)
    if is_text is None:
        return
    for select in (part.select for part in simple_parts(requirement) if part.select is not None):
        for part in walk(select):
            match part:
                case Comparison(_, Name(name, position), StringValue(value)) if name not in TEXT_NAMES:
                    if not is_text(canonical(name)):
                        refuse(f"{name} is a number and '{value}' is text", requirement.source, position, BAD_SYNTAX)
