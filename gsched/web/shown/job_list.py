"""A list of jobs: filtered, arrays folded, sorted, and one page of it. Bad words of a request mean the usual ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from gsched.base.ids import job_order
from gsched.cli.render.text.array_progress import finished_in, time_left
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobState
from gsched.web.mirror.job_rows import MirroredJob

PER_PAGE = 50
LONGEST_WORD = 200
WHOSE = ("mine", "all")
GROUPS: Mapping[str, frozenset[JobState]] = {
    "open": PENDING | STARTED,
    "pending": PENDING,
    "started": STARTED,
    "finished": FINISHED,
    "any": PENDING | STARTED | FINISHED,
}
SORTS = ("number", "name", "state", "queue", "user", "gpus", "submitted", "started")
_STATE_ORDER = {state.value: place for place, state in enumerate(JobState)}


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a page of the list shows."""

    whose: str = "mine"
    states: str = "open"
    """A key of GROUPS, or a state."""
    queue: str = ""
    project: str = ""
    array: int = 0
    """Elements of this array alone, each in a row of its own."""
    text: str = ""
    """Found in number, name, user, queue, project or host."""
    sort: str = "number"
    descending: bool = True
    page: int = 1

    def words(self, **other: object) -> dict[str, str]:
        """What stands in an address for it, with these things changed; what is usual is left out."""
        changed = msgspec.structs.replace(self, **other)
        usual = ListQuery()
        found = {}
        for name in self.__struct_fields__:
            value = getattr(changed, name)
            if value != getattr(usual, name):
                found[name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
        return found


def read_query(words: Mapping[str, str]) -> ListQuery:
    """The query of an address."""
    whose, states, sort = words.get("whose", ""), words.get("states", ""), words.get("sort", "")
    known_states = {*GROUPS, *(state.value for state in JobState)}
    return ListQuery(
        whose=whose if whose in WHOSE else "mine",
        states=states if states in known_states else "open",
        queue=words.get("queue", "")[:LONGEST_WORD],
        project=words.get("project", "")[:LONGEST_WORD],
        array=number_of(words.get("array", ""), 0),
        text=words.get("text", "").strip()[:LONGEST_WORD],
        sort=sort if sort in SORTS else "number",
        descending=words.get("descending", "1") != "0",
        page=max(1, number_of(words.get("page", ""), 1)),
    )


def number_of(text: str, otherwise: int) -> int:
    """A number of at most nine digits that stands in an address."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise


class ListLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job, or an array with how many of its elements are in which state (`counts` not empty)."""

    row: MirroredJob
    counts: dict[str, int] = {}
    left_s: float | None = None
    """Of an array: seconds until all elements are over, as far as that can be estimated."""

    @property
    def number(self) -> int:
        """The job's number; of an array its own."""
        return self.row.array_id if self.counts else self.row.job_id

    @property
    def label(self) -> str:
        """As people name it."""
        return str(self.row.array_id) if self.counts else self.row.label

    @property
    def total(self) -> int:
        """Elements of an array."""
        return sum(self.counts.values())

    @property
    def finished(self) -> int:
        """Elements of an array that are over."""
        return finished_in(self.counts)

    @property
    def running(self) -> int:
        """Those of them that are RUN."""
        return self.counts.get(JobState.RUN.value, 0)

    @property
    def failed(self) -> int:
        """Those of them that are EXIT."""
        return self.counts.get(JobState.EXIT.value, 0)


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page; `count` lines there are in all."""

    lines: tuple[ListLine, ...]
    count: int
    page: int
    pages: int


def page_of(rows: Iterable[MirroredJob], query: ListQuery, me: str, now: float) -> ListPage:
    """The page that is asked for, or the last one where there are not so many."""
    lines = _lines(rows, query, me, now)
    lines.sort(key=lambda line: job_order(line.row.job_id), reverse=query.descending)
    if query.sort != "number":
        lines.sort(key=lambda line: _key(line, query.sort), reverse=query.descending)
    pages = max(1, -(-len(lines) // PER_PAGE))
    page = min(query.page, pages)
    shown = lines[(page - 1) * PER_PAGE : page * PER_PAGE]
    return ListPage(lines=tuple(shown), count=len(lines), page=page, pages=pages)


def _is_meant(row: MirroredJob, query: ListQuery, me: str) -> bool:
    """Whether it is wanted if its state is."""
    if query.whose == "mine" and row.user != me:
        return False
    if query.array and row.array_id != query.array:
        return False
    if (query.queue and row.queue != query.queue) or (query.project and row.project != query.project):
        return False
    return not query.text or _has(row, query.text.casefold())


def _has(row: MirroredJob, text: str) -> bool:
    return any(text in each.casefold() for each in (row.label, row.name, row.user, row.queue, row.project, row.hosts))


def _lines(rows: Iterable[MirroredJob], query: ListQuery, me: str, now: float) -> list[ListLine]:
    """A line for each job, and one for all elements of an array of which one at least is in a state that is wanted."""
    states: Collection[str] = GROUPS.get(query.states) or (query.states,)
    lines, arrays = [], dict[int, list[MirroredJob]]()
    for row in rows:
        if not _is_meant(row, query, me):
            continue
        if row.array_id and not query.array:
            arrays.setdefault(row.array_id, []).append(row)
        elif row.state in states:
            lines.append(ListLine(row=row))
    folded = (members for members in arrays.values() if any(row.state in states for row in members))
    return [*lines, *(_folded(members, now) for members in folded)]


def _folded(members: Sequence[MirroredJob], now: float) -> ListLine:
    counts: dict[str, int] = {}
    for row in members:
        counts[row.state] = counts.get(row.state, 0) + 1
    left_s = time_left(((row.state, row.started_at, row.finished_at) for row in members), now)
    return ListLine(row=min(members, key=lambda row: row.job_id), counts=counts, left_s=left_s)


def _key(line: ListLine, sort: str) -> str | float:
    row = line.row
    match sort:
        case "name":
            return row.name.casefold()
        case "state":
            return float(_STATE_ORDER.get(row.state, 99))
        case "queue":
            return row.queue
        case "user":
            return row.user
        case "gpus":
            return float(row.gpus)
        case "submitted":
            return row.submitted_at
        case _:
            return row.started_at or 0.0
