"""What finished jobs took, told from their stored events: gacct. Array elements that were never started count as well.

It runs in the process that reads for the master (gsched.master.past). A record that cannot be read leaves out what it
would have said; a job whose submission cannot be read is left out whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from gsched.base.ids import array_of, element_id, index_of
from gsched.core.records.array import indices_of
from gsched.master.past.job_histories import elements_too
from gsched.master.past.recorded_elsewhere import told
from gsched.model.efficiency.gpu_seconds import GpuSeconds, gpu_seconds, together
from gsched.model.event import (
    PAST_JOB,
    AnyEvent,
    ArrayElementsFinished,
    JobDispatched,
    JobFinished,
    JobModified,
    JobPartEnded,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    JobSwitched,
    StaleResultRecorded,
    decode_event,
)
from gsched.model.jobs.job import AttemptResult, JobSpec, JobState, Usage
from gsched.model.ledgers.allocation import Allocation
from gsched.model.views.catalogue import Account, AccountFilter, TimeSpan
from gsched.model.views.view import EventRecord, JobView
from gsched.store.history_queries import Costs, History
from gsched.store.tables.schema import ARRAY, JobRow

ROWS_PER_PAGE = 500
COSTS_PER_PAGE = 2_000
_OF_ARRAY = ("job_submitted", "job_modified", "job_switched", PAST_JOB)
_KINDS = (
    *(*_OF_ARRAY, "job_dispatched", "job_started", "job_requeued", "job_finished", "job_part_ended"),
    *("array_elements_finished", "stale_result_recorded"),
)


def read_accounts(store: History, wanted: AccountFilter, *, jobs: bool) -> Iterator[Account]:
    """Accounts of the finished jobs that `wanted` describes, by ascending number; with `jobs` all that is known."""
    named, numbers = frozenset(wanted.ids), _numbers(store, wanted)
    for start in range(0, len(numbers), ROWS_PER_PAGE):
        rows = store.rows_of(numbers[start : start + ROWS_PER_PAGE])
        for account in accounts_of(store, sorted(rows, key=lambda row: row.job_id)):
            if _is_meant(account, wanted, named):
                yield account if jobs else msgspec.structs.replace(account, job=None)


def read_costs(store: History, wanted: AccountFilter) -> Iterator[list[Account]]:
    """The same, page by page, with no more than a summary takes: of most jobs their rows tell that."""
    named = frozenset(wanted.ids)
    for rows in _cost_pages(store, _with_elements(store, wanted)):
        page = [] if wanted.is_of_submission else [_account_of(row) for row in rows if _tells_all(row)]
        told = {account.job_id for account in page}
        rest = sorted(store.rows_of({row[0] for row in rows} - told), key=lambda row: row.job_id)
        others = (each for each in accounts_of(store, rest) if _is_meant(each, wanted, named))
        page += [msgspec.structs.replace(each, job=None) for each in others]
        yield page


def read_told(store: History, wanted: AccountFilter) -> Iterator[list[Account]]:
    """The same, each with what was said of its start while it waited, as far as something was."""
    for page in read_costs(store, wanted):
        told = store.told_of({array_of(account.job_id) for account in page})
        yield [msgspec.structs.replace(each, told=told.get(array_of(each.job_id))) for each in page]


def are_more(store: History, wanted: AccountFilter, most: int) -> bool:
    """Whether more than so many rows are to be looked at for it; no more than that are looked for."""
    return len(store.accounted(_with_elements(store, wanted), most + 1)) > most


def _numbers(store: History, wanted: AccountFilter) -> list[int]:
    return store.accounted(_with_elements(store, wanted))


def _with_elements(store: History, wanted: AccountFilter) -> AccountFilter:
    # An array's number means its elements too; an element that was never started stands in the array's row.
    asked = {*elements_too(store, wanted.ids), *map(array_of, wanted.ids)}
    return msgspec.structs.replace(wanted, ids=tuple(asked))


def _cost_pages(store: History, asked: AccountFilter) -> Iterator[Sequence[Costs]]:
    rows = store.accounted_costs(asked)
    if rows is not None:
        for start in range(0, len(rows), COSTS_PER_PAGE):
            yield rows[start : start + COSTS_PER_PAGE]
        return
    numbers = store.accounted(asked)
    for start in range(0, len(numbers), COSTS_PER_PAGE):
        yield list(store.costs_of(numbers[start : start + COSTS_PER_PAGE]).values())


def _tells_all(row: Costs) -> bool:
    """Whether the row says all that a summary takes."""
    return row[-1] == 0 and row[4] is not None and row[5] is not None


def _account_of(row: Costs) -> Account:
    job_id, state, submitted_at, dispatched_at, finished_at, cpu_s, gpus, seen_s, busy_s, energy_j, _ = row
    assert finished_at is not None
    ran_s = 0.0 if dispatched_at is None else max(0.0, finished_at - dispatched_at)
    return Account(
        job_id=job_id,
        user="",
        queue="",
        state=state,
        submitted_at=submitted_at,
        dispatched_at=dispatched_at,
        finished_at=finished_at,
        cpu_s=cpu_s or 0.0,
        run_s=ran_s,
        gpu_s=(gpus or 0.0) * ran_s,
        gpu_seen_s=seen_s or 0.0,
        gpu_busy_s=busy_s or 0.0,
        gpu_energy_j=energy_j,
    )


def _is_meant(account: Account, wanted: AccountFilter, named: frozenset[int]) -> bool:
    if named and not named & {account.job_id, array_of(account.job_id)}:
        return False
    return _is_within(account.finished_at, wanted.completed) and _is_chosen(account, wanted)


def _is_within(at: float, span: TimeSpan) -> bool:
    """As the store compares: what happened within the last second is meant."""
    since, until = span.since, span.until
    return (since is None or at >= since) and (until is None or at < int(until) + 1)


def _is_chosen(account: Account, wanted: AccountFilter) -> bool:
    """By what only the submission says."""
    spec = account.job.spec if account.job is not None else None
    if spec is None:
        return not wanted.is_of_submission and not wanted.application
    if wanted.service_class not in ("", spec.service_class):
        return False
    return wanted.reservation in ("", spec.reservation) and wanted.application in ("", spec.application)


def accounts_of(store: History, rows: Sequence[JobRow]) -> Iterator[Account]:
    """Accounts of the jobs of these rows, in their order, with all that is known of them; of arrays those of their
    elements that were never started.
    """
    own_of: dict[int, list[EventRecord]] = {}
    for record in told(store.events_of_jobs((row.job_id for row in rows), _KINDS)):
        own_of.setdefault(record.job_id, []).append(record)
    arrays = {array_of(row.job_id) for row in rows if index_of(row.job_id)} - own_of.keys()
    shared: dict[int, list[EventRecord]] = {}
    for record in told(store.events_of_jobs(arrays, _OF_ARRAY)):
        shared.setdefault(record.job_id, []).append(record)
    for row in rows:
        own = own_of.get(row.job_id, [])
        before: Sequence[EventRecord] = ()
        if index_of(row.job_id):
            array = array_of(row.job_id)
            first = own[0].seq if own else 0
            of_array = shared.get(array) or own_of.get(array, [])
            before = [record for record in of_array if record.kind in _OF_ARRAY and record.seq < first]
        if not own and not before:  # its events are no longer kept
            yield from _accounts_of_row(row)
            continue
        life = _Life()
        for record in (*before, *own):
            life.add(_read(record))
        yield from life.accounts(row)


def _accounts_of_row(row: JobRow) -> Iterator[Account]:
    """What a row alone tells; of an array, whose row stands for what never ran, nothing."""
    if row.finished_at is None or (row.traits or 0) & ARRAY:
        return
    ran_s = 0.0 if row.dispatched_at is None else max(0.0, row.finished_at - row.dispatched_at)
    yield Account(
        job_id=row.job_id,
        user=row.user,
        queue=row.queue,
        project=row.project,
        name=row.name,
        state=row.state,
        submitted_at=row.submitted_at,
        dispatched_at=row.dispatched_at,
        finished_at=row.finished_at,
        cpu_s=row.cpu_s or 0.0,
        run_s=ran_s,
        gpu_s=(row.gpus or 0.0) * ran_s,
        gpu_seen_s=row.gpu_seen_s or 0.0,
        gpu_busy_s=row.gpu_busy_s or 0.0,
        gpu_energy_j=row.gpu_energy_j,
    )


@dataclass(slots=True)
class _Life:
    """What a job's events add up to."""

    spec: JobSpec | None = None
    allocation: Allocation | None = None
    effective_req: str = ""
    attempt: int = 0
    dispatched_at: float | None = None
    holds_since: float | None = None
    started: JobStarted | None = None
    result: AttemptResult | None = None
    gpu_s: float = 0.0
    attempts: dict[int, tuple[Allocation, Usage | None]] = field(default_factory=dict)
    """What each held, and what it has used, where that is known."""
    unstarted: list[ArrayElementsFinished] = field(default_factory=list)

    def add(self, event: AnyEvent | None) -> None:
        match event:
            case JobSubmitted() | JobModified() | JobSwitched():
                self.spec = event.spec
            case JobDispatched():
                self._release(event.at)
                self.allocation, self.effective_req = event.allocation, event.effective_req
                self.attempt = event.attempt
                self.dispatched_at = self.holds_since = event.at
                self.started = None
                self.attempts[event.attempt] = event.allocation, None
            case JobStarted():
                self.started = event
            case JobRequeued():
                self._release(event.at)
                self.dispatched_at = self.allocation = None
                if event.result is not None:
                    self._note_use(event.attempt, event.result.usage)
            case JobFinished():
                self._release(event.at)
                self.result = event.result
                self._note_use(event.attempt, event.result.usage)
            case StaleResultRecorded():
                self._note_use(event.attempt, event.result.usage)
            case JobPartEnded():
                self._end_part(event)
            case ArrayElementsFinished():
                self.unstarted.append(event)

    def _end_part(self, event: JobPartEnded) -> None:
        if self.result is not None:
            usage = self.result.usage.with_late(event.host, event.late_cpu_s, event.usage.gpus)
            self.result = msgspec.structs.replace(self.result, usage=usage)
        _, used = self.attempts.get(event.attempt, (None, None))
        if used is not None:
            self._note_use(event.attempt, used.with_late(event.host, event.late_cpu_s, event.usage.gpus))

    def _note_use(self, attempt: int, usage: Usage) -> None:
        held, _ = self.attempts.get(attempt, (None, None))
        if held is not None:
            self.attempts[attempt] = held, usage

    def _gpu_seconds(self) -> GpuSeconds:
        """Of all attempts that had GPUs."""
        return together(
            [
                gpu_seconds(held, used.gpus if used is not None else ())
                for held, used in self.attempts.values()
                if any(part.gpus for part in held.hosts)
            ]
        )

    def _release(self, at: float) -> None:
        if self.holds_since is not None and self.allocation is not None:
            held = sum(gpu.share for part in self.allocation.hosts for gpu in part.gpus)
            self.gpu_s += held * max(0.0, at - self.holds_since)
        self.holds_since = None

    def accounts(self, row: JobRow) -> Iterator[Account]:
        """One of a job; of an array's row those of its elements that ended without having been started."""
        if self.spec is None:
            return
        if self.spec.indices and not index_of(row.job_id):
            for event in self.unstarted:
                for index in indices_of(event.indices):
                    name = self.spec.shown_name(element_id(row.job_id, index))
                    yield self._account(row, element_id(row.job_id, index), name, event.at, event.result)
        elif row.finished_at is not None:
            yield self._account(row, row.job_id, row.name, row.finished_at, self.result)

    def _account(
        self, row: JobRow, job_id: int, name: str, finished_at: float, result: AttemptResult | None
    ) -> Account:
        assert self.spec is not None
        run_s = 0.0 if self.dispatched_at is None else max(0.0, finished_at - self.dispatched_at)
        state = JobState.EXIT.value if row.job_id != job_id else row.state
        used = self._gpu_seconds()
        return Account(
            job_id=job_id,
            user=row.user,
            queue=row.queue,
            project=row.project,
            name=name,
            state=state,
            submitted_at=row.submitted_at,
            dispatched_at=self.dispatched_at,
            finished_at=finished_at,
            cpu_s=result.usage.cpu_s if result is not None else 0.0,
            run_s=run_s,
            gpu_s=self.gpu_s,
            gpu_seen_s=used.seen_s,
            gpu_busy_s=used.busy_s,
            gpu_energy_j=used.energy_j,
            job=JobView(
                job_id=job_id,
                spec=self.spec,
                state=state,
                submitted_at=row.submitted_at,
                attempt=self.attempt,
                allocation=self.allocation,
                effective_req=self.effective_req,
                dispatched_at=self.dispatched_at,
                exec_home=self.started.home if self.started is not None else "",
                exec_cwd=self.started.cwd if self.started is not None else "",
                finished_at=finished_at,
                result=result,
            ),
        )


def _read(record: EventRecord) -> AnyEvent | None:
    try:
        return decode_event(record.payload.encode())
    except (msgspec.MsgspecError, ValueError):
        return None
