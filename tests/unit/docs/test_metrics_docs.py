"""docs/metrics.md lists what the page has, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from gsched.master.metrics.families import Moment, families
from gsched.master.metrics.job_counts import JobCounts
from gsched.master.metrics.measurements import Measurements
from gsched.master.metrics.pace import Pace

ROOT = Path(__file__).parents[3]
SUFFIXES = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_count", "_sum")}


def known_series() -> dict[str, str]:
    """Name of each series that there can be -> that of its family as the document has it."""
    moment = Moment("1", "c", 0.0, JobCounts(), [], frozenset(), Measurements(), 0, 0, False, 0)
    found = {}
    for family in families(moment, Pace()):
        for suffix in SUFFIXES.get(family.type, ("",)):
            found[family.name + suffix] = family.name if family.type == "histogram" else family.name + suffix
    return found


def test_the_document_lists_every_metric() -> None:
    table = (ROOT / "docs" / "metrics.md").read_text().partition("## What there is")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(known_series().values())


def test_the_document_names_no_metric_that_is_not_there() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text()
    named = set(re.findall(r"\bgsched_\w+", text))
    assert named <= set(known_series()) | set(known_series().values())
