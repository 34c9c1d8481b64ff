"""Jobs of an old cluster, from its lsb.acct, into the history of a store that no master has.

Files are read a piece at a time, so they may be of any size; each piece is on disk before the next one is read. What is
there already is passed over: an import that was broken off is simply begun anew.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from gsched.base import indices
from gsched.base.errors import BadRequest
from gsched.base.ids import array_of, index_of, show_job
from gsched.core.records.array import indices_of
from gsched.dialect.accounting.job_finish import MOST_CHARACTERS, read_record
from gsched.dialect.accounting.past_job import past_job
from gsched.master.succession import open_store
from gsched.model.config import ClusterConfig
from gsched.model.event import PastJobRecorded, decode_event, encode_event
from gsched.store.eventlog import EventLog
from gsched.store.history_queries import History
from gsched.store.tables.schema import ARRAY, IRREGULAR, JobRow

AT_ONCE = 1_000
"""Jobs that are stored together."""
MOST_NAMED = 10
"""Lines that are named one by one."""


@dataclass(slots=True)
class Imported:
    """What became of the records."""

    added: int = 0
    runs: int = 0
    """Earlier or later runs of jobs that are there: LSF writes a record for each run of one that is requeued."""
    known: int = 0
    """They were there already."""
    others: int = 0
    """Records of another kind."""
    taken: list[str] = field(default_factory=list)
    """The first that have the number of another job, in words."""
    taken_count: int = 0
    broken: list[str] = field(default_factory=list)
    """The first lines that cannot be read, in words."""
    broken_count: int = 0
    highest: int = 0
    """Number of a job."""

    def broke(self, text: str) -> None:
        self.broken_count += 1
        if len(self.broken) < MOST_NAMED:
            self.broken.append(text)

    def collided(self, job_id: int) -> None:
        self.taken_count += 1
        if len(self.taken) < MOST_NAMED:
            self.taken.append(show_job(job_id))


def import_into(config: ClusterConfig, paths: Sequence[str], cluster: str, say: Callable[[str], None]) -> bool:
    """Take over the finished jobs of the files into the cluster's store, and say what became of them; whether nothing
    was left out. Raises GschedError.
    """
    store = open_store(config)
    try:
        done = import_history(store, paths, cluster, time.time(), say)
    finally:
        store.close()
    for line in summary(done):
        say(line)
    if done.highest + 1 >= config.params.max_job_id:
        say(f"attention: MAX_JOBID is {config.params.max_job_id}: raise it in lsb.params, or no job is accepted")
    return not done.broken_count and not done.taken_count


def import_history(
    store: EventLog, paths: Sequence[str], cluster: str, now: float, say: Callable[[str], None]
) -> Imported:
    """Take over the finished jobs of the files. Raises BadRequest for a file that cannot be read, StoreFull."""
    done = Imported()
    history = History(store.place)
    try:
        for path in paths:
            batch: dict[int, PastJobRecorded] = {}
            for job in _jobs(path, cluster, now, done):
                if job.job_id in batch:
                    _store(store, history, batch, done)
                    batch = {}
                batch[job.job_id] = job
                if len(batch) >= AT_ONCE:
                    _store(store, history, batch, done)
                    batch = {}
                    if done.added and done.added % (100 * AT_ONCE) == 0:
                        say(f"{path}: {done.added} jobs so far")
            _store(store, history, batch, done)
    finally:
        history.close()
    return done


def _jobs(path: str, cluster: str, now: float, done: Imported) -> Iterator[PastJobRecorded]:
    for number, line in _lines(path):
        try:
            record = read_record(line)
            if record is not None:
                yield _sound(past_job(record, cluster, now))
            elif line.strip() and not line.startswith("#"):
                done.others += 1
        except BadRequest as error:
            done.broke(f"{path}:{number}: {error.text}")


def _sound(job: PastJobRecorded) -> PastJobRecorded:
    """The same. Raises BadRequest for an event that could not be read again: no master starts with one."""
    try:
        again = decode_event(encode_event(job))
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise BadRequest(f"the history cannot keep it: {error}") from None
    if again != job:
        raise BadRequest("the history cannot keep it: it is another one when it is read again")
    return job


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """(number, text) of each line; of one that is too long its beginning, which is too long as well."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC), "rb") as file:
            number = 0
            while line := file.readline(MOST_CHARACTERS + 2):
                number += 1
                rest = line
                while not rest.endswith(b"\n") and (rest := file.readline(MOST_CHARACTERS)):
                    pass
                yield number, line.decode("utf-8", "replace").rstrip("\r\n")
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None


def _store(store: EventLog, history: History, batch: dict[int, PastJobRecorded], done: Imported) -> None:
    """Those of the batch that are new, with the arrays that they belong to."""
    there = {row.job_id: row for row in history.rows_of(batch)}
    new: list[PastJobRecorded] = []
    runs: list[PastJobRecorded] = []
    for job_id, job in batch.items():
        row = there.get(job_id)
        if row is None:
            new.append(job)
        elif (row.submitted_at, row.user) != (job.submitted_at, job.spec.user):
            done.collided(job_id)
        elif row.finished_at == job.finished_at:
            done.known += 1
        else:
            _note_run(history, job, runs, done)
    arrays, mine = _arrays(history, [*new, *runs])
    for job in new:
        if index_of(job.job_id) and array_of(job.job_id) not in mine:
            done.collided(job.job_id)
    new = [job for job in new if not index_of(job.job_id) or array_of(job.job_id) in mine]
    if not new and not runs:
        return
    highest = max(array_of(job.job_id) for job in (*new, *runs))
    rows = [_row(job) for job in (*arrays, *new)] + [_row_of_runs(there[job.job_id], job) for job in runs]
    store.append([*arrays, *new, *runs], rows, next_job_id=max(store.mark.next_job_id, highest + 1))
    done.added += len(new)
    done.runs += len(runs)
    done.highest = max(done.highest, highest)


def _note_run(history: History, job: PastJobRecorded, runs: list[PastJobRecorded], done: Imported) -> None:
    """Add to `runs` the run of a job that is there with another end, if it is new."""
    there = [decode_event(record.payload.encode()) for record in history.events_of(job.job_id)]
    past = [fact for fact in there if isinstance(fact, PastJobRecorded)]
    if len(past) < len(there):
        done.collided(job.job_id)  # it is a job of this cluster
    elif any(fact.finished_at == job.finished_at for fact in past):
        done.known += 1
    else:
        runs.append(job)


def _row_of_runs(before: JobRow, job: PastJobRecorded) -> JobRow:
    """The row of a job with one more run: it tells of the last one."""
    is_last = job.finished_at > (before.finished_at or 0.0)
    return msgspec.structs.replace(_row(job) if is_last else before, traits=IRREGULAR)


def _arrays(history: History, new: Sequence[PastJobRecorded]) -> tuple[list[PastJobRecorded], set[int]]:
    """(records of the arrays that have elements among these which they did not have, arrays that are of the old
    cluster: an array of ours takes no element of somebody else).
    """
    elements: dict[int, list[PastJobRecorded]] = {}
    for job in new:
        if index_of(job.job_id):
            elements.setdefault(array_of(job.job_id), []).append(job)
    there = {row.job_id for row in history.rows_of(elements)}
    found: list[PastJobRecorded] = []
    mine: set[int] = set()
    for array, jobs in elements.items():
        before = _last(history, array) if array in there else None
        if array in there and before is None:
            continue
        mine.add(array)
        known = set(indices_of(before.spec.indices)) if before is not None else set()
        every = known | {index_of(job.job_id) for job in jobs}
        first = before or jobs[0]
        last_end = max(job.finished_at for job in (first, *jobs))
        if every == known and last_end == first.finished_at:
            continue
        spec = msgspec.structs.replace(first.spec, indices=str(indices.of(sorted(every))))
        found.append(
            msgspec.structs.replace(
                first,
                job_id=array,
                spec=spec,
                state="",
                dispatched_at=None,
                allocation=None,
                result=None,
                finished_at=last_end,
            )
        )
    return found, mine


def _last(history: History, array: int) -> PastJobRecorded | None:
    """What was recorded last of an array of the old cluster; None: it is one of this cluster."""
    for record in reversed(history.events_of(array)):
        fact = decode_event(record.payload.encode())
        return fact if isinstance(fact, PastJobRecorded) else None
    return None


def _row(job: PastJobRecorded) -> JobRow:
    spec, result, is_array = job.spec, job.result, job.result is None
    return JobRow(
        job_id=job.job_id,
        user=spec.user,
        queue=spec.queue,
        name=spec.display_name if is_array else spec.shown_name(job.job_id),
        project=spec.project,
        host=" ".join(part.host for part in job.allocation.hosts) if job.allocation is not None else "",
        state=job.state,
        submitted_at=job.submitted_at,
        dispatched_at=job.dispatched_at,
        finished_at=job.finished_at,
        exit_code=result.exit_code if result is not None else None,
        application=spec.application,
        job_group=spec.group,
        description=spec.description,
        cpu_s=None if result is None else result.usage.cpu_s,
        gpus=None if is_array else 0.0,
        traits=ARRAY if is_array else 0,
    )


def summary(done: Imported) -> list[str]:
    """What became of the records, in words; the counters that are 0 are left out but for the first."""
    counts = Counter(known=done.known, others=done.others, taken=done.taken_count, broken=done.broken_count)
    lines = [f"{done.added} jobs are in the history now"]
    if done.runs:
        lines.append(f"{done.runs} further runs of requeued jobs are there as well")
    if counts["known"]:
        lines.append(f"{counts['known']} were there already")
    if counts["others"]:
        lines.append(f"{counts['others']} records tell of no finished job")
    if counts["taken"]:
        named = " ".join(done.taken) + (" ..." if counts["taken"] > len(done.taken) else "")
        lines.append(f"{counts['taken']} are left out, because other jobs have their numbers: {named}")
    if counts["broken"]:
        lines.append(f"{counts['broken']} lines cannot be read, and are left out")
        lines += [f"  {text}" for text in done.broken]
        lines += ["  ..."] if counts["broken"] > len(done.broken) else []
    return lines
