"""A part of an archive is written: its files get their names when all are on disk and the manifest plans them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsched import __version__
from gsched.app.archives.archived_batches import (
    JobLines,
    PartSpan,
    batches,
    contents_of,
    eventless_numbers,
    incomplete,
    lines_of,
    numbers_of,
)
from gsched.app.archives.known_names import KnownNames
from gsched.app.archives.part_reading import stored_numbers
from gsched.base.errors import BadRequest
from gsched.master.archive.archive_files import LineWriter
from gsched.master.archive.archive_lines import content_line
from gsched.master.archive.archive_manifest import KINDS, ArchivedFile, Part, PartState, file_name, part_name
from gsched.store.forgotten_jobs import ForgottenJobs
from gsched.store.history_queries import History

SEEN, TAKEN = ".names.half", ".numbers.half"


@dataclass(slots=True)
class _Bounds:
    """Of what was written."""

    first_seq: int = 0
    last_seq: int = 0
    submitted: list[float] = field(default_factory=list)
    contents_named: int = 0
    eventless: int = 0
    incomplete: int = 0

    def add(self, lines: JobLines) -> None:
        if not lines.records:
            self.eventless += 1
        else:
            first = lines.records[0].seq
            self.first_seq = min(self.first_seq, first) if self.first_seq else first
            self.last_seq = max(self.last_seq, lines.records[-1].seq)
        at = lines.row.submitted_at
        self.submitted = [min([at, *self.submitted]), max([at, *self.submitted])]


class PartWriter:
    """Writes parts from one store into one folder. Raises BadRequest for a folder that takes no more, Unavailable for a
    store that cannot be read.
    """

    def __init__(self, history: History, store: ForgottenJobs, folder: Path) -> None:
        self._history, self._store, self._folder = history, store, folder

    def write(self, month: str, earlier: Sequence[Part], span: PartSpan, plan: Callable[[Part], None]) -> Part | None:
        """The part behind those of the same month, not in the manifest yet; None where no job belongs to it: then there
        is no file. `plan` writes down what part it will be, before the first file gets its name.
        """
        number = len(earlier) + 1
        names = [file_name(kind, part_name(month, number)) for kind in KINDS]
        try:
            with contextlib.ExitStack() as stack:
                jobs, events, contents = (
                    stack.enter_context(_new(self._folder, name, for_owner=name.startswith("contents")))
                    for name in names
                )
                seen = stack.enter_context(contextlib.closing(KnownNames(self._folder / SEEN)))
                bounds = self._fill(span, earlier, (jobs, events, contents), seen)
                if not jobs.lines:
                    return None
                missing = bounds.contents_named - contents.lines
                files = [each.finish() for each in (jobs, events, contents)]
                part = _part(month, number, span, bounds, missing, files)
                plan(part)
                for each in (jobs, events, contents):
                    each.publish()
        except OSError as problem:
            raise BadRequest(f"{problem.filename or self._folder}: {problem.strerror}; nothing was removed") from None
        return part

    def _fill(self, span: PartSpan, earlier: Sequence[Part], files: Sequence[LineWriter], seen: KnownNames) -> _Bounds:
        jobs, events, contents = files
        bounds = _Bounds()
        for numbers in self._numbers(span, earlier):
            named: list[str] = []
            found = list(lines_of(self._history, numbers, span.last_event))
            bounds.incomplete += incomplete(self._store, found)
            for lines in found:
                jobs.write(lines.job)
                for line in lines.events:
                    events.write(line)
                bounds.add(lines)
                named += contents_of(lines.records)
            new = seen.add(named)
            bounds.contents_named += len(new)
            for name, data in self._store.contents(new):
                contents.write(content_line(name, data))
        return bounds

    def _numbers(self, span: PartSpan, earlier: Sequence[Part]) -> Iterator[list[int]]:
        """Of the jobs of the part: at last those that have lost their events before any part had them."""
        with contextlib.closing(KnownNames(self._folder / TAKEN)) as taken:
            for numbers in numbers_of(self._history, self._store, span):
                taken.add(map(str, numbers))
                yield numbers
            are_known = False
            for groups in eventless_numbers(self._store, span):
                if groups and not are_known:
                    for part in earlier:
                        taken.add(str(number) for number, _ in stored_numbers(self._folder, part))
                    are_known = True
                yield from batches(groups[int(number)] for number in taken.add(map(str, groups)))


def _part(
    month: str, number: int, span: PartSpan, bounds: _Bounds, missing: int, files: Sequence[ArchivedFile]
) -> Part:
    return Part(
        month=month,
        number=number,
        since=span.since,
        until=span.until,
        after_event=span.after_event,
        last_event=span.last_event,
        first_seq=bounds.first_seq,
        last_seq=bounds.last_seq,
        submitted_since=bounds.submitted[0],
        submitted_until=bounds.submitted[1],
        missing_contents=missing,
        eventless_jobs=bounds.eventless,
        incomplete_jobs=bounds.incomplete,
        gsched=__version__,
        state=PartState.WRITTEN,
        jobs=files[0],
        events=files[1],
        contents=files[2],
    )


@contextlib.contextmanager
def _new(folder: Path, name: str, *, for_owner: bool) -> Iterator[LineWriter]:
    """What was not finished is gone in the end."""
    writer = LineWriter(folder, name, for_owner=for_owner)
    try:
        yield writer
    finally:
        writer.discard()
