"""docs/metrics.md lists what the page has, no more and no less; the dashboard of examples/ asks for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from gsched.master.metrics.families import Moment, families
from gsched.master.metrics.job_counts import JobCounts
from gsched.master.metrics.measurements import Measurements
from gsched.master.metrics.pace import Pace
from tests.support.dashboard import dashboard, queries

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


def labels_by_series() -> dict[str, set[str]]:
    """By the document's table; a histogram's buckets have their bound besides."""
    table = (ROOT / "docs" / "metrics.md").read_text().partition("## What there is")[2]
    families = {}
    for line in table.splitlines():
        if line.startswith("| `"):
            names, labels = line.split("|")[1:3]
            families |= {name: set(labels.split()) for name in re.findall(r"`(\w+)`", names)}
    return {
        name: families[family] | ({"le"} if name.endswith("_bucket") else set())
        for name, family in known_series().items()
    }


def test_each_panel_asks_for_metrics_and_labels_that_there_are() -> None:
    known = labels_by_series()
    assert len(queries()) > 15
    for title, query in queries().items():
        names = re.findall(r"\b(gsched_\w+)", query)
        assert names, title
        assert not set(names) - known.keys(), title
        selected = re.findall(r"(gsched_\w+)\{([^}]*)\}", query)
        for name, selector in selected:
            assert set(re.findall(r"(\w+)\s*(?:=|!)", selector)) <= known[name], (title, name)
        grouped = {label for each in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for label in each.split(", ")}
        assert grouped <= set().union(*(known[name] for name in names)), title
        assert "$" not in query, title


def test_what_can_be_chosen_comes_from_metrics_that_there_are() -> None:
    known = labels_by_series()
    chosen = [each["query"]["query"] for each in dashboard()["templating"]["list"] if each["type"] == "query"]
    assert len(chosen) == 2
    for query in chosen:
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        assert found is not None and found[2] in known[found[1]], query


def test_panels_do_not_lie_on_each_other() -> None:
    taken = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
