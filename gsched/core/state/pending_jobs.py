"""The pending jobs: those that may start, by requirement class and bucket, each bucket in serving order.

Its shape is what a snapshot shows, so that taking one copies nothing. An array stands in it as one entry, however many
of its elements wait. It never decides who may wait here: dependencies, begin times and holds are the state's.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import count, groupby

from gsched.base.ids import element_id
from gsched.core.records.array import JobArray
from gsched.core.records.job import JobRecord
from gsched.model.jobs.job import JobSpec
from gsched.model.scheduling.snapshot import Bucket, Head, Rank, RequirementClass

_rank = tuple.__new__
_SPARE_HEADS = 64
"""Entries among the heads that may be out of date, beyond as many as it has lines."""
_SPECS = 1024
"""Specifications whose lines are remembered."""


class PendingLine:
    """The jobs of one bucket. Satisfies gsched.model.scheduling.snapshot.HeadLine.

    An entry is a rank and a number, and stands in four arrays of plain numbers, which cost a sixth of what objects
    would. Those before `_start` are gone: jobs leave at the front, and what follows need not be moved each time.
    """

    __slots__ = ("_arrays", "_elements", "_numbers", "_orders", "_priorities", "_start", "bucket", "version")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.version = 0
        """Another one whenever another entry becomes the first."""
        self._priorities = array("d")
        self._orders = array("d")
        self._elements = array("q")
        self._numbers = array("q")
        self._start = 0
        self._arrays: dict[int, JobArray] = {}

    def __iter__(self) -> Iterator[tuple[Rank, int]]:
        if not self._arrays:
            return self._ranked()
        return self._with_elements()

    def _ranked(self) -> Iterator[tuple[Rank, int]]:
        priorities, orders, elements, numbers = self._priorities, self._orders, self._elements, self._numbers
        for place in range(self._start, len(numbers)):
            # Rank(...) would take a call in Python.
            yield _rank(Rank, (priorities[place], orders[place], elements[place])), numbers[place]

    @property
    def has_arrays(self) -> bool:
        """See HeadLine."""
        return bool(self._arrays)

    def entry(self, place: int) -> tuple[float, float, int, int] | None:
        """See HeadLine."""
        at, numbers = self._start + place, self._numbers
        if at >= len(numbers):
            return None
        return self._priorities[at], self._orders[at], self._elements[at], numbers[at]

    def _at(self, place: int) -> tuple[Rank, int]:
        rank = Rank(self._priorities[place], self._orders[place], self._elements[place])
        return rank, self._numbers[place]

    def _with_elements(self) -> Iterator[tuple[Rank, int]]:
        for _, entries in groupby(self._ranked(), key=lambda entry: entry[0][:2]):
            # Elements that have become jobs keep their place among those of their array.
            equals = list(entries)
            if len(equals) == 1:
                yield from self._each(*equals[0])
            else:
                yield from merge(*(self._each(*entry) for entry in equals))

    def _each(self, rank: Rank, job_id: int) -> Iterator[tuple[Rank, int]]:
        found = self._arrays.get(job_id)
        if found is None:
            yield rank, job_id
            return
        for index in found.waiting():
            yield Rank(rank.priority, rank.order, index), element_id(job_id, index)

    def __len__(self) -> int:
        entered = len(self._numbers) - self._start
        if not self._arrays:
            return entered
        return entered - len(self._arrays) + sum(each.count for each in self._arrays.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingLine) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def is_empty(self) -> bool:
        """Whether nothing is entered; an array without waiting elements is taken out by whoever empties it."""
        return len(self._numbers) == self._start

    def add(self, rank: Rank, job_id: int, of: JobArray | None = None) -> bool:
        """Enter a job, or the array `of` under its number; says whether it is the first now."""
        place = len(self._numbers)
        if place > self._start and self._at(place - 1) > (rank, job_id):
            place = self._place_of(rank, job_id)
            self._priorities.insert(place, rank.priority)
            self._orders.insert(place, rank.order)
            self._elements.insert(place, rank.element)
            self._numbers.insert(place, job_id)
        else:
            self._priorities.append(rank.priority)
            self._orders.append(rank.order)
            self._elements.append(rank.element)
            self._numbers.append(job_id)
        if of is not None:
            self._arrays[job_id] = of
        return place == self._start

    def remove(self, rank: Rank, job_id: int) -> None:
        """Take a job or an array out. Raises KeyError if it is not entered under that rank."""
        place = self._place_of(rank, job_id)
        if place >= len(self._numbers) or self._at(place) != (rank, job_id):
            raise KeyError(job_id)
        first = self._start if place > self._start else place + 1
        if place > self._start:
            for column in self._columns():
                del column[place]
        elif 2 * first > len(self._numbers):
            for column in self._columns():
                del column[:first]
            first = 0
        self._start = first
        self._arrays.pop(job_id, None)

    def _place_of(self, rank: Rank, job_id: int) -> int:
        return bisect_left(range(len(self._numbers)), (rank, job_id), lo=self._start, key=self._at)

    def _columns(self) -> tuple[array[float], array[float], array[int], array[int]]:
        return self._priorities, self._orders, self._elements, self._numbers

    def first(self) -> tuple[Rank, int] | None:
        """The first entry; an array stands under its own rank, which is that of none of its elements or before them."""
        return None if self.is_empty() else self._at(self._start)

    def entries(self) -> Iterator[int]:
        """Numbers of jobs and arrays as entered, in order."""
        return iter(self._numbers[self._start :])

    @property
    def entered(self) -> int:
        """How many entries there are; an array is one."""
        return len(self._numbers) - self._start

    def entries_back(self) -> Iterator[int]:
        """Their numbers from the last to the first."""
        return (self._numbers[place] for place in range(len(self._numbers) - 1, self._start - 1, -1))

    def next_to(self, priority: float, order: float, step: int) -> Iterator[int]:
        """Numbers of the entries after that place in the line, or before it (`step` -1), the nearest first."""
        keyed = range(len(self._numbers))
        bisect = bisect_left if step < 0 else bisect_right
        place = bisect(keyed, (priority, order), lo=self._start, key=self._rough_rank)
        places = range(place - 1, self._start - 1, -1) if step < 0 else range(place, len(self._numbers))
        return (self._numbers[each] for each in places)

    def _rough_rank(self, place: int) -> tuple[float, float]:
        return self._priorities[place], self._orders[place]


class PendingJobs(Mapping[RequirementClass, Mapping[Bucket, PendingLine]]):
    """All lines, by class and bucket; neither is kept empty."""

    def __init__(self) -> None:
        self._classes: dict[RequirementClass, dict[Bucket, PendingLine]] = {}
        self._queues: dict[RequirementClass, dict[str, int]] = {}
        """Class -> queue -> buckets in it."""
        self._heads: dict[RequirementClass, dict[str, _Heads]] = {}
        """Class -> queue -> the first entries of its lines."""
        self._versions = count(1)
        """No two heads have the same: heaps never compare lines."""
        self._newest: dict[int, tuple[JobSpec, PendingLine]] = {}
        """id(spec) -> the spec, kept so that its id stays its own, and the line of the last job with it."""
        self._shared: dict[RequirementClass, RequirementClass] = {}
        """Class -> the one object that all its buckets hold."""
        self.new_classes: deque[RequirementClass] = deque()
        """Those that have come; whoever reads them empties it (gsched.core.pending.unread_requirements)."""
        self._newcomers: list[tuple[JobRecord, JobArray | None]] | None = None
        """While all stays as it is: who has come meanwhile."""

    def __getitem__(self, requirement: RequirementClass) -> Mapping[Bucket, PendingLine]:
        return self._classes[requirement]

    def __iter__(self) -> Iterator[RequirementClass]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def queues_of(self, requirement: RequirementClass) -> Iterable[str]:
        """Queues with jobs of the class."""
        return self._queues.get(requirement, {})

    def heads(self, queue: str, requirement: RequirementClass) -> list[Head]:
        """The first jobs of the buckets of a class in a queue, in order; see gsched.model.scheduling.snapshot.Head."""
        found = self._heads.get(requirement, {}).get(queue)
        return [] if found is None else found.in_order()

    @property
    def kinds(self) -> int:
        """How many lines there are."""
        return sum(map(len, self._classes.values()))

    def lines(self) -> Iterator[tuple[Bucket, PendingLine]]:
        """Every bucket with its line."""
        for buckets in self._classes.values():
            yield from buckets.items()

    def keep_still(self) -> None:
        """Stay as it is for whoever goes through it in turns: who comes now is entered by `go_on`; nobody may leave."""
        if self._newcomers is None:
            self._newcomers = []

    def newcomers(self) -> list[int]:
        """Numbers of the jobs and arrays that have come while all stays as it is."""
        return [job.job_id for job, _ in self._newcomers or ()]

    def go_on(self) -> None:
        """Enter those that have come meanwhile."""
        newcomers, self._newcomers = self._newcomers, None
        for job, of in newcomers or ():
            self.add(job, of)

    def add(self, job: JobRecord, array: JobArray | None = None) -> None:
        """Enter a job; with `array`, the array that `job` is the template of."""
        if self._newcomers is not None:
            self._newcomers.append((job, array))
            return
        line = self._line_of_equals(job) or self._line_of(job)
        if line.add(job.rank(), job.job_id, array):
            self._note_head(line)

    def _line_of_equals(self, job: JobRecord) -> PendingLine | None:
        """The line that a job of the same specification, to which nothing had happened either, was entered into."""
        if not job.is_untouched() or job.spec.array_limit:
            return None
        spec, line = self._newest.get(id(job.spec), (None, None))
        if spec is not job.spec or line is None or line.is_empty():  # an empty one has been let go
            return None
        return line

    def _line_of(self, job: JobRecord) -> PendingLine:
        """The line that the job belongs into, made if need be."""
        line = self._line_in(job.bucket())
        if job.is_untouched():
            if len(self._newest) >= _SPECS:
                self._newest.clear()
            self._newest[id(job.spec)] = (job.spec, line)
        return line

    def _line_in(self, bucket: Bucket) -> PendingLine:
        buckets = self._classes.get(bucket.requirement)
        if buckets is None:
            buckets = self._classes[bucket.requirement] = {}
            self._queues[bucket.requirement] = {}
            self._heads[bucket.requirement] = {}
            self._shared[bucket.requirement] = bucket.requirement
            self.new_classes.append(bucket.requirement)
        line = buckets.get(bucket)
        if line is None:
            bucket = bucket._replace(requirement=self._shared[bucket.requirement])
            line = buckets[bucket] = PendingLine(bucket)
            queues = self._queues[bucket.requirement]
            queues[bucket.queue] = queues.get(bucket.queue, 0) + 1
        return line

    def remove(self, job: JobRecord) -> None:
        """Take a job (or the array that `job` is the template of) out. Raises KeyError if it does not wait here, and
        RuntimeError while all stays as it is.
        """
        if self._newcomers is not None:
            raise RuntimeError(f"job {job.job_id} leaves while a cycle goes through those that wait")
        bucket = job.bucket()
        buckets = self._classes[bucket.requirement]
        line = buckets[bucket]
        before = line.first()
        line.remove(job.rank(), job.job_id)
        if line.first() != before:
            self._note_head(line)
        if line.is_empty():
            del buckets[bucket]
            queues = self._queues[bucket.requirement]
            queues[bucket.queue] -= 1
            if not queues[bucket.queue]:
                del queues[bucket.queue]
                self._heads[bucket.requirement].pop(bucket.queue, None)
            if not buckets:
                del self._classes[bucket.requirement]
                del self._queues[bucket.requirement]
                del self._heads[bucket.requirement]
                del self._shared[bucket.requirement]

    def _note_head(self, line: PendingLine) -> None:
        """Another entry of the line is the first now, or none."""
        line.version = next(self._versions)
        first = line.first()
        if first is None:
            return
        queue, requirement = line.bucket.queue, line.bucket.requirement
        (priority, order, element), job_id = first
        heads = self._heads[requirement].get(queue)
        if heads is None:
            heads = self._heads[requirement][queue] = _Heads()
        heads.add((priority, order, element, job_id, line.version, line), self._queues[requirement][queue])


class _Heads:
    """The first entries of lines, among those that have been first."""

    __slots__ = ("_entries", "_sorted")

    def __init__(self) -> None:
        self._entries: list[Head] = []
        self._sorted = 0
        """So many of them are in order; the others came afterwards."""

    def add(self, head: Head, lines: int) -> None:
        """Another one; `lines`: how many lines there are."""
        entries = self._entries
        if len(entries) > 2 * lines + _SPARE_HEADS:
            self._sorted = 0
            entries[:] = [each for each in entries if each[5].version == each[4]]
        entries.append(head)

    def in_order(self) -> list[Head]:
        """All of them, some out of date. The list itself: a cycle looks at a few of tens of thousands."""
        entries = self._entries
        if self._sorted < len(entries):
            entries.sort()  # quick where most of it is in order
            self._sorted = len(entries)
        return entries
