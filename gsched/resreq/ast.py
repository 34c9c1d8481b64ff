"""What a resource requirement says, as frozen values: select expressions and the sections around them.

Two values are equal when they say the same; where a name stood in the text (`position`) does not count.
This module must never look at a text or at a host: reading is syntax's work, judging is evaluate's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Number:
    """A number. `text` is as typed; `has_unit` that a size such as `16G` was typed, and `value` then is MiB."""

    value: float
    text: str
    has_unit: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A string value: `'...'`, or a bare word where only a string can stand (`type == X86_64`)."""

    value: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A resource. As the right side of a comparison it is a string value if the left side turns out to be text."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Defined:
    """`defined(R)`: the host has a value of R."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Group:
    """Parentheses, kept because a requirement is shown as it was typed."""

    inner: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`op` is one of `* / + -`."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """`op` is one of `> < >= <= == = !=`; `=` is kept as typed and means `==`."""

    op: str
    left: Expression
    right: Expression

    @property
    def is_textual(self) -> bool:
        """Whether the text alone shows that strings are compared."""
        return isinstance(self.right, Text)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Terms joined by `&&`; at least two."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Terms joined by `||`; at least two."""

    terms: tuple[Expression, ...]


Expression: TypeAlias = Number | Text | Name | Defined | Not | Negate | Group | Arithmetic | Comparison | AllOf | AnyOf


def children(expression: Expression) -> tuple[Expression, ...]:
    """The parts of `expression`, left to right."""
    match expression:
        case Not(operand) | Negate(operand):
            return (operand,)
        case Group(inner):
            return (inner,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case AllOf(terms) | AnyOf(terms):
            return terms
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One name of `order[...]`; `is_reversed` when a `-` stood before it."""

    name: str
    is_reversed: bool = False
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One `name=amount[/method]` of `rusage[...]`. Sizes are MiB; `text` is the amount as typed.

    `method` is "job", "host", "task" or empty for the cluster's default.
    """

    name: str
    amount: float
    text: str
    method: str = ""
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Span:
    """`span[hosts=1]` (all on one host), `span[hosts=-1]` (lifts the queue's span) or `span[ptile=n]` (n per host).

    Exactly one of the two is set.
    """

    hosts: int | None = None
    ptile: int | None = None


@dataclass(frozen=True, slots=True)
class SameKey:
    """One name of `same[...]`: all hosts of the job agree in its value."""

    name: str
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A whole requirement; a section that was not given is None or empty. `source` is the text it was read from."""

    select: Expression | None = None
    order: tuple[OrderKey, ...] = ()
    rusage: tuple[Reservation, ...] = ()
    span: Span | None = None
    same: tuple[SameKey, ...] = ()
    source: str = field(default="", compare=False)
