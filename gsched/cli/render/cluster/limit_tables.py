"""`glimits` (blimits): one row per limit and member, `used/allowed` per resource.

Source of the tables: blimits(1) of LSF 10.1; NGPUS and GPU_HOURS are gsched's own columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gsched.cli.render.text.text_columns import left, printable, width
from gsched.model.views.room_view import LimitSection, LimitView

_INTERNAL = ("slots", "mem", "tmp", "swp", "jobs", "ngpus", "gpu_hours")
_ALWAYS = ("slots", "mem", "tmp", "swp", "jobs", "ngpus")
_MOST_NAMES = 4
_WHO = ("NAME", "USERS", "QUEUES", "HOSTS", "PROJECTS")
NOTHING = "No resource usage found.\n"
NOTHING_SET = "No limits are configured.\n"


def render_limits(limits: Iterable[LimitView]) -> str:
    """A table of the resources that LSF knows of itself, and one of the others."""
    rows = list(limits)
    if not rows:
        return NOTHING
    used = {row.resource for row in rows}
    internal = [name for name in _INTERNAL if name in _ALWAYS or name in used]
    external = sorted(used - set(_INTERNAL))
    parts = []
    for title, resources in (("INTERNAL", internal), ("EXTERNAL", external)):
        chosen = [row for row in rows if row.resource in resources]
        if chosen:
            parts.append(f"\n{title} RESOURCE LIMITS:\n\n" + _table(chosen, resources))
    return "".join(parts)


def render_sections(sections: Iterable[LimitSection]) -> str:
    """-c: the sections as they are configured. Source of the layout: bresources(1), which blimits -c stands for."""
    parts = []
    for section in sections:
        pairs = [line.partition(" = ")[::2] for line in section.settings]
        if all(key.upper() != "NAME" for key, _ in pairs):
            pairs.insert(0, ("NAME", section.name))
        size = max(len(key) for key, _ in pairs)
        lines = (f"{left(printable(key), size)} = {printable(value)}\n" for key, value in pairs)
        parts.append(f"Begin Limit\n{''.join(lines)}End Limit\n")
    return "\n".join(parts) or NOTHING_SET


def _table(rows: Sequence[LimitView], resources: Sequence[str]) -> str:
    has_profiles = any(row.application for row in rows)
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        members = (row.user, row.queue, row.host, row.project, *([row.application] if has_profiles else []))
        who = (row.name, *(_few(each) or "-" for each in members))
        found.setdefault(who, {})[row.resource] = f"{_amount(row.used)}/{_amount(row.allowed)}"
    lines = [(*_WHO, *(["APPS"] if has_profiles else []), *(name.upper() for name in resources))]
    lines += [
        (*(printable(each) for each in who), *(amounts.get(name, "-") for name in resources))
        for who, amounts in found.items()
    ]
    widths = [max(width(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "".join(_line(line, widths) for line in lines)


def _few(consumers: str) -> str:
    """The first names of many."""
    names = consumers.split()
    return consumers if len(names) <= _MOST_NAMES else " ".join([*names[:_MOST_NAMES], "..."])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(_padded(cells, widths)).rstrip() + "\n"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    return (left(text, size) for text, size in zip(cells, widths, strict=True))


def _amount(value: float) -> str:
    """Two decimals; of what is smaller than that, as many as tell it from nothing."""
    text = f"{value:.2f}" if value >= _SMALL or not value else f"{value:.1g}"
    return text.rstrip("0").rstrip(".") if "e" not in text else text


_SMALL = 0.01
