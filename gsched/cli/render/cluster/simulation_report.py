"""What `gsched sim` prints: figures of a simulation, of two beside each other, of a sweep. It reckons nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsched.cli.render.text.text_columns import left, printable, right, width

_LINES = (
    ("Hosts", "hosts", "count"),
    ("GPUs", "gpus", "count"),
    ("Slots", "slots", "count"),
    ("Jobs", "jobs", "count"),
    ("Refused", "jobs_refused", "count"),
    ("Never started", "jobs_never_started", "count"),
    ("Makespan", "makespan_s", "time"),
    ("GPUs in use", "gpu_use", "percent"),
    ("Slots in use", "slot_use", "percent"),
    ("Wait, mean", "wait_mean_s", "time"),
    ("Wait, p50", "wait_p50_s", "time"),
    ("Wait, p95", "wait_p95_s", "time"),
    ("Wait, p99", "wait_p99_s", "time"),
    ("Slowdown, mean", "slowdown_mean", "number"),
    ("Free GPUs that are fragments", "fragmentation", "percent"),
    ("Fairness (1: all users alike)", "fairness", "number"),
    ("Energy of the GPUs", "energy_kwh", "kwh"),
    ("Same hosts and GPUs as recorded", "same_place", "percent"),
    ("Same start as recorded, to 1 s", "same_start", "percent"),
    ("Start off, mean", "start_off_mean_s", "time"),
    ("Start off, most", "start_off_most_s", "time"),
)
_ONLY_IF_ANY = ("jobs_refused", "jobs_never_started", "energy_kwh")
_GROUP = (
    ("JOBS", "jobs", "count"),
    ("GPU_HOURS", "gpu_hours", "number"),
    ("WAIT_MEAN", "wait_mean_s", "time"),
    ("P50", "wait_p50_s", "time"),
    ("P95", "wait_p95_s", "time"),
    ("P99", "wait_p99_s", "time"),
    ("SLOWDOWN", "slowdown_mean", "number"),
)


def render_simulation(summary: Mapping[str, Any], groups: Mapping[str, Mapping[str, Sequence[Any]]]) -> str:
    """The figures; then a table for each of `groups`: column that names its rows -> columns."""
    lines = [(label, shown(summary[key], form)) for label, key, form in _LINES if _is_said(summary, key)]
    size = max(width(label) for label, _ in lines) + 2
    text = "".join(f"{left(label, size)}{value}\n" for label, value in lines)
    for naming, table in groups.items():
        text += "\n" + _group(naming, table)
    return text


def render_comparison(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    changes: Mapping[str, Sequence[Any]],
    winners: Sequence[str],
    losers: Sequence[str],
) -> str:
    """The figures before and after; a row for each user, who wins most first; who wins and who loses."""
    rows = [["", "BEFORE", "AFTER", "CHANGE"]]
    for label, key, form in _LINES:
        if _is_said(before, key) or _is_said(after, key):
            was, is_now = before.get(key), after.get(key)
            rows.append([label, shown(was, form), shown(is_now, form), _change(was, is_now, form)])
    users = [["USER", "JOBS", "WAIT_BEFORE", "WAIT_AFTER", "CHANGE", "SLOWDOWN_BEFORE", "SLOWDOWN_AFTER"]]
    for row in zip(*(changes[name] for name in _USER_COLUMNS), strict=True):
        user, jobs, was, is_now, slow, slow_now = row
        waits = [shown(was, "time"), shown(is_now, "time"), _change(was, is_now, "time")]
        users.append([printable(user), shown(jobs, "count"), *waits, shown(slow, "number"), shown(slow_now, "number")])
    text = aligned(rows) + "\n" + aligned(users) + "\n"
    text += f"Shorter waits: {_names(winners)}. Longer waits: {_names(losers)}.\n"
    return text


_USER_COLUMNS = ("user", "jobs", "wait_before_s", "wait_after_s", "slowdown_before", "slowdown_after")
MOST_NAMES = 10


def _names(users: Sequence[str]) -> str:
    more = f" and {len(users) - MOST_NAMES} more" if len(users) > MOST_NAMES else ""
    return ", ".join(map(printable, users[:MOST_NAMES])) + more if users else "nobody"


def _change(before: Any, after: Any, form: str) -> str:
    if before is None or after is None:
        return "-"
    by = after - before
    if not round(by, 4):
        return "0"
    if form == "percent":
        return f"{100 * by:+.1f}"
    return ("-" if by < 0 else "+") + shown(abs(by), form)


_SWEPT = (
    ("GPU_USE", "gpu_use", "percent"),
    ("WAIT_MEAN", "wait_mean_s", "time"),
    ("P50", "wait_p50_s", "time"),
    ("P95", "wait_p95_s", "time"),
    ("P99", "wait_p99_s", "time"),
    ("SLOWDOWN", "slowdown_mean", "number"),
    ("FRAGMENTS", "fragmentation", "percent"),
    ("FAIRNESS", "fairness", "number"),
    ("MAKESPAN", "makespan_s", "time"),
)


def render_sweep(key: str, values: Sequence[str], summaries: Sequence[Mapping[str, Any]]) -> str:
    """A row of figures for each value."""
    rows = [[printable(key), *(head for head, _, _ in _SWEPT)]]
    for value, summary in zip(values, summaries, strict=True):
        rows.append([printable(value), *(shown(summary[name], form) for _, name, form in _SWEPT)])
    return aligned(rows)


def _is_said(summary: Mapping[str, Any], key: str) -> bool:
    return key in summary if key not in _ONLY_IF_ANY else bool(summary[key])


def _group(naming: str, table: Mapping[str, Sequence[Any]]) -> str:
    rows = [[naming.upper(), *(head for head, _, _ in _GROUP)]]
    for place, name in enumerate(table[naming]):
        rows.append([printable(name), *(shown(table[key][place], form) for _, key, form in _GROUP)])
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table: the first column to the left, the others to the right."""
    sizes = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(
            left(cell, size) if column == 0 else right(cell, size)
            for column, (cell, size) in enumerate(zip(row, sizes, strict=True))
        )
        for row in rows
    )
    return "".join(line.rstrip() + "\n" for line in lines)


def shown(value: Any, form: str) -> str:
    """A value as a person reads it; `-` where there is none."""
    if value is None:
        return "-"
    if form == "time":
        return duration(value)
    if form == "percent":
        return f"{100 * value:.1f} %"
    if form == "kwh":
        return f"{value:.1f} kWh"
    return f"{value}" if form == "count" else f"{value:.2f}"


def duration(seconds: float) -> str:
    """`2d03:04:05`, `3:04:05` or `4:05`, or `0.4s` below a minute."""
    if seconds < 60:
        return f"{seconds:.3g}s"
    whole = round(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, left_s = divmod(rest, 60)
    if days:
        return f"{days}d{hours:02}:{minutes:02}:{left_s:02}"
    return f"{hours}:{minutes:02}:{left_s:02}" if hours else f"{minutes}:{left_s:02}"
