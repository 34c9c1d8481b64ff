"""Load thresholds `loadSched/loadStop` of queues and hosts. Source: lsb.queues(5), lsb.hosts(5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gsched.base.errors import BadRequest
from gsched.base.units import parse_mib
from gsched.config.grammar.findings import show
from gsched.config.grammar.tables import THRESHOLDS
from gsched.config.grammar.values import number
from gsched.model.hosts.resource import BUILTIN, Resource, ResourceType
from gsched.model.queues.queue import LOAD, PREEMPT, WINDOW, Threshold

_SIZES = ("tmp", "swp", "mem")


def load_names(resources: Mapping[str, Resource]) -> tuple[str, ...]:
    """What can have thresholds: the built-in load indices, and Numeric resources that elims report."""
    reported = (each.name for each in resources.values() if each.interval_s and each.type is ResourceType.NUMERIC)
    return (*THRESHOLDS, *reported)


def threshold(name: str, resources: Mapping[str, Resource], unit: str) -> Callable[[str], Threshold]:
    """A reader of `sched/stop`, `sched` or `/stop` for a load index or resource. `ut` becomes a fraction.

    A size without a unit is in `unit`, a letter.
    """
    resource = BUILTIN.get(name) or resources[name]

    def read(text: str) -> Threshold:
        first, _, second = text.partition("/")
        found = Threshold(_value(name, first.strip(), unit), _value(name, second.strip(), unit))
        if found.sched is None and found.stop is None:
            raise BadRequest(f"'{show(text)}' is not of the form loadSched/loadStop")
        if found.sched is not None and found.stop is not None:
            beyond = found.stop >= found.sched if resource.increasing else found.stop <= found.sched
            if not beyond:
                way = "above" if resource.increasing else "below"
                raise BadRequest(
                    f"'{show(text)}': running jobs would be stopped before new ones are held back; "
                    f"loadStop must be {way} loadSched"
                )
        return found

    return read


def _value(name: str, text: str, unit: str) -> float | None:
    if text in ("", "-"):
        return None
    if name in _SIZES:
        return parse_mib(text, unit)
    if name == "ut":
        value = number(text.removesuffix("%"))
        fraction = value / 100 if value > 1 or text.endswith("%") else value
        if not 0 <= fraction <= 1:
            raise BadRequest(f"'{show(text)}' is neither a fraction from 0 to 1 nor a percentage")
        return fraction
    return number(text)


def terminate_when(text: str) -> tuple[str, ...]:
    """TERMINATE_WHEN: any of `LOAD`, `WINDOW` and `PREEMPT`. Raises BadRequest."""
    words = tuple(dict.fromkeys(text.upper().split()))
    for word in words:
        if word not in (LOAD, WINDOW, PREEMPT):
            raise BadRequest(f"'{show(word)}' is none of {LOAD}, {WINDOW} and {PREEMPT}")
    return words
