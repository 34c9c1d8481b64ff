"""Jobs as a small table, for a notebook or a terminal: `gsched.table(cluster.jobs())`.

It must never take a name for markup, nor ask the master: it shows what it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from itertools import islice

from gsched.api.values import members, wrong
from gsched.base.ids import show_job
from gsched.model.views.view import JobView

MOST_ROWS = 100
"""That are shown; the others are counted."""
MOST_LETTERS = 60
_HEADS = ("Job", "Name", "State", "Queue", "User", "Hosts", "Submitted")


class JobTable(Sequence[JobView]):
    """Views of jobs; a notebook shows them as a table, `print` as lines."""

    def __init__(self, views: Iterable[JobView]) -> None:
        self._views = tuple(views)

    def __len__(self) -> int:
        return len(self._views)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        found = self._views[place]
        return JobTable(found) if isinstance(place, slice) else found

    def __repr__(self) -> str:
        rows = [_HEADS, *map(_row, islice(self._views, MOST_ROWS))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, *([self._others] if self._others else [])])

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = "".join(_line("td", _row(view)) for view in islice(self._views, MOST_ROWS))
        head = _line("th", _HEADS)
        foot = f"<p>{escape(self._others)}</p>" if self._others else ""
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>{foot}"

    @property
    def _others(self) -> str:
        left = len(self._views) - MOST_ROWS
        return f"and {left} more" if left > 0 else ""


def table(jobs: Iterable[JobView]) -> JobTable:
    """The views, such as `cluster.jobs()` yields, as a table. Raises BadRequest for anything else."""
    views = members("jobs", jobs, "views of jobs, such as cluster.jobs() yields,")
    for view in views:
        if not isinstance(view, JobView):
            raise wrong("jobs", view, "a view of a job, such as cluster.jobs() yields,")
    return JobTable(views)


def _row(view: JobView) -> tuple[str, ...]:
    hosts = [part.host for part in view.allocation.hosts] if view.allocation is not None else []
    submitted = datetime.fromtimestamp(view.submitted_at).astimezone().isoformat(" ", "seconds")
    cells = (show_job(view.job_id), view.spec.name or view.spec.command, view.state, view.spec.queue, view.spec.user)
    return tuple(map(_short, (*cells, " ".join(hosts), submitted)))


def _short(text: str) -> str:
    """On one line, and without what a terminal would obey."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return shown if len(shown) <= MOST_LETTERS else f"{shown[: MOST_LETTERS - 3]}..."


def _line(cell: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"
