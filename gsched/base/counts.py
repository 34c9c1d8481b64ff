"""Numbers of things in words: `1 slot`, `3 slots`. It never finds a plural: who counts says it.

Of one thing the `s` at the end of its first word is left out.
"""

from __future__ import annotations


def counted(number: int, plural: str) -> str:
    """`3 hosts`; of one `1 host`. `plural` may be several words, as in `kinds of jobs`."""
    noun, blank, rest = plural.partition(" ")
    return f"{number} {noun.removesuffix('s') if number == 1 else noun}{blank}{rest}"


class Count(int):
    """A number that a format like `{:slots}` shows with what is counted. It is shown as other numbers are otherwise."""

    def __format__(self, spec: str) -> str:
        return counted(self, spec) if spec.isalpha() and len(spec) > 1 else super().__format__(spec)
