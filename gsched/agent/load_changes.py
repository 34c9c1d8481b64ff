"""Whether a report of a host's load says more than the last one did.

A host at rest says the same again and again, a few MiB and hundredths more or less. Whoever looks at load decides by
larger differences, and what an elim reports, notes, and facts of the host are news whatever they are. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gsched.model.hosts.host import LoadReport

STEPS: Mapping[str, tuple[float, float]] = {
    "r15s": (0.05, 0.05),
    "r1m": (0.05, 0.05),
    "r15m": (0.05, 0.05),
    "ut": (0.02, 0.0),
    "pg": (1.0, 0.1),
    "io": (16.0, 0.1),
    "it": (1.0, 0.0),
    "tmp": (16.0, 0.01),
    "swp": (16.0, 0.01),
    "mem": (16.0, 0.01),
}
"""Built-in index -> by how much it must differ, at least, and as a part of what it was. Any other must only differ."""


def is_news(report: LoadReport, before: LoadReport) -> bool:
    """Whether a master that knows `before` should hear of `report`."""
    if report.indices.keys() != before.indices.keys():
        return True
    if any(_differs(name, value, before.indices[name]) for name, value in report.indices.items()):
        return True
    return msgspec.structs.replace(report, indices={}) != msgspec.structs.replace(before, indices={})


def _differs(name: str, now: float | None, before: float | None) -> bool:
    if now is None or before is None:
        return now is not before
    least, part = STEPS.get(name, (0.0, 0.0))
    return now != before and abs(now - before) >= max(least, part * abs(before))
