"""What readers see of a job array: a frozen copy of its record; its waiting elements become views when they are read.

However many elements there are, making the copy does not cost more than what has been changed out of order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from gsched.base.ids import element_id
from gsched.core.pending.dependency_check import NOT_SATISFIED, element_reason, is_elementwise
from gsched.core.records.array import JobArray, UnstartedEnd, indices_of
from gsched.model.jobs.job import JobState
from gsched.model.jobs.reason import PendingReason
from gsched.model.scheduling.snapshot import Bucket, Rank
from gsched.model.views.view import ArrayView, JobView


@dataclass(frozen=True, slots=True)
class ArrayCopy:
    """An array at the moment it was published. `template` is the view of any waiting element but for its number."""

    template: JobView
    bucket: Bucket
    rank: Rank
    own: tuple[PendingReason, ...]
    """Why its elements wait, if not for a place."""
    first: int
    taken: frozenset[int]
    unstarted: tuple[UnstartedEnd, ...]
    count: int
    """Elements that are not jobs of their own yet."""
    counts: tuple[tuple[str, int], ...]
    """State -> elements in it, without the waiting ones."""
    never: frozenset[int] = frozenset()
    """Waiting elements whose own dependency conditions never can hold."""

    @property
    def array_id(self) -> int:
        return self.template.job_id

    def waiting(self) -> Iterator[int]:
        """Indices of the elements that wait, ascending."""
        if not self.count:
            return iter(())
        indices = indices_of(self.template.spec.indices)
        return (index for index in indices.after(self.first) if index not in self.taken)

    def own_of(self, index: int) -> tuple[PendingReason, ...]:
        """Why the waiting element of that index waits, if not for a place; 0: any of them."""
        conditions = self.template.spec.conditions
        if index and is_elementwise(conditions) and any(reason.text == NOT_SATISFIED for reason in self.own):
            return (element_reason(conditions, index, is_final=index in self.never),)
        return self.own

    def has_waiting(self, index: int) -> bool:
        """Whether the element of that index waits in this record."""
        is_member = index in indices_of(self.template.spec.indices)
        return is_member and index > self.first and index not in self.taken

    def view(self, index: int) -> JobView:
        """The waiting element of that index."""
        return msgspec.structs.replace(self.template, job_id=element_id(self.array_id, index))

    def ended_view(self, index: int, end: UnstartedEnd) -> JobView:
        """The element of that index, which ended without having been started."""
        return msgspec.structs.replace(
            self.template,
            job_id=element_id(self.array_id, index),
            state=JobState.EXIT.value,
            finished_at=end.at,
            result=end.result,
        )

    def end_of(self, index: int) -> UnstartedEnd | None:
        """How the element of that index ended without having been started; None if it did not."""
        return next((end for end in self.unstarted if index in indices_of(end.indices)), None)

    def summary(self) -> ArrayView:
        """Its line of gjobs -A."""
        spec, counts = self.template.spec, dict(self.counts)
        if self.count:
            counts[self.template.state] = counts.get(self.template.state, 0) + self.count
        name = f"{spec.name}[{spec.indices}]" + (f"%{spec.array_limit}" if spec.array_limit else "")
        return ArrayView(job_id=self.array_id, name=name, user=spec.user, counts=counts)


def copy_of(array: JobArray, own: tuple[PendingReason, ...], never: frozenset[int], old: ArrayCopy | None) -> ArrayCopy:
    """A copy of the array as it is now; what has not changed since `old` is shared with it."""
    template = array.template()
    is_same = old is not None and old.template.spec is array.spec and old.template.state == template.state
    waiting_out_of_order = frozenset(array.taken) if array.taken else frozenset[int]()
    return ArrayCopy(
        template=old.template if old is not None and is_same else template.view(),
        bucket=template.bucket(),
        rank=template.rank(),
        own=own,
        first=array.first,
        taken=waiting_out_of_order,
        unstarted=tuple(array.unstarted),
        count=array.count,
        counts=tuple(array.counts.items()),
        never=never,
    )
