"""`gjobs -sum`: the slots of all jobs that were asked about, by state. Layout: bjobs(1) of LSF 10.1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gsched.cli.render.jobs.shown_job import ShownJob

_COLUMNS = (
    ("RUN", ("RUN",), 11),
    ("SSUSP", ("SSUSP",), 12),
    ("USUSP", ("USUSP",), 11),
    ("UNKNOWN", ("UNKWN", "ZOMBI"), 11),
    ("PEND", ("PEND",), 11),
    ("FWD_PEND", (), 10),
    ("PSUSP", ("PSUSP",), 0),
)
"""Heading, the states that it counts, width. Nothing is ever forwarded to another cluster."""


def render_slot_sums(counts: Mapping[str, int], *, header: bool = True) -> str:
    """The heading and one row."""
    row = "".join(f"{sum(counts.get(state, 0) for state in states):<{width}d}" for _, states, width in _COLUMNS)
    heading = "".join(name.ljust(width) for name, _, width in _COLUMNS)
    return (heading + "\n" if header else "") + row + "\n"


def slots_by_state(jobs: Iterable[ShownJob]) -> dict[str, int]:
    """The same counted here, where the master does not know what was asked for."""
    counts: dict[str, int] = {}
    for job in jobs:
        slots = sum(host.slots for host in job.placed) or job.spec.slots
        counts[job.view.state] = counts.get(job.view.state, 0) + slots
    return counts
