"""Which forms of the language a requirement uses, so that a caller can refuse by name what it cannot honour.

It must never judge what a cluster can do: the caller says what it honours.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from enum import StrEnum

from gsched.resreq.ast import (
    BY_HOST,
    Alternatives,
    AnyRequirement,
    Requirement,
    Reservation,
    Span,
    compounds,
    simple_parts,
)
from gsched.resreq.lexer import refuse

_GPU_PREFIX = "ngpus"


class Feature(StrEnum):
    """A form of the language, named as a person reads it in a refusal."""

    ALTERNATIVES = "an alternative requirement ({...} || {...})"
    COMPOUND = "a compound requirement (n*{...})"
    ORDER_EXPRESSION = "an expression in order[...]"
    ORDER_RESORT = "order[!resource]"
    RUSAGE_ALTERNATIVES = "an alternative (||) in rusage[...]"
    DURATION = "duration= in rusage[...]"
    DECAY = "decay=1 in rusage[...]"
    PHASES = "a list of amounts in rusage[...]"
    GPU_DURATION = "a duration of a GPU resource in rusage[...]; a device is held until the job ends"
    THRESHOLD = "threshold= in rusage[...]"
    GPU_OPTIONS = "a GPU option in rusage[...]; -gpu takes it"
    PTILE = "span[ptile=n]"
    PTILE_BY_HOST = "span[ptile='!'] or a list of host types"
    BLOCK = "span[block=n]"
    STRIPE = "span[stripe]"
    GTILE = "span[gtile=n]"
    SAME = "same[...]"
    CU = "cu[...]"
    CU_EXCL = "cu[excl]"
    AFFINITY = "affinity[...]"


def features(requirement: AnyRequirement) -> dict[Feature, int]:
    """Each form that `requirement` uses -> 0-based position in `requirement.source` where it first stands."""
    found: dict[Feature, int] = {}
    for feature, position in _features(requirement):
        found[feature] = min(position, found.get(feature, position))
    return found


def refuse_beyond(requirement: AnyRequirement, honoured: Container[Feature]) -> None:
    """Raises RequirementError for the first form in the text that is not in `honoured`: `... is not supported`."""
    for feature, position in sorted(features(requirement).items(), key=lambda pair: pair[1]):
        if feature not in honoured:
            what, semicolon, hint = feature.value.partition(";")
            refuse(f"{what} is not supported{semicolon}{hint}", requirement.source, position)


def _features(requirement: AnyRequirement) -> Iterator[tuple[Feature, int]]:
    if isinstance(requirement, Alternatives):
        yield Feature.ALTERNATIVES, requirement.position
    for compound in compounds(requirement):
        yield Feature.COMPOUND, compound.position
        for name in compound.same:
            yield Feature.SAME, name.position
    for part in simple_parts(requirement):
        yield from _part_features(part)


def _part_features(part: Requirement) -> Iterator[tuple[Feature, int]]:
    for key in part.order:
        if key.expression is not None:
            yield Feature.ORDER_EXPRESSION, key.position
        if key.resort:
            yield Feature.ORDER_RESORT, key.position
    if part.rusage_alternatives:
        yield Feature.RUSAGE_ALTERNATIVES, part.rusage[0].position
    for usage in part.every_rusage:
        for item in usage:
            yield from ((feature, item.position) for feature in _rusage_features(item))
    if part.span is not None:
        yield from ((feature, part.span.position) for feature in _span_features(part.span))
    for name in part.same:
        yield Feature.SAME, name.position
    if part.cu is not None:
        yield Feature.CU, part.cu.position
        if part.cu.excl:
            yield Feature.CU_EXCL, part.cu.position
    if part.affinity is not None:
        yield Feature.AFFINITY, part.affinity.position


def _span_features(span: Span) -> Iterator[Feature]:
    if span.ptile is not None:
        yield Feature.PTILE
    if span.ptile == BY_HOST or span.ptile_types:
        yield Feature.PTILE_BY_HOST
    if span.block is not None:
        yield Feature.BLOCK
    if span.stripe is not None:
        yield Feature.STRIPE
    if span.gtile is not None:
        yield Feature.GTILE


def _rusage_features(item: Reservation) -> Iterator[Feature]:
    if item.duration_s is not None or any(phase.duration_s is not None for phase in item.phases):
        yield Feature.DURATION
    if item.decay or any(phase.decay for phase in item.phases):
        yield Feature.DECAY
    if item.phases:
        yield Feature.PHASES
    if (item.phases or item.duration_s is not None) and item.name.startswith(_GPU_PREFIX):
        yield Feature.GPU_DURATION
    if item.threshold is not None:
        yield Feature.THRESHOLD
    if item.gpu_options:
        yield Feature.GPU_OPTIONS
