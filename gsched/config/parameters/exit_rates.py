"""GLOBAL_EXIT_RATE of lsb.params, and what goes with it. Source: lsb.params(5)."""

from __future__ import annotations

from gsched.base.errors import BadRequest
from gsched.config.grammar.findings import show
from gsched.config.grammar.values import KeyValues, integer, yes_or_no
from gsched.model.hosts.exit_rates import NO_LIMIT, ExitKind, ExitRates

_LONGEST_MIN = 7 * 24 * 60


def exit_rate(text: str) -> int:
    """How many may fail."""
    return integer(0, NO_LIMIT)(text)


def read_exit_rates(settings: KeyValues) -> ExitRates:
    """Of the cluster."""
    default = ExitRates()
    most = settings.take("GLOBAL_EXIT_RATE", exit_rate, None)
    return ExitRates(
        most=None if most == NO_LIMIT else most,
        within_s=settings.take("JOB_EXIT_RATE_DURATION", integer(1, _LONGEST_MIN), default.within_s // 60) * 60.0,
        kinds=settings.take("EXIT_RATE_TYPE", _kinds, default.kinds),
        per_slot=settings.take("ENABLE_EXIT_RATE_PER_SLOT", yes_or_no, default.per_slot),
    )


def _kinds(text: str) -> frozenset[ExitKind]:
    found: set[ExitKind] = set()
    for word in text.split():
        try:
            found.add(ExitKind(word.upper()))
        except ValueError:
            raise BadRequest(f"'{show(word)}' is none of {', '.join(ExitKind)}") from None
    if found >= {ExitKind.ANY, ExitKind.OWN}:
        raise BadRequest(f"{ExitKind.ANY} and {ExitKind.OWN} exclude each other")
    if not found:
        raise BadRequest(f"none of {', '.join(ExitKind)} is named")
    return frozenset(found)
