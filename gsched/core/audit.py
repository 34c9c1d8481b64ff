"""Every invariant of a cluster's state. The daemon can check them; every test does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from gsched.base.ids import array_of, index_of
from gsched.core.records.array import JobArray, indices_of
from gsched.core.records.dependency_condition import parents_of
from gsched.core.records.host_allocations import others
from gsched.core.records.job_groups import add, groups_above
from gsched.core.state.cluster_state import ClusterState
from gsched.core.state.wait_index import WaitingItem, is_held, item_id
from gsched.model.jobs.job import FINISHED, PENDING, STARTED, JobState
from gsched.model.ledgers.ledger import double_owners, miscounts


def audit(state: ClusterState, unaccounted: Iterable[tuple[int, int]] = ()) -> list[str]:
    """Every broken invariant as one line; empty when all is well. `unaccounted`: holdings known only from agents."""
    return [
        *double_owners(state.ledger.hosts.values()),
        *_audit_jobs(state),
        *_audit_arrays(state),
        *_audit_holdings(state, set(unaccounted)),
        *_audit_sums(state),
        *_audit_waiting(state),
        *_audit_parts(state),
    ]


def _audit_jobs(state: ClusterState) -> Iterator[str]:
    for job in state.jobs.values():
        if job.state in STARTED and (job.allocation is None or job.attempt < 1 or job.dispatched_at is None):
            yield f"job {job.job_id} is {job.state} without an attempt and its allocation"
            continue
        if job.state in FINISHED and (job.result is None or job.finished_at is None):
            yield f"job {job.job_id} is {job.state} without a result"
        elif job.state in PENDING and job.allocation is not None:
            yield f"job {job.job_id} is {job.state} and has an allocation"
        if (job.known_state is not None) != (job.state is JobState.UNKWN):
            yield f"job {job.job_id} is {job.state} and was {job.known_state} before"
        if array_of(job.job_id) >= state.next_job_id:
            yield f"job {job.job_id} exists, and the next one gets number {state.next_job_id}"
        if job.token and state.tokens.get(job.token, {}).get(job.place) != job.job_id:
            yield f"job {job.job_id} cannot be found by its token"
        running = state.running.get(job.job_id)
        if (running is not None) != (job.state in STARTED) or (
            running is not None and running != job.running(state.ledger.at)
        ):
            yield f"job {job.job_id} is {job.state}, and the policies see {running}"


def _audit_parts(state: ClusterState) -> Iterator[str]:
    """The parts of jobs on other hosts than their first, and which of them finished jobs still have."""
    expected = set()
    for job in state.jobs.values():
        hosts, opened = {part.host for part in others(job)}, {*job.open_parts}
        if not opened | {*job.ended_parts} <= hosts or (job.state in PENDING and opened):
            yield f"job {job.job_id} is {job.state} on {sorted(hosts)}, parts: {opened} open, {job.ended_parts} ended"
        elif job.state in STARTED and job.started_at is not None and opened and opened < hosts:
            yield f"job {job.job_id} was started before its parts on {sorted(hosts - opened)} were open"
        if job.state in FINISHED:
            expected |= {(part.host, job.job_id) for part in job.left_parts()}
    if expected != state.leaving.pairs():
        yield f"parts of finished jobs are kept as {sorted(state.leaving.pairs())}, there are {sorted(expected)}"


def _audit_arrays(state: ClusterState) -> Iterator[str]:
    """Each element is waiting in its array's record, a job of its own, or was over before it started."""
    for array in state.arrays.values():
        members = [job for job in state.jobs.values() if job.array_id == array.array_id]
        counts: dict[str, int] = {}
        for job in members:
            add(counts, job.state.value, 1)
            if array.has_waiting(index_of(job.job_id)):
                yield f"element {job.job_id} is a job and still waits in its array"
        unstarted = sum(_count(each.indices) for each in array.unstarted)
        add(counts, "EXIT", unstarted)
        if counts != array.counts:
            yield f"array {array.array_id} counts {array.counts}, its elements are {counts}"
        aside = sum(array_of(number) == array.array_id and index_of(number) > 0 for number in state.quarantined)
        if array.count + len(members) + unstarted + aside != array.indices.count:
            yield f"array {array.array_id} has {array.indices.count} elements, not all of them are accounted for"
        left = array.count + sum(job.state not in FINISHED for job in members)
        if left != array.left:
            yield f"array {array.array_id} says that {array.left} elements are not over, there are {left}"


def _count(indices: str) -> int:
    return indices_of(indices).count


def _audit_holdings(state: ClusterState, unaccounted: set[tuple[int, int]]) -> Iterator[str]:
    """What the ledger holds is what the started jobs hold, and nothing else."""
    expected = {
        (part.host, job.key): part.as_of(state.ledger.at, job.held_since)
        for job in state.jobs.values()
        if job.state in STARTED and job.allocation is not None
        for part in (job.allocation.without_gpus() if job.moved_off else job.allocation).parts
    }
    held = {(host, key): part for host, ledger in state.ledger.hosts.items() for key, part in ledger.held.items()}
    for (host, key), part in held.items():
        if key not in unaccounted and expected.get((host, key)) != part:
            yield f"{host}: the ledger holds {part} for attempt {key}, the job does not"
    yield from (f"{host}: attempt {key} is not in the ledger" for host, key in expected if (host, key) not in held)


def _audit_sums(state: ClusterState) -> Iterator[str]:
    """Every number that is kept beside the holdings is their sum."""
    for host, ledger in state.ledger.hosts.items():
        yield from miscounts(ledger)
        if ledger.host != host:
            yield f"{host}: its ledger is that of {ledger.host}"
    by_queue: dict[str, int] = {}
    by_owner: dict[tuple[str, str], int] = {}
    by_group: dict[str, int] = {}
    by_array: dict[int, int] = {}
    for job in state.jobs.values():
        if job.state in STARTED and job.allocation is not None:
            for group in groups_above(job.spec.group):
                add(by_group, group, 1)
            if job.array_id:
                add(by_array, job.array_id, 1)
            add(by_queue, job.spec.queue, job.allocation.slots)
            add(by_owner, (job.spec.queue, job.spec.user), job.allocation.slots)
    if by_queue != state.tally.queue_slots:
        yield f"slots by queue are counted as {state.tally.queue_slots}, started jobs hold {by_queue}"
    if by_group != state.tally.group_jobs:
        yield f"jobs by group are counted as {state.tally.group_jobs}, there are {by_group}"
    if by_array != state.tally.array_jobs:
        yield f"started elements are counted as {state.tally.array_jobs}, there are {by_array}"
    if by_owner != state.tally.queue_user_slots:
        yield f"slots by queue and user are counted as {state.tally.queue_user_slots}, started jobs hold {by_owner}"


def _audit_waiting(state: ClusterState) -> Iterator[str]:
    """Each pending job waits for exactly one thing; in the room, in its bucket and in order."""
    waits = state.waits
    for bucket, line in state.waits.pending.lines():
        ranks = list(line)
        if line.is_empty() or any(first >= second for first, second in pairwise(ranks)):
            yield f"jobs {[job_id for _, job_id in ranks]} do not wait in order in {bucket}"
        for job_id in line.entries():
            array = state.arrays.get(job_id)
            item = array.template() if array is not None else state.jobs.get(job_id)
            if item is None or item.bucket() != bucket:
                yield f"job {job_id} waits in {bucket}, where it does not belong"
    entered = [job_id for _, line in state.waits.pending.lines() for job_id in line.entries()]
    entered += state.waits.pending.newcomers()
    everywhere = sorted([*entered, *waits.delayed, *waits.blocked, *waits.forced, *waits.held])
    items: list[WaitingItem] = [job for job in state.jobs.values() if job.state in PENDING]
    items += [array for array in state.arrays.values() if array.count]
    expected = sorted(map(item_id, items))
    if everywhere != expected:
        wrong = sorted({*everywhere} ^ {*expected}) or everywhere
        yield f"pending jobs {wrong} are not where they wait"
    if {item_id(item) for item in items if is_held(item)} != waits.held:
        yield f"jobs {sorted(waits.held)} are kept as suspended, others are"
    for job_id in {*state.avoiding} - set(everywhere):
        yield f"job {job_id} waits for another attempt and is not pending"
    yield from _audit_dependents(state, items)


def _audit_dependents(state: ClusterState, items: list[WaitingItem]) -> Iterator[str]:
    """Who waits for whom, and how many jobs of each user wait."""
    dependents: dict[int, set[int]] = {}
    waiting: dict[str, int] = {}
    slots: dict[str, int] = {}
    for item in items:
        jobs = item.count if isinstance(item, JobArray) else 1
        add(waiting, item.spec.user, jobs)
        add(slots, item.spec.user, jobs * item.spec.slots)
        for parent in parents_of(item.spec.conditions) if item.spec.conditions and not item.released else ():
            dependents.setdefault(parent, set()).add(item_id(item))
    if dependents != state.waits.dependents:
        yield f"dependents are kept as {state.waits.dependents}, they are {dependents}"
    if waiting != state.tally.pending_jobs:
        yield f"pending jobs are counted as {state.tally.pending_jobs}, there are {waiting}"
    if slots != state.tally.pending_slots:
        yield f"slots of pending jobs are counted as {state.tally.pending_slots}, they are {slots}"
