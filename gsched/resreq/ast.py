"""What a resource requirement says, as frozen values: expressions, sections, compounds, alternatives.

Two values are equal when they say the same; where a name stood in the text (`position`) does not count.
This module must never look at a text or at a host: reading is syntax's work, judging is evaluate's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

_OF_THE_TEXT = ("position", "source")


class _Said(msgspec.Struct, frozen=True):
    """A value that knows where it was read: equal to all that say the same, wherever that stood."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._says() == other._says()

    def __hash__(self) -> int:
        return hash(self._says())

    def _says(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in _OF_THE_TEXT)


class Number(_Said, frozen=True):
    """A number. `text` is as typed; `has_unit` that a size such as `16G` was typed, and `value` then is MiB."""

    value: float
    text: str
    has_unit: bool = False
    position: int = 0


class StringValue(msgspec.Struct, frozen=True):
    """A string value: `'...'`, or a bare word where only a string can stand (`type == X86_64`)."""

    value: str
    quoted: bool = False


class Name(_Said, frozen=True):
    """A resource. As the right side of a comparison it is a string value if the left side turns out to be text."""

    name: str
    position: int = 0


class Defined(_Said, frozen=True):
    """`defined(R)`: the host has a value of R."""

    name: str
    position: int = 0


class Not(msgspec.Struct, frozen=True):
    operand: Expression


class Negate(msgspec.Struct, frozen=True):
    operand: Expression


class Parenthesized(msgspec.Struct, frozen=True):
    """Parentheses, kept because a requirement is shown as it was typed."""

    inner: Expression


class Arithmetic(msgspec.Struct, frozen=True):
    """`op` is one of `* / + -`."""

    op: str
    left: Expression
    right: Expression


class Comparison(msgspec.Struct, frozen=True):
    """`op` is one of `> < >= <= == = !=`; `=` is kept as typed and means `==`."""

    op: str
    left: Expression
    right: Expression

    @property
    def is_textual(self) -> bool:
        """Whether the text alone shows that strings are compared."""
        return isinstance(self.right, StringValue)


class AllOf(msgspec.Struct, frozen=True):
    """Terms joined by `&&`; at least two."""

    terms: tuple[Expression, ...]


class AnyOf(msgspec.Struct, frozen=True):
    """Terms joined by `||`; at least two."""

    terms: tuple[Expression, ...]


Expression: TypeAlias = (
    Number | StringValue | Name | Defined | Not | Negate | Parenthesized | Arithmetic | Comparison | AllOf | AnyOf
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The parts of `expression`, left to right."""
    match expression:
        case Not(operand) | Negate(operand):
            return (operand,)
        case Parenthesized(inner):
            return (inner,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case AllOf(terms) | AnyOf(terms):
            return terms
        case _:
            return ()


class OrderKey(_Said, frozen=True):
    """One key of `order[...]`: a resource, or an expression such as `mem/2`, whose text is then the `name`.

    `is_reversed` when a `-` stood before it, `resort` when a `!` did (hosts are sorted anew after each placement).
    An expression sorts in the direction of the resource that it names first.
    """

    name: str
    is_reversed: bool = False
    position: int = 0
    expression: Expression | None = None
    resort: bool = False


class Phase(msgspec.Struct, frozen=True):
    """One phase of a reservation: `amount` for `duration_s` seconds, then the next; None lasts to the job's end.

    With `decay` the amount falls linearly to nothing over the duration.
    """

    amount: float
    text: str
    duration_s: float | None = None
    decay: bool = False


class Reservation(_Said, frozen=True):
    """One `name=amount[/method]` of `rusage[...]`. Sizes are MiB; `text` is the amount as typed.

    `method` is "job", "host", "task" or empty for the cluster's default. Without `duration_s` (seconds) it lasts as
    long as the job; with `decay` it falls linearly to nothing over that time. `threshold` must hold before the job
    starts, beside the amount. `phases` is empty unless several were given as `mem=(50 20)`; `amount`, `duration_s`
    and `decay` are the first phase's then. `gpu_options` are (key, value) such as ("gmem", "1G") of a GPU resource.
    """

    name: str
    amount: float
    text: str
    method: str = ""
    position: int = 0
    duration_s: float | None = None
    decay: bool = False
    threshold: float | None = None
    phases: tuple[Phase, ...] = ()
    gpu_options: tuple[tuple[str, str], ...] = ()


BY_HOST = 0
"""Value of `ptile` and `gtile` for `!`: as many as the host's own figure says."""
UNLISTED = -1
"""Value of `ptile` where only `ptile_types` are given: hosts of other types get no tasks."""


class Span(_Said, frozen=True):
    """How tasks spread over hosts. At most one of hosts, ptile, block and stripe is set; gtile may stand beside it.

    hosts: 1 (all on one host) or -1 (lifts the queue's span). ptile: tasks per host, BY_HOST for `'!'` (the host's
    slots), UNLISTED for none, and `ptile_types` has (host type or model, tasks) that differ. block: tasks are placed
    in blocks of so many. stripe: tasks are dealt round the hosts, at most so many on each, 0 for no such limit. gtile:
    GPUs per socket, BY_HOST for `!` (evenly over the sockets).
    """

    hosts: int | None = None
    ptile: int | None = None
    ptile_types: tuple[tuple[str, int], ...] = ()
    block: int | None = None
    stripe: int | None = None
    gtile: int | None = None
    position: int = 0


class SameKey(_Said, frozen=True):
    """One name of `same[...]`: all hosts of the job agree in its value."""

    name: str
    position: int = 0


class Cu(_Said, frozen=True):
    """`cu[...]`: how tasks spread over compute units. What was not given is empty, None or False.

    `pref` is "config", "minavail", "maxavail" or "bestfit"; `usablecuslots` the fewest slots that a unit must offer.
    """

    type: str = ""
    maxcus: int | None = None
    pref: str = ""
    excl: bool = False
    balance: bool = False
    usablecuslots: int | None = None
    position: int = 0


class Affinity(_Said, frozen=True):
    """`affinity[unit(number,same=..,exclusive=(level,scope))*factor:cpubind=..:membind=..:distribute=..]`.

    `unit` and the levels are "numa", "socket", "core" or "thread"; `number` units per task, `factor` times as many in
    all. `exclusive` is (level, scope), the scope empty when not given. `distribute` is "any", "balance" or "pack";
    `pack_level` and `pack_number` are set for `pack(socket=1)`.
    """

    unit: str
    number: int = 1
    factor: int = 1
    same: str = ""
    exclusive: tuple[str, str] = ("", "")
    cpubind: str = ""
    membind: str = ""
    distribute: str = ""
    pack_level: str = ""
    pack_number: int = 0
    position: int = 0


class Requirement(_Said, frozen=True):
    """A simple requirement; a section that was not given is None or empty. `source` is the text it was read from.

    `rusage` is the first of the alternatives that `rusage[a || b]` gives; `rusage_alternatives` holds all of them,
    the first included, and is empty when there is only one.
    """

    select: Expression | None = None
    order: tuple[OrderKey, ...] = ()
    rusage: tuple[Reservation, ...] = ()
    span: Span | None = None
    same: tuple[SameKey, ...] = ()
    source: str = ""
    rusage_alternatives: tuple[tuple[Reservation, ...], ...] = ()
    cu: Cu | None = None
    affinity: Affinity | None = None

    @property
    def every_rusage(self) -> tuple[tuple[Reservation, ...], ...]:
        """All alternatives of rusage, the first choice first; one empty one when nothing is reserved."""
        return self.rusage_alternatives or (self.rusage,)


class Term(_Said, frozen=True):
    """`count*{requirement}` of a compound requirement; a count of None takes the tasks that the others leave."""

    count: int | None
    requirement: Requirement
    position: int = 0


class Compound(_Said, frozen=True):
    """`2*{...} + 3*{...}`, or `{2*{...} + 3*{...}} same[...]`: each term's tasks have a requirement of their own.

    Terms are placed in this order. Only the last may lack a count. `same` holds over all hosts of the job.
    """

    terms: tuple[Term, ...]
    same: tuple[SameKey, ...] = ()
    source: str = ""
    position: int = 0

    @property
    def tasks(self) -> int | None:
        """The tasks of all terms, which -n must equal; None when the last term takes what is left."""
        counts = [term.count for term in self.terms]
        return None if None in counts else sum(count for count in counts if count is not None)


class Alternative(msgspec.Struct, frozen=True):
    """One choice of alternatives. It counts from `delay_s` seconds after submission on; 0 for the first."""

    requirement: Requirement | Compound
    delay_s: int = 0


class Alternatives(_Said, frozen=True):
    """`{...} || {...}@120`: the first choice that can be met is taken; at least two."""

    choices: tuple[Alternative, ...]
    source: str = ""
    position: int = 0


AnyRequirement: TypeAlias = Requirement | Compound | Alternatives


def simple_parts(requirement: AnyRequirement) -> Iterator[Requirement]:
    """The simple requirements of which `requirement` is made, in the order of its text."""
    match requirement:
        case Compound():
            yield from (term.requirement for term in requirement.terms)
        case Alternatives():
            for choice in requirement.choices:
                yield from simple_parts(choice.requirement)
        case _:
            yield requirement


def compounds(requirement: AnyRequirement) -> Iterator[Compound]:
    """The compound requirements in `requirement`, itself or among its alternatives."""
    match requirement:
        case Compound():
            yield requirement
        case Alternatives():
            for choice in requirement.choices:
                yield from compounds(choice.requirement)
        case _:
            pass


def with_parts(requirement: AnyRequirement, make: Callable[[Requirement, int | None], Requirement]) -> AnyRequirement:
    """`requirement` with what `make` makes of each of its simple parts; it is told a part's place in its compound."""
    match requirement:
        case Compound():
            return _with_terms(requirement, make)
        case Alternatives(choices):
            return replace(
                requirement,
                choices=tuple(
                    replace(
                        each,
                        requirement=_with_terms(each.requirement, make)
                        if isinstance(each.requirement, Compound)
                        else make(each.requirement, None),
                    )
                    for each in choices
                ),
            )
        case _:
            return make(requirement, None)


def _with_terms(compound: Compound, make: Callable[[Requirement, int | None], Requirement]) -> Compound:
    terms = (replace(each, requirement=make(each.requirement, place)) for place, each in enumerate(compound.terms))
    return replace(compound, terms=tuple(terms))
