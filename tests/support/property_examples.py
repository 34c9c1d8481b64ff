"""With how many examples hypothesis tries a property: few by day, so that `make test` is soon over, and many by night.

A test says how many are enough by day; `--property-rounds` makes it so many times as many.
"""

from __future__ import annotations

_rounds = 1


def set_rounds(rounds: int) -> None:
    """Before any test module is imported: their decorators ask for `examples` then."""
    global _rounds
    _rounds = rounds


def examples(by_day: int) -> int:
    """For `max_examples`."""
    return by_day * _rounds
