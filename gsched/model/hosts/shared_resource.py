"""Resources that several hosts share, such as floating licences: instances of ResourceMap and the hosts that have them.

Of a consumable one all jobs on all hosts of the instance take from the same number. Source: lsf.cluster(5).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gsched.model.queues.limit import Amount, Consumers, Limit


class SharedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance, `6@[h3 h4]`. `number`: its place among the instances of the resource, from 0."""

    resource: str
    number: int
    hosts: tuple[str, ...]
    value: float | None = None
    """Static; None: elims report it."""
    consumable: bool = False
    of_all: bool = False
    """It was said by `all`: its elim runs on the master's host if that is one of them."""

    @property
    def key(self) -> str:
        """Its name: no Limit section has one with a blank."""
        return f"{self.resource} {self.number}"


def limits_of(instances: Iterable[SharedInstance]) -> tuple[Limit, ...]:
    """What may be taken of each consumable instance, in the form in which everything is limited that hosts have
    together. What elims report is filled in for each cycle; until then there is nothing.
    """
    return tuple(limit_of(each, each.value) for each in instances if each.consumable)


def limit_of(instance: SharedInstance, value: float | None) -> Limit:
    """All jobs on the hosts of the instance may hold so much of it together; None: nobody knows, so nothing."""
    return Limit(
        name=instance.key,
        hosts=Consumers(instance.hosts),
        amounts={instance.resource: (Amount(value or 0.0),)},
        is_shared_resource=True,
    )
