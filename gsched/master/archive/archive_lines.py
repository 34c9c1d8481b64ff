"""Lines of an archive's files: a job, an event of one, a script or an environment. JSON, one value in each line.

Names are those of `gacct -json`; times are seconds since 1970 (UTC), lengths of time seconds, memory MiB, energy
joules; null is what is unknown. From a job's line its row in a store can be made again, from an event's line the event,
byte by byte. It opens no file.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from gsched.base.ids import element_id, show_job
from gsched.model.views.catalogue import Account
from gsched.model.views.view import EventRecord
from gsched.store.tables.schema import JobRow

_EVENT = b'{"job_id":'
_NAMES = {
    "label": "JOBID",
    "user": "USER",
    "queue": "QUEUE",
    "project": "PROJECT",
    "name": "JOB_NAME",
    "state": "STAT",
    "application": "APPLICATION",
    "group": "JOB_GROUP",
    "description": "JOB_DESCRIPTION",
    "hosts": "EXEC_HOST",
    "submitted_at": "SUBMIT_TIME",
    "dispatched_at": "START_TIME",
    "finished_at": "FINISH_TIME",
    "exit_code": "EXIT_CODE",
    "pend_s": "PEND_TIME",
    "run_s": "RUN_TIME",
    "cpu_s": "CPU_TIME",
    "slots": "SLOTS",
    "gpus": "GPUS",
    "gpu_s": "GPU_TIME",
    "gpu_seen_s": "GPU_SEEN_TIME",
    "gpu_busy_s": "GPU_BUSY_TIME",
    "gpu_energy_j": "GPU_ENERGY_CONSUMED",
    "max_mem_mib": "MAX_MEM",
    "command": "COMMAND",
    "traits": "TRAITS",
    "events": "EVENTS",
}


class ArchivedJob(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename=_NAMES):
    """A finished job, or an array that is over, which stands for its elements that never started."""

    label: str
    """`17`, or `17[3]` for an element of an array."""
    user: str
    queue: str
    project: str
    name: str
    state: str
    """DONE or EXIT; empty: an array all of whose elements have lines of their own."""
    application: str | None
    group: str | None
    description: str | None
    hosts: str
    """Names of the execution hosts, first one first, separated by one space."""
    submitted_at: float
    dispatched_at: float | None
    finished_at: float | None
    exit_code: int | None
    pend_s: float | None
    """From its submission to its last dispatch, or to its end where it never had one."""
    run_s: float | None
    """From its last dispatch to its end."""
    cpu_s: float | None
    """Of its last attempt."""
    slots: int | None
    gpus: float | None
    """That its last attempt had; of a shared one the part."""
    gpu_s: float | None
    """Seconds of GPUs that all its attempts held."""
    gpu_seen_s: float | None
    """Seconds of GPUs of its last attempt of which the use is known."""
    gpu_busy_s: float | None
    """Of these: as if the GPU had been busy all the time."""
    gpu_energy_j: float | None
    max_mem_mib: float | None
    command: str | None
    traits: int | None
    """Of its row in the store: bits 1 (suspended, requeued, held or lost from sight), 2 (an array)."""
    events: int
    """So many lines of the file of events are its own."""


class ArchivedContent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A script, an environment (`NAME=value` pieces, each ended by NUL) or an attachment, by its SHA-256."""

    id: str
    text: str | None = None
    """Where it is UTF-8."""
    base64: str | None = None
    """Where it is not."""


_NOTHING = msgspec.Raw()


class _Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    job_id: int
    jobid: str
    seq: int
    at: float
    kind: str
    event: msgspec.Raw = _NOTHING
    damaged: str | None = None


_job_of = msgspec.json.Decoder(ArchivedJob).decode
_event_of = msgspec.json.Decoder(_Event).decode
_content_of = msgspec.json.Decoder(ArchivedContent).decode
_encode = msgspec.json.Encoder().encode


def archived_job(row: JobRow, account: Account | None, events: int) -> ArchivedJob:
    """The line of a job. `account`: what its events add up to; None for an array, and where they cannot be read."""
    view = account.job if account is not None else None
    result = view.result if view is not None else None
    began, ended = row.dispatched_at, row.finished_at
    waited_to = began if began is not None else ended
    return ArchivedJob(
        label=show_job(row.job_id),
        user=row.user,
        queue=row.queue,
        project=row.project,
        name=row.name,
        state=row.state,
        application=row.application,
        group=row.job_group,
        description=row.description,
        hosts=row.host,
        submitted_at=row.submitted_at,
        dispatched_at=began,
        finished_at=ended,
        exit_code=row.exit_code,
        pend_s=None if waited_to is None else max(0.0, waited_to - row.submitted_at),
        run_s=None if began is None or ended is None else max(0.0, ended - began),
        cpu_s=row.cpu_s,
        slots=view.spec.slots if view is not None else None,
        gpus=row.gpus,
        gpu_s=account.gpu_s if account is not None else None,
        gpu_seen_s=row.gpu_seen_s,
        gpu_busy_s=row.gpu_busy_s,
        gpu_energy_j=row.gpu_energy_j,
        max_mem_mib=result.usage.max_mem_mib if result is not None else None,
        command=view.spec.command if view is not None else None,
        traits=row.traits,
        events=events,
    )


def number_of(label: str) -> int:
    """The job's number. Raises ValueError for what is no label."""
    number, bracket, rest = label.partition("[")
    if not bracket:
        return int(number)
    return element_id(int(number), int(rest.removesuffix("]")))


def row_of(job: ArchivedJob) -> JobRow:
    """The job's row in a store. Raises ValueError."""
    return JobRow(
        job_id=number_of(job.label),
        user=job.user,
        queue=job.queue,
        name=job.name,
        project=job.project,
        host=job.hosts,
        state=job.state,
        submitted_at=job.submitted_at,
        dispatched_at=job.dispatched_at,
        finished_at=job.finished_at,
        exit_code=job.exit_code,
        application=job.application,
        job_group=job.group,
        description=job.description,
        cpu_s=job.cpu_s,
        gpus=job.gpus,
        traits=job.traits,
        gpu_seen_s=job.gpu_seen_s,
        gpu_busy_s=job.gpu_busy_s,
        gpu_energy_j=job.gpu_energy_j,
    )


def job_line(job: ArchivedJob) -> bytes:
    """Without its end of line, as all lines here."""
    return _encode(job)


def read_job(line: bytes) -> ArchivedJob:
    """Raises ValueError."""
    return _job_of(line)


def event_line(record: EventRecord) -> bytes:
    """The event as it is stored; what is no JSON on one line is kept as bytes."""
    payload = record.payload.encode()
    head = b'%s%d,"jobid":"%s","seq":%d,"at":%s,"kind":%s,' % (
        _EVENT,
        record.job_id,
        show_job(record.job_id).encode(),
        record.seq,
        _encode(record.at),
        _encode(record.kind),
    )
    if _is_one_line(payload):
        return b'%s"event":%s}' % (head, payload)
    return b'%s"damaged":"%s"}' % (head, base64.b64encode(payload))


def _is_one_line(payload: bytes) -> bool:
    if b"\n" in payload or payload.strip() != payload:
        return False
    try:
        msgspec.json.decode(payload)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


def job_of_event(line: bytes) -> int:
    """Whose event the line tells, without reading the rest. Raises ValueError."""
    if not line.startswith(_EVENT):
        raise ValueError("no event of a job")
    return int(line[len(_EVENT) : line.index(b",", len(_EVENT))])


def read_event(line: bytes) -> EventRecord:
    """Raises ValueError."""
    found = _event_of(line)
    if found.damaged is not None:
        payload = _bytes_of(found.damaged)
    elif found.event:
        payload = bytes(found.event)
    else:
        raise ValueError("an event without what it says")
    if found.jobid != show_job(found.job_id):
        raise ValueError("job_id and jobid are of two jobs")
    text = payload.decode("utf-8", "replace")
    return EventRecord(seq=found.seq, at=found.at, kind=found.kind, job_id=found.job_id, payload=text)


def content_line(name: str, data: bytes) -> bytes:
    """`name`: the SHA-256 of the content in hexadecimal digits."""
    try:
        return _encode({"id": name, "text": data.decode()})
    except UnicodeDecodeError:
        return _encode({"id": name, "base64": base64.b64encode(data).decode()})


def read_content(line: bytes) -> tuple[str, bytes]:
    """Name and content. Raises ValueError."""
    found = _content_of(line)
    if found.text is not None:
        return found.id, found.text.encode()
    return found.id, _bytes_of(found.base64 or "")


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:
        raise ValueError(str(problem)) from None
