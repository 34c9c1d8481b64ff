"""Operands that name what a cluster has: those of them, or all where none is named. Nothing is printed but errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from gsched.cli.session.call import Call


class _Named(Protocol):
    @property
    def name(self) -> str:
        """By which it is asked for."""


N = TypeVar("N", bound=_Named)


def chosen_by_name(call: Call, there: Sequence[N], names: Sequence[str], kind: str) -> tuple[list[N], bool]:
    """(those that are named, in the order in which they are there, or all without names; whether all names are known).

    Of each name that is not there the user is told: `NAME: No such KIND`.
    """
    known = {each.name for each in there}
    unknown = [name for name in names if name not in known]
    for name in unknown:
        call.error(f"{name}: No such {kind}\n")
    return [each for each in there if not names or each.name in names], not unknown
